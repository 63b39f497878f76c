package vmsource

import (
	"cmp"
	"slices"
	"testing"

	"github.com/beamscope/beamscope/internal/engine/outcome"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/beamscope/beamscope/bpf"
)

// Each loss that the kernel counts occurs exactly once in the loss of a window. This includes
// losses in the window itself, and losses of instances whose window had no room.
func TestLossOfKernelCounts(t *testing.T) {
	got := fromKernel(bpf.Counts{
		PID:      7,
		Counters: bpf.Counters{Starts: 1, Ends: 2, Successes: 3, Failures: 4, Timeouts: 5, Orphans: 6, Lates: 7, ReadErrors: 8, MapFull: 9, RingFull: 10, Cut: 11, ExitsLost: 12},
		Stray:    bpf.Counters{Starts: 100, Ends: 200, Successes: 300, Failures: 400, Timeouts: 500, Orphans: 600, Lates: 700, ReadErrors: 800, MapFull: 900, RingFull: 1000, Cut: 1100, ExitsLost: 1200},
	})
	want := outcome.Counts{
		Starts: 1, Ends: 2, Successes: 3, Failures: 4, Timeouts: 5, Orphans: 6, Lates: 7, Unstreamed: 1010,
		Loss: outcome.Loss{Unreadable: 808, NoRoom: 909, Missed: 1200, Cut: 1111, Exits: 1212},
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// The candidates come in any order. A batch contains the worst ones of each outcome and VM whose
// spec requests the worst, all instances of an outcome whose spec requests all, and none of
// others. They are sorted by end.
func TestInstancesOfBatch(t *testing.T) {
	details := []outcome.Detail{outcome.CountsOnly, outcome.Worst, outcome.Everything}
	st := &stage{index: map[int]int{4: 0, 2: 1, 7: 2}}
	for i, d := range details {
		st.specs = append(st.specs, outcome.Spec{Name: string(rune('a' + i)), Detail: d})
	}
	rapid.Check(t, func(t *rapid.T) {
		instance := rapid.Custom(func(t *rapid.T) bpf.Instance {
			return bpf.Instance{
				Outcome: rapid.SampledFrom([]int{4, 2, 7, 9}).Draw(t, "outcome"),
				PID:     rapid.IntRange(1, 2).Draw(t, "pid"),
				Status:  rapid.SampledFrom([]bpf.Status{bpf.Success, bpf.Failure, bpf.Timeout}).Draw(t, "status"),
				Start:   rapid.Int64Range(0, 9).Draw(t, "start"),
				End:     rapid.Int64Range(10, 19).Draw(t, "end"),
			}
		})
		all := rapid.SliceOfN(instance, 0, 150).Draw(t, "all")
		for i := range all {
			all[i].ID = uint64(i)
		}
		var a assembly
		a.list(map[int]*observedVM{1: {id: outcome.VM{PID: 1}}, 2: {id: outcome.VM{PID: 2}}}, nil)
		a.addInstances(st, slices.Clone(all))

		if !slices.IsSortedFunc(a.instances, func(i, j outcome.Instance) int { return cmp.Compare(i.End, j.End) }) {
			t.Fatalf("not in order: %+v", a.instances)
		}
		type group struct{ outcome, pid int }
		there, got := make(map[group][]int64), make(map[group][]int64)
		rank := func(s outcome.Status, elapsed int64) int64 { return int64(s)*100 + elapsed }
		for _, i := range all {
			g := group{i.Outcome, i.PID}
			there[g] = append(there[g], rank(outcome.Status(i.Status), i.End-i.Start))
		}
		for _, i := range a.instances {
			number := map[string]int{"a": 4, "b": 2, "c": 7}[i.Outcome]
			got[group{number, i.VM.PID}] = append(got[group{number, i.VM.PID}], rank(i.Status, int64(i.Elapsed())))
		}
		want := make(map[group][]int64)
		for g, ranks := range there {
			slices.Sort(ranks)
			switch g.outcome {
			case 2:
				want[g] = ranks[max(0, len(ranks)-outcome.MaxWorst):]
			case 7:
				want[g] = ranks
			}
		}
		for _, ranks := range got {
			slices.Sort(ranks)
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Fatalf("ranks, -want +got:\n%s", diff)
		}
	})
}

// A VM without a slot is unobserved. If all VMs had slots, a VM without counts had no instances.
func TestVMWithoutRoomIsUnobserved(t *testing.T) {
	st := &stage{specs: []outcome.Spec{{Name: "a", Bins: 2}}, index: map[int]int{4: 0}}
	vms := map[int]*observedVM{7: {id: outcome.VM{PID: 7}}, 8: {id: outcome.VM{PID: 8}}}
	own := bpf.Counts{Outcome: 4, PID: 7, Counters: bpf.Counters{Starts: 1, Ends: 1, Successes: 1}, Bins: []uint64{1, 0}}
	for _, tt := range []struct {
		read []bpf.Counts
		want map[int]bool
	}{
		{[]bpf.Counts{own}, map[int]bool{7: false, 8: false}},
		{[]bpf.Counts{own, {Outcome: 4, PID: 0}}, map[int]bool{7: false, 8: true}},
		{[]bpf.Counts{own, {Outcome: 4, PID: 0, Counters: bpf.Counters{Ends: 3, Successes: 3}}}, map[int]bool{0: false, 7: false, 8: true}},
	} {
		var a assembly
		a.list(vms, tt.read)
		a.addCounts(st, tt.read)
		got := make(map[int]bool)
		for _, c := range a.counts {
			got[c.VM.PID] = c.Unobserved
		}
		if diff := gocmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%v: unobserved, -want +got:\n%s", tt.read, diff)
		}
	}
}

// There are slots for all current VMs and for some later ones, up to the limit.
func TestSlots(t *testing.T) {
	for vms, want := range map[int]int{0: 8, 1: 8, 5: 8, 6: 9, 10: 15, 12: 18, 40: 60, 43: 64, 64: 64, 4000: 64} {
		if got := slotsFor(vms); got != want {
			t.Errorf("%d slots for %d VMs, want %d", got, vms, want)
		}
	}
}
