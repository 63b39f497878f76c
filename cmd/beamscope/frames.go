package main

import (
	"io"
	"slices"
	"time"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/files/export"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/internal/host/safetext"
)

// A printer writes frames.
type printer interface {
	Frame(*scope.Frame) error
	Close() error
}

func printerFor(json bool, w io.Writer) printer {
	if json {
		return export.NewJSON(w)
	}
	return export.NewText(w)
}

// A framePrinter is an observer that prints frames, and notices to a log.
type framePrinter struct {
	printer
	log    io.Writer
	wall   func(int64) time.Time   // wall time of a time of CLOCK_MONOTONIC on the machine where that was read
	system *scope.System           // the last system
	seen   map[string]bool         // outcomes with any event
	blind  map[string]bool         // outcomes whose last window was not observed in some VM
	lacks  func(outcome.Spec) bool // reports whether an outcome can never be observed here
	frames int                     // number of frames
	whole  int                     // number of these whose windows were completely observed
	missed int                     // number of these whose windows were not
}

func newFramePrinter(p printer, log io.Writer) *framePrinter {
	return &framePrinter{printer: p, log: log, wall: monotonic.Wall, seen: make(map[string]bool), lacks: func(outcome.Spec) bool { return false }}
}

// Configured implements [scope.Observer].
func (f *framePrinter) Configured(s *scope.System, _ outcome.Plan) error {
	f.system = s
	return nil
}

// Framed implements [scope.Observer].
func (f *framePrinter) Framed(_ *outcome.Batch, frame *scope.Frame) error {
	for i := range frame.Outcomes {
		if p := &frame.Outcomes[i]; p.Counts.Starts+p.Counts.Ends+p.Counts.Loss.Total() > 0 {
			f.seen[p.Name] = true
		}
	}
	f.frames++
	f.blind = make(map[string]bool)
	for i := range frame.Outcomes {
		if p := &frame.Outcomes[i]; p.Counts.Unobserved {
			f.blind[p.Name] = true
		}
	}
	unobserved := func(p scope.Outcome) bool { return p.Counts.Unobserved && !f.lacks(p.Spec) }
	if slices.ContainsFunc(frame.Outcomes, unobserved) {
		f.missed++
	} else if len(frame.Outcomes) > 0 || f.frames > 1 {
		f.whole++
	}
	return f.Frame(frame)
}

// leastWhole is the number of whole windows without an instance after which the command reports
// that there are none. In the first one, names of spans are still being discovered.
const leastWhole = 2

// tooShort returns the reason why the command does not report spans as missing.
const tooShort = "the observation ended before two whole windows were over: let it run for some seconds"

// Noticed implements [scope.Observer].
func (f *framePrinter) Noticed(n outcome.Notice) error {
	f.notify(n)
	return nil
}

// notify writes a notice. A notice without a time is not about live observation.
func (f *framePrinter) notify(n outcome.Notice) {
	if n.Time == 0 {
		safetext.Fprintln(f.log, n.Text)
		return
	}
	safetext.Fprintf(f.log, "%s %s\n", f.wall(n.Time).Local().Format("15:04:05.000"), n.Text)
}

// silent prints only what has fired.
type silent struct{ w io.Writer }

func (s silent) Frame(f *scope.Frame) error {
	for _, x := range f.Fired {
		if _, err := safetext.Fprintf(s.w, "%s %s: %s of %v: %s\n", f.Time.Local().Format("15:04:05.000"), x.Trigger, x.Outcome, x.VM, export.Why(x.Explanation, x.Cause)); err != nil {
			return err
		}
	}
	return nil
}

func (s silent) Close() error { return nil }
