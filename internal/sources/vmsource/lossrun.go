package vmsource

import "github.com/beamscope/beamscope/internal/engine/outcome"

// A lossRun is a sequence of consecutive windows with losses.
type lossRun struct {
	windows int
	events  uint64
}

// next adds the losses of the next window. It reports whether a run begins with that window. If a
// run ends with it, over is that run, and otherwise the zero lossRun.
func (r *lossRun) next(lost uint64) (begins bool, over lossRun) {
	if lost == 0 {
		over, *r = *r, lossRun{}
		return false, over
	}
	r.windows++
	r.events += lost
	return r.windows == 1, lossRun{}
}

// noteUnrecorded reports when events for explanations begin to be lost, and when the losses have
// ended.
func (s *Source) noteUnrecorded(lost uint64) {
	begins, over := s.unrecorded.next(lost)
	switch {
	case begins:
		s.note("events that would explain slow instances were lost (%d): where they are missing, time is unexplained", lost)
	case over.windows > 1:
		s.note("events that would explain slow instances were lost (%d, in %d windows); none any more", over.events, over.windows)
	}
}

// noteNoRoom reports when events of an outcome find no room, and when they find room again.
func (s *Source) noteNoRoom(counts []outcome.Counts) {
	lost := make(map[string]uint64)
	for i := range counts {
		lost[counts[i].Outcome] += counts[i].Loss.NoRoom
	}
	for name := range s.noRoom {
		if _, observed := lost[name]; !observed {
			delete(s.noRoom, name)
		}
	}
	for i := range counts {
		name := counts[i].Outcome
		n, once := lost[name]
		if !once {
			continue
		}
		delete(lost, name)
		run := s.noRoom[name]
		begins, over := run.next(n)
		s.noRoom[name] = run
		switch {
		case begins:
			s.note("outcome %s: %d events found no room in the kernel's tables: too many instances are open at a time, or too many processes have messages. Windows in which that happens are insufficient", name, n)
		case over.windows > 0:
			s.note("outcome %s: there is room for events again. %d events were lost (windows: %d)", name, over.events, over.windows)
		}
	}
}
