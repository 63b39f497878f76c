package vmsource_test

import (
	"testing"
	"time"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// vmOf returns the VM of a process.
func vmOf(t *testing.T, pid int) vm.VM {
	t.Helper()
	var finder vm.Finder
	vms, _, err := finder.Find(t.Context(), vm.Target{PID: pid})
	if err != nil || len(vms) != 1 {
		t.Fatalf("VMs of pid %d: %v, error %v", pid, vms, err)
	}
	return vms[0]
}

// Programs count the spans of a VM from the time on at which it is attached to, until it is left out.
// They count those of a new VM with the same executable before it is found.
func TestCountsSpans(t *testing.T) {
	vmtest.NeedEBPF(t)
	vmtest.NeedKind(t, vmtest.WithProbes)
	otp := vmtest.Private(t)
	one, two := vmOf(t, vmtest.StartOn(t, otp, erlang.Options{}).PID()), vmOf(t, vmtest.StartOn(t, otp, erlang.Options{}).PID())
	before := monotonic.Now()
	s := newSourceEvery(t, vm.Target{Exe: otp.Emulator()}, 100*time.Millisecond, []outcome.Spec{{Name: "a", Span: "a", BinWidth: time.Millisecond, Bins: 100}})
	after := monotonic.Now()
	since := func(v vm.VM) int64 {
		t.Helper()
		since, calls := s.CountsSpans(v)
		if calls {
			t.Errorf("spans of %d call a function", v.PID())
		}
		return since
	}
	for _, v := range []vm.VM{one, two} {
		if at := since(v); at < before || at > after {
			t.Errorf("spans of pid %d are counted since %d, attached between %d and %d", v.PID(), at, before, after)
		}
	}
	later := vmOf(t, vmtest.StartOn(t, otp, erlang.Options{}).PID())
	if at := since(later); at != since(one) {
		t.Errorf("spans of a new VM are counted since %d, attached to at %d", at, since(one))
	}
	if at := since(vmOf(t, vmtest.StartOn(t, vmtest.Private(t), erlang.Options{}).PID())); at != 0 {
		t.Errorf("spans of a VM of another executable are counted since %d", at)
	}
	if _, _, err := s.LeaveOut(outcome.VM{PID: two.PID(), Node: two.Node}); err != nil {
		t.Fatal(err)
	}
	if since(two) != 0 || since(one) == 0 {
		t.Errorf("after pid %d is left out: since %d, others since %d", two.PID(), since(two), since(one))
	}
	s.change(s.plan.Window, s.plan.Specs...) // from now on VMs are attached to one by one
	s.collectNow()
	s.EndLeaves()
	now := monotonic.Now()
	s.collectUntil("the VM that was left out", func() bool { return since(two) != 0 })
	if at := since(two); at < now {
		t.Errorf("spans of a VM that was left out are counted since %d, observed again after %d", at, now)
	}
}

// The application calls a function for the spans of a VM without probes.
func TestCountsSpansOfStockVM(t *testing.T) {
	beam, s := newStock(t, 25)
	if since, calls := s.CountsSpans(vmOf(t, beam.PID())); since == 0 || !calls {
		t.Errorf("since %d, calls %v", since, calls)
	}
}
