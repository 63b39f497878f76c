package dashboard

import (
	"slices"
	"time"

	"github.com/beamscope/beamscope/internal/engine/figures"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
)

// A tally adds up the costs and losses of windows.
type tally struct {
	from       time.Time // end of the first window
	windows    uint64
	time       time.Duration // total length of the windows
	unobserved uint64        // windows that were not observed completely
	counts     outcome.Counts

	events    uint64
	vm        time.Duration // processor time in the VMs, for events with a known price
	unpriced  uint64        // events with an unknown price
	partial   bool          // a window had costs in the VMs that are not due to events, see [scope.Frame.Unpriced]
	collector time.Duration

	rejected uint64
	last     string    // the last rejected line
	lastTime time.Time // end of its window
}

// add adds a window.
func (t *tally) add(f *scope.Frame) {
	if t.windows == 0 {
		t.from = f.Time
	}
	t.windows++
	t.time += f.Window.Duration()
	for i := range f.Outcomes {
		t.counts = t.counts.Add(f.Outcomes[i].Counts)
	}
	if slices.ContainsFunc(f.Outcomes, func(p scope.Outcome) bool { return p.Counts.Unobserved }) {
		t.unobserved++
	}
	t.events += f.Cost.Events
	t.vm += time.Duration(f.Cost.Events) * f.Cost.PerEvent
	if f.Cost.PerEvent == 0 {
		t.unpriced += f.Cost.Events
	}
	t.partial = t.partial || f.Unpriced()
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
	case t.unpriced == 0 && !t.partial:
		return share
	case t.unpriced == t.events:
		return "not known"
	}
	return "≥" + share
}

// price returns the mean cost of an event in a VM.
func (t *tally) price() string {
	if t.events == t.unpriced {
		return "not known"
	}
	return figures.Delay(t.vm / time.Duration(t.events-t.unpriced))
}

// tallyOf returns the tally of a single window.
func tallyOf(f *scope.Frame) tally {
	var t tally
	t.add(f)
	return t
}
