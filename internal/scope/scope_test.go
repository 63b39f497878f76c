package scope_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/beamscope/beamscope/internal/monotonic"
	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/scope"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A script is a source that delivers what it was told to, and notes what it was
// asked for.
type script struct {
	batches []outcome.Batch
	last    error // with the last batch
	asked   []outcome.Window
	at      []int64 // when
}

func (s *script) Collect(_ context.Context, w outcome.Window) (outcome.Batch, error) {
	s.asked = append(s.asked, w)
	s.at = append(s.at, monotonic.Now())
	b := s.batches[len(s.asked)-1]
	b.Window = w
	if len(s.asked) == len(s.batches) {
		return b, s.last
	}
	return b, nil
}

func (s *script) Watch() []outcome.Notice                                { return nil }
func (s *script) Stream(context.Context, func([]outcome.Instance)) error { return nil }
func (s *script) Close() error                                           { return nil }

var specs = []outcome.Spec{{Name: "a", Span: "a", BinWidth: time.Millisecond, Bins: 4}}

func counted(bins []uint64, failures, timeouts uint64) outcome.Batch {
	c := outcome.Counts{Outcome: "a", Bins: bins, Failures: failures, Timeouts: timeouts}
	for _, n := range bins {
		c.Successes += n
	}
	return outcome.Batch{Counts: []outcome.Counts{c}}
}

// Windows are asked for in order, without gaps, and each when it has been over
// for its own length: one behind the present.
func TestWindowsFollowOneBehindThePresent(t *testing.T) {
	windows := outcome.Plan{From: monotonic.Now(), Window: 2 * time.Millisecond}
	source := &script{batches: make([]outcome.Batch, 5)}
	s, err := scope.New(source, windows, specs)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context(), 5, func(scope.Frame) error { return nil }); err != nil {
		t.Fatal(err)
	}
	for n, w := range source.asked {
		if want := windows.At(uint64(n)); w != want {
			t.Errorf("window %d is %v, want %v", n, w, want)
		}
		if n > 0 && w.From != source.asked[n-1].To {
			t.Errorf("window %d leaves a gap", n)
		}
		if early := w.To + int64(windows.Window) - source.at[n]; early > 0 {
			t.Errorf("window %d was asked for %d ns too early", n, early)
		}
	}
	if len(source.asked) != 5 {
		t.Errorf("asked for %d windows, want 5", len(source.asked))
	}
}

// A frame holds the ΔQ of what was counted, with the quantiles over all instances.
func TestFrame(t *testing.T) {
	source := &script{batches: []outcome.Batch{counted([]uint64{1, 2, 0, 3}, 1, 1)}}
	var frames []scope.Frame
	s, err := scope.New(source, outcome.Plan{From: monotonic.Now(), Window: time.Millisecond}, specs)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context(), 1, func(f scope.Frame) error { frames = append(frames, f); return nil }); err != nil {
		t.Fatal(err)
	}
	o := frames[0].Probes[0].Observed
	got := []string{fmt.Sprint(o.Instances())}
	for _, q := range scope.Quantiles() {
		d, ok := o.QuantileFigure(q)
		got = append(got, fmt.Sprint(d, ok))
	}
	// Of 8 instances the 2nd is in bin 1, the 4th and the 6th in bin 3, the 8th failed.
	want := []string{"8", "2ms true", "4ms true", "4ms true", "0s false"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// The end of the source ends the run, after the frame that came with it; the
// empty batch of a recording's end makes none.
func TestSourceEnds(t *testing.T) {
	ended := fmt.Errorf("gone: %w", outcome.ErrEnded)
	broken := errors.New("broken")
	for _, tc := range []struct {
		name    string
		batches []outcome.Batch
		last    error
		frames  int
		err     error
	}{
		{"with a frame", []outcome.Batch{counted(make([]uint64, 4), 0, 0), counted(make([]uint64, 4), 0, 0)}, ended, 2, nil},
		{"without", []outcome.Batch{counted(make([]uint64, 4), 0, 0), {}}, ended, 1, nil},
		{"broken", []outcome.Batch{counted(make([]uint64, 4), 0, 0), {}}, broken, 1, broken},
	} {
		t.Run(tc.name, func(t *testing.T) {
			source := &script{batches: tc.batches, last: tc.last}
			s, err := scope.New(source, outcome.Plan{From: monotonic.Now(), Window: time.Millisecond}, specs)
			if err != nil {
				t.Fatal(err)
			}
			frames := 0
			err = s.Run(t.Context(), 0, func(scope.Frame) error { frames++; return nil })
			if !errors.Is(err, tc.err) || frames != tc.frames {
				t.Errorf("%d frames and %v, want %d and %v", frames, err, tc.frames, tc.err)
			}
		})
	}
}

// When the context is done, windows that are over still get their frames, and
// the one that is not over gets none.
func TestCancelledRunDrains(t *testing.T) {
	const over = 3
	length := time.Hour
	windows := outcome.Plan{From: monotonic.Now() - over*int64(length) - int64(length)/2, Window: length}
	source := &script{batches: make([]outcome.Batch, 10)}
	s, err := scope.New(source, windows, specs)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	frames := 0
	if err := s.Run(ctx, 0, func(scope.Frame) error { frames++; return nil }); err != nil {
		t.Fatal(err)
	}
	if frames != over {
		t.Errorf("%d frames, want %d", frames, over)
	}
}

// An error of whoever takes the frames ends the run.
func TestConsumerFails(t *testing.T) {
	broken := errors.New("broken pipe")
	s, err := scope.New(&script{batches: make([]outcome.Batch, 3)}, outcome.Plan{From: monotonic.Now(), Window: time.Millisecond}, specs)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context(), 0, func(scope.Frame) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}
