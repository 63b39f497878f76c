package ledger

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/sources/intake"
)

const ms = int64(time.Millisecond)

// spec returns an outcome with bins of 1 ms.
func spec(name string, bins int) outcome.Spec {
	return outcome.Spec{Name: name, Wrapper: name, BinWidth: time.Millisecond, Bins: bins}
}

// nameOf rejects outcomes without a name of spans.
func nameOf(s outcome.Spec) (string, error) {
	if s.Wrapper == "" {
		return "", errors.New("no name")
	}
	return s.Wrapper, nil
}

// plan returns a plan with windows of 100 ms.
func plan(from int64, specs ...outcome.Spec) outcome.Plan {
	return outcome.Plan{From: from, Window: 100 * time.Millisecond, Specs: specs}
}

func mustPlan(t testing.TB, s Schedule, p outcome.Plan) Schedule {
	t.Helper()
	return mustPlanAt(t, s, p, 0)
}

func mustPlanAt(t testing.TB, s Schedule, p outcome.Plan, now int64) Schedule {
	t.Helper()
	s, err := s.With(p, p.From, now, nameOf)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// An account is a book whose windows are collected in order.
type account struct {
	*Book
	t        *testing.T
	schedule Schedule
}

func newAccount(t *testing.T, p outcome.Plan) *account {
	return &account{Book: NewBook(outcome.VM{PID: 1}, p.From, intake.NewBudget(intake.MaxKept)), t: t, schedule: mustPlan(t, nil, p)}
}

func (l *account) plan(p outcome.Plan) {
	l.t.Helper()
	l.planAt(p, 0)
}

func (l *account) planAt(p outcome.Plan, now int64) {
	l.t.Helper()
	l.schedule = mustPlanAt(l.t, l.schedule, p, now)
	l.Replan(l.schedule, p.From)
}

// put enters an instance with this end in ms and this delay.
func (l *account) put(name string, end int64, delay time.Duration, s outcome.Status) {
	l.t.Helper()
	if !l.Enter(l.schedule, []byte(name), intake.Ended{Start: end*ms - int64(delay), End: end * ms, Status: s}) {
		l.t.Errorf("%s is not wanted", name)
	}
}

// collect returns the counts of the next window.
func (l *account) collect() []outcome.Counts {
	l.t.Helper()
	l.schedule = l.schedule.Since(l.next)
	e := &l.schedule[0]
	cells := l.Collect(e, e.Plan.At(e.Plan.Number(l.next)))
	var counts []outcome.Counts
	for _, c := range cells {
		counts = append(counts, c.Counts)
	}
	return counts
}

// want compares the counts of the next window, in which nothing else may be counted.
func (l *account) want(want ...outcome.Counts) {
	l.t.Helper()
	e := &l.schedule.Since(l.next)[0]
	for i := range want {
		want[i].VM, want[i].Outcome = outcome.VM{PID: 1}, e.Observations[i].Spec.Name
		if want[i].Bins == nil {
			want[i].Bins = make([]uint64, e.Observations[i].Spec.Bins)
		}
	}
	at := l.next / ms
	if diff := cmp.Diff(want, l.collect()); diff != "" {
		l.t.Errorf("window at %d ms, -want +got:\n%s", at, diff)
	}
}

// An instance ends after dMax at the latest, whatever the wrapper reports, in the window that
// contains that time. A delay of exactly dMax is in the last bin.
func TestSettle(t *testing.T) {
	l := newAccount(t, plan(0, spec("a", 3)))
	l.put("a", 50, 0, outcome.Success)
	l.put("a", 50, time.Millisecond, outcome.Success)
	l.put("a", 50, 3*time.Millisecond, outcome.Success)
	l.put("a", 50, 3*time.Millisecond+1, outcome.Success)
	l.put("a", 50, 3*time.Millisecond, outcome.Failure)
	l.put("a", 50, 3*time.Millisecond+1, outcome.Failure)
	l.put("a", 50, 3*time.Millisecond, outcome.Timeout)
	l.put("a", 120, 40*time.Millisecond, outcome.Timeout) // times out at 83 ms
	l.put("a", 100, 0, outcome.Failure)                   // windows are half-open
	l.want(outcome.Counts{Ends: 8, Successes: 3, Failures: 1, Timeouts: 4, Bins: []uint64{1, 1, 1}})
	l.want(outcome.Counts{Ends: 1, Failures: 1})
}

// A timeout before dMax comes from another plan, so the real end of the instance is unknown.
func TestEarlyTimeout(t *testing.T) {
	l := newAccount(t, plan(0, spec("a", 3)))
	l.put("a", 50, 2*time.Millisecond, outcome.Timeout)
	l.want(outcome.Counts{Ends: 1, Loss: outcome.Loss{Cut: 1}})
}

// An instance that ended in a window that was already collected is missed in the next one.
func TestMissed(t *testing.T) {
	l := newAccount(t, plan(0, spec("a", 3), spec("b", 3)))
	l.collect()
	l.put("a", 50, 0, outcome.Success)
	l.put("a", 101, 10*time.Millisecond, outcome.Success) // timed out at 94 ms
	l.put("a", 150, 0, outcome.Failure)
	l.want(outcome.Counts{Ends: 1, Failures: 1, Loss: outcome.Loss{Missed: 2}}, outcome.Counts{})
	l.want(outcome.Counts{}, outcome.Counts{})
}

// If collection is late, windows beyond those with room are marked and stay empty, even if there
// is room again.
func TestBlind(t *testing.T) {
	l := newAccount(t, plan(0, spec("a", 3)))
	for n := range int64(maxOpen + 2) {
		l.put("a", 100*n+50, 0, outcome.Failure)
	}
	l.want(outcome.Counts{Ends: 1, Failures: 1})
	l.put("a", 100*maxOpen+60, 0, outcome.Failure)
	l.put("a", 100*(maxOpen+2)+50, 0, outcome.Failure)
	for range maxOpen - 1 {
		l.want(outcome.Counts{Ends: 1, Failures: 1})
	}
	l.want(outcome.Counts{Unobserved: true, Loss: outcome.Loss{Missed: 3}})
	l.want(outcome.Counts{Unobserved: true})
	l.want(outcome.Counts{Ends: 1, Failures: 1})
	l.want(outcome.Counts{})
}

// If a plan changes an outcome, instances that began before and end after are cut. Unchanged
// outcomes continue, even if only the detail of their instances changes.
func TestReplan(t *testing.T) {
	same, other := spec("same", 30), spec("detail", 30)
	l := newAccount(t, plan(0, same, spec("changed", 30), other, spec("dropped", 30)))
	other.Detail = outcome.Worst
	l.plan(plan(100*ms, other, spec("changed", 20), same, spec("new", 30)))
	for _, name := range []string{"same", "changed", "detail", "dropped"} {
		l.put(name, 99, 10*time.Millisecond, outcome.Failure)
		l.put(name, 110, 20*time.Millisecond, outcome.Failure)
		l.put(name, 110, 10*time.Millisecond, outcome.Failure)
		l.put(name, 125, 31*time.Millisecond, outcome.Success) // timed out at 124 ms, or at 114
		l.put(name, 125, 65*time.Millisecond, outcome.Success) // timed out at 90 ms
	}
	l.put("new", 99, 10*time.Millisecond, outcome.Failure) // before it was observed
	l.put("new", 110, 20*time.Millisecond, outcome.Failure)
	before := outcome.Counts{Ends: 2, Failures: 1, Timeouts: 1}
	l.want(before, before, before, before)
	after := outcome.Counts{Ends: 3, Failures: 2, Timeouts: 1}
	l.want(after, outcome.Counts{Ends: 3, Failures: 1, Loss: outcome.Loss{Cut: 2}}, after, outcome.Counts{Ends: 1, Failures: 1})
}

// An instance that began on an earlier grid is cut even long after that grid was dropped.
func TestCutLater(t *testing.T) {
	l := newAccount(t, plan(0, spec("a", 1000)))
	l.plan(plan(100*ms, spec("a", 900)))
	l.collect()
	l.collect()
	l.put("a", 250, 200*time.Millisecond, outcome.Success)
	l.put("a", 250, 100*time.Millisecond, outcome.Failure)
	l.put("a", 99, 10*time.Millisecond, outcome.Success)
	l.want(outcome.Counts{Ends: 2, Failures: 1, Loss: outcome.Loss{Cut: 1, Missed: 1}})
}

// If a plan comes after its windows have begun, the counts of outcomes that are observed as before go on. Windows
// of other outcomes are not observed until the plan has come.
func TestLatePlan(t *testing.T) {
	everything := spec("a", 3)
	everything.Detail = outcome.Everything
	l := newAccount(t, plan(0, spec("b", 3), everything, spec("dropped", 3), spec("changed", 3)))
	for _, name := range []string{"a", "b", "dropped", "changed"} {
		l.put(name, 99, 0, outcome.Failure)
		l.put(name, 101, 0, outcome.Failure)
		l.put(name, 201, 0, outcome.Failure)
	}
	l.planAt(plan(100*ms, everything, spec("b", 3), spec("new", 3), spec("changed", 4)), 202*ms)
	for _, name := range []string{"a", "b", "new", "changed"} {
		l.put(name, 203, 0, outcome.Failure)
		l.put(name, 301, 0, outcome.Failure)
	}
	unobserved := outcome.Counts{Unobserved: true}
	one, two := outcome.Counts{Ends: 1, Failures: 1}, outcome.Counts{Ends: 2, Failures: 2}
	lost := outcome.Counts{Unobserved: true, Loss: outcome.Loss{Missed: 2}} // of both windows
	l.want(one, one, one, one)
	l.want(one, one, unobserved, lost)
	partly := outcome.Counts{Unobserved: true, Ends: 1, Loss: outcome.Loss{Missed: 1}}
	l.want(two, two, partly, partly)
	l.want(one, one, one, one)
	l.want(outcome.Counts{}, outcome.Counts{}, outcome.Counts{}, outcome.Counts{})
	if left := l.budget.Left(); left != intake.MaxKept {
		t.Errorf("%d of %d left", left, intake.MaxKept)
	}
	if !l.Idle() {
		t.Error("it is not idle")
	}
}

// If a late plan has other windows, those that were counted are not observed, and others are.
func TestLatePlanOfOtherWindows(t *testing.T) {
	l := newAccount(t, plan(0, spec("a", 3)))
	for _, at := range []int64{99, 101, 102, 301} {
		l.put("a", at, 0, outcome.Failure)
	}
	other := plan(100*ms, spec("a", 3))
	other.Window = 50 * time.Millisecond
	l.planAt(other, 302*ms)
	for _, at := range []int64{303, 451} {
		l.put("a", at, 0, outcome.Failure)
	}
	l.want(outcome.Counts{Ends: 1, Failures: 1})
	l.want(outcome.Counts{Unobserved: true, Loss: outcome.Loss{Missed: 4}})
	for range 5 {
		l.want(outcome.Counts{Unobserved: true})
	}
	l.want(outcome.Counts{})
	l.want(outcome.Counts{Ends: 1, Failures: 1})
}

// A plan that has not begun is replaced without effect.
func TestReplacedPlan(t *testing.T) {
	l := newAccount(t, plan(0, spec("a", 30)))
	l.plan(plan(100*ms, spec("a", 20)))
	l.plan(plan(100*ms, spec("a", 30)))
	l.put("a", 110, 20*time.Millisecond, outcome.Failure)
	l.want(outcome.Counts{})
	l.want(outcome.Counts{Ends: 1, Failures: 1})
}

// Plans that cannot be followed are rejected.
func TestPlanRefused(t *testing.T) {
	first := mustPlan(t, nil, plan(100*ms, spec("a", 3)))
	for what, p := range map[string]outcome.Plan{
		"within a window": plan(150*ms, spec("a", 3)),
		"in the past":     plan(200*ms, spec("a", 3)),
		"no window":       {From: 400 * ms, Specs: []outcome.Spec{spec("a", 3)}},
		"no name":         plan(400*ms, spec("", 3)),
		"no bins":         plan(400*ms, spec("a", 0)),
		"twice":           plan(400*ms, spec("a", 3), spec("a", 4)),
	} {
		if _, err := first.With(p, 300*ms, 0, nameOf); !errors.Is(err, ErrPlan) {
			t.Errorf("%s: error %v, want %v", what, err, ErrPlan)
		}
	}
}

// Instances beyond the budget are counted, and also counted as not streamed.
func TestBudget(t *testing.T) {
	everything := spec("a", 3)
	everything.Detail = outcome.Everything
	l := newAccount(t, plan(0, everything))
	l.budget = intake.NewBudget(2)
	for range 5 {
		l.put("a", 50, 0, outcome.Failure)
	}
	l.want(outcome.Counts{Ends: 5, Failures: 5, Unstreamed: 3})
	if left := l.budget.Left(); left != 2 {
		t.Errorf("%d left", left)
	}
}
