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
	"github.com/beamscope/beamscope/usdt"
)

// The window of a VM without probes is not observed if no search since its end has shown that there
// was no ring.
func TestRingNotFoundYet(t *testing.T) {
	none, making := fmt.Errorf("%w: somewhere", ErrNone), fmt.Errorf("%w: %w: %w", ErrNone, ErrLayout, errNotReady)
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
		{"ring is not made after all", absence{looked: true, whole: true, retry: true}, 150, making, false},
		{"not all memory was ever searched", absence{looked: true}, 100, none, true},
		{"VM with probes", absence{looked: true, whole: true, probes: true}, 50, none, false},
	} {
		for _, kernel := range []Kernel{nil, func(vm.VM) (int64, bool) { return 0, false }} {
			s := &Source{
				cfg: Config{Kernel: kernel}, now: func() int64 { return 200 * ms }, budget: intake.NewBudget(intake.MaxKept),
				notices: intake.NewNotices(func() int64 { return 0 }), vms: make(map[int]*station),
			}
			var err error
			if s.schedule, err = ledger.Schedule(nil).With(outcome.Plan{Window: 100 * time.Millisecond, Specs: []outcome.Spec{spec("a", time.Second)}}, 0, nameOf); err != nil {
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
		if s.schedule, err = ledger.Schedule(nil).With(outcome.Plan{From: int64(time.Second), Window: test.window}, 0, nameOf); err != nil {
			t.Fatal(err)
		}
		if got := s.pause(); got != test.want {
			t.Errorf("windows of %v at %v: got %v, want %v", test.window, test.now, got, test.want)
		}
	}
}

// Only new memory is searched again.
func TestFreshMemory(t *testing.T) {
	all := []usdt.Range{{Start: 10, End: 40}, {Start: 50, End: 60}, {Start: 70, End: 80}}
	for _, test := range []struct{ known, want []usdt.Range }{
		{nil, all},
		{all, nil},
		{[]usdt.Range{{Start: 20, End: 30}, {Start: 50, End: 60}}, []usdt.Range{{Start: 10, End: 20}, {Start: 30, End: 40}, {Start: 70, End: 80}}},
		{[]usdt.Range{{Start: 0, End: 15}, {Start: 35, End: 75}}, []usdt.Range{{Start: 15, End: 35}, {Start: 75, End: 80}}},
		{[]usdt.Range{{Start: 0, End: 5}, {Start: 30, End: 52}, {Start: 90, End: 99}}, []usdt.Range{{Start: 10, End: 30}, {Start: 52, End: 60}, {Start: 70, End: 80}}},
	} {
		if got := without(all, test.known); !slices.Equal(got, test.want) {
			t.Errorf("without %v: got %v, want %v", test.known, got, test.want)
		}
	}
}

// All resident memory is searched in every VM, with or without probes, at each search that is
// allowed.
func TestFullSearch(t *testing.T) {
	for _, probes := range []bool{false, true} {
		s := newSource(Config{})
		st := &station{vm: vm.VM{User: 3}, absence: absence{looked: true, probes: probes}, glances: schedule{next: 1 << 60}, scans: schedule{next: 1 << 60}}
		at := func(now time.Duration, thorough bool) {
			t.Helper()
			if in, kind := s.area(st, int64(now)); in.thorough != thorough || (kind == wide) != thorough {
				t.Errorf("probes %v: after %v: %+v, kind %d", probes, now, in, kind)
			}
		}
		at(0, true)
		at(100*time.Millisecond, false)
		at(time.Second, true)
		s.allowance.charge(3, wide, int64(2*time.Second), maxSaved+100*time.Millisecond)
		at(3*time.Second, false)
		at(8*time.Second, true) // a fiftieth of 5 s is available again
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
