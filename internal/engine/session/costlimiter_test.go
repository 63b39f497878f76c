package session

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/price"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/files/config"
	"github.com/beamscope/beamscope/internal/host/monotonic"
)

// counted returns an outcome with this number of events.
func counted(spec outcome.Spec, events uint64) scope.Outcome {
	return scope.Outcome{Name: spec.Name, Spec: spec, Counts: outcome.Counts{Outcome: spec.Name, Starts: events / 2, Ends: events - events/2}}
}

// The most expensive outcome is given up first. Outcomes in the diagram are kept, and so are
// discovered spans, which would cost the same without an outcome. The only outcome is not given
// up.
func TestMostExpensive(t *testing.T) {
	gc := config.Outcome{Name: "gc", VM: outcome.Events{Builtin: "gc"}}
	run := config.Outcome{Name: "run", VM: outcome.Events{Builtin: "run"}}
	a := config.Outcome{Name: "a", Span: "a"}
	frame := func(all uint64, events map[string]uint64, explain bool) *scope.Frame {
		f := &scope.Frame{Cost: outcome.Cost{Events: all}}
		for _, o := range []config.Outcome{gc, run, a} {
			if n, ok := events[o.Name]; ok {
				f.Outcomes = append(f.Outcomes, counted(outcome.Spec{Name: o.Name, Span: o.Span, VM: o.VM, Explain: explain && o.Span != ""}, n))
			}
		}
		return f
	}
	for _, test := range []struct {
		name     string
		outcomes []config.Outcome
		diagram  string
		discover bool
		frame    *scope.Frame
		want     *wish
	}{
		{"the outcome with the most events", []config.Outcome{gc, run}, "", false, frame(110, map[string]uint64{"gc": 10, "run": 100}, false), &wish{drop: "run"}},
		{"an outcome of the diagram is kept", []config.Outcome{gc, run}, "x = run -> y", false, frame(110, map[string]uint64{"gc": 10, "run": 100}, false), &wish{drop: "gc"}},
		{"spans", []config.Outcome{gc, a}, "", false, frame(110, map[string]uint64{"gc": 10, "a": 100}, false), &wish{drop: "a"}},
		{"discovered spans are kept", []config.Outcome{gc, a}, "", true, frame(110, map[string]uint64{"gc": 10, "a": 100}, false), &wish{drop: "gc"}},
		{"only discovered spans", []config.Outcome{a}, "", true, frame(100, map[string]uint64{"a": 100}, false), nil},
		{"the only outcome", []config.Outcome{run}, "", false, frame(100, map[string]uint64{"run": 100}, false), nil},
		{"explanations", []config.Outcome{gc, a}, "", false, frame(400, map[string]uint64{"gc": 10, "a": 100}, true), &wish{explain: true}},
		{"cheap explanations", []config.Outcome{gc, a}, "", false, frame(200, map[string]uint64{"gc": 10, "a": 100}, true), &wish{drop: "a"}},
	} {
		c := config.Default()
		c.Outcomes, c.Diagram = test.outcomes, test.diagram
		s := &Session{config: c}
		if test.discover {
			s.finder = newFinder(s, config.Config{})
		}
		got := newCostLimiter(s, price.Limit{}, nil).mostExpensive(test.frame)
		if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(wish{})); diff != "" {
			t.Errorf("%s: -want +got:\n%s", test.name, diff)
		}
	}
}

// Outcomes of the VM are added one after the other, while no spans are seen and the cost is low.
// Nothing is added or given up before the last change takes effect.
func TestAddsOutcomesOfVM(t *testing.T) {
	frame := func(events uint64) *scope.Frame {
		return &scope.Frame{Window: outcome.Window{To: int64(time.Second)}, Cost: outcome.Cost{Events: events, PerEvent: time.Microsecond},
			Outcomes: []scope.Outcome{counted(outcome.Spec{Name: "gc", VM: outcome.Events{Builtin: "gc"}}, events)}}
	}
	newLook := func() (*Session, *costLimiter) {
		s := &Session{config: config.Default()}
		s.finder = newFinder(s, config.Config{})
		return s, newCostLimiter(s, price.Limit{Share: 0.1}, []string{"run", "message"})
	}
	step := func(x *costLimiter, events uint64) string {
		t.Helper()
		if err := x.Framed(new(outcome.Batch), frame(events)); err != nil {
			t.Fatal(err)
		}
		if x.wish == nil {
			return ""
		}
		return x.wish.add
	}
	_, x := newLook()
	for range lookAfter - 1 {
		if got := step(x, 1000); got != "" {
			t.Errorf("added %s at once", got)
		}
	}
	if got := step(x, 1000); got != "run" {
		t.Errorf("added %q, want run", got)
	}
	x.wish, x.due = nil, x.epoch+1 // applied, and in force from a later window on
	for range 5 {
		if got := step(x, 1000); got != "" {
			t.Errorf("added %s before the last one shows", got)
		}
	}
	if err := x.Configured(nil, outcome.Plan{}); err != nil {
		t.Fatal(err)
	}
	step(x, 1000)
	if got := step(x, 1000); got != "message" {
		t.Errorf("added %q, want message", got)
	}

	_, x = newLook()
	step(x, 40_000)
	if got := step(x, 40_000); got != "" || len(x.look) != 0 || len(x.take()) != 1 {
		t.Errorf("added %q where it may cost too much", got)
	}

	s, x := newLook()
	s.finder.add([]outcome.Discovery{{Name: "checkout"}})
	step(x, 1000)
	if got := step(x, 1000); got != "" || len(x.look) != 0 {
		t.Errorf("added %q where there are spans", got)
	}
}

// A VM without a place is never observed. It delays the additions, and does not end them.
func TestAddsOutcomesBesideUnobservedVM(t *testing.T) {
	s := &Session{config: config.Default()}
	s.finder = newFinder(s, config.Config{})
	x := newCostLimiter(s, price.Limit{Share: 0.1}, []string{"run"})
	observed := counted(outcome.Spec{Name: "gc", VM: outcome.Events{Builtin: "gc"}}, 1000)
	unobserved := observed
	unobserved.Counts.Unobserved = true
	frame := &scope.Frame{
		Window: outcome.Window{To: int64(time.Second)}, Cost: outcome.Cost{Events: 1000, PerEvent: time.Microsecond},
		Outcomes: []scope.Outcome{observed, unobserved},
	}
	for n := 1; x.wish == nil; n++ {
		if err := x.Framed(new(outcome.Batch), frame); err != nil {
			t.Fatal(err)
		}
		if added := x.wish != nil; added != (n == unobservedMost+lookAfter) {
			t.Fatalf("window %d: an outcome is added: %t", n, added)
		}
	}
}

// A notice names the outcomes that are not added because of the cost.
func TestNotAdded(t *testing.T) {
	for _, test := range []struct {
		look []string
		want string
	}{
		{[]string{"message"}, "beamscope does not add message here, because it may cost too much: add it on the dashboard with A, or name it in a scope file"},
		{[]string{"run", "message"}, "beamscope does not add run and message here, because they may cost too much: add them on the dashboard with A, or name them in a scope file"},
		{[]string{"run", "hop", "message"}, "beamscope does not add run, hop and message here, because they may cost too much: add them on the dashboard with A, or name them in a scope file"},
	} {
		s := &Session{config: config.Default()}
		s.finder = newFinder(s, config.Config{})
		x := newCostLimiter(s, price.Limit{Share: 0.1}, test.look)
		x.addNext(&scope.Frame{Window: outcome.Window{To: int64(time.Second)}, Cost: outcome.Cost{Events: 90_000, PerEvent: time.Microsecond}})
		var got []string
		for _, n := range x.take() {
			got = append(got, n.Text)
		}
		if diff := cmp.Diff([]string{test.want}, got); diff != "" {
			t.Errorf("%q: -want +got:\n%s", test.look, diff)
		}
	}
}

// If nothing is left to give up, the run ends.
func TestTooExpensive(t *testing.T) {
	s := &Session{config: config.Default()}
	x := newCostLimiter(s, price.Limit{Share: 0.1}, nil)
	f := &scope.Frame{Window: outcome.Window{To: int64(time.Second)}, Cost: outcome.Cost{Events: 200_000, PerEvent: time.Microsecond}}
	for range 5 {
		if err := x.Framed(&outcome.Batch{Strangers: true}, f); err != nil {
			t.Fatalf("ended for a cost that is not that of VMs: %v", err)
		}
	}
	if err := x.Framed(new(outcome.Batch), f); err != nil {
		t.Fatalf("ended at once: %v", err)
	}
	if err := x.Framed(new(outcome.Batch), f); !errors.Is(err, ErrPrice) {
		t.Errorf("error %v, want %v", err, ErrPrice)
	}
}

// A fakeLeaver records the users whose later VMs it leaves out.
type fakeLeaver struct{ users []int }

func (l *fakeLeaver) LeaveOut(outcome.VM) (time.Duration, bool, error) {
	return 0, false, outcome.ErrNotLeft
}

func (l *fakeLeaver) LeaveOutLater(user int) (time.Duration, error) {
	if slices.Contains(l.users, user) {
		return 0, outcome.ErrNotLeft
	}
	l.users = append(l.users, user)
	return time.Minute, nil
}

// afterLeavingOut returns a limiter that has left out the later VMs of user 1001, and a frame that costs too much.
func afterLeavingOut(t *testing.T) (*costLimiter, *fakeLeaver, *scope.Frame) {
	t.Helper()
	s := &Session{config: config.Default()}
	x, leaver := newCostLimiter(s, price.Limit{Share: 0.1}, nil), new(fakeLeaver)
	x.leaver = leaver
	f := &scope.Frame{
		Window: outcome.Window{To: int64(time.Second)}, Cost: outcome.Cost{Events: 200_000, PerEvent: time.Microsecond},
		Outcomes: []scope.Outcome{counted(outcome.Spec{Name: "gc", VM: outcome.Events{Builtin: "gc"}}, 1000)},
	}
	b := &outcome.Batch{
		Loads: []outcome.Load{{VM: outcome.VM{PID: 7}, User: 1002, Events: 2000}, {VM: outcome.VM{PID: 8}, User: 1001, Events: 198_000}},
		Users: []outcome.UserLoad{{User: 1002, Events: 2000}, {User: 1001, Events: 198_000}},
	}
	for len(leaver.users) == 0 {
		if err := x.Framed(b, f); err != nil {
			t.Fatal(err)
		}
	}
	return x, leaver, f
}

// A VM that has ended before it can be left out is followed by others: the user's later VMs are left out.
func TestVMThatEndsBeforeItIsLeftOut(t *testing.T) {
	x, leaver, _ := afterLeavingOut(t)
	if diff := cmp.Diff([]int{1001}, leaver.users); diff != "" || x.wish != nil {
		t.Errorf("wish %+v, users -want +got:\n%s", x.wish, diff)
	}
}

// A user's short-lived processes take the budget. The user's later VMs are left out, with one
// notice, and no outcome is given up meanwhile. A VM without a place makes no difference.
func TestShortLivedProcesses(t *testing.T) {
	s := &Session{config: config.Default()}
	x, leaver := newCostLimiter(s, price.Limit{Share: 0.1}, nil), new(fakeLeaver)
	x.leaver = leaver
	gc := outcome.Spec{Name: "gc", VM: outcome.Events{Builtin: "gc"}}
	placeless := counted(gc, 0)
	placeless.Counts.Unobserved = true
	f := &scope.Frame{
		Window: outcome.Window{To: int64(time.Second)}, Cost: outcome.Cost{Events: 200_000, PerEvent: time.Microsecond},
		Outcomes: []scope.Outcome{counted(gc, 1000), counted(outcome.Spec{Name: "run", VM: outcome.Events{Builtin: "run"}}, 1000), placeless},
	}
	b := &outcome.Batch{
		Loads: []outcome.Load{{VM: outcome.VM{PID: 7}, User: 1002, Events: 2000}},
		Users: []outcome.UserLoad{{User: 1002, Events: 2000}, {User: 1001, Events: 198_000}},
	}
	for range 8 {
		if err := x.Framed(b, f); err != nil {
			t.Fatal(err)
		}
		b.Strangers = len(leaver.users) > 0
	}
	want := []string{"beamscope does not observe new VMs of user 1001 for 1m0s: 200k events/s = 20.0% of a core, limit 10.0%. 99.0% of the events come from processes of that user, and most of these processes have ended or are no VMs"}
	var got []string
	for _, n := range x.take() {
		got = append(got, n.Text)
	}
	if diff := cmp.Diff(want, got); diff != "" || x.wish != nil {
		t.Errorf("wish %+v, notices -want +got:\n%s", x.wish, diff)
	}
	if diff := cmp.Diff([]int{1001}, leaver.users); diff != "" {
		t.Errorf("users: -want +got:\n%s", diff)
	}
}

// Windows may be collected late, several at once. Those that began before a VM was left out do not show that yet, so
// nothing else is given up because of them.
func TestLateWindowsAfterLeavingOut(t *testing.T) {
	x, _, f := afterLeavingOut(t)
	b := &outcome.Batch{} // nobody in particular is to blame
	for range 20 {
		if err := x.Framed(b, f); err != nil {
			t.Fatal(err)
		}
	}
	f.Window = outcome.Window{From: monotonic.Now(), To: monotonic.Now() + int64(time.Second)}
	var err error
	for range 20 {
		if err == nil {
			err = x.Framed(b, f)
		}
	}
	if !errors.Is(err, ErrPrice) {
		t.Errorf("error %v, want %v", err, ErrPrice)
	}
}
