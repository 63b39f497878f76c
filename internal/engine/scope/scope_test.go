package scope_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/host/monotonic"
)

func newScript(batches ...outcome.Batch) *script {
	return &script{batches: batches, now: monotonic.Now}
}

func newScope(t *testing.T, source outcome.Source, s *scope.System, observers ...scope.Observer) *scope.Scope {
	t.Helper()
	sc, err := scope.New(source, s, s.Plan(monotonic.Now()), observers...)
	if err != nil {
		t.Fatal(err)
	}
	return sc
}

// Windows are requested in order and without gaps. Each one is requested when it has been over
// for its own length, one window behind the present.
func TestWindowsFollowOneBehindThePresent(t *testing.T) {
	sys := system(t, "", spec("a", 4))
	sys.Window = 2 * ms
	plan := sys.Plan(monotonic.Now())
	source := newScript()
	s, err := scope.New(source, sys, plan)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context(), 10*ms); err != nil {
		t.Fatal(err)
	}
	for n, w := range source.asked {
		if want := plan.At(uint64(n)); w != want {
			t.Errorf("window %d is %v, want %v", n, w, want)
		}
		if early := w.To + int64(plan.Window) - source.at[n]; early > 0 {
			t.Errorf("window %d was requested %d ns too early", n, early)
		}
	}
	if len(source.asked) != 5 {
		t.Errorf("requested %d windows, want 5", len(source.asked))
	}
}

// A limit counts from the first observed window, because attaching may take longer than the
// limit.
func TestLimitCountsObservedWindows(t *testing.T) {
	unobserved := outcome.Batch{Counts: []outcome.Counts{{Outcome: "a", Bins: make([]uint64, 4), Unobserved: true}}}
	observed := outcome.Batch{Counts: []outcome.Counts{counts("a", 0, 0, 0, 0)}}
	sys := system(t, "", spec("a", 4))
	sys.Window = ms
	for _, late := range []int{0, 1, 5} {
		var batches []outcome.Batch
		for range late {
			batches = append(batches, unobserved)
		}
		frames := 0
		s := newScope(t, newScript(append(batches, observed, observed, unobserved)...), sys, watcher{framed: func(b *outcome.Batch, _ *scope.Frame) error {
			if frames++; frames > late+3 {
				return errors.New("it does not end")
			}
			return nil
		}})
		if err := s.Run(t.Context(), 3*ms); err != nil {
			t.Errorf("%d windows that were not observed: %v", late, err)
		}
		if frames != late+3 {
			t.Errorf("%d windows that were not observed: %d frames, want %d", late, frames, late+3)
		}
	}
}

// If outcomes are discovered while the scope runs, the limit begins again at the first window in
// which one was observed. Without outcomes it counts from the call of Run.
func TestLimitBeginsAgainWithOutcomes(t *testing.T) {
	none := outcome.Batch{}
	unobserved := outcome.Batch{Counts: []outcome.Counts{{Outcome: "a", Bins: make([]uint64, 4), Unobserved: true}}}
	observed := outcome.Batch{Counts: []outcome.Counts{counts("a", 0, 0, 0, 0)}}
	for _, tc := range []struct {
		name    string
		late    int // windows that were over before the call of Run
		batches []outcome.Batch
		frames  int
	}{
		{"no outcomes", 0, nil, 3},
		{"attaching takes long, no outcomes", 5, nil, 5 + 3},
		{"discovered at once", 0, []outcome.Batch{none, observed, observed}, 1 + 3},
		{"discovered, then observed", 0, []outcome.Batch{none, none, unobserved, unobserved, observed}, 4 + 3},
		{"discovered, never observed", 0, []outcome.Batch{none, none, unobserved, unobserved, unobserved, unobserved}, 2 + 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			sys := system(t, "", spec("a", 4))
			sys.Window = 20 * ms
			batches := tc.batches
			for range 40 {
				last := none
				if len(tc.batches) > 0 {
					last = tc.batches[len(tc.batches)-1]
				}
				batches = append(batches, last)
			}
			frames := 0
			plan := sys.Plan(monotonic.Now() - int64(tc.late)*int64(sys.Window))
			s, err := scope.New(newScript(batches...), sys, plan, watcher{framed: func(*outcome.Batch, *scope.Frame) error {
				frames++
				return nil
			}})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Run(t.Context(), 3*sys.Window); err != nil {
				t.Error(err)
			}
			if frames != tc.frames {
				t.Errorf("%d frames, want %d", frames, tc.frames)
			}
		})
	}
}

// The end of the source ends the run, after the frame of its last batch.
func TestSourceEnds(t *testing.T) {
	ended := fmt.Errorf("gone: %w", outcome.ErrEnded)
	broken := errors.New("broken")
	full := outcome.Batch{Counts: []outcome.Counts{counts("a", 0, 0, 0, 0)}}
	for _, tc := range []struct {
		name    string
		batches []outcome.Batch
		last    error
		frames  int
		err     error
	}{
		{"with a frame", []outcome.Batch{full, full}, ended, 2, nil},
		{"without", []outcome.Batch{full, {}}, ended, 1, nil},
		{"broken", []outcome.Batch{full, {}}, broken, 1, broken},
	} {
		t.Run(tc.name, func(t *testing.T) {
			source := newScript(tc.batches...)
			source.last = tc.last
			sys := system(t, "", spec("a", 4))
			sys.Window = ms
			frames := 0
			s := newScope(t, source, sys, watcher{framed: func(*outcome.Batch, *scope.Frame) error { frames++; return nil }})
			if err := s.Run(t.Context(), 0); !errors.Is(err, tc.err) || frames != tc.frames {
				t.Errorf("%d frames and %v, want %d and %v", frames, err, tc.frames, tc.err)
			}
		})
	}
}

// When the context is done, windows that are over still get their frames. The current window gets
// none.
func TestCancelledRunDrains(t *testing.T) {
	const over = 3
	sys := system(t, "", spec("a", 4))
	sys.Window = time.Hour
	from := monotonic.Now() - over*int64(sys.Window) - int64(sys.Window)/2
	frames := 0
	s, err := scope.New(newScript(), sys, sys.Plan(from), watcher{framed: func(*outcome.Batch, *scope.Frame) error { frames++; return nil }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Run(ctx, 0); err != nil {
		t.Fatal(err)
	}
	if frames != over {
		t.Errorf("%d frames, want %d", frames, over)
	}
}

// An error of an observer ends the run.
func TestObserverFails(t *testing.T) {
	broken := errors.New("broken pipe")
	sys := system(t, "", spec("a", 4))
	sys.Window = ms
	s := newScope(t, newScript(), sys, watcher{framed: func(*outcome.Batch, *scope.Frame) error { return broken }})
	if err := s.Run(t.Context(), 0); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

// Another system takes over at the beginning of a window, in the source and in the engine alike.
// Earlier windows belong to the old system, and there is no gap.
func TestApply(t *testing.T) {
	first, second := system(t, "", spec("a", 4)), system(t, "", spec("a", 8), spec("b", 4))
	first.Window, second.Window = 20*ms, 5*ms
	source := newScript()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	type entry struct {
		system *scope.System
		window outcome.Window
		bins   int
	}
	var frames []entry
	var plans []outcome.Plan
	var now *scope.System
	s := newScope(t, source, first, watcher{
		configured: func(s *scope.System, p outcome.Plan) { now, plans = s, append(plans, p) },
		framed: func(b *outcome.Batch, f *scope.Frame) error {
			frames = append(frames, entry{now, b.Window, f.Outcomes[0].Observed.Grid().Bins()})
			if len(plans) == 2 && len(frames) > 3 && frames[len(frames)-4].system == second {
				cancel()
			}
			return nil
		},
	})
	applied := make(chan error, 1)
	go func() { applied <- s.Apply(ctx, second) }()
	if err := s.Run(ctx, 0); err != nil {
		t.Fatal(err)
	}
	if err := <-applied; err != nil {
		t.Fatal(err)
	}
	if len(source.plans) != 1 || source.plans[0].Window != 5*ms || len(source.plans[0].Specs) != 2 {
		t.Fatalf("the source was given %+v", source.plans)
	}
	if diff := cmp.Diff(source.plans[0], plans[1]); diff != "" {
		t.Errorf("source and observers have different plans: %s", diff)
	}
	for i, f := range frames {
		want := map[*scope.System]entry{
			first:  {window: outcome.Window{To: int64(20 * ms)}, bins: 4},
			second: {window: outcome.Window{To: int64(5 * ms)}, bins: 8},
		}[f.system]
		if f.window.Duration() != want.window.Duration() || f.bins != want.bins {
			t.Errorf("frame %d: %+v", i, f)
		}
		if f.system == second && f.window.From < plans[1].From || f.system == first && f.window.To > plans[1].From {
			t.Errorf("frame %d belongs to the wrong side of the change at %d: %+v", i, plans[1].From, f.window)
		}
		if i > 0 && f.window.From != frames[i-1].window.To {
			t.Errorf("frame %d leaves a gap", i)
		}
	}
}

// The plan in force begins again once if the source wants that.
func TestRenew(t *testing.T) {
	only := system(t, "", spec("a", 4))
	only.Window = 5 * ms
	source := newScript(outcome.Batch{}, outcome.Batch{Renew: true}, outcome.Batch{Renew: true})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var plans []outcome.Plan
	s := newScope(t, source, only, watcher{configured: func(_ *scope.System, p outcome.Plan) {
		plans = append(plans, p)
		if len(plans) == 2 {
			cancel()
		}
	}})
	if err := s.Run(ctx, 0); err != nil {
		t.Fatal(err)
	}
	if len(plans) != 2 || len(source.plans) != 1 {
		t.Fatalf("observers have %d plans, want 2; the source has %d more, want 1", len(plans), len(source.plans))
	}
	if diff := cmp.Diff(source.plans[0], plans[1]); diff != "" {
		t.Errorf("source and observers have different plans: %s", diff)
	}
	plans[1].From = plans[0].From
	if diff := cmp.Diff(plans[0], plans[1]); diff != "" {
		t.Errorf("the plan is another one: %s", diff)
	}
}

// If a source cannot begin the plan again, it continues unchanged. A notice reports that, and the
// request is not repeated in each window.
func TestRenewRefused(t *testing.T) {
	only := system(t, "", spec("a", 4))
	only.Window = 5 * ms
	source := newScript(slices.Repeat([]outcome.Batch{{Renew: true}}, 10)...)
	source.planFail, source.last = errors.New("no room"), outcome.ErrEnded
	var notices []string
	s := newScope(t, source, only, watcher{noticed: func(n outcome.Notice) { notices = append(notices, n.Text) }})
	if err := s.Run(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"observation continues unchanged: no room"}, notices); diff != "" || len(source.asked) != 10 {
		t.Errorf("%d windows; notices, -want +got:\n%s", len(source.asked), diff)
	}
}

// Impossible changes are refused, and everything continues unchanged. After the run nothing can
// be applied.
func TestApplyRefused(t *testing.T) {
	first := system(t, "", spec("a", 4))
	first.Window = 5 * ms
	source := newScript()
	source.planFail = errors.New("no room")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := newScope(t, source, first)
	errs := make(chan error, 2)
	go func() {
		errs <- s.Apply(ctx, system(t, "", spec("a", 0)))
		errs <- s.Apply(ctx, system(t, "", spec("a", 8)))
		cancel()
	}()
	if err := s.Run(ctx, 0); err != nil {
		t.Fatal(err)
	}
	if err := <-errs; err == nil || errors.Is(err, source.planFail) {
		t.Errorf("no bins: %v", err)
	}
	if err := <-errs; !errors.Is(err, source.planFail) {
		t.Errorf("a plan that the source refuses: %v", err)
	}
	if err := s.Apply(t.Context(), first); !errors.Is(err, outcome.ErrEnded) {
		t.Errorf("after the run: %v", err)
	}
}

// If beamscope chose dMax, a quantile may be a delay above it, up to the share of the instances
// that did not fail.
func TestQuantileSlower(t *testing.T) {
	for _, tt := range []struct {
		fitted                        bool
		successes, failures, timeouts uint64
		q                             float64
		want                          bool
	}{
		{true, 7, 1, 2, 0.9, true}, {true, 7, 1, 2, 0.95, false}, {false, 7, 1, 2, 0.9, false},
		{true, 8, 1, 1, 0.9, true}, {true, 8, 1, 1, 0.91, false}, {true, 8, 0, 1, 0.99, true},
		{true, 9, 1, 0, 0.9, false}, {true, 9, 0, 0, 0.9, false}, {true, 0, 0, 1, 0.01, true}, {true, 0, 5, 1, 0.25, false},
	} {
		p := scope.Outcome{Fitted: tt.fitted, Counts: outcome.Counts{Successes: tt.successes, Failures: tt.failures, Timeouts: tt.timeouts}}
		if got := p.QuantileSlower(tt.q); got != tt.want {
			t.Errorf("%+v: %v", tt, got)
		}
	}
}

// A quantile without a question mark is never too small, whatever became of the lost instances. A
// quantile with one can be.
func TestQuantileMayBeLonger(t *testing.T) {
	grid, err := dq.NewGrid(time.Millisecond, 4)
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		bins := rapid.SliceOfN(rapid.Uint64Range(0, 20), 4, 4).Draw(t, "bins")
		failures, lost := rapid.Uint64Range(0, 20).Draw(t, "failures"), rapid.Uint64Range(0, 20).Draw(t, "lost")
		q := rapid.SampledFrom(scope.Quantiles()).Draw(t, "quantile")
		observed := func(failures uint64) *dq.Observed {
			o, err := dq.NewObserved(grid)
			if err == nil {
				err = o.Set(bins, failures, 0)
			}
			if err != nil {
				t.Fatal(err)
			}
			return o
		}
		p := scope.Outcome{Observed: observed(failures), Counts: outcome.Counts{Loss: outcome.Loss{Unpaired: lost}}}
		d, finite := p.Observed.QuantileFigure(q)
		worst, stays := observed(failures + lost).QuantileFigure(q)
		if longer := finite && (!stays || worst > d); p.QuantileMayBeLonger(q) != longer {
			t.Errorf("%v of %v, %d failures, %d lost: %v, %v if all lost ones failed", q, bins, failures, lost, d, worst)
		}
		p.Counts.Unobserved = true
		if p.QuantileMayBeLonger(q) != finite {
			t.Errorf("%v of %v in a window that was not observed as a whole", q, bins)
		}
	})
}

// Whatever happened to lost instances, the real share of successes is at least the returned
// bound. Without losses it equals the share.
func TestLeastSuccess(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		count := func(what string) uint64 { return rapid.Uint64Range(0, 1000).Draw(t, what) }
		p := scope.Outcome{Fitted: rapid.Bool().Draw(t, "fitted"), Counts: outcome.Counts{
			Successes: count("successes"), Failures: count("failures"), Timeouts: count("timeouts"),
			Loss: outcome.Loss{NoRoom: count("no room"), Unpaired: count("unpaired")},
		}}
		n, all := p.Counts.Instances(), p.Counts.Loss.Total()
		least, lost, ok := p.LeastSuccess()
		unknown := all
		if p.Fitted { // a slower instance may have succeeded
			unknown += p.Counts.Timeouts
		}
		if ok != (n > 0) || lost != (ok && unknown > 0) {
			t.Fatalf("%+v: lost %v, ok %v", p.Counts, lost, ok)
		}
		if !ok {
			return
		}
		succeeded := rapid.Uint64Range(0, all).Draw(t, "of the lost ones, that succeeded")
		instances := n + rapid.Uint64Range(succeeded, all).Draw(t, "of the lost ones, instances")
		if instances == 0 {
			return
		}
		if p.Fitted {
			succeeded += rapid.Uint64Range(0, p.Counts.Timeouts).Draw(t, "of the slower ones, that succeeded")
		}
		if share := float64(p.Counts.Successes+succeeded) / float64(instances); share < least || unknown == 0 && share != least {
			t.Fatalf("%+v: %v succeeded, and %v at least", p.Counts, share, least)
		}
	})
}

// A cancelled run ends with the windows that were over by then, even if a frame takes longer than
// a window. Otherwise later windows would follow without end.
func TestCancelledWhileFramesTakeLong(t *testing.T) {
	first := system(t, "", spec("a", 4))
	first.Window = 2 * ms
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var cancelled int64
	after := 0
	s := newScope(t, newScript(), first, watcher{framed: func(b *outcome.Batch, _ *scope.Frame) error {
		if cancelled != 0 && b.Window.To > cancelled+100*int64(ms) {
			after++
		}
		for end := monotonic.Now() + 2*int64(first.Window); after == 0 && monotonic.Now() < end; {
			runtime.Gosched()
		}
		if cancelled == 0 {
			cancel()
			cancelled = monotonic.Now()
		}
		return nil
	}})
	if err := s.Run(ctx, 0); err != nil || after > 0 {
		t.Errorf("%d frames of windows that were not over, error %v", after, err)
	}
}

// Frames report that beamscope is attaching until a whole window of some outcome was observed. A
// window that is missed later is different.
func TestAttaching(t *testing.T) {
	missed := outcome.Counts{Outcome: "a", VM: beam, Unobserved: true, Loss: outcome.Loss{Missed: 153}}
	p := newPlay(t, system(t, "whole = a -> b", spec("a", 4), spec("b", 4), spec("whole", 4)))
	for n, c := range []outcome.Counts{missed, missed, counts("a"), missed} {
		if f := p.step(c); f.Attaching != (n < 2) {
			t.Errorf("window %d: attaching %v", n, f.Attaching)
		}
	}
	p = newPlay(t, system(t, "", spec("a", 4)))
	p.engine.StartAt(40)
	if p.step(missed).Attaching {
		t.Error("a snapshot of later windows reports that beamscope attaches")
	}
}
