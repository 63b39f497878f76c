package scope

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/monotonic"
	"github.com/beamscope/beamscope/internal/outcome"
)

// A Scope turns windows into frames.
type Scope struct {
	source  outcome.Source
	windows outcome.Plan
	grids   map[string]dq.Grid
	used    time.Duration // processor time used until the last frame

	// Notice is called with what the source has to say about itself, while the
	// scope runs. It may be nil.
	Notice func(outcome.Notice)
}

// New returns a scope on a source. The windows are those that the source was
// made for.
func New(source outcome.Source, windows outcome.Plan, specs []outcome.Spec) (*Scope, error) {
	grids := make(map[string]dq.Grid)
	for _, spec := range specs {
		grid, err := dq.NewGrid(spec.BinWidth, spec.Bins)
		if err != nil {
			return nil, fmt.Errorf("outcome %s: %w", spec.Name, err)
		}
		grids[spec.Name] = grid
	}
	return &Scope{source: source, windows: windows, grids: grids}, nil
}

// Run passes the frame of each window to fn, one window behind the present,
// until the context is done, the source ends, or fn fails. Where limit is not 0
// it observes for so many windows and then returns.
//
// When the context is done, the windows that are over by then still get their
// frames.
func (s *Scope) Run(ctx context.Context, limit uint64, fn func(Frame) error) error {
	s.used = processorTime()
	for n := uint64(0); limit == 0 || n < limit; n++ {
		w := s.windows.At(n)
		if !s.wait(ctx, w.To+int64(s.windows.Window)) && w.To > monotonic.Now() {
			return nil
		}
		batch, err := s.source.Collect(context.WithoutCancel(ctx), w)
		ended := errors.Is(err, outcome.ErrEnded)
		if err != nil && !ended {
			return fmt.Errorf("window %d: %w", n, err)
		}
		if ended && len(batch.Counts) == 0 {
			return nil
		}
		frame, err := s.frame(n, batch)
		if err != nil {
			return err
		}
		if err := fn(frame); err != nil || ended {
			s.watch()
			return err
		}
	}
	s.watch()
	return nil
}

// watchPeriod is how often the source is asked to look after what it observes.
const watchPeriod = time.Second

// wait waits for a time, and has the source watched meanwhile; false where the
// context was done first.
func (s *Scope) wait(ctx context.Context, at int64) bool {
	for {
		s.watch()
		next := monotonic.Now() + int64(watchPeriod)
		if !sleepUntil(ctx, min(at, next)) {
			return false
		}
		if at <= next {
			return true
		}
	}
}

func (s *Scope) watch() {
	for _, n := range s.source.Watch() {
		if s.Notice != nil {
			s.Notice(n)
		}
	}
}

// sleepUntil waits for a time, false where the context was done first.
func sleepUntil(ctx context.Context, at int64) bool {
	if ctx.Err() != nil {
		return false
	}
	timer := time.NewTimer(time.Duration(at - monotonic.Now()))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// frame makes a frame of what was counted in a window.
func (s *Scope) frame(n uint64, b outcome.Batch) (Frame, error) {
	f := Frame{Number: n, Window: b.Window, Time: b.Time}
	for _, c := range b.Counts {
		observed, err := dq.FromCounts(s.grids[c.Outcome], c.Bins, c.Failures, c.Timeouts)
		if err != nil {
			return Frame{}, fmt.Errorf("outcome %s: %w", c.Outcome, err)
		}
		f.Probes = append(f.Probes, Probe{Name: c.Outcome, Observed: observed, Counts: c})
	}
	f.Cost = b.Cost
	used := processorTime()
	f.Cost.Collector, s.used = used-s.used, used
	return f, nil
}

// processorTime returns the processor time that this process has used.
func processorTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
