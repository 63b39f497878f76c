package scope

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/host/monotonic"
)

// A stage is a scope with its source and its observer, on its own clock (synctest). Time advances
// only while all goroutines of the test wait. Functions that are nil do nothing.
type stage struct {
	t     *testing.T
	scope *Scope
	start time.Time

	batch   func(n int) (outcome.Batch, error) // for window n
	refuse  func() error                       // the source's answer to a plan
	watch   func() []outcome.Notice
	noticed func(text string) error

	asked     []outcome.Window // windows that were collected
	at        []time.Duration  // times at which they were collected
	watched   []time.Duration
	plans     []outcome.Plan // plans that the source received
	planned   []time.Duration
	systems   []*System // systems that were configured
	froms     []int64   // times from which the systems apply
	notices   []string
	collector []time.Duration // cost of the collector in each window
}

// dawn is the time on the clock when a test begins. Times in tests are relative to it.
const dawn = time.Hour

// wait lets time pass on the stage's clock. No real time passes.
func (s *stage) wait(d time.Duration) { time.Sleep(d) }

func (s *stage) now() int64 { return int64(dawn + s.since()) }

func (s *stage) since() time.Duration { return time.Since(s.start) }

func (s *stage) Plan(_ context.Context, p outcome.Plan) error {
	s.plans, s.planned = append(s.plans, p), append(s.planned, s.since())
	if s.refuse != nil {
		return s.refuse()
	}
	return nil
}

func (s *stage) Collect(_ context.Context, w outcome.Window) (outcome.Batch, error) {
	s.asked, s.at = append(s.asked, w), append(s.at, s.since())
	if n := len(s.asked) - 1; s.batch != nil {
		b, err := s.batch(n)
		b.Window = w
		return b, err
	}
	return outcome.Batch{Window: w}, nil
}

func (s *stage) Watch(context.Context) []outcome.Notice {
	s.watched = append(s.watched, s.since())
	if len(s.watched) > 10_000 {
		s.t.Fatal("Watch is called without end")
	}
	if s.watch != nil {
		return s.watch()
	}
	return nil
}

func (s *stage) Close() error { return nil }

func (s *stage) Configured(system *System, p outcome.Plan) error {
	s.systems, s.froms = append(s.systems, system), append(s.froms, p.From-int64(dawn))
	return nil
}

func (s *stage) Framed(_ *outcome.Batch, f *Frame) error {
	s.collector = append(s.collector, f.Cost.Collector)
	return nil
}

func (s *stage) Noticed(n outcome.Notice) error {
	s.notices = append(s.notices, n.Text)
	if s.noticed != nil {
		return s.noticed(n.Text)
	}
	return nil
}

// windowsOf returns a system with windows of this length.
func windowsOf(length time.Duration) *System {
	return &System{Window: length, History: 1, Bounds: MeanBounds{StandardErrors: 1},
		Outcomes: []OutcomeSystem{{Spec: outcome.Spec{Name: "a", Span: "a", BinWidth: time.Millisecond, Bins: 4}}}}
}

// onStage runs a test with a scope whose first window begins at the given time.
func onStage(t *testing.T, first *System, from time.Duration, play func(t *testing.T, s *stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &stage{t: t, start: time.Now()}
		var err error
		if s.scope, err = New(s, first, first.Plan(int64(dawn+from)), s); err != nil {
			t.Fatal(err)
		}
		s.scope.now = s.now
		s.scope.processor = func() time.Duration { return s.since() / 4 }
		play(t, s)
	})
}

func (s *stage) run(ctx context.Context, limit time.Duration) {
	s.t.Helper()
	if err := s.scope.Run(ctx, limit); err != nil {
		s.t.Error(err)
	}
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s, -want +got:\n%s", what, diff)
	}
}

// seconds converts times in seconds.
func seconds(s ...float64) (all []time.Duration) {
	for _, x := range s {
		all = append(all, time.Duration(x*float64(time.Second)))
	}
	return all
}

// Each window is collected when it has been over for its own length, to the nanosecond. The
// source is watched every second, and also before the first window and after the last one.
func TestWhenWindowsAreCollected(t *testing.T) {
	onStage(t, windowsOf(2500*time.Millisecond), 500*time.Millisecond, func(t *testing.T, s *stage) {
		s.run(t.Context(), 5*time.Second)
		same(t, "collected", s.at, seconds(5.5, 8))
		same(t, "watched", s.watched, seconds(0, 1, 2, 3, 4, 5, 5.5, 6.5, 7.5, 8))
		same(t, "cost", s.collector, seconds(0.625, 0.625))
	})
}

// A change begins with the next window that begins at least a quarter of a second later. The
// windows before it wait for the shorter of both window lengths.
func TestWhenAChangeBegins(t *testing.T) {
	for _, tt := range []struct {
		first, second time.Duration
		apply         float64 // seconds
		from          float64 // of the second plan
		collected     []time.Duration
	}{
		{time.Second, time.Second, 1.75, 3, seconds(2, 3, 4, 5, 6)},
		{time.Second, time.Second, 1.74, 2, seconds(2, 3, 4, 5)},
		{2 * time.Second, 500 * time.Millisecond, 4.1, 6, seconds(4, 4.5, 6.5, 7, 7.5)},
		{500 * time.Millisecond, 2 * time.Second, 0.1, 0.5, seconds(1, 4.5, 6.5)},
	} {
		onStage(t, windowsOf(tt.first), 0, func(t *testing.T, s *stage) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(tt.from*float64(time.Second))+2*tt.second+2*tt.second)
			defer cancel()
			second := windowsOf(tt.second)
			applied := make(chan error)
			go func() {
				s.wait(time.Duration(tt.apply * float64(time.Second)))
				applied <- s.scope.Apply(ctx, second)
			}()
			go s.run(ctx, 0)
			if err := <-applied; err != nil {
				t.Fatal(err)
			}
			<-s.scope.ended
			same(t, "from", s.froms, []int64{0, int64(tt.from * float64(time.Second))})
			same(t, "collected", s.at[:min(len(s.at), len(tt.collected))], tt.collected)
			for i := range s.asked {
				if i > 0 && s.asked[i].From != s.asked[i-1].To {
					t.Errorf("window %d begins at %d, the one before ended at %d", i, s.asked[i].From, s.asked[i-1].To)
				}
			}
		})
	}
}

// A change of a plan that has not begun takes effect after that plan has begun.
func TestChangeBeforeTheBeginning(t *testing.T) {
	onStage(t, windowsOf(time.Second), 5*time.Second, func(t *testing.T, s *stage) {
		ctx, cancel := context.WithTimeout(t.Context(), 9*time.Second)
		defer cancel()
		go s.run(ctx, 0)
		if err := s.scope.Apply(ctx, windowsOf(time.Second)); err != nil {
			t.Fatal(err)
		}
		<-s.scope.ended
		same(t, "from", s.froms, []int64{int64(5 * time.Second), int64(6 * time.Second)})
	})
}

// Changes are made one after the other. The second one waits until the first has begun.
func TestTwoChanges(t *testing.T) {
	onStage(t, windowsOf(time.Second), 0, func(t *testing.T, s *stage) {
		ctx, cancel := context.WithTimeout(t.Context(), 9*time.Second)
		defer cancel()
		second, third := windowsOf(time.Second), windowsOf(time.Second)
		go s.run(ctx, 0)
		for _, system := range []*System{second, third} {
			if err := s.scope.Apply(ctx, system); err != nil {
				t.Fatal(err)
			}
		}
		<-s.scope.ended
		if len(s.systems) != 3 || s.systems[1] != second || s.systems[2] != third {
			t.Errorf("%d systems were configured, want 3 in order", len(s.systems))
		}
	})
}

// A plan that the source refuses for good is not requested again.
func TestRefusedForGood(t *testing.T) {
	onStage(t, windowsOf(time.Second), 0, func(t *testing.T, s *stage) {
		ctx, cancel := context.WithTimeout(t.Context(), 9*time.Second)
		defer cancel()
		noRoom := errors.New("no room")
		s.refuse = func() error { return noRoom }
		go s.run(ctx, 0)
		if err := s.scope.Apply(ctx, windowsOf(time.Second)); !errors.Is(err, noRoom) {
			t.Error(err)
		}
		<-s.scope.ended
		same(t, "asked", s.planned, seconds(0))
	})
}

// If a source wants the plan to begin again, the scope requests it at once. If the source
// refuses, the scope repeats the request every half minute while the source still wants it.
func TestRenewAgain(t *testing.T) {
	for wanted, want := range map[int][]time.Duration{1: seconds(2), 29: seconds(2), 33: seconds(2, 32), 100: seconds(2, 32, 62, 92)} {
		onStage(t, windowsOf(time.Second), 0, func(t *testing.T, s *stage) {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Second)
			defer cancel()
			s.refuse = func() error { return errors.New("no room") }
			s.batch = func(n int) (outcome.Batch, error) { return outcome.Batch{Renew: n < wanted}, nil }
			s.run(ctx, 0)
			same(t, "asked", s.planned, want)
			same(t, "notices", s.notices, slices.Repeat([]string{"observation continues unchanged: no room"}, len(want)))
		})
	}
}

// There is no notice if the plan does begin again, if the source has ended, or if the run is
// ending.
func TestRenewWithoutANotice(t *testing.T) {
	for name, refuse := range map[string]func(cancel func()) error{
		"begins again": func(func()) error { return nil },
		"ended":        func(func()) error { return outcome.ErrEnded },
		"cancelled":    func(cancel func()) error { cancel(); return context.Canceled },
	} {
		onStage(t, windowsOf(time.Second), 0, func(t *testing.T, s *stage) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			s.refuse = func() error { return refuse(cancel) }
			s.batch = func(n int) (outcome.Batch, error) { return outcome.Batch{Renew: n == 0}, nil }
			s.run(ctx, 0)
			if len(s.planned) != 1 || len(s.notices) != 0 {
				t.Errorf("%s: asked for a plan at %v, notices %q", name, s.planned, s.notices)
			}
		})
	}
}

// The plan does not begin again while another one is about to begin, or while the run is ending.
func TestRenewWaits(t *testing.T) {
	onStage(t, windowsOf(time.Second), 0, func(t *testing.T, s *stage) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		s.batch = func(n int) (outcome.Batch, error) { return outcome.Batch{Renew: n == 0}, nil }
		applied := make(chan error)
		go func() {
			s.wait(1900 * time.Millisecond) // the change begins at 3 s
			applied <- s.scope.Apply(ctx, windowsOf(time.Second))
		}()
		go s.run(ctx, 0)
		if err := <-applied; err != nil {
			t.Error(err)
		}
		<-s.scope.ended
		same(t, "asked", s.planned, seconds(1.9))
	})
	onStage(t, windowsOf(time.Second), -9*time.Second, func(t *testing.T, s *stage) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		s.batch = func(int) (outcome.Batch, error) { return outcome.Batch{Renew: true}, nil }
		s.run(ctx, 0)
		if len(s.asked) != 9 || len(s.planned) != 0 {
			t.Errorf("%d windows, asked for a plan at %v", len(s.asked), s.planned)
		}
	})
}

// A window that ends exactly when the context is done gets its frame.
func TestCancelledAtTheEndOfAWindow(t *testing.T) {
	for at, want := range map[time.Duration]int{3*time.Second - 1: 2, 3 * time.Second: 3} {
		onStage(t, windowsOf(time.Second), 0, func(t *testing.T, s *stage) {
			ctx, cancel := context.WithTimeout(t.Context(), at)
			defer cancel()
			s.run(ctx, 0)
			if len(s.asked) != want {
				t.Errorf("cancelled at %v: %d windows, want %d", at, len(s.asked), want)
			}
		})
	}
}

// An observer that fails at a notice ends the run, even at the last notice.
func TestNoticeFails(t *testing.T) {
	full := errors.New("the disk is full")
	for n := range 4 {
		onStage(t, windowsOf(time.Second), 0, func(t *testing.T, s *stage) {
			s.watch = func() []outcome.Notice {
				if len(s.watched) == n+1 {
					return []outcome.Notice{{Text: "one"}, {Text: "two"}}
				}
				return nil
			}
			s.noticed = func(string) error { return full }
			if err := s.scope.Run(t.Context(), time.Second); !errors.Is(err, full) || len(s.notices) != 1 {
				t.Errorf("notice %d: %v, notices %q", n, err, s.notices)
			}
			s.noticed = nil
		})
		onStage(t, windowsOf(time.Second), 0, func(t *testing.T, s *stage) {
			s.watch = func() []outcome.Notice { return []outcome.Notice{{Text: "one"}, {Text: "two"}} }
			s.run(t.Context(), time.Second)
			if len(s.notices) != 2*len(s.watched) {
				t.Errorf("%d notices of %d times", len(s.notices), len(s.watched))
			}
		})
	}
}

// Notices of different parts of a source are passed on in the order of time. Those of the same time, and
// those without one, keep their order.
func TestNoticesInOrderOfTime(t *testing.T) {
	onStage(t, windowsOf(time.Second), 0, func(t *testing.T, s *stage) {
		all := []outcome.Notice{{Time: 7, Text: "e"}, {Time: 5, Text: "c"}, {Text: "a"}, {Time: 5, Text: "d"}, {Text: "b"}}
		s.watch = func() []outcome.Notice {
			defer func() { all = nil }()
			return all
		}
		s.run(t.Context(), time.Second)
		same(t, "notices", s.notices, []string{"a", "b", "c", "d", "e"})
	})
}

// An error of the source contains the beginning of the window.
func TestErrorOfAWindow(t *testing.T) {
	first := windowsOf(10 * time.Second)
	from := monotonic.Now() - int64(time.Minute)
	s := &stage{t: t, batch: func(int) (outcome.Batch, error) { return outcome.Batch{}, errors.New("broken") }}
	var err error
	if s.scope, err = New(s, first, first.Plan(from), s); err != nil {
		t.Fatal(err)
	}
	err = s.scope.Run(t.Context(), 0)
	begins := monotonic.Wall(from)
	for _, near := range []time.Duration{-time.Second, 0, time.Second} {
		if err != nil && strings.HasPrefix(err.Error(), "window from "+begins.Add(near).Format("15:04:05.")) && strings.HasSuffix(err.Error(), " on: broken") {
			return
		}
	}
	t.Errorf("%v, want a window from %v on", err, begins)
}

// The processor time covers the whole process, in its own code and in the kernel.
func TestProcessorTime(t *testing.T) {
	used := func() time.Duration {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
			t.Fatal(err)
		}
		return time.Duration(u.Utime.Nano()) + time.Duration(u.Stime.Nano())
	}
	before := used()
	got := processorTime()
	if after := used(); got < before || got > after || before == 0 {
		t.Errorf("%v, want from %v to %v", got, before, after)
	}
}

// However long a run is, only the readings of the processor time that the next window needs are
// kept: one at its beginning and one after it.
func TestReadingsAreDropped(t *testing.T) {
	onStage(t, windowsOf(time.Second), 0, func(t *testing.T, s *stage) {
		s.run(t.Context(), time.Minute)
		if n := reflect.ValueOf(s.scope.used).FieldByName("readings").Len(); n != 2 {
			t.Errorf("%d readings are kept, want 2", n)
		}
	})
}
