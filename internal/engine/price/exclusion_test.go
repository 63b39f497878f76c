package price

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/beamscope/beamscope/internal/engine/outcome"
)

// load returns the share of a user's VM in the cost.
func load(pid, user int, events uint64) outcome.Load {
	return outcome.Load{VM: outcome.VM{PID: pid}, User: user, Events: events}
}

// The VM that causes most of the cost is left out. If the VMs of one user together cause most of
// it, the most expensive one of them is left out.
func TestExclusion(t *testing.T) {
	for _, test := range []struct {
		name  string
		parts []outcome.Load
		want  *Exclusion
	}{
		{"the only one", []outcome.Load{load(1, 0, 1000)}, nil},
		{"none is known", nil, nil},
		{"two alike", []outcome.Load{load(1, 0, 500), load(2, 1001, 500)}, nil},
		{"two alike, not quite", []outcome.Load{load(1, 0, 600), load(2, 1001, 400)}, nil},
		{"one of two", []outcome.Load{load(1, 0, 100), load(2, 1001, 900)}, &Exclusion{VM: outcome.VM{PID: 2}, User: 1001, Share: .9, Others: true}},
		{"one of the same user", []outcome.Load{load(1, 0, 100), load(2, 0, 900)}, &Exclusion{VM: outcome.VM{PID: 2}, User: 0, Share: .9}},
		{"beside a quiet one", []outcome.Load{load(1, 0, 0), load(2, 1001, 1000)}, &Exclusion{VM: outcome.VM{PID: 2}, User: 1001, Share: 1, Others: true}},
		{"many of a user", []outcome.Load{load(1, 0, 300), load(2, 1001, 250), load(3, 1001, 240), load(4, 1001, 210)}, &Exclusion{VM: outcome.VM{PID: 2}, User: 1001, Share: .25, Others: true}},
		{"many of the only user", []outcome.Load{load(1, 0, 300), load(2, 0, 250), load(3, 0, 240), load(4, 0, 210)}, nil},
		{"most is of no VM", []outcome.Load{load(1, 0, 100), load(2, 1001, 100)}, nil},
	} {
		g := Guard{Limit: Limit{Rate: 1}, Patience: time.Second}
		why, got := g.Judge(outcome.Cost{Events: 1000}, test.parts, nil, time.Second)
		if diff := cmp.Diff(test.want, got); diff != "" || why == "" {
			t.Errorf("%s: %q, -want +got:\n%s", test.name, why, diff)
		}
	}
}

// A user whose processes cause most of the cost is left out if most of these processes have ended
// or are not VMs, but not if only that user's VMs are observed.
func TestLater(t *testing.T) {
	user := func(id int, events uint64) outcome.UserLoad { return outcome.UserLoad{User: id, Events: events} }
	victim := load(1, 0, 100)
	for _, test := range []struct {
		name  string
		parts []outcome.Load
		users []outcome.UserLoad
		want  *Exclusion
	}{
		{"all have ended", []outcome.Load{victim}, []outcome.UserLoad{user(0, 100), user(1001, 900)}, &Exclusion{User: 1001, Share: .9, Later: true}},
		{"some still run", []outcome.Load{victim, load(2, 1001, 200)}, []outcome.UserLoad{user(0, 100), user(1001, 900)}, &Exclusion{User: 1001, Share: .9, Later: true}},
		{"one runs", []outcome.Load{victim, load(2, 1001, 800)}, []outcome.UserLoad{user(0, 100), user(1001, 900)}, &Exclusion{VM: outcome.VM{PID: 2}, User: 1001, Share: .8, Others: true}},
		{"no others are observed", []outcome.Load{load(2, 1001, 10)}, []outcome.UserLoad{user(1001, 1000)}, nil},
		{"two users", []outcome.Load{victim}, []outcome.UserLoad{user(1002, 450), user(1001, 450)}, nil},
		{"nobody knows whose", []outcome.Load{victim}, []outcome.UserLoad{user(0, 100), user(-1, 900)}, nil},
	} {
		g := Guard{Limit: Limit{Rate: 1}, Patience: time.Second}
		why, got := g.Judge(outcome.Cost{Events: 1000}, test.parts, test.users, time.Second)
		if diff := cmp.Diff(test.want, got); diff != "" || why == "" {
			t.Errorf("%s: %q, -want +got:\n%s", test.name, why, diff)
		}
	}
}

// VMs that run one after the other, each for a moment, are no VMs to leave out: the user's later VMs are.
func TestOneAfterTheOther(t *testing.T) {
	g := Guard{Limit: Limit{Rate: 1}, Patience: 3 * time.Second}
	users := []outcome.UserLoad{{User: 1001, Events: 900}}
	var got *Exclusion
	for pid := range 3 {
		_, got = g.Judge(outcome.Cost{Events: 1000}, []outcome.Load{load(1, 0, 100), load(2+pid, 1001, 900)}, users, time.Second)
	}
	if diff := cmp.Diff(&Exclusion{User: 1001, Share: .9, Later: true}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A VM that costs less than a third of the limit is never left out because of another user's VMs,
// in any sequence of windows.
func TestVMsOfOtherUsersAreNotLeftOut(t *testing.T) {
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
			if _, exclude := g.Judge(outcome.Cost{Events: all}, parts, nil, time.Second); exclude != nil && exclude.VM.PID == 1 {
				t.Fatalf("%+v, with parts %+v", exclude, parts)
			} else if exclude == nil && g.above == 0 && float64(all) > limit {
				t.Fatalf("an outcome would be given up for all VMs because of %+v", parts)
			}
		}
	})
}

// One window with a high cost does not decide which VM to blame.
func TestBriefPeak(t *testing.T) {
	g := Guard{Limit: Limit{Rate: 100}, Patience: 3 * time.Second}
	for _, parts := range [][]outcome.Load{
		{load(1, 0, 90), load(2, 1001, 5000)},
		{load(1, 0, 90), load(2, 1001, 5000)},
	} {
		if why, _ := g.Judge(outcome.Cost{Events: parts[0].Events + parts[1].Events}, parts, nil, time.Second); why != "" {
			t.Fatal("too early: ", why)
		}
	}
	_, exclude := g.Judge(outcome.Cost{Events: 101}, []outcome.Load{load(1, 0, 90), load(2, 1001, 11)}, nil, time.Second)
	if exclude == nil || exclude.VM.PID != 2 {
		t.Errorf("%+v, want pid 2", exclude)
	}
}

// The remaining cost of a VM that is left out has no effect on the other VMs.
func TestLeftOutAlready(t *testing.T) {
	left := load(2, 1001, 60_000)
	left.Left = true
	g := Guard{Limit: Limit{Rate: 5000}, Patience: time.Second}
	for _, test := range []struct {
		name string
		rest uint64 // events of the other VM
		want *Exclusion
	}{
		{"below the limit", 4000, nil},
		{"another one costs too much", 14_000, &Exclusion{VM: outcome.VM{PID: 3}, Share: .993}},
	} {
		parts := []outcome.Load{load(1, 0, 100), left, load(3, 0, test.rest)}
		users := []outcome.UserLoad{{User: 0, Events: 100 + test.rest}, {User: 1001, Events: 60_000}}
		why, exclude := g.Judge(outcome.Cost{Events: 60_100 + test.rest}, parts, users, time.Second)
		round := cmp.Transformer("Share", func(l Exclusion) string { return fmt.Sprintf("%v %d %.3f", l.VM, l.User, l.Share) })
		if diff := cmp.Diff(test.want, exclude, round); diff != "" || (why == "") != (test.want == nil) {
			t.Errorf("%s: %q, -want +got:\n%s", test.name, why, diff)
		}
	}
}
