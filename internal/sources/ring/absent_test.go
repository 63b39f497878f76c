package ring

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/sources/intake"
	"github.com/beamscope/beamscope/internal/sources/ledger"
)

// The window of a VM without probes is not observed if no search since its end has shown that there
// was no ring.
func TestRingNotFoundYet(t *testing.T) {
	none, making := fmt.Errorf("%w: somewhere", ErrNone), fmt.Errorf("%w: %w: %w", ErrNone, ErrLayout, errNotReady)
	other := fmt.Errorf("%w: %w: of version 3", ErrNone, ErrLayout)
	for _, test := range []struct {
		what     string
		absence  absence
		searched int64 // when the search began, in ms
		err      error
		want     bool
	}{
		{"search after the window", absence{looked: true, whole: true}, 100, none, false},
		{"search within the window", absence{looked: true, whole: true}, 99, none, true},
		{"failed search", absence{looked: true, whole: true}, 150, errors.New("no"), true},
		{"ring is being made", absence{looked: true, whole: true}, 150, making, true},
		{"ring is not made after all", absence{looked: true, whole: true, making: true}, 150, making, false},
		{"not all memory was ever searched", absence{looked: true}, 100, none, true},
		{"VM with probes", absence{looked: true, whole: true, probes: true}, 50, none, false},
		{"ring of another layout", absence{looked: true, whole: true}, 150, other, true},
		{"ring of another layout in a VM with probes", absence{looked: true, whole: true, probes: true}, 150, other, true},
		{"ring whose memory ends too early", absence{looked: true, whole: true, probes: true}, 150, ErrLayout, true},
		{"too much memory", absence{looked: true, whole: true}, 150, fmt.Errorf("%w: %w", ErrNone, ErrTooLarge), true},
		{"ring of another layout that is gone", absence{looked: true, whole: true, unreadable: true}, 150, none, false},
		{"failed search after a ring of another layout", absence{looked: true, whole: true, unreadable: true}, 150, errors.New("no"), true},
	} {
		for _, kernel := range []Kernel{nil, func(vm.VM) (int64, bool) { return 0, false }} {
			s := &Source{
				cfg: Config{Kernel: kernel}, now: func() int64 { return 200 * ms }, budget: intake.NewBudget(intake.MaxKept),
				notices: intake.NewNotices(func() int64 { return 0 }), vms: make(map[int]*station),
			}
			var err error
			if s.schedule, err = ledger.Schedule(nil).With(outcome.Plan{Window: 100 * time.Millisecond, Specs: []outcome.Spec{spec("a", time.Second)}}, 0, 0, nameOf); err != nil {
				t.Fatal(err)
			}
			st := &station{id: outcome.VM{PID: 7}, absence: test.absence}
			st.absence.note(test.searched*ms, test.err, false)
			s.vms[7] = st
			b, err := s.Collect(t.Context(), s.schedule[0].Plan.At(0))
			if err != nil {
				t.Fatal(err)
			}
			marked := slices.ContainsFunc(b.Counts, func(c outcome.Counts) bool { return c.Unobserved })
			if len(b.Counts) != 1 || marked != test.want || test.want && (kernel != nil) != (b.Counts[0].VM == st.id) {
				t.Errorf("%s, programs in the kernel %v: %+v", test.what, kernel != nil, b.Counts)
			}
		}
	}
}

// A search is due at the end of each window, and every second.
func TestSearchAfterWindow(t *testing.T) {
	for _, test := range []struct{ window, now, want time.Duration }{
		{time.Second, 1300 * time.Millisecond, 700 * time.Millisecond},
		{100 * time.Millisecond, 1330 * time.Millisecond, 70 * time.Millisecond},
		{10 * time.Second, 3 * time.Second, time.Second},
		{10 * time.Second, 500 * time.Millisecond, 500 * time.Millisecond}, // until the first window begins
	} {
		s := &Source{now: func() int64 { return int64(test.now) }}
		var err error
		if s.schedule, err = ledger.Schedule(nil).With(outcome.Plan{From: int64(time.Second), Window: test.window}, 0, 0, nameOf); err != nil {
			t.Fatal(err)
		}
		if got := s.pause(); got != test.want {
			t.Errorf("windows of %v at %v: got %v, want %v", test.window, test.now, got, test.want)
		}
	}
}

// A VM may be unable to show spans to programs in the kernel. That is known only of a VM whose
// executable was read.
func TestAbsenceOfPrograms(t *testing.T) {
	for _, test := range []struct {
		name    string
		header  header
		absence absence
		fires   bool
	}{
		{"a VM with probes", header{probes: true}, absence{looked: true, probes: true}, true},
		{"a known build without probes", header{calls: true}, absence{looked: true, calls: true}, true},
		{"an unknown build without probes", header{calls: true}, absence{looked: true}, false},
		{"a VM whose executable was not read", header{calls: true}, absence{}, true},
		{"a VM with probes whose application does not fire them", header{calls: true}, absence{looked: true, probes: true}, false},
		{"an application that shows no spans", header{}, absence{}, false},
	} {
		if got := test.absence.fires(test.header); got != test.fires {
			t.Errorf("%s: %v", test.name, got)
		}
	}
}

// While a ring is not ready, one search is repeated. If the ring is never ready, no spans are recorded.
func TestRingThatIsNeverReady(t *testing.T) {
	making := fmt.Errorf("%w: %w: %w", ErrNone, ErrLayout, errNotReady)
	a := absence{looked: true, whole: true}
	for i, want := range []bool{true, false, false, false} {
		if again := a.note(int64(i+1)*100*ms, making, true); again != want || a.hides(outcome.Window{From: int64(i) * 100 * ms, To: int64(i+1) * 100 * ms}) != want {
			t.Errorf("search %d: again %v, no ring until %d", i, again, a.until)
		}
	}
	if again := a.note(500*ms, ErrNone, true); again || !a.note(600*ms, making, true) {
		t.Error("another ring that is being made is not searched for again")
	}
}
