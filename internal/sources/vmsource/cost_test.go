package vmsource_test

import (
	"testing"
	"time"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/engine/outcome"
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
