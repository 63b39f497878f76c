package bpf_test

import (
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// A VM without a slot gets the slot of another one, which continues without. From then on its
// counts are exact, and earlier windows have none. A free slot is available at once.
func TestPlace(t *testing.T) {
	otp := vmtest.Private(t)
	first, later := vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Probes}), vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Probes})
	c := vmtest.NewCollector(t, bpf.Options{Outcomes: []bpf.Outcome{load(endless)}, VMs: 1, Window: int64(200 * time.Millisecond)})
	c.Observe(first, later)

	c.Call(first, "span_load", "run", spans(1, 30))
	c.Call(later, "span_load", "run", spans(1, 20))
	c.ReadAll()
	if got := c.Total(0, later.PID()).Successes; got != 0 {
		t.Errorf("%d spans of the VM without a slot, want none", got)
	}
	if err := c.Place(first.PID(), 0); err != nil {
		t.Errorf("place the VM that has a slot: %v", err)
	}
	if err := c.Place(later.PID(), 0); !errors.Is(err, bpf.ErrNoPlace) {
		t.Fatalf("place: error %v, want %v", err, bpf.ErrNoPlace)
	}
	if err := c.Displace(first.PID(), later.PID(), 0); err != nil {
		t.Fatal(err)
	}
	c.Call(first, "span_load", "run", spans(1, 40)) // they are dropped, or those of VMs without a slot
	for !hasCounts(c.Windows[len(c.Windows)-1], later.PID()) {
		c.ReadAll()
	}
	c.Middle()
	c.Call(later, "span_load", "run", spans(1, 50))
	c.Call(first, "span_load", "run", spans(1, 60))
	c.ReadAll()
	if got := c.Total(0, later.PID()).Successes; got != 50 {
		t.Errorf("%d spans of the VM that got the slot, want 50", got)
	}
	if got := c.Total(0, first.PID()).Successes; got != 30 {
		t.Errorf("%d spans of the VM that lost its slot, want 30", got)
	}
	users := c.UserHits()
	if got := users[os.Getuid()]; got != 2*(30+20+40+50+60) {
		t.Errorf("%d hits of this user, want %d: %v", got, 2*(30+20+40+50+60), users)
	}
	if err := c.Forget(later.PID()); err != nil {
		t.Fatal(err)
	}
	if err := c.Place(first.PID(), 0); err != nil {
		t.Errorf("place when a slot is free: %v", err)
	}
}

// hasCounts reports whether a window has separate counts of a VM.
func hasCounts(w vmtest.Window, pid int) bool {
	return slices.ContainsFunc(w.Counts, func(c bpf.Counts) bool { return c.PID == pid })
}
