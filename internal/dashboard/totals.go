package dashboard

import (
	"time"

	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/scope"
)

// A tally sums up what windows cost, and what was lost in them.
type tally struct {
	windows    uint64
	time       time.Duration // that the windows took
	unobserved uint64        // counts of a window that were not observed as a whole
	counts     outcome.Counts

	events    uint64
	vm        time.Duration // processor time in the VMs, of the events whose price is known
	unpriced  uint64        // events whose price is not
	collector time.Duration

	rejected uint64
	last     string    // rejected
	lastTime time.Time // end of the window in which that was
}

// add takes a window in.
func (t *tally) add(f *scope.Frame) {
	t.windows++
	t.time += f.Window.Duration()
	for i := range f.Probes {
		t.counts = t.counts.Add(f.Probes[i].Counts)
		if f.Probes[i].Counts.Unobserved {
			t.unobserved++
		}
	}
	t.events += f.Cost.Events
	t.vm += time.Duration(f.Cost.Events) * f.Cost.PerEvent
	if f.Cost.PerEvent == 0 {
		t.unpriced += f.Cost.Events
	}
	t.collector += f.Cost.Collector
	t.rejected += f.Rejected.Count
	if f.Rejected.Last != "" {
		t.last, t.lastTime = f.Rejected.Last, f.Time
	}
}

// tallyOf sums up a single window.
func tallyOf(f *scope.Frame) tally {
	var t tally
	t.add(f)
	return t
}

// A reason is why something was lost.
type reason struct {
	name  string
	words string // what happened
	count uint64
}

// reasons returns what was lost, by reason.
func reasons(l outcome.Loss) []reason {
	return []reason{
		{"unreadable", "an argument could not be read", l.Unreadable},
		{"no room", "too many spans were open", l.NoRoom},
		{"missed", "we were late, or clocks differ", l.Missed},
		{"cut", "open when it was changed", l.Cut},
		{"exits", "exits that found no room", l.Exits},
		{"crowded", "of VMs beyond the eighth", l.Crowded},
		{"rejected", "a line was not understood", l.Rejected},
	}
}
