package outcome_test

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/vm"
	"github.com/beamscope/beamscope/internal/vmtest"
)

// observed has a VM make a span, and reports whether it pays for it: nobody is attached to its
// probes otherwise.
func observed(t *testing.T, v *erlang.VM) bool {
	t.Helper()
	return vmtest.Eval(t, v, `case beamscope:start_span(<<"load">>) of {undefined, ignore} -> off; {_, S} -> beamscope:end_span(undefined, S), on end`) == "on"
}

// LeaveOut detaches from a VM. Other VMs of the same executable are still counted exactly, also
// those that start later. After some time the VM is observed again.
func TestLeaveOut(t *testing.T) {
	otp := vmtest.Private(t)
	quiet, loud := vmtest.StartOn(t, otp, erlang.Options{}), vmtest.StartOn(t, otp, erlang.Options{})
	// While another collector is loaded nothing is collected here, and windows may be given up.
	slow := cmpopts.IgnoreFields(outcome.Counts{}, "Unobserved")
	user := exe(t, quiet)
	user.User = "root"
	for name, test := range map[string]struct {
		target vm.Target
		next   bool
	}{
		"an executable":     {exe(t, quiet), true},
		"the VMs of a user": {user, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSource(t, test.target)
			quietID, loudID := outcome.VM{PID: quiet.PID()}, outcome.VM{PID: loud.PID()}
			run(t, quiet, 10)
			vmtest.Call(t, loud, "span_load", "open", "[#{spans => 5}]")
			s.collectNow()
			length, next, err := s.LeaveOut(loudID)
			if length != outcome.LeaveFirst || next != test.next || err != nil {
				t.Fatalf("%v, %v, %v", length, next, err)
			}
			if _, _, err := s.LeaveOut(loudID); !errors.Is(err, outcome.ErrNotLeft) {
				t.Errorf("again: error %v, want %v", err, outcome.ErrNotLeft)
			}
			if _, _, err := s.LeaveOut(quietID); !errors.Is(err, outcome.ErrNotLeft) {
				t.Errorf("the last one: error %v, want %v", err, outcome.ErrNotLeft)
			}
			if next {
				s.change(s.plan.Window, s.plan.Specs...)
				s.collectNow()
			}
			if observed(t, loud) || !observed(t, quiet) {
				t.Error("the VM that is left out pays, or the other one does not")
			}
			run(t, quiet, 100)
			run(t, loud, 100)
			later := vmtest.StartOn(t, otp, erlang.Options{})
			laterID := outcome.VM{PID: later.PID()}
			s.collectUntil("the later VM", s.noticed("observing "+laterID.String()))
			run(t, later, 30)
			s.collectNow()
			s.collectUntil("the deadline of what was open", func() bool { return len(s.batches) > 8 })
			want := map[outcome.VM]outcome.Counts{quietID: succeeded(quietID, 111), laterID: succeeded(laterID, 30), loudID: {Outcome: "outcome", VM: loudID, Starts: 5}}
			if diff := cmp.Diff(want, s.totals(), slow); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if !slices.ContainsFunc(s.Status(), func(v outcome.VMStatus) bool { return v.VM == loudID && v.Refused != "" }) {
				t.Errorf("the status does not say that %v is left out: %+v", loudID, s.Status())
			}

			s.EndLeaves()
			before := len(s.seen)
			s.collectUntil("that it is observed again", func() bool { return slices.Contains(s.seen[before:], "observing "+loudID.String()) })
			run(t, loud, 7)
			run(t, quiet, 7)
			s.collectNow()
			want[loudID] = outcome.Counts{Outcome: "outcome", VM: loudID, Starts: 12, Ends: 7, Successes: 7}
			want[quietID] = succeeded(quietID, 118)
			if diff := cmp.Diff(want, s.totals(), slow); diff != "" {
				t.Errorf("again: -want +got:\n%s", diff)
			}
			if length, _, err := s.LeaveOut(loudID); length != 2*outcome.LeaveFirst || err != nil {
				t.Errorf("the second time: %v, %v", length, err)
			}
			if err := later.Stop(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// The cost says what part each VM has in it.
func TestLoads(t *testing.T) {
	otp := vmtest.Private(t)
	a, b, idle := vmtest.StartOn(t, otp, erlang.Options{}), vmtest.StartOn(t, otp, erlang.Options{}), vmtest.StartOn(t, otp, erlang.Options{})
	s := newSource(t, exe(t, a))
	run(t, a, 3000)
	run(t, b, 1000)
	s.collectNow()
	sums := map[int]float64{}
	var all float64
	for _, batch := range s.batches {
		all += float64(batch.Cost.Events)
		for _, l := range batch.Loads {
			sums[l.VM.PID] += float64(l.Events)
			if l.User != 0 {
				t.Errorf("%+v, of root", l)
			}
		}
	}
	if len(sums) != 3 || sums[idle.PID()] != 0 || !slices.Contains(slices.Collect(maps.Keys(sums)), idle.PID()) {
		t.Errorf("%v, want three VMs, and nothing of %d", sums, idle.PID())
	}
	if r := sums[a.PID()] / sums[b.PID()]; r < 2.9 || r > 3.1 || sums[a.PID()]+sums[b.PID()] < .99*all {
		t.Errorf("%v of %v, want three times as many of %d as of %d", sums, all, a.PID(), b.PID())
	}
}
