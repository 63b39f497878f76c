package session

import (
	"fmt"
	"slices"
	"time"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/autorange"
	"github.com/beamscope/beamscope/internal/config"
	"github.com/beamscope/beamscope/internal/figures"
	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/scope"
)

const (
	// maxFits is how often the scale of an outcome is fitted. After that it is only widened.
	maxFits = 4

	// maxFitsAtOnce is of how many outcomes at a time: while what an outcome was is
	// still counted, it takes its room twice.
	maxFitsAtOnce = 16

	// A scale is fitted by so many instances, or those of so many windows. Where nothing
	// but timeouts was seen, it is fitted so many windows after the first of them. What is
	// older than fitMemory windows has no say, unless it is too little to fit a scale by.
	fitInstances, fitWindows, fitMemory = 20, 3, 30
)

// A found is an outcome that was discovered, and what was seen of it since it has had
// its scale.
type found struct {
	user  int  // of the VM that it was discovered in
	fixed bool // the scale is left alone: somebody has set it, or it could not be changed
	fits  int
	past  autorange.Past

	grid      dq.Grid
	from, to  int64 // where the first window with the grid began, and the last one ended
	bins      []uint64
	timeouts  uint64
	instances uint64
	latest    autorange.Share // of the newest window
	windows   int             // since it began to count
	lively    int             // of these, with instances
	since     int             // windows from the first of those on
}

// enough tells whether so much was seen that a scale can be fitted.
func (f *found) enough() bool {
	timeoutsOnly := f.instances > 0 && f.timeouts == f.instances
	return f.instances >= fitInstances || f.lively >= fitWindows || timeoutsOnly && f.since > fitWindows
}

// exceeded tells whether the scale is too small for what was seen last: that is not waited
// out.
func (f *found) exceeded() bool {
	const enough = 2
	return f.latest.Noticeable(enough) || f.past.Needed > 0 && f.past.Needed >= f.grid.DMax()
}

// A fit is a scale that is to take the place of another.
type fit struct {
	*found
	outcome       string
	at            origin
	before, after dq.Grid
	fitting       autorange.Fitting
	timeouts, of  uint64 // how many instances
}

// settle notes that the scale is in force.
func (f *fit) settle() {
	f.fits++
	f.past = f.fitting.Past
	f.begin(dq.Grid{}, 0)
}

// called names the outcome, with the name of its spans where that is another one.
func (f *fit) called() string {
	return figures.Called(f.outcome, outcome.Spec{Name: f.outcome, Span: f.at.span, VM: outcome.Events{Builtin: f.at.builtin}}.Alias())
}

// String says what was fitted.
func (f *fit) String() string {
	why := fmt.Sprintf("99 %% took up to %v, the slowest %v", f.fitting.Quantile, f.fitting.Slowest)
	if f.fitting.Quantile == 0 {
		why = fmt.Sprintf("%d of %d took longer than %v", f.timeouts, f.of, f.before.DMax())
	}
	return fmt.Sprintf("%s: fitted to %v, up to %v: %s", f.called(), f.after, f.after.DMax(), why)
}

// Framed implements [scope.Observer]: it takes note of what was seen.
func (f *finder) Framed(_ *outcome.Batch, frame *scope.Frame) error {
	f.session.mu.Lock()
	defer f.session.mu.Unlock()
	now := f.session.config
	seen := make(map[origin]bool)
	for i := range frame.Probes {
		p := &frame.Probes[i]
		at := originOfSpec(p.Spec)
		if found := f.found[at]; found != nil && !p.Counts.Unobserved {
			found.see(p, !seen[at])
			seen[at] = true
		}
	}
	for i := range now.Outcomes {
		if _, ok := f.fitOf(now, &now.Outcomes[i]); ok {
			f.awake()
			break
		}
	}
	return nil
}

// begin forgets what was seen, but for how long it took, as the grid is another.
func (f *found) begin(g dq.Grid, from int64) {
	f.past.Add(f.grid, f.bins)
	f.grid, f.from = g, from
	f.forget()
}

func (f *found) forget() {
	f.bins = make([]uint64, f.grid.Bins())
	f.timeouts, f.instances, f.windows, f.lively, f.since = 0, 0, 0, 0, 0
	f.latest = autorange.Share{}
}

// see takes note of what was counted in a window of one VM. first is the first of them.
func (f *found) see(p *scope.Probe, first bool) {
	grid, err := dq.NewGrid(p.Spec.BinWidth, p.Spec.Bins)
	if err != nil {
		return
	}
	if grid != f.grid {
		f.begin(grid, p.Window.From)
	}
	if first && f.windows >= fitMemory && f.enough() {
		f.past.Add(f.grid, f.bins)
		f.forget()
	}
	f.to = p.Window.To
	if first {
		f.latest = autorange.Share{}
	}
	f.latest.Timeouts += p.Counts.Timeouts
	f.latest.Instances += p.Counts.Instances()
	for i, n := range p.Counts.Bins {
		f.bins[i] += n
	}
	f.timeouts += p.Counts.Timeouts
	f.instances += p.Counts.Instances()
	if p.Counts.Instances() > 0 {
		f.lively++
	}
	if first {
		f.windows++
	}
	if first && f.instances > 0 {
		f.since++
	}
}

// fit fits the scales of an edit.
func (f *finder) fit(e *edit) {
	now := f.session.config
	e.config.Outcomes = slices.Clone(e.config.Outcomes)
	for i := range now.Outcomes {
		if len(e.fitted) == maxFitsAtOnce {
			return
		}
		if fit, ok := f.fitOf(now, &now.Outcomes[i]); ok {
			e.config.Entry(fit.outcome).Scale = fit.fitting.Scale
			e.fitted = append(e.fitted, fit)
		}
	}
}

// fitOf returns how to fit the scale of an outcome; false where it is to stay.
func (f *finder) fitOf(now config.Config, o *config.Outcome) (*fit, bool) {
	found := f.found[originOf(*o)]
	if found == nil || found.fixed || o.QTA != nil {
		return nil, false
	}
	grid, err := o.Scale.Grid(now.Base)
	if err != nil || grid != found.grid || !found.enough() && !found.exceeded() {
		return nil, false
	}
	fitting, ok := autorange.Fit(now.Base, o.Scale, autorange.Seen{
		Bins:     found.bins,
		Timeouts: found.timeouts,
		For:      time.Duration(found.to - found.from),
		Latest:   found.latest,
		Past:     found.past,
		Last:     found.fits >= maxFits-1,
	})
	if !ok {
		return nil, false
	}
	after, err := fitting.Scale.Grid(now.Base)
	if err != nil || found.fits >= maxFits && after.DMax() <= grid.DMax() {
		return nil, false
	}
	return &fit{found: found, outcome: o.Name, at: originOf(*o), before: grid, after: after, fitting: fitting,
		timeouts: found.timeouts, of: found.instances}, true
}
