package bpf_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// messageOutcomes are the built-in outcomes whose instances end in the order of their
// starts.
func messageOutcomes(t *testing.T, dMax time.Duration) []bpf.Outcome {
	t.Helper()
	var all []bpf.Outcome
	for _, name := range []string{"hop", "mailbox", "message"} {
		o := builtin(t, name, "")
		o.DMax, o.BinWidth = int64(dMax), int64(dMax)/int64(o.Bins)
		all = append(all, o)
	}
	return all
}

// Ended receivers take no room from later ones, even if they leave messages behind: nothing is lost
// of many more receivers than there is room for at a time.
func TestReceiversThatEnd(t *testing.T) {
	const rounds, each, taken = 300, 40, 2
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	c := vmtest.NewCollector(t, bpf.Options{
		Outcomes: messageOutcomes(t, 200*time.Millisecond),
		Queues:   1 << 15, // of 48,000 that are needed one after the other
		Window:   int64(time.Second / 4),
	})
	c.Observe(vm)
	c.Call(vm, "vm_load", "short_receivers", fmt.Sprintf("[#{rounds => %d, each => %d, pause_ms => 15}]", rounds, each))
	c.ReadAll()
	for i, o := range c.Opts.Outcomes {
		got := c.Total(i, vm.PID())
		if got.MapFull > 0 || got.ReadErrors > 0 {
			t.Errorf("%s: %d found no room, %d could not be read", o.Name, got.MapFull, got.ReadErrors)
		}
		if got.Starts != got.Successes+got.Timeouts+got.Unpaired {
			t.Errorf("%s: %d starts, %d ended", o.Name, got.Starts, got.Successes+got.Timeouts+got.Unpaired)
		}
		if got.Successes+got.Unpaired < rounds*each*taken {
			t.Errorf("%s: %d messages, and %d unpaired, want %d", o.Name, got.Successes, got.Unpaired, rounds*each*taken)
		}
	}
}

// If there are more receivers at a time than there is room for, the loss is counted. When some have
// ended, there is room again.
func TestMoreReceiversThanRoom(t *testing.T) {
	const crowd, room, times = 500, 64, 3
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	vmtest.Call(t, vm, "vm_load", "crowd", fmt.Sprintf("[%d]", crowd))
	c := vmtest.NewCollector(t, bpf.Options{
		Outcomes: messageOutcomes(t, 10*time.Second)[:1],
		Queues:   room,
		Window:   int64(time.Second / 4),
	})
	c.Observe(vm)
	c.Call(vm, "vm_load", "tell_crowd", fmt.Sprintf("[#{times => %d, pause_ms => 0}]", times))
	got := c.Total(0, vm.PID())
	if got.MapFull == 0 || got.Starts != got.Successes+got.Timeouts+got.Unpaired+got.MapFull+uint64(c.Swept.Open) {
		t.Errorf("%+v, and %d open", got.Counters, c.Swept.Open)
	}
	// The receivers are idle: their entries in the table make room for others.
	before := c.Total(0, vm.PID())
	for range 3 {
		c.ReadTo(c.Opts.Start + int64(len(c.Windows)+4)*c.Opts.Window)
	}
	c.Call(vm, "vm_load", "short_receivers", "[#{rounds => 1, each => 10, pause_ms => 0}]")
	after := c.Total(0, vm.PID())
	if diff := cmp.Diff(before.MapFull, after.MapFull); diff != "" || after.Successes < before.Successes+20 {
		t.Errorf("there is no room again: %+v, before %+v", after.Counters, before.Counters)
	}
}

// No message times out because a queue is deleted just when the message comes: a message for a
// queue that is being deleted counts as one without room.
func TestQueuesDeletedWhileUsed(t *testing.T) {
	const crowd, times = 1000, 12
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	vmtest.Call(t, vm, "vm_load", "crowd", fmt.Sprintf("[%d]", crowd))
	c := vmtest.NewCollector(t, bpf.Options{Outcomes: messageOutcomes(t, 10*time.Second), Window: int64(time.Second / 4)})
	c.Observe(vm)
	ctx, stop := context.WithCancel(t.Context())
	swept := make(chan error, 1)
	go func() {
		var err error
		for ctx.Err() == nil && err == nil {
			err = c.SweepQueues()
		}
		swept <- err
	}()
	// Each pause is about as long as an empty queue is kept.
	c.Call(vm, "vm_load", "tell_crowd", fmt.Sprintf("[#{times => %d, pause_ms => 100}]", times))
	stop()
	if err := <-swept; err != nil {
		t.Fatal(err)
	}
	for i, o := range c.Opts.Outcomes {
		got := c.Total(i, vm.PID())
		if got.Timeouts > 0 || got.Successes+got.MapFull+got.Unpaired < crowd*times {
			t.Errorf("%s: %+v", o.Name, got.Counters)
		}
		t.Logf("%s: %d messages, %d found no room, %d unpaired", o.Name, got.Successes, got.MapFull, got.Unpaired)
	}
}
