package bpf_test

import (
	"fmt"
	"testing"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// A collection is a garbage collection as reported by erlang:trace.
type collection struct {
	interval
	major bool
	words uint64
}

// collections takes all remaining ones.
func (a *answer) collections() []collection {
	var all []collection
	for len(a.left) > 0 {
		major := a.number() == 2
		all = append(all, collection{a.interval(), major, uint64(a.number())})
	}
	return all
}

// Garbage collections equal those of erlang:trace exactly in number, kind and words. Each lies
// within the trace's times, because the VM fires its probes between the two messages of the trace.
// Stand-in functions are at the same places.
func TestCollectionsAgainstTrace(t *testing.T) { onBoth(t, collectionsAgainstTrace) }

func collectionsAgainstTrace(t *testing.T, otp erlang.OTP) {
	vm := vmtest.StartOn(t, otp, oneClock())
	names := []string{"gc", "gc-minor", "gc-major"}
	var outcomes []bpf.Outcome
	for _, name := range names {
		outcomes = append(outcomes, builtin(t, name, bpf.GroupByPID))
	}
	c, streamed := collected(t, vm, outcomes...)
	const small = 200
	a := vmLoad(t, c, vm, "collections", "[300]")
	calls := vmLoad(t, c, vm, "small_collections", fmt.Sprintf("[%d]", small)).intervals(small)
	instances := streamed()

	process := a.process()
	count, words := uint64(a.number()), uint64(a.number())
	traced := a.collections()
	for i, name := range names {
		nothingLost(t, c, i, vm)
		var theirs []interval
		var reclaimed uint64
		for _, g := range traced {
			if name == "gc" || g.major == (name == "gc-major") {
				theirs = append(theirs, g.interval)
				reclaimed += g.words
			}
		}
		got := groupsOf(c, i)[process]
		if got.Successes != uint64(len(theirs)) || got.Timeouts != 0 || got.Amount != reclaimed {
			t.Errorf("%s: %d instances, %d timeouts, %d words; trace: %d, 0, %d", name, got.Successes, got.Timeouts, got.Amount, len(theirs), reclaimed)
		}
		checkCostOfTrace(t, name, instancesOf(instances, i, process), theirs, calls)
	}
	compareStatistics(t, c.Total(0, vm.PID()), traced, count, words)
}

// checkCostOfTrace checks that the trace adds only its own cost to a collection of any size: at
// most the program's wait for a small collection. That wait includes the same trace messages and
// probe hits, and also the call and the collection. It compares medians, because the operating
// system may interrupt any single collection.
func checkCostOfTrace(t *testing.T, name string, own []bpf.Instance, theirs, calls []interval) {
	t.Helper()
	shorter := within(t, own, theirs)
	of := make([]int64, len(calls))
	for i, call := range calls {
		of[i] = call.length()
	}
	t.Logf("%s: %d instances, %d ns together, %d ns by the trace; median of the difference %d ns, of a small collection %d ns",
		name, len(own), sum(lengths(own)), sum(lengths(own))+sum(shorter), median(shorter), median(of))
	if median(shorter) > median(of) {
		t.Errorf("%s: the trace takes %d ns longer, and a whole small collection %d ns", name, median(shorter), median(of))
	}
}

// compareStatistics compares with statistics(garbage_collection) of the whole VM, which was read
// before and after the traced part, within the observation. A minor collection without room does
// nothing, and the statistics count it together with the major one that replaces it. The trace and
// the outcomes have both.
func compareStatistics(t *testing.T, all vmtest.Total, traced []collection, count, words uint64) {
	t.Helper()
	var reclaimed, replaced uint64
	for i, g := range traced {
		reclaimed += g.words
		if i > 0 && g.major && !traced[i-1].major && traced[i-1].words == 0 {
			replaced++
		}
	}
	t.Logf("statistics: %d collections, %d words; trace: %d, at most %d of them replaced, %d; observed: %d, %d",
		count, words, len(traced), replaced, reclaimed, all.Successes, all.Amount)
	if replaced == 0 || count < uint64(len(traced))-replaced || count > all.Successes {
		t.Errorf("%d collections are not between %d and %d", count, uint64(len(traced))-replaced, all.Successes)
	}
	if words < reclaimed || words > all.Amount {
		t.Errorf("%d words are not between %d and %d", words, reclaimed, all.Amount)
	}
}
