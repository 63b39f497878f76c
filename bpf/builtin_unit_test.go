package bpf_test

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/vmtest"
)

// What the built-in outcomes measure is compared here with what programs measure
// themselves in the same run, with vm_load. Where one of the two lies within the other,
// and the sources of the VM say which, that is asserted of every instance: it holds
// however busy the machine is.

// oneClock has the VM's monotonic time be that of the operating system, with another
// zero: as a rule it is adjusted to run as fast as the wall time, and delays of the two
// are not the same.
func oneClock(args ...string) erlang.Options {
	return erlang.Options{Args: append([]string{"+C", "multi_time_warp"}, args...)}
}

// An interval is a part of what a program did, by its own clock.
type interval struct{ from, to int64 }

func (i interval) length() int64 { return i.to - i.from }

// An answer is what a function of vm_load returned: numbers, that are taken off it one by
// one, in their order.
type answer struct {
	t    *testing.T
	left []int64
}

func newAnswer(t *testing.T, term string) *answer {
	t.Helper()
	return &answer{t, vmtest.Integers(t, term)}
}

// load calls a function of vm_load while the collector reads.
func vmLoad(t *testing.T, c *vmtest.Collector, vm *erlang.VM, function, args string) *answer {
	t.Helper()
	return newAnswer(t, c.Call(vm, "vm_load", function, args))
}

func (a *answer) number() int64 {
	a.t.Helper()
	if len(a.left) == 0 {
		a.t.Fatal("vm_load returned less than was expected")
	}
	n := a.left[0]
	a.left = a.left[1:]
	return n
}

// process takes off a pid: as [bpf.Instance] has it.
func (a *answer) process() uint64 {
	node, number, serial := a.number(), a.number(), a.number()
	return uint64(number | serial<<32 | node<<48)
}

func (a *answer) interval() interval { return interval{a.number(), a.number()} }

// intervals takes off n of them.
func (a *answer) intervals(n int) []interval {
	all := make([]interval, n)
	for i := range all {
		all[i] = a.interval()
	}
	return all
}

// collected collects outcomes of a VM, and streams all of their instances. The windows are
// long, as the machine may be busy: what is read too late is lost.
func collected(t *testing.T, vm *erlang.VM, outcomes ...bpf.Outcome) (*vmtest.Collector, func() []bpf.Instance) {
	t.Helper()
	for i := range outcomes {
		outcomes[i].Stream = bpf.StreamAll
	}
	c := vmtest.NewCollector(t, bpf.Options{Outcomes: outcomes, Window: int64(time.Second / 2), RingBytes: 1 << 24})
	c.Observe(vm)
	if err := c.ObserveThreads(vm.PID()); err != nil {
		t.Fatal(err)
	}
	return c, c.Streamed()
}

// chosen returns some of the instances, in the order of their starts.
func chosen(all []bpf.Instance, want func(bpf.Instance) bool) []bpf.Instance {
	some := slices.DeleteFunc(slices.Clone(all), func(i bpf.Instance) bool { return !want(i) })
	slices.SortFunc(some, func(a, b bpf.Instance) int { return cmp.Compare(a.Start, b.Start) })
	return some
}

// instancesOf returns the instances of an outcome and a process.
func instancesOf(all []bpf.Instance, outcome int, process uint64) []bpf.Instance {
	return chosen(all, func(i bpf.Instance) bool { return i.Outcome == outcome && i.Process == process })
}

func lengths(instances []bpf.Instance) []int64 {
	all := make([]int64, len(instances))
	for i, x := range instances {
		all[i] = x.End - x.Start
	}
	return all
}

func sum(values []int64) (total int64) {
	for _, v := range values {
		total += v
	}
	return total
}

func median(values []int64) int64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// within checks that every instance is in the interval that the program measured of it,
// as long as it at most, and returns by how much it is shorter.
func within(t *testing.T, instances []bpf.Instance, theirs []interval) []int64 {
	t.Helper()
	if len(instances) != len(theirs) {
		t.Fatalf("%d instances, and the program measured %d", len(instances), len(theirs))
	}
	shorter := make([]int64, len(theirs))
	for i, own := range lengths(instances) {
		shorter[i] = theirs[i].length() - own
		if shorter[i] < 0 {
			t.Errorf("instance %d takes %d ns, and the whole of it %d", i, own, theirs[i].length())
		}
	}
	return shorter
}

// nothingLost checks that an outcome of a VM has no loss.
func nothingLost(t *testing.T, c *vmtest.Collector, outcome int, vm *erlang.VM) {
	t.Helper()
	n := c.Total(outcome, vm.PID())
	if lost := n.ReadErrors + n.MapFull + n.RingFull + n.Cut; lost > 0 || n.Stray != (bpf.Counters{}) {
		t.Errorf("lost: %+v", n)
	}
}
