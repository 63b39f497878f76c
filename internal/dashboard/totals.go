package dashboard

import (
	"slices"
	"time"

	"github.com/beamscope/beamscope/internal/figures"
	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/scope"
)

// A tally sums up what windows cost, and what was lost in them.
type tally struct {
	from       time.Time // end of the first window
	windows    uint64
	time       time.Duration // that the windows took
	unobserved uint64        // windows that were not observed as a whole
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
	if t.windows == 0 {
		t.from = f.Time
	}
	t.windows++
	t.time += f.Window.Duration()
	for i := range f.Probes {
		t.counts = t.counts.Add(f.Probes[i].Counts)
	}
	if slices.ContainsFunc(f.Probes, func(p scope.Probe) bool { return p.Counts.Unobserved }) {
		t.unobserved++
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

// inVMs returns the processor time in the VMs as a share of a core.
func (t *tally) inVMs() string {
	share := figures.Percent(float64(t.vm) / float64(t.time))
	switch {
	case t.unpriced == 0:
		return share
	case t.unpriced == t.events:
		return "not known"
	}
	return "≥" + share
}

// price returns what an event costs in a VM.
func (t *tally) price() string {
	if t.events == t.unpriced {
		return "not known"
	}
	return figures.Delay(t.vm / time.Duration(t.events-t.unpriced))
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
		{"unpaired", "started again before its end", l.Unpaired},
	}
}
