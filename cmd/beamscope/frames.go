package main

import (
	"io"
	"slices"
	"time"

	"github.com/beamscope/beamscope/internal/export"
	"github.com/beamscope/beamscope/internal/monotonic"
	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/safetext"
	"github.com/beamscope/beamscope/internal/scope"
)

// A printer writes frames for somebody to read.
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
	wall   func(int64) time.Time // of a time of CLOCK_MONOTONIC, where it was read
	system *scope.System         // the last
	seen   map[string]bool       // outcomes that had any event
	frames int                   // that came
	whole  int                   // of these, those of windows that were observed as a whole
}

func newFramePrinter(p printer, log io.Writer) *framePrinter {
	return &framePrinter{printer: p, log: log, wall: monotonic.Wall, seen: make(map[string]bool)}
}

// Configured implements [scope.Observer].
func (f *framePrinter) Configured(s *scope.System, _ outcome.Plan) error {
	f.system = s
	return nil
}

// Framed implements [scope.Observer].
func (f *framePrinter) Framed(_ *outcome.Batch, frame *scope.Frame) error {
	for i := range frame.Probes {
		if p := &frame.Probes[i]; p.Counts.Starts+p.Counts.Ends+p.Counts.Loss.Total() > 0 {
			f.seen[p.Name] = true
		}
	}
	f.frames++
	unobserved := func(p scope.Probe) bool { return p.Counts.Unobserved }
	if !slices.ContainsFunc(frame.Probes, unobserved) && (len(frame.Probes) > 0 || f.frames > 1) {
		f.whole++
	}
	return f.Frame(frame)
}

// leastWhole is how many whole windows without an instance it takes to say that there are
// none: in the first one names of spans are still being found.
const leastWhole = 2

// tooShort says why the command does not report spans as missing.
const tooShort = "it ended before two whole windows were observed: let it run for some seconds"

// Noticed implements [scope.Observer].
func (f *framePrinter) Noticed(n outcome.Notice) error {
	f.notify(n)
	return nil
}

// notify writes a notice; one without a time is about what is not live.
func (f *framePrinter) notify(n outcome.Notice) {
	if n.Time == 0 {
		safetext.Fprintln(f.log, n.Text)
		return
	}
	safetext.Fprintf(f.log, "%s %s\n", f.wall(n.Time).Local().Format("15:04:05.000"), n.Text)
}

// silent prints only what fires.
type silent struct{ w io.Writer }

func (s silent) Frame(f *scope.Frame) error {
	for _, x := range f.Fired {
		if _, err := safetext.Fprintf(s.w, "%s %s: %s of %v: %s\n", f.Time.Local().Format("15:04:05.000"), x.Trigger, x.Probe, x.VM, export.Why(x.Explanation, x.Cause)); err != nil {
			return err
		}
	}
	return nil
}

func (s silent) Close() error { return nil }
