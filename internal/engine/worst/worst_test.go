package worst_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/worst"
	"github.com/beamscope/beamscope/internal/explain/trace"
)

// explained returns an instance with a duration and a trace.
func explained(name string, id uint64, status outcome.Status, took int64) outcome.Instance {
	root := trace.Span{Parent: -1, End: took, Process: 1}
	running := trace.Span{Kind: trace.Running, End: took, Process: 1}
	return outcome.Instance{Outcome: name, ID: id, Status: status, End: took, Trace: &trace.Trace{Spans: []trace.Span{root, running}}}
}

func wall(ns int64) time.Time { return time.Unix(0, ns) }

func ids(k *worst.Keeper) []uint64 {
	var ids []uint64
	for _, i := range k.Instances() {
		ids = append(ids, i.ID)
	}
	return ids
}

func TestKeeper(t *testing.T) {
	windows := [][]outcome.Instance{
		{explained("a", 1, outcome.Success, 10), explained("b", 2, outcome.Success, 30), {Outcome: "a", ID: 3, Status: outcome.Timeout}},
		{explained("a", 4, outcome.Success, 20), explained("a", 5, outcome.Failure, 5)},
	}
	for _, test := range []struct {
		keeper worst.Keeper
		want   []uint64
		totals map[string]time.Duration
	}{
		{worst.Keeper{N: 3}, []uint64{5, 2, 4}, map[string]time.Duration{"a": 35, "b": 30}},
		{worst.Keeper{N: 3, Outcome: "a"}, []uint64{5, 4, 1}, map[string]time.Duration{"a": 35}},
		{worst.Keeper{N: 3, ID: 2}, []uint64{2}, map[string]time.Duration{"b": 30}},
		{worst.Keeper{N: 3, ID: 3}, nil, map[string]time.Duration{}},
	} {
		k := test.keeper
		for _, w := range windows {
			k.Add(w, wall)
		}
		if diff := cmp.Diff(test.want, ids(&k)); diff != "" {
			t.Errorf("%v: %s", test.keeper, diff)
		}
		totals := make(map[string]time.Duration)
		for _, x := range k.Totals() {
			totals[x.Outcome] = x.Total
		}
		if diff := cmp.Diff(test.totals, totals); diff != "" {
			t.Errorf("%v: %s", test.keeper, diff)
		}
		if !k.Explained() {
			t.Error("nothing was explained")
		}
	}
	k := worst.Keeper{N: 1}
	k.Add([]outcome.Instance{{ID: 1}}, wall)
	if k.Explained() || len(k.Instances()) != 0 {
		t.Error("an instance without a trace is kept")
	}
}

// The processes of different VMs are kept apart.
func TestTotalsOfVMs(t *testing.T) {
	k := worst.Keeper{N: 3}
	for n, pid := range []int{7, 8, 7} {
		i := explained("a", uint64(n), outcome.Success, 10)
		i.VM.PID = pid
		i.Trace.Spans[1].Process = 2 // in the VM without a name
		k.Add([]outcome.Instance{i}, wall)
	}
	totals := k.Totals()
	if len(totals) != 2 {
		t.Fatalf("%d totals", len(totals))
	}
	for n, want := range []struct {
		pid   int
		total time.Duration
	}{{7, 20}, {8, 10}} {
		shares, _ := totals[n].Shares()
		if got := totals[n]; got.Outcome != "a" || got.VM.PID != want.pid || got.Total != want.total || len(shares) != 1 || shares[0].Time != want.total {
			t.Errorf("total %d: %+v, shares %+v", n, *got, shares)
		}
	}
}

// The number of totals is bounded, however many outcomes and VMs there are.
func TestManyTotals(t *testing.T) {
	k := worst.Keeper{N: 3}
	const more = 5
	for n := range worst.MaxTotals + more {
		i := explained("a", 1, outcome.Success, 10)
		i.VM.PID = n + 1
		k.Add([]outcome.Instance{i, i}, wall)
	}
	if n := len(k.Totals()); n != worst.MaxTotals || k.Further() != 2*more {
		t.Errorf("%d totals, and %d further instances", n, k.Further())
	}
	if last := k.Totals()[worst.MaxTotals-1]; last.VM.PID != worst.MaxTotals || last.Instances != 2 {
		t.Errorf("the last total is %+v", *last)
	}
}

// An instance that took longer than a dMax that beamscope chose is only slow.
func TestKeeperOfFitted(t *testing.T) {
	k := worst.Keeper{N: 4, Fitted: func(name string) bool { return name == "a" }}
	k.Add([]outcome.Instance{
		explained("a", 1, outcome.Timeout, 30), explained("b", 2, outcome.Timeout, 10), explained("a", 3, outcome.Failure, 5),
		explained("b", 4, outcome.Success, 40), explained("a", 5, outcome.Success, 20),
	}, wall)
	if diff := cmp.Diff([]uint64{2, 3, 4, 1}, ids(&k)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]bool{false, true, false, true}, []bool{k.Instances()[0].Fitted, k.Instances()[1].Fitted, k.Instances()[2].Fitted, k.Instances()[3].Fitted}); diff != "" {
		t.Error(diff)
	}
}
