package explain

import (
	"slices"

	"github.com/beamscope/beamscope/bpf"
)

// A timing is what is known of the times of a process's receives. All slices are in the order
// of time.
type timing struct {
	told  bool // the VM told how the process stopped to run
	timer bool // it stopped in a receive with a time that was not over

	timeouts []int64 // when it went on because the time of a receive was over
	untold   []int64 // when it went on, and it is not known whether that was why
	breaks   []int64 // when it did something that nobody does in a receive, though it was in one
}

// begin begins anew: what it did before is not known.
func (t *timing) begin() { t.told, t.timer = false, false }

// time takes an event of its own into account. A process whose time is over has a flag, and
// so has one that waits for ever because a variable says so: that has no timer.
func (p *process) time(e *bpf.Event) {
	switch {
	case e.Kind == bpf.EventOut:
		p.told = e.State&bpf.StateKnown != 0
		p.timer = e.State&bpf.StateTimer != 0
	case e.Kind == bpf.EventIn:
		over := e.State&bpf.StateTimedOut != 0
		if e.State&bpf.StateKnown == 0 || over && !p.told {
			p.untold = append(p.untold, e.Time)
		} else if over && p.timer {
			p.timeouts = append(p.timeouts, e.Time)
		}
	case acts(e) && p.box.blocked:
		p.breaks = append(p.breaks, e.Time)
	}
}

// acts reports whether an event tells of what a process does in no receive.
func acts(e *bpf.Event) bool {
	switch e.Kind {
	case bpf.EventSend, bpf.EventSpanStart, bpf.EventSpanEnd, bpf.EventNIFStart, bpf.EventMonitor:
		return true
	case bpf.EventSuspend:
		return e.Port // another process may suspend it at any time
	}
	return false
}

// timedOut reports whether the process went on at a time because that of a receive was over.
func (t *timing) timedOut(at int64) bool {
	_, found := slices.BinarySearch(t.timeouts, at)
	return found
}

func (t *timing) forget(before int64) {
	for _, times := range []*[]int64{&t.timeouts, &t.untold, &t.breaks} {
		*times = cut(*times, after(*times, before, itself))
	}
}

// first returns the first of some times in (from, to), forever if there is none.
func first(times []int64, from, to int64) int64 {
	if i := after(times, from+1, itself); i < len(times) && times[i] < to {
		return times[i]
	}
	return forever
}

func itself(at int64) int64 { return at }
