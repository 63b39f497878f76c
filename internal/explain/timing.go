package explain

import (
	"slices"

	"github.com/beamscope/beamscope/bpf"
)

// A timing has data about the timeouts of a process's receives. All slices are in order of time.
type timing struct {
	told  bool // the VM reported how the process stopped running
	timer bool // it stopped in a receive with a timeout that had not expired

	timeouts []int64 // times when it continued because the timeout of a receive had expired
	untold   []int64 // times when it continued, possibly for that reason
	breaks   []int64 // times of actions that are impossible in a receive, although it was in one

	expired bool // the timeout of its receive has expired; it may be in that receive still
}

// begin begins anew: earlier activity is unknown.
func (t *timing) begin() { t.told, t.timer, t.expired = false, false, false }

// time processes an own event. A process has a flag if its timeout has expired. A process that
// waits forever because a variable is infinity also has the flag, but no timer.
func (p *process) time(e *bpf.Event) {
	switch {
	case e.Kind == bpf.EventOut:
		p.told = e.State&bpf.StateKnown != 0
		p.timer = e.State&bpf.StateTimer != 0
		p.expired = p.expired && e.State&bpf.StateActive != 0
	case e.Kind == bpf.EventReceive:
		p.expired = false
	case e.Kind == bpf.EventIn:
		over := e.State&bpf.StateTimedOut != 0
		if e.State&bpf.StateKnown == 0 || over && !p.told {
			p.untold = append(p.untold, e.Time)
		} else if over && p.timer {
			p.timeouts = append(p.timeouts, e.Time)
			p.expired = true
		}
	case acts(e) && (p.box.blocked || p.expired):
		p.breaks = append(p.breaks, e.Time)
		p.expired = false
	}
}

// acts reports whether an event is an action that is impossible in a receive.
func acts(e *bpf.Event) bool {
	switch e.Kind {
	case bpf.EventSend, bpf.EventSpanStart, bpf.EventSpanEnd, bpf.EventNIFStart, bpf.EventMonitor:
		return true
	case bpf.EventSuspend:
		return e.Port // another process may suspend it at any time
	}
	return false
}

// timedOut reports whether the process continued at a time because the timeout of a receive had
// expired.
func (t *timing) timedOut(at int64) bool {
	_, found := slices.BinarySearch(t.timeouts, at)
	return found
}

func (t *timing) forget(before int64) {
	for _, times := range []*[]int64{&t.timeouts, &t.untold, &t.breaks} {
		*times = cut(*times, after(*times, before, itself))
	}
}

// first returns the first of some times in (from, to), or forever if there is none.
func first(times []int64, from, to int64) int64 {
	if i := after(times, from+1, itself); i < len(times) && times[i] < to {
		return times[i]
	}
	return forever
}

func itself(at int64) int64 { return at }
