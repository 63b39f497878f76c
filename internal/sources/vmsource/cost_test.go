package vmsource_test

import (
	"strings"
	"testing"
	"time"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/host/processor"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// The cost of observing belongs to the window in which the VM paid it, not to the window during
// which it is collected.
func TestCostIsOfItsWindow(t *testing.T) {
	v := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	s := newSourceEvery(t, exe(t, v), time.Second, []outcome.Spec{{
		Name: "outcome", Span: "load", BinWidth: 10 * time.Millisecond, Bins: 50,
	}})
	const n = 3000
	vmtest.WaitUntil(s.nextFrom)
	run(t, v, n)
	var starts, busy, all uint64
	for range 4 {
		if err := s.collect(); err != nil {
			t.Fatal(err)
		}
		b := &s.batches[len(s.batches)-1]
		var began uint64
		for _, c := range b.Counts {
			began += c.Starts
		}
		starts, all = starts+began, all+b.Cost.Events
		if began > 0 {
			busy += b.Cost.Events
		}
	}
	// A window that is collected late shares its cost with its neighbours.
	if starts < n || all < n || busy < all/2 {
		t.Errorf("%d starts; windows with starts cost %d of %d events", starts, busy, all)
	}
}

// However high the measured price of a hit is, a VM pays no more than the processor time that it used.
// A notice says so once.
func TestCostIsWithinTheProcessorTime(t *testing.T) {
	v := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	s := newSourceEvery(t, exe(t, v), 200*time.Millisecond, []outcome.Spec{{
		Name: "outcome", Span: "load", BinWidth: 10 * time.Millisecond, Bins: 50,
	}})
	s.OverchargeTraps()
	used := func() time.Duration {
		t.Helper()
		used, err := processor.Process(v.PID())
		if err != nil {
			t.Fatal(err)
		}
		return used
	}
	var paid time.Duration
	next, priced := 0, 0 // numbers of batches
	s.collectUntil("windows with a price", func() bool {
		for ; next < len(s.batches); next++ {
			if c := s.batches[next].Cost; c.Events > 0 && c.PerEvent > 0 {
				paid += time.Duration(c.Events) * c.PerEvent
				priced++
			}
		}
		run(t, v, 1000)
		return priced >= 3
	})
	if all := used(); paid > all {
		t.Errorf("the VM paid %v, and used %v", paid, all)
	}
	notices := 0
	for _, n := range s.notices() {
		if strings.Contains(n, "more than the processor time that the VM used") {
			notices++
		}
	}
	if notices != 1 {
		t.Errorf("%d notices, want 1: %q", notices, s.notices())
	}
}
