package bpf_test

import (
	"testing"
	"time"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/monotonic"
	"github.com/beamscope/beamscope/internal/vmtest"
)

func explained(o bpf.Outcome) bpf.Outcome {
	o.Explain = true
	return o
}

func TestSmoke(t *testing.T) {
	vm := vmtest.Start(t, oneClock("+S", "1:1"))
	for _, call := range [][2]string{{"neighbour","[20000000]"},{"congestion","[]"}} {
	c := vmtest.NewCollector(t, bpf.Options{Outcomes: []bpf.Outcome{explained(load(800*time.Millisecond))}})
	if err := c.ObserveThreads(vm.PID()); err != nil {
		t.Fatal(err)
	}
	target := vmtest.Target(t, vm)
	target.Layout = vmtest.Layout(t, vm)
	a, err := c.Attach(target)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Missing(); err != nil {
		t.Error(err)
	}
	t.Log(call)
	t.Log(c.Call(vm, "vm_spans", call[0], call[1]))
	vmtest.WaitUntil(monotonic.Now() + int64(2*time.Millisecond))
	lost, err := c.Events(func(b []bpf.Event) {
		for _, e := range b {
			t.Logf("%d.%03d tid%d k%d <%d> other <%d> id %d size %d tok %d %d %d inner %d alias %v state %x reds %d %d %s", e.Time/1000%10000000, e.Time%1000,e.Thread, e.Kind, e.Process, e.Other, e.ID, e.Size, e.Label, e.Prev, e.Cur, e.Inner, e.Alias, e.State, e.Reductions, e.To-e.From, e.Text)
		}
	})
	t.Log(lost, err)
	}
}
