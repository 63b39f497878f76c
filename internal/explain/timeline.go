package explain

import (
	"iter"
	"slices"

	"github.com/beamscope/beamscope/internal/explain/trace"
)

// A segment is an interval in which a process is in one state.
type segment struct {
	interval
	change       // the state
	until  int64 // end of the state, which may be after the segment; forever if it has not ended
	pause  pause // why it could not continue in that state; no kind if it could
}

// segments returns the segments of a process in [from, to), in the order of time.
func (w *walk) segments(p *process, from, to int64) iter.Seq[segment] {
	return func(yield func(segment) bool) {
		watched := int64(forever)
		if len(p.changes) > 0 {
			watched = p.changes[0].at
		}
		for _, none := range []struct {
			until int64
			why   string
		}{{w.log.begin, w.log.why}, {watched, whyNotWatched}} {
			until := min(none.until, to)
			if from >= until {
				continue
			}
			if !yield(segment{interval: interval{from, until}, change: change{at: from, detail: none.why}, until: until}) {
				return
			}
			from = until
		}
		for i := max(0, after(p.changes, from+1, changedAt)-1); i < len(p.changes) && p.changes[i].at < to; i++ {
			until := int64(forever)
			if i+1 < len(p.changes) {
				until = p.changes[i+1].at
			}
			s := segment{change: w.known(p.changes[i]), until: until}
			s.interval = interval{max(from, s.at), min(to, until)}
			if s.from < s.to && !w.lapsed(p, s, yield) {
				return
			}
		}
	}
}

// known returns the known part of a state. If no events show when processes begin and stop running,
// only states with events of their own are known.
func (w *walk) known(c change) change {
	if w.unscheduled != "" {
		switch c.state {
		case running, ready, waits, suspended:
			return change{at: c.at, detail: w.unscheduled}
		}
	}
	if w.threadless && c.guess == "" && (c.state == running || c.state == collects) {
		c.guess = guessThread
	}
	return c
}

// lapsed yields a segment without the intervals in which the process was not watched. An exited
// process stays exited, whether it is watched or not.
func (w *walk) lapsed(p *process, s segment, yield func(segment) bool) bool {
	if s.state == exited {
		return yield(s)
	}
	for l := range w.lapses(p, s.from, s.to) {
		before, none := s, s
		before.to, before.until = max(s.from, l.last), l.last
		none.from, none.to = before.to, min(s.to, l.seen)
		none.change = change{at: none.from, detail: whyNotWatched}
		if before.from < before.to && !w.vm.cutOut(before, yield) || none.from < none.to && !yield(none) {
			return false
		}
		s.from = none.to
	}
	return s.from >= s.to || w.vm.cutOut(s, yield)
}

// lapses returns the lapses of a process that overlap [from, to), in order. They include an unseen
// lapse at the end if nothing shows that the process is still watched.
func (w *walk) lapses(p *process, from, to int64) iter.Seq[lapse] {
	return func(yield func(lapse) bool) {
		for _, l := range p.lapses[after(p.lapses, from+1, seenAt):] {
			if l.last >= to || l.seen >= w.end && w.holds(p) || !yield(l) {
				return
			}
		}
		last := p.last
		if n := len(p.arrived); n > 0 {
			last = max(last, p.arrived[n-1].at)
		}
		if p.watched && last < to && !w.holds(p) {
			yield(lapse{last, forever})
		}
	}
}

// holds reports whether a process is watched until the end of the instance unless a lapse is seen
// before: it started the instance, or a watched process sent it a message meanwhile.
func (w *walk) holds(p *process) bool {
	if p == w.owner {
		return true
	}
	for _, s := range p.arrived[after(p.arrived, w.start, sentAt):] {
		if s.at >= w.end {
			break
		}
		if !s.unwatched {
			return true
		}
	}
	return false
}

func changedAt(c change) int64 { return c.at }

// cutOut divides a segment: it separates the intervals in which its thread did not run or the VM
// was stopped.
func (v *vm) cutOut(s segment, yield func(segment) bool) bool {
	rest := s
	for _, p := range v.absences.of(s) {
		before, part := rest, rest
		before.to = p.from
		part.interval, part.pause = p.interval, p
		if before.from < before.to && !yield(before) || !yield(part) {
			return false
		}
		rest.from = p.to
	}
	return rest.from >= rest.to || yield(rest)
}

// state returns the state of a process at a time.
func (w *walk) state(p *process, at int64) state {
	i := after(p.changes, at+1, changedAt)
	if i == 0 || at < w.log.begin {
		return unknown
	}
	s := w.known(p.changes[i-1]).state
	if s == exited {
		return s
	}
	for range w.lapses(p, at, at+1) {
		return unknown
	}
	return s
}

// minNeighbour is the inverse of the least share of a process's ready time that another one must
// have run on the same scheduler to be named.
const minNeighbour = 5

// begun returns the time when a process that was ready until a time began to run. The scheduler may collect
// its garbage before.
func (p *process) begun(to int64) int64 {
	for _, c := range p.changes[after(p.changes, to, changedAt):] {
		if c.state != collects && c.state != ready {
			return c.at
		}
	}
	return to
}

// beside returns the process that ran for the largest part of the time in which p was ready, in all
// turns together, or 0 if none ran for long.
func (p *process) beside(s segment) trace.PID {
	type turns struct {
		pid       trace.PID
		took, end int64
	}
	var all []turns
	from, to := s.at, min(s.until, p.last)
	latest := p.begun(to) + near
	for i := after(p.neighbours, from, func(n neighbour) int64 { return n.at }); i < len(p.neighbours); i++ {
		n := p.neighbours[i]
		if n.at > latest {
			break
		}
		at := slices.IndexFunc(all, func(t turns) bool { return t.pid == n.pid })
		if at < 0 {
			at, all = len(all), append(all, turns{pid: n.pid, end: from})
		}
		t := &all[at]
		t.took += n.overlap(t.end, to) // a turn is reported again if it continued
		t.end = max(t.end, n.to)
	}
	var pid trace.PID
	longest := max(1, (to-from+minNeighbour-1)/minNeighbour)
	for _, t := range all {
		if t.took >= longest {
			pid, longest = t.pid, t.took+1
		}
	}
	return pid
}
