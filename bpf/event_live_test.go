package bpf_test

import (
	"testing"
	"time"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/monotonic"
	"github.com/beamscope/beamscope/internal/vmtest"
)

func explained(o bpf.Outcome) bpf.Outcome {
	o.Explain = true
	return o
}

func TestSmoke(t *testing.T) {
	vm := vmtest.Start(t, erlang.Options{})
	c := vmtest.NewCollector(t, bpf.Options{Outcomes: []bpf.Outcome{explained(load(endless))}})
	if err := c.ObserveThreads(vm.PID()); err != nil {
		t.Fatal(err)
	}
	a, err := c.Attach(vmtest.Target(t, vm))
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Missing(); err != nil {
		t.Error(err)
	}
	c.Call(vm, "span_load", "run", spans(1, 3))
	vmtest.WaitUntil(monotonic.Now() + int64(2*time.Millisecond))
	lost, err := c.Events(func(b []bpf.Event) {
		for _, e := range b {
			t.Logf("%+v", e)
		}
	})
	t.Log(lost, err)
}
