package outcome

// A lossRun is windows one after the other in which something was lost.
type lossRun struct {
	windows int
	events  uint64
}

// next takes in what was lost in the next window. It returns whether a run begins with it,
// and the run that is over with it: the zero lossRun where none is.
func (r *lossRun) next(lost uint64) (begins bool, over lossRun) {
	if lost == 0 {
		over, *r = *r, lossRun{}
		return false, over
	}
	r.windows++
	r.events += lost
	return r.windows == 1, lossRun{}
}

// noteUnrecorded says when events that would explain are lost, and when no longer.
func (s *VMSource) noteUnrecorded(lost uint64) {
	begins, over := s.unrecorded.next(lost)
	switch {
	case begins:
		s.note("events that would explain slow instances were lost (%d): where they are missing, time is unexplained", lost)
	case over.windows > 1:
		s.note("events that would explain slow instances were lost (%d, in %d windows); none any more", over.events, over.windows)
	}
}

// noteNoRoom says when events of an outcome find no room, and when they do again.
func (s *VMSource) noteNoRoom(counts []Counts) {
	lost := make(map[string]uint64)
	for i := range counts {
		lost[counts[i].Outcome] += counts[i].Loss.NoRoom
	}
	for name := range s.crowded {
		if _, observed := lost[name]; !observed {
			delete(s.crowded, name)
		}
	}
	for i := range counts {
		name := counts[i].Outcome
		n, once := lost[name]
		if !once {
			continue
		}
		delete(lost, name)
		run := s.crowded[name]
		begins, over := run.next(n)
		s.crowded[name] = run
		switch {
		case begins:
			s.note("outcome %s: %d events found no room in the kernel's tables: too many instances are open at a time, or too many processes have messages. Windows in which that happens are insufficient", name, n)
		case over.windows > 0:
			s.note("outcome %s: events find room again. %d did not (windows: %d)", name, over.events, over.windows)
		}
	}
}
