package bpf_test

import (
	"testing"
	"time"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// With a link for each place, as on a kernel without uprobe_multi, everything is counted as with one link
// for all: spans, instances that time out, and events at entries and returns of functions. The names of
// spans are not discovered there.
func TestSingleLinks(t *testing.T) {
	const dMax = 500 * time.Millisecond
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	run := builtin(t, "run", bpf.GroupByPID)
	c := vmtest.NewCollector(t, bpf.Options{Outcomes: []bpf.Outcome{load(dMax), run}, SingleLinks: true, Discover: true})
	c.Observe(vm)

	c.Call(vm, "span_load", "run", spans(2, 10_000))
	c.Call(vm, "span_load", "failing", spans(2, 100))
	c.Call(vm, "span_load", "open", spans(1, 50))
	vmtest.Eval(t, vm, `beamscope:with_span(<<"other">>, fun() -> ok end)`)
	c.ReadAll()

	want := succeeded(10_000)
	want.Starts, want.Ends, want.Failures, want.Timeouts = 10_150, 10_100, 100, 50
	checkTotal(t, c, 0, vm.PID(), want)
	// Slices that began before the link of their start are orphans. The link of their end comes first.
	if n := c.Total(1, vm.PID()); n.Successes < 10 || 10*n.Orphans > n.Successes || n.Lates > 0 {
		t.Errorf("slices: %+v", n)
	}
	checkNoOthers(t, c)
	if names, _ := c.Discovered(); len(names) != 0 {
		t.Errorf("discovered %v", names)
	}
}
