package scope_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
)

// delays returns n successes at each of these delays.
func delays(n uint32, at ...time.Duration) outcome.Delays {
	d := make(outcome.Delays, outcome.DelayBuckets)
	for _, t := range at {
		d[outcome.Bucket(t)] += n
	}
	return d
}

// The first groups are unchanged. The others are summed, together with those that had no room at
// the source.
func TestTopGroups(t *testing.T) {
	groups := []outcome.Group{
		{Key: "a", Successes: 9, Total: 90, Delays: delays(9, 10)},
		{Key: "b", Successes: 3, Failures: 1, Total: 30, Amount: 5, Delays: delays(3, 10)},
		{Key: "c", Name: "x", Process: 7, Successes: 1, Timeouts: 2, Total: 20, Amount: 2, Delays: delays(1, 20)},
		{Successes: 4, Total: 4, Delays: delays(4, 1)},
	}
	before := groups[1].Delays[outcome.Bucket(10)]
	for _, tt := range []struct {
		k, others int
		rest      outcome.Group
	}{
		{9, 1, outcome.Group{Successes: 4, Total: 4, Delays: delays(4, 1)}},
		{3, 1, outcome.Group{Successes: 4, Total: 4, Delays: delays(4, 1)}},
		{1, 3, outcome.Group{Successes: 8, Failures: 1, Timeouts: 2, Total: 54, Amount: 7, Delays: func() outcome.Delays {
			d := delays(3, 10)
			d.Add(delays(1, 20))
			d.Add(delays(4, 1))
			return d
		}()}},
	} {
		top, rest, others := scope.TopGroups(groups, tt.k)
		if diff := cmp.Diff(groups[:min(tt.k, 3)], top); diff != "" || others != tt.others {
			t.Errorf("%d: %d others, -want +got:\n%s", tt.k, others, diff)
		}
		if diff := cmp.Diff(tt.rest, rest); diff != "" {
			t.Errorf("%d: the rest, -want +got:\n%s", tt.k, diff)
		}
	}
	if _, _, others := scope.TopGroups(groups[:2], 2); others != 0 {
		t.Errorf("%d others without groups", others)
	}
	if groups[1].Delays[outcome.Bucket(10)] != before {
		t.Error("a group of the frame has changed")
	}
}

// A quantile covers all instances. Failures and timeouts have no delay.
func TestGroupQuantile(t *testing.T) {
	g := outcome.Group{Successes: 3, Timeouts: 1, Delays: delays(1, 1*time.Microsecond, 2*time.Microsecond, 3*time.Microsecond)}
	for p, want := range map[float64]time.Duration{0.25: time.Microsecond, 0.5: 2 * time.Microsecond, 0.75: 3 * time.Microsecond, 0.76: 0, 0.99: 0} {
		within, ok := scope.GroupQuantile(&g, p, time.Hour)
		if ok != (want != 0) || ok && !(within.Lo <= want && want < within.Hi) {
			t.Errorf("%g: %v %v, want %v", p, within, ok, want)
		}
	}
	if within, _ := scope.GroupQuantile(&g, 0.75, 3*time.Microsecond); within.Hi != 3*time.Microsecond {
		t.Errorf("%v, where nothing takes more than 3 µs", within)
	}
	if within, ok := scope.GroupQuantile(&outcome.Group{Timeouts: 3}, 0.5, time.Hour); ok {
		t.Errorf("%v without instances", within)
	}
}

// A quantile lies between its bounds for any delays.
func TestGroupQuantileBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "delay"))
		}), 1, 50).Draw(t, "delays")
		failures := rapid.Uint64Range(0, 20).Draw(t, "failures")
		p := rapid.SampledFrom(scope.Quantiles()).Draw(t, "p")
		g := outcome.Group{Successes: uint64(len(at)), Failures: failures, Delays: delays(1, at...)}
		within, ok := scope.GroupQuantile(&g, p, time.Hour)
		exact, exactOK := quantileOf(at, failures, p)
		if ok != exactOK || ok && !(within.Lo <= exact && exact <= within.Hi) {
			t.Errorf("%v %v, want %v %v", within, ok, exact, exactOK)
		}
	})
}

// quantileOf returns the least delay within which a share p of all instances ended.
func quantileOf(at []time.Duration, failures uint64, p float64) (time.Duration, bool) {
	for _, t := range slices.Sorted(slices.Values(at)) {
		n := 0
		for _, u := range at {
			if u <= t {
				n++
			}
		}
		if float64(n)/float64(uint64(len(at))+failures) >= p-dq.Tolerance {
			return t, true
		}
	}
	return 0, false
}

// A change of the grouping does not change what is observed.
func TestAnotherGroup(t *testing.T) {
	gc := outcome.Spec{Name: "gc", VM: outcome.Events{Builtin: "gc"}, BinWidth: ms, Bins: 2}
	p := newPlay(t, system(t, "", gc))
	p.step(counts("gc", 1, 1))
	gc.Group = outcome.GroupPID
	if err := p.engine.Configure(system(t, "", gc)); err != nil {
		t.Fatal(err)
	}
	f := p.step(counts("gc", 1, 1))
	if row := outcomeOf(t, f, "gc"); row.Mean.Windows != 2 || len(f.Notices) > 0 || row.Spec.Group != outcome.GroupPID {
		t.Errorf("a mean of %d windows, grouped by %s; %v", row.Mean.Windows, row.Spec.Group, f.NoticeTexts())
	}
	gc.VM.Builtin = "gc-minor"
	if err := p.engine.Configure(system(t, "", gc)); err != nil {
		t.Fatal(err)
	}
	if f := p.step(counts("gc", 1, 1)); outcomeOf(t, f, "gc").Mean.Windows != 1 || len(f.Notices) != 1 {
		t.Errorf("other events: %+v", f.NoticeTexts())
	}
}
