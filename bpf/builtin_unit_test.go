package bpf_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// These tests compare the built-in outcomes with the measurements of programs in the same run, with
// vm_load. If the VM's sources show that one of the two intervals lies within the other, the tests
// assert that for every instance, because it holds on a busy machine too.

// oneClock makes the VM's monotonic time equal to the operating system's, except for its zero. By
// default the VM adjusts its time to the rate of wall time, and delays on the two clocks differ.
func oneClock(args ...string) erlang.Options {
	return erlang.Options{Carrier: erlang.Probes, Args: append([]string{"+C", "multi_time_warp"}, args...)}
}

// onBoth runs a test on a VM with probes, and on VMs with stand-in functions.
func onBoth(t *testing.T, test func(t *testing.T, otp erlang.OTP)) {
	t.Run("probes", func(t *testing.T) { test(t, vmtest.Private(t)) })
	onStock(t, test)
}

// onStock runs a test on each VM with stand-in functions.
func onStock(t *testing.T, test func(t *testing.T, otp erlang.OTP)) {
	for _, release := range vmtest.StockReleases() {
		t.Run(fmt.Sprintf("stock %d", release), func(t *testing.T) { test(t, vmtest.Stock(t, release)) })
	}
}

// onRebuilt is onStock, also with builds that are recognised by their code.
func onRebuilt(t *testing.T, test func(t *testing.T, otp erlang.OTP)) {
	onStock(t, test)
	for _, release := range vmtest.StockReleases() {
		t.Run(fmt.Sprintf("rebuilt %d", release), func(t *testing.T) { test(t, vmtest.Rebuilt(t, release)) })
	}
}

// An interval is a part of a program's run, by its own clock.
type interval struct{ from, to int64 }

func (i interval) length() int64 { return i.to - i.from }

// An answer is the result of a function of vm_load: numbers that are taken one by one, in order.
type answer struct {
	t    testing.TB
	left []int64
}

func newAnswer(t testing.TB, term string) *answer {
	t.Helper()
	return &answer{t, vmtest.Integers(t, term)}
}

// load calls a function of vm_load while the collector reads.
func vmLoad(t testing.TB, c *vmtest.Collector, vm *erlang.VM, function, args string) *answer {
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

// process takes a pid, in the form of [bpf.Instance].
func (a *answer) process() uint64 {
	node, number, serial := a.number(), a.number(), a.number()
	return uint64(number | serial<<32 | node<<48)
}

func (a *answer) interval() interval { return interval{a.number(), a.number()} }

// intervals takes n intervals.
func (a *answer) intervals(n int) []interval {
	all := make([]interval, n)
	for i := range all {
		all[i] = a.interval()
	}
	return all
}

// collected collects outcomes of a VM, and streams all of their instances. The windows are long
// because the machine may be busy, and counts that are read too late are lost.
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

// within checks that every instance lies in the interval that the program measured for it, and
// returns the differences of their lengths.
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
func nothingLost(t testing.TB, c *vmtest.Collector, outcome int, vm *erlang.VM) {
	t.Helper()
	n := c.Total(outcome, vm.PID())
	if lost := n.ReadErrors + n.MapFull + n.RingFull + n.Cut; lost > 0 || n.Stray != (bpf.Counters{}) {
		t.Errorf("lost: %+v", n)
	}
}
