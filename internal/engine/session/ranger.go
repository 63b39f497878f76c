package session

import (
	"fmt"
	"slices"
	"time"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/engine/autorange"
	"github.com/beamscope/beamscope/internal/engine/figures"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/files/config"
)

const (
	// maxFits is the largest number of fits of an outcome's scale. After that the scale is only
	// widened, and narrowed again only after the calm time of [autorange.Past.Calm].
	maxFits = 4

	// maxFitsAtOnce is the largest number of outcomes whose scales are fitted at a time. While
	// the old outcome is still counted, each takes twice the room.
	maxFitsAtOnce = 16

	// A scale is fitted after at least fitInstances instances, or after fitWindows windows with
	// instances. If all instances were timeouts, it is fitted fitWindows windows after the first
	// of them. Data older than fitMemory windows is ignored, unless there is too little without
	// it.
	fitInstances, fitWindows, fitMemory = 20, 3, 30
)

// A found is a discovered outcome, with data since its scale was last set.
type found struct {
	user  int  // the user of the VM where it was discovered
	fixed bool // the scale stays, because the user set it or it could not be changed
	fits  int
	past  autorange.Past

	grid      dq.Grid
	from, to  int64 // beginning of the first window with the grid, and end of the last one
	bins      []uint64
	timeouts  uint64
	instances uint64
	latest    autorange.Share // share in the newest window
	windows   int             // number of windows with data
	nonEmpty  int             // number of those with instances
	since     int             // number of windows since the first of those

	forgot int64 // time when old data was last removed from past

	open map[outcome.VM]opened // open instances at the end of the newest window
}

// An opened contains the open instances of one VM according to a window.
type opened struct {
	window outcome.Window
	starts uint64 // starts in the window
	n      uint64 // number of open instances at its end
}

// enough reports whether there is enough data to fit a scale.
func (f *found) enough() bool {
	timeoutsOnly := f.instances > 0 && f.timeouts == f.instances
	return f.instances >= fitInstances || f.nonEmpty >= fitWindows || timeoutsOnly && f.since > fitWindows
}

// exceeded reports whether the scale is too small for the latest data. Then fitting does not wait
// for more.
func (f *found) exceeded() bool {
	const enough = 2
	return f.latest.Noticeable(enough) || f.past.Needed > 0 && f.past.Needed >= f.grid.DMax()
}

// A fit is a new scale that replaces another.
type fit struct {
	*found
	outcome       string
	at            origin
	before, after dq.Grid
	fitting       autorange.Fitting
	timeouts, of  uint64 // timeouts, and all instances
}

// settle records that the scale is in force.
func (f *fit) settle() {
	f.fits++
	f.past = f.fitting.Past
	f.begin(dq.Grid{}, 0)
}

// outdated returns a note if the scale that was just set is already too small, because something
// slower ended while the change was made. Otherwise it returns "".
func (f *fit) outdated() string {
	if f.past.Needed < f.after.DMax() {
		return ""
	}
	return fmt.Sprintf("; since then one took %v, so it becomes wider again", f.past.Needed)
}

// called returns the displayed name of the outcome. It includes the name of its spans if that
// differs.
func (f *fit) called() string {
	return figures.Called(f.outcome, outcome.Spec{Name: f.outcome, Span: f.at.span, VM: outcome.Events{Builtin: f.at.builtin}}.Alias())
}

// String describes the fit.
func (f *fit) String() string {
	why := fmt.Sprintf("99 %% took up to %v, the slowest %v", f.fitting.Quantile, f.fitting.Slowest)
	switch {
	case f.fitting.Quantile == 0 && f.fitting.Slowest > 0:
		why = fmt.Sprintf("the slowest so far took more than %v", f.fitting.Slowest)
	case f.fitting.Quantile == 0:
		why = fmt.Sprintf("%d of %d took longer than %v", f.timeouts, f.of, f.before.DMax())
	}
	return fmt.Sprintf("%s: fitted to %v, up to %v: %s", f.called(), f.after, f.after.DMax(), why)
}

// Framed implements [scope.Observer]: it collects the delays of the frame.
func (f *finder) Framed(_ *outcome.Batch, frame *scope.Frame) error {
	f.session.mu.Lock()
	defer f.session.mu.Unlock()
	now := f.session.config
	seen := make(map[origin]bool)
	for i := range frame.Outcomes {
		p := &frame.Outcomes[i]
		at := originOfSpec(p.Spec)
		found := f.found[at]
		switch {
		case found == nil:
		case p.Counts.Unobserved: // open instances may have ended
			delete(found.open, p.VM)
		default:
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

// begin starts data for a new grid. It moves the delays so far to past.
func (f *found) begin(g dq.Grid, from int64) {
	f.past.Add(f.grid, f.bins)
	f.grid, f.from = g, from
	f.open = make(map[outcome.VM]opened)
	f.forget()
}

func (f *found) forget() {
	f.bins = make([]uint64, f.grid.Bins())
	f.timeouts, f.instances, f.windows, f.nonEmpty, f.since = 0, 0, 0, 0, 0
	f.latest = autorange.Share{}
}

// see adds the counts of one VM in a window. first reports whether this is the first VM of the
// window.
func (f *found) see(p *scope.Outcome, first bool) {
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
		f.remember()
	}
	f.follow(p)
	f.latest.Timeouts += p.Counts.Timeouts
	f.latest.Instances += p.Counts.Instances()
	for i, n := range p.Counts.Bins {
		f.bins[i] += n
	}
	f.timeouts += p.Counts.Timeouts
	f.instances += p.Counts.Instances()
	if p.Counts.Instances() > 0 {
		f.nonEmpty++
	}
	if first {
		f.windows++
	}
	if first && f.instances > 0 {
		f.since++
	}
}

// remember removes old data from past after the calm time.
func (f *found) remember() {
	if f.forgot == 0 {
		f.forgot = f.to
	}
	if time.Duration(f.to-f.forgot) >= f.past.Calm() {
		f.past.Add(f.grid, f.bins)
		f.past.Forget()
		f.forgot = f.to
	}
}

// follow updates the number of open instances.
func (f *found) follow(p *scope.Outcome) {
	o := opened{window: p.Window, starts: p.Counts.Starts, n: f.open[p.VM].n + p.Counts.Starts}
	o.n -= min(o.n, p.Counts.Instances()+p.Counts.Loss.Total())
	f.open[p.VM] = o
}

// opened returns the number of instances that are open in the VMs of the newest window, and the
// number that started in a second of it.
func (f *found) opened() (open uint64, starts float64) {
	for vm, o := range f.open {
		if o.window.To < f.to {
			delete(f.open, vm) // the VM has ended
			continue
		}
		open += o.n
		starts += float64(o.starts) / o.window.Duration().Seconds()
	}
	return open, starts
}

// fit fits scales for an edit.
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

// fitOf returns the fit of an outcome's scale. It returns false if the scale should stay.
func (f *finder) fitOf(now config.Config, o *config.Outcome) (*fit, bool) {
	found := f.found[originOf(*o)]
	if found == nil || found.fixed || o.QTA != nil {
		return nil, false
	}
	grid, err := o.Scale.Grid(now.Base)
	if err != nil || grid != found.grid || !found.enough() && !found.exceeded() {
		return nil, false
	}
	lasted := time.Duration(found.to - found.from)
	calm := lasted >= found.past.Calm()
	open, starts := found.opened()
	fitting, ok := autorange.Fit(now.Base, o.Scale, autorange.Seen{
		Bins:     found.bins,
		Timeouts: found.timeouts,
		For:      lasted,
		Latest:   found.latest,
		Open:     open,
		Starts:   starts,
		Past:     found.past,
		Last:     found.fits >= maxFits-1 && !calm,
	})
	if !ok {
		return nil, false
	}
	after, err := fitting.Scale.Grid(now.Base)
	if err != nil || found.fits >= maxFits && after.DMax() <= grid.DMax() && !calm {
		return nil, false
	}
	return &fit{found: found, outcome: o.Name, at: originOf(*o), before: grid, after: after, fitting: fitting,
		timeouts: found.timeouts, of: found.instances}, true
}
