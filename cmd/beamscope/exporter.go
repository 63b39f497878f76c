package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/engine/session"
	"github.com/beamscope/beamscope/internal/files/atomicfile"
	"github.com/beamscope/beamscope/internal/files/export"
	"github.com/beamscope/beamscope/internal/files/recording"
	"github.com/beamscope/beamscope/internal/host/safetext"
	"github.com/beamscope/beamscope/internal/ui/plot"
)

// errEnough ends a replay that has reached its goal.
var errEnough = errors.New("enough was replayed")

// An exporter observes a replay, and writes the windows of the job: either all of them as they
// come, or a single one, which it keeps.
type exporter struct {
	job   *exportJob
	input *input
	log   io.Writer
	write func(*scope.Frame, *scope.System) error // writes a window; nil if one is kept

	system *scope.System
	names  []string // names of all probes
	index  int64    // index of the next window
	shown  extent   // range of windows that could be chosen

	frame *scope.Frame  // the kept frame
	of    *scope.System // system of the kept frame
	known bool          // some window had data

	windows, rows int // numbers of windows and rows written as data
}

// export replays the input and writes the result. If the input is damaged, it writes everything
// before the damage, and returns the error.
func (e *exporter) export(ctx context.Context, replay session.Replay, out io.Writer) error {
	replay.Observers = []scope.Observer{e}
	var damage error
	play := func() error {
		err := replay.Play(ctx, e.input)
		switch {
		case errors.Is(err, errEnough):
			err = nil
		case errors.Is(err, recording.ErrDamaged):
			damage, err = fmt.Errorf("%s: %w", e.input.path, err), nil
		case err == nil:
			err = ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", e.input.path, err)
		}
		return cmp.Or(e.checkProbes(), e.checkKnown())
	}
	write := func(w io.Writer) error { return e.stream(w, play) }
	if !e.job.every {
		if err := play(); err != nil {
			return cmp.Or(damage, err)
		}
		write = e.one
	}
	if e.job.output == "" {
		return cmp.Or(write(out), damage)
	}
	err := atomicfile.WriteBy(e.job.output, write)
	if err == nil {
		e.sayWritten()
	}
	return cmp.Or(err, damage)
}

// one writes the kept window.
func (e *exporter) one(w io.Writer) error {
	if !e.job.format.Image() {
		e.windows = 1
		return e.stream(w, func() error { return e.write(e.frame, e.of) })
	}
	p := e.picture(e.frame, e.of)
	if err := p.Write(w, e.job.format); errors.Is(err, export.ErrMany) {
		return fmt.Errorf("%w: choose some with --outcome", err)
	} else if err != nil {
		return err
	}
	e.sayWindow()
	return nil
}

// sayWindow logs which window a picture contains.
func (e *exporter) sayWindow() {
	var names []string
	for i := range e.frame.Outcomes {
		names = append(names, e.frame.Outcomes[i].Name)
	}
	safetext.Fprintf(e.log, "window %d, until %s: %s\n", e.frame.Number, clock(e.frame.Time), strings.Join(names, ", "))
}

// sayWritten logs how much data was written.
func (e *exporter) sayWritten() {
	if e.job.format.Image() {
		return // sayWindow has logged it
	}
	windows := "window"
	if e.windows != 1 {
		windows += "s"
	}
	text := fmt.Sprintf("%d %s, %d rows", e.windows, windows, e.rows)
	if info, err := os.Stat(e.job.output); err == nil && info.Mode().IsRegular() {
		text += fmt.Sprintf(", %d KiB", (info.Size()+1023)/1024)
	}
	safetext.Fprintf(e.log, "%s: %s\n", e.job.output, text)
}

// counted is a writer that counts lines.
type counted struct {
	io.Writer
	lines int
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.lines += bytes.Count(p[:n], []byte{'\n'})
	return n, err
}

func (e *exporter) picture(f *scope.Frame, s *scope.System) export.Picture {
	p := export.OfFrame(f, s, e.job.axis, e.job.hidden)
	p.Width, p.Height = e.job.width, e.job.height
	p.Cause = e.input.cause
	return p
}

// stream calls play, and writes everything that is passed to e.write meanwhile as figures.
func (e *exporter) stream(w io.Writer, play func() error) error {
	lines := &counted{Writer: w}
	if e.job.format == export.JSONFile {
		out := export.NewJSON(lines)
		e.write = func(f *scope.Frame, s *scope.System) error { return out.Curves(f, s, e.job.hidden) }
		err := errors.Join(play(), out.Close())
		e.rows = lines.lines
		return err
	}
	out := export.NewCSV(lines)
	e.write = func(f *scope.Frame, s *scope.System) error { return out.Picture(e.picture(f, s)) }
	err := errors.Join(play(), out.Close())
	e.rows = max(lines.lines-1, 0) // without the line of column names
	return err
}

// Configured implements [scope.Observer].
func (e *exporter) Configured(s *scope.System, _ outcome.Plan) error {
	e.system = s
	for _, p := range s.Outcomes {
		if !slices.Contains(e.names, p.Spec.Name) {
			e.names = append(e.names, p.Spec.Name)
		}
	}
	return nil
}

// Noticed implements [scope.Observer]. Notices are not exported.
func (e *exporter) Noticed(outcome.Notice) error { return nil }

// Framed implements [scope.Observer].
func (e *exporter) Framed(_ *outcome.Batch, f *scope.Frame) error {
	index := e.index
	e.index++
	if index < int64(e.input.prelude) {
		return nil
	}
	e.shown.add(f)
	frame := e.selected(f)
	if e.job.every {
		e.known = e.known || len(frame.Outcomes) > 0
		e.windows++
		return e.write(frame, e.system)
	}
	here, done := e.job.window.chooses(f, index == e.input.fired)
	if here && (len(frame.Outcomes) > 0 || done) {
		e.frame, e.of = frame.Clone(), e.system
		e.known = len(frame.Outcomes) > 0
	}
	if done {
		return errEnough
	}
	return nil
}

// selected returns the frame with only those probes that are wanted and have visible data.
func (e *exporter) selected(f *scope.Frame) *scope.Frame {
	out := *f
	out.Outcomes = nil
	for i := range f.Outcomes {
		p := &f.Outcomes[i]
		if len(e.job.probes) > 0 && !slices.Contains(e.job.probes, p.Name) {
			continue
		}
		one := export.Plot{Series: []plot.Series{plot.Of(p, nil, nil, "")}, Hidden: e.job.hidden}
		if !one.Empty() {
			out.Outcomes = append(out.Outcomes, *p)
		}
	}
	return &out
}

// checkProbes rejects probes that do not exist.
func (e *exporter) checkProbes() error {
	for _, name := range e.job.probes {
		if !slices.Contains(e.names, name) {
			return fmt.Errorf("%s: no outcome %q: there are %s", e.input.path, name, strings.Join(e.names, ", "))
		}
	}
	return nil
}

// checkKnown returns an error if there is nothing to write, with the reason.
func (e *exporter) checkKnown() error {
	what := "anything"
	if len(e.job.probes) > 0 {
		what = strings.Join(e.job.probes, ", ")
	}
	switch {
	case e.known:
		return e.checkEach()
	case e.frame != nil:
		return fmt.Errorf("%s: no data of %s in window %d", e.input.path, what, e.frame.Number)
	case e.shown.count == 0:
		return fmt.Errorf("%s: it has no windows", e.input.path)
	case e.job.every || e.job.window.kind == windowLast:
		return fmt.Errorf("%s: no data of %s in any window", e.input.path, what)
	}
	return fmt.Errorf("%s: no window %v: %v", e.input.path, e.job.window, e.shown)
}

// checkEach rejects a picture that lacks one of the requested probes.
func (e *exporter) checkEach() error {
	if e.frame == nil {
		return nil
	}
	for _, name := range e.job.probes {
		if !slices.ContainsFunc(e.frame.Outcomes, func(p scope.Outcome) bool { return p.Name == name }) {
			return fmt.Errorf("%s: no data of %s in window %d", e.input.path, name, e.frame.Number)
		}
	}
	return nil
}
