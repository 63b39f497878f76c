package price

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/beamscope/beamscope/internal/outcome"
)

// load is the part of a VM of a user in the cost.
func load(pid, user int, events uint64) outcome.Load {
	return outcome.Load{VM: outcome.VM{PID: pid}, User: user, Events: events}
}

// The VM is left out that most of the cost is of, or the dearest one of the user whose VMs
// most of it is of.
func TestLoudest(t *testing.T) {
	for _, test := range []struct {
		name  string
		parts []outcome.Load
		want  *Loud
	}{
		{"the only one", []outcome.Load{load(1, 0, 1000)}, nil},
		{"none is known", nil, nil},
		{"two alike", []outcome.Load{load(1, 0, 500), load(2, 1001, 500)}, nil},
		{"two alike, not quite", []outcome.Load{load(1, 0, 600), load(2, 1001, 400)}, nil},
		{"one of two", []outcome.Load{load(1, 0, 100), load(2, 1001, 900)}, &Loud{outcome.VM{PID: 2}, 1001, .9}},
		{"one of the same user", []outcome.Load{load(1, 0, 100), load(2, 0, 900)}, &Loud{outcome.VM{PID: 2}, 0, .9}},
		{"beside a quiet one", []outcome.Load{load(1, 0, 0), load(2, 1001, 1000)}, &Loud{outcome.VM{PID: 2}, 1001, 1}},
		{"many of a user", []outcome.Load{load(1, 0, 300), load(2, 1001, 250), load(3, 1001, 240), load(4, 1001, 210)}, &Loud{outcome.VM{PID: 2}, 1001, .25}},
		{"many of the only user", []outcome.Load{load(1, 0, 300), load(2, 0, 250), load(3, 0, 240), load(4, 0, 210)}, nil},
		{"most is of no VM", []outcome.Load{load(1, 0, 100), load(2, 1001, 100)}, nil},
	} {
		g := Guard{Limit: Limit{Rate: 1}, Patience: time.Second}
		why, got := g.Judge(outcome.Cost{Events: 1000}, test.parts, time.Second)
		if diff := cmp.Diff(test.want, got); diff != "" || why == "" {
			t.Errorf("%s: %q, -want +got:\n%s", test.name, why, diff)
		}
	}
}

// A VM that costs less than a third of the limit is never left out for what the VMs of another
// user do, from window to window.
func TestNobodyLeavesOutAnother(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const limit = 3000.
		g := Guard{Limit: Limit{Rate: limit}, Patience: 3 * time.Second}
		for range rapid.IntRange(1, 20).Draw(t, "windows") {
			parts := []outcome.Load{load(1, 0, rapid.Uint64Range(0, limit/3-1).Draw(t, "events"))}
			for pid := range rapid.IntRange(0, 5).Draw(t, "others") {
				parts = append(parts, load(2+pid, 1001, rapid.Uint64Range(0, 2*limit).Draw(t, "events of another")))
			}
			var all uint64
			for _, p := range parts {
				all += p.Events
			}
			if _, loud := g.Judge(outcome.Cost{Events: all}, parts, time.Second); loud != nil && loud.VM.PID == 1 {
				t.Fatalf("%+v, with parts %+v", loud, parts)
			} else if loud == nil && g.above == 0 && float64(all) > limit {
				t.Fatalf("all would give up something for %+v", parts)
			}
		}
	})
}

// One loud window does not decide who was loud.
func TestLoudForAMoment(t *testing.T) {
	g := Guard{Limit: Limit{Rate: 100}, Patience: 3 * time.Second}
	for _, parts := range [][]outcome.Load{
		{load(1, 0, 90), load(2, 1001, 5000)},
		{load(1, 0, 90), load(2, 1001, 5000)},
	} {
		if why, _ := g.Judge(outcome.Cost{Events: parts[0].Events + parts[1].Events}, parts, time.Second); why != "" {
			t.Fatal("too early: ", why)
		}
	}
	_, loud := g.Judge(outcome.Cost{Events: 101}, []outcome.Load{load(1, 0, 90), load(2, 1001, 11)}, time.Second)
	if loud == nil || loud.VM.PID != 2 {
		t.Errorf("%+v, want pid 2", loud)
	}
}
