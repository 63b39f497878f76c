package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/beamscope/beamscope/internal/monotonic"
	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/recording"
)

// A playback is a source that delivers the batches of a recording, one for each
// window that it is asked for, whatever the window.
type playback struct {
	*recording.Reader
	plan outcome.Plan // the first of the recording
}

// newPlayback reads a recording up to its first plan.
func newPlayback(r io.Reader) (*playback, error) {
	in, err := recording.NewReader(r)
	if err != nil {
		return nil, err
	}
	entry, err := in.Next()
	if err != nil {
		return nil, err
	}
	c, ok := entry.(*recording.Config)
	if !ok {
		return nil, errors.New("the recording does not begin with a configuration")
	}
	return &playback{in, c.Plan}, nil
}

// Collect implements [outcome.Source]: the next batch.
func (p *playback) Collect(context.Context, outcome.Window) (outcome.Batch, error) {
	for {
		entry, err := p.Next()
		if errors.Is(err, io.EOF) {
			return outcome.Batch{}, fmt.Errorf("the recording is over: %w", outcome.ErrEnded)
		}
		if err != nil {
			return outcome.Batch{}, err
		}
		if batch, ok := entry.(*outcome.Batch); ok {
			return *batch, nil
		}
	}
}

// Watch implements [outcome.Source]. A recording needs no looking after.
func (p *playback) Watch() []outcome.Notice { return nil }

// Plan implements [outcome.Source]. A recording has the plan that it has.
func (p *playback) Plan(outcome.Plan) error { return errors.ErrUnsupported }

// A recorder is a source whose batches are recorded as well.
type recorder struct {
	outcome.Source
	w *recording.Writer
}

// record has what a source delivers written to a new file. Closing that is the
// caller's.
func record(path string, source outcome.Source, c *recording.Config) (*recorder, error) {
	now := time.Now().UTC()
	w, err := recording.Create(path, false, recording.Header{
		Time: now, Monotonic: monotonic.Now(), Note: "recorded " + now.Format(time.DateOnly), Facts: recording.Host(),
	})
	if err != nil {
		return nil, err
	}
	if err := w.Config(c); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return &recorder{source, w}, nil
}

// Collect implements [outcome.Source].
func (r *recorder) Collect(ctx context.Context, w outcome.Window) (outcome.Batch, error) {
	b, err := r.Source.Collect(ctx, w)
	if len(b.Counts) == 0 {
		return b, err
	}
	return b, errors.Join(err, r.w.Batch(&b))
}
