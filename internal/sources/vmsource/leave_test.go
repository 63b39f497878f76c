package vmsource_test

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/beamscope/beamscope/internal/sources/vmsource"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/price"
	"github.com/beamscope/beamscope/internal/testing/otheruser"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// observed makes a VM start a span, and reports whether the VM pays for it. It pays only if
// something is attached to its probes.
func observed(t *testing.T, v *erlang.VM) bool {
	t.Helper()
	return vmtest.Eval(t, v, `case beamscope:start_span(<<"load">>) of {undefined, ignore} -> off; {_, S} -> beamscope:end_span(undefined, S), on end`) == "on"
}

// LeaveOut detaches from a VM. Other VMs of the same executable are still counted exactly, also
// those that start later. After some time the VM is observed again.
func TestLeaveOut(t *testing.T) {
	otp := vmtest.Private(t)
	quiet, loud := vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Probes}), vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Probes})
	// While another collector is being loaded, this test collects nothing, so windows may be
	// given up.
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
			if length != vmsource.LeaveFirst || next != test.next || err != nil {
				t.Fatalf("%v, %v, %v", length, next, err)
			}
			if _, _, err := s.LeaveOut(loudID); !errors.Is(err, outcome.ErrNotLeft) {
				t.Errorf("left out twice: error %v, want %v", err, outcome.ErrNotLeft)
			}
			if _, _, err := s.LeaveOut(quietID); !errors.Is(err, outcome.ErrNotLeft) {
				t.Errorf("the last VM: error %v, want %v", err, outcome.ErrNotLeft)
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
			later := vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Probes})
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
			if length, _, err := s.LeaveOut(loudID); length != 2*vmsource.LeaveFirst || err != nil {
				t.Errorf("the second time: %v, %v", length, err)
			}
			if err := later.Stop(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// LeaveOutLater leaves out the VMs of a user that are not observed yet. VMs that ended before
// they could be left out are part of the user's cost. The VM of another user is still counted
// exactly. After some time the user's VMs are observed again.
func TestLeaveOutLater(t *testing.T) {
	otp := vmtest.Shared(t)
	victim := vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Probes})
	victimID := outcome.VM{PID: victim.PID()}
	s := newSourceEvery(t, exe(t, victim), 200*time.Millisecond, []outcome.Spec{
		{Name: "outcome", Span: "load", BinWidth: 10 * time.Millisecond, Bins: 50},
		{Name: "gc", VM: outcome.Events{Builtin: "gc"}, BinWidth: time.Millisecond, Bins: 50},
	})
	short := vmtest.StartImpostors(t, otp, victim, 2, vmtest.Impostor{Probe: "gc_minor__start", Period: time.Millisecond, Life: 300 * time.Millisecond})
	guard := price.Guard{Limit: price.Limit{Rate: 1}, Patience: price.Patience}
	s.collectUntil("that the user is to blame", func() bool {
		if len(s.batches) == 0 {
			return false
		}
		b := s.batches[len(s.batches)-1]
		_, loud := guard.Judge(b.Cost, b.Loads, b.Users, b.Window.Duration())
		return loud != nil && loud.Later && loud.User == otheruser.User
	})
	if length, err := s.LeaveOutLater(otheruser.User); length != vmsource.LeaveFirst || err != nil {
		t.Fatalf("%v, %v", length, err)
	}
	if _, err := s.LeaveOutLater(otheruser.User); !errors.Is(err, outcome.ErrNotLeft) {
		t.Errorf("left out twice: error %v, want %v", err, outcome.ErrNotLeft)
	}
	s.collectNow()
	if last := s.batches[len(s.batches)-1]; !last.Renew || !last.Strangers {
		t.Errorf("renew %v, strangers %v", last.Renew, last.Strangers)
	}
	s.change(s.plan.Window, s.plan.Specs...)
	s.collectUntil("windows without them", func() bool {
		b := s.batches[len(s.batches)-1]
		return !b.Renew && !b.Strangers && !slices.ContainsFunc(b.Users, func(u outcome.UserLoad) bool { return u.User == otheruser.User && u.Events > 0 })
	})
	before := s.spansOf(victimID)
	run(t, victim, 100)
	s.collectNow()
	if got := s.spansOf(victimID) - before; got != 100 {
		t.Errorf("%d spans of the other user's VM, want 100", got)
	}

	for _, cmd := range short {
		_ = cmd.Process.Kill()
	}
	long := vmtest.StartImpostors(t, otp, victim, 1, vmtest.Impostor{Probe: "gc_minor__start", Period: 20 * time.Millisecond})
	longSeen := s.noticed("observing " + outcome.VM{PID: long[0].Process.Pid}.String())
	later := vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Probes}) // a search that finds this VM also finds the previous one
	s.collectUntil("a later VM of another user", s.noticed("observing "+outcome.VM{PID: later.PID()}.String()))
	if longSeen() {
		t.Error("a VM of the user that is left out is observed")
	}
	s.EndLeaves()
	s.collectUntil("that the user's VMs are observed again", longSeen)
	if length, err := s.LeaveOutLater(otheruser.User); length != 2*vmsource.LeaveFirst || err != nil {
		t.Errorf("the second time: %v, %v", length, err)
	}
}

// The cost shows the share of each VM.
func TestLoads(t *testing.T) {
	otp := vmtest.Private(t)
	a, b, idle := vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Probes}), vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Probes}), vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Probes})
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

// A VM that is left out pays until the next plan begins, and the cost shows its share.
func TestLoadOfLeftOut(t *testing.T) {
	otp := vmtest.Private(t)
	a, b := vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Probes}), vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Probes})
	s := newSource(t, exe(t, a))
	if _, next, err := s.LeaveOut(outcome.VM{PID: b.PID()}); err != nil || !next {
		t.Fatalf("next %v, %v", next, err)
	}
	run(t, b, 1000)
	before := len(s.batches)
	s.collectNow()
	var left uint64
	for _, batch := range s.batches[before:] {
		for _, l := range batch.Loads {
			if l.Left != (l.VM.PID == b.PID()) {
				t.Errorf("%+v, want that %d alone is left out", l, b.PID())
			}
			if l.Left {
				left += l.Events
			}
		}
	}
	if left < 1000 {
		t.Errorf("%d events of the VM that is left out, want 1000 at least", left)
	}
}
