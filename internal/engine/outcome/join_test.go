package outcome_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/internal/engine/outcome"
)

// A script is a source that returns prepared results and records the requests.
type script struct {
	batches []outcome.Batch // of the successive windows
	err     error           // returned with the last batch
	refuses string          // name of an outcome; plans with it are refused
	plans   []outcome.Plan
	notices []outcome.Notice
	closed  error
}

var errScript = errors.New("refused")

func (s *script) Plan(_ context.Context, p outcome.Plan) error {
	for _, spec := range p.Specs {
		if spec.Name == s.refuses {
			return errScript
		}
	}
	s.plans = append(s.plans, p)
	return nil
}

func (s *script) Collect(_ context.Context, w outcome.Window) (outcome.Batch, error) {
	if len(s.batches) == 0 {
		return outcome.Batch{}, s.err
	}
	b := s.batches[0]
	b.Window, b.Time = w, time.Unix(w.To, 0)
	s.batches = s.batches[1:]
	if len(s.batches) == 0 {
		return b, s.err
	}
	return b, nil
}

func (s *script) Watch(context.Context) []outcome.Notice { return s.notices }
func (s *script) Close() error                           { return s.closed }

func isSpan(s outcome.Spec) bool    { return s.Span != "" }
func isWrapper(s outcome.Spec) bool { return s.Wrapper != "" }

// joined returns a plan with outcomes of two sources in turn.
func joined(from int64) outcome.Plan {
	return outcome.Plan{From: from, Window: 10, Specs: []outcome.Spec{
		{Name: "a", Span: "a", BinWidth: 1, Bins: 2},
		{Name: "b", Wrapper: "b", BinWidth: 1, Bins: 3},
		{Name: "c", Span: "c", BinWidth: 1, Bins: 2},
	}}
}

func join(t *testing.T, p outcome.Plan, spans, wrappers outcome.Source) *outcome.Joint {
	t.Helper()
	j, err := outcome.Join(p, outcome.Part{Source: spans, Wants: isSpan}, outcome.Part{Source: wrappers, Wants: isWrapper})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func counts(name string, pid int) outcome.Counts {
	return outcome.Counts{Outcome: name, VM: outcome.VM{PID: pid}, Successes: uint64(pid), Bins: make([]uint64, 2)}
}

// A batch contains the results of all sources: counts in the order of the plan and then of each
// source, instances in the order of their ends, and sums of the rest.
func TestJoinMerges(t *testing.T) {
	vms := &script{batches: []outcome.Batch{{
		Counts:    []outcome.Counts{counts("a", 1), counts("a", 2), counts("c", 1), counts("c", 2)},
		Instances: []outcome.Instance{{Outcome: "a", End: 3}, {Outcome: "c", End: 7}},
		Owners:    map[outcome.VM]string{{PID: 1}: "user 1", {PID: 2}: "user 2"},
		Cost:      outcome.Cost{Events: 100, PerEvent: 4, Collector: 1},
		Rejected:  outcome.Rejected{Count: 1},
	}, {}}}
	wrappers := &script{batches: []outcome.Batch{{
		Counts:    []outcome.Counts{counts("b", 3)},
		Instances: []outcome.Instance{{Outcome: "b", End: 1}, {Outcome: "b", End: 3}, {Outcome: "b", End: 9}},
		Owners:    map[outcome.VM]string{{PID: 1}: "10.0.0.1", {PID: 3}: "10.0.0.3"},
		Cost:      outcome.Cost{Events: 300, PerEvent: 8},
		Rejected:  outcome.Rejected{Count: 2, Last: "x"},
	}, {}}}
	got, err := join(t, joined(0), vms, wrappers).Collect(t.Context(), outcome.Window{From: 0, To: 10})
	if err != nil {
		t.Fatal(err)
	}
	want := outcome.Batch{
		Window: outcome.Window{From: 0, To: 10},
		Time:   time.Unix(10, 0),
		Counts: []outcome.Counts{counts("a", 1), counts("a", 2), counts("b", 3), counts("c", 1), counts("c", 2)},
		Instances: []outcome.Instance{
			{Outcome: "b", End: 1}, {Outcome: "a", End: 3}, {Outcome: "b", End: 3}, {Outcome: "c", End: 7}, {Outcome: "b", End: 9},
		},
		Owners:   map[outcome.VM]string{{PID: 1}: "user 1", {PID: 2}: "user 2", {PID: 3}: "10.0.0.3"},
		Cost:     outcome.Cost{Events: 400, PerEvent: 7, Collector: 1},
		Rejected: outcome.Rejected{Count: 3, Last: "x"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Each source gets its own part of a plan. If one refuses it, the others keep their previous
// plans.
func TestJoinPlans(t *testing.T) {
	vms, wrappers := &script{}, &script{refuses: "new"}
	j := join(t, joined(0), vms, wrappers)
	next := joined(20)
	next.Specs = append(next.Specs, outcome.Spec{Name: "d", Wrapper: "d"})
	if err := j.Plan(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	refused := joined(40)
	refused.Specs = append(refused.Specs, outcome.Spec{Name: "new", Wrapper: "new"}, outcome.Spec{Name: "e", Span: "e"})
	if err := j.Plan(t.Context(), refused); !errors.Is(err, errScript) {
		t.Fatalf("error %v, want %v", err, errScript)
	}
	restored := next.Only(isSpan)
	restored.From = 40
	if diff := cmp.Diff([]outcome.Plan{next.Only(isSpan), refused.Only(isSpan), restored}, vms.plans); diff != "" {
		t.Errorf("plans of the first source, -want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]outcome.Plan{next.Only(isWrapper)}, wrappers.plans); diff != "" {
		t.Errorf("plans of the second source, -want +got:\n%s", diff)
	}
}

// If the earlier sources cannot return to their previous plans either, the error reports that.
func TestJoinCannotGoBack(t *testing.T) {
	vms, wrappers := &script{refuses: "a"}, &script{refuses: "new"}
	next := joined(20)
	next.Specs = []outcome.Spec{{Name: "new", Wrapper: "new"}}
	err := join(t, joined(0), vms, wrappers).Plan(t.Context(), next)
	if want := "refused\ngo on as before: refused"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

// The counts of a window follow the plan in force, whatever plans came since.
func TestJoinFollowsPlans(t *testing.T) {
	vms := &script{batches: []outcome.Batch{{Counts: []outcome.Counts{counts("a", 1), counts("c", 1)}}, {Counts: []outcome.Counts{counts("c", 1)}}, {}}}
	wrappers := &script{batches: []outcome.Batch{{Counts: []outcome.Counts{counts("b", 2)}}, {}, {}}}
	j := join(t, joined(0), vms, wrappers)
	next := joined(10)
	next.Specs = next.Specs[2:]
	if err := j.Plan(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	for n, want := range [][]outcome.Counts{{counts("a", 1), counts("b", 2), counts("c", 1)}, {counts("c", 1)}} {
		got, err := j.Collect(t.Context(), joined(0).At(uint64(n)))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got.Counts); diff != "" {
			t.Errorf("window %d, -want +got:\n%s", n, diff)
		}
	}
}

// A Joint ends when all its sources have ended. Until then the outcomes of ended sources have no
// VM.
func TestJoinEnds(t *testing.T) {
	gone := fmt.Errorf("pid 1 has exited: %w", outcome.ErrEnded)
	vms := &script{err: gone, batches: []outcome.Batch{{Counts: []outcome.Counts{counts("a", 1), counts("c", 1)}}}}
	wrappers := &script{err: outcome.ErrEnded, batches: []outcome.Batch{
		{Counts: []outcome.Counts{counts("b", 2)}}, {Counts: []outcome.Counts{counts("b", 2)}},
	}}
	j := join(t, joined(0), vms, wrappers)
	none := func(name string) outcome.Counts { return outcome.Counts{Outcome: name, Bins: make([]uint64, 2)} }
	for n, want := range []struct {
		counts []outcome.Counts
		err    error
	}{
		{[]outcome.Counts{counts("a", 1), counts("b", 2), counts("c", 1)}, nil},
		{[]outcome.Counts{none("a"), counts("b", 2), none("c")}, outcome.ErrEnded},
		{nil, outcome.ErrEnded},
	} {
		got, err := j.Collect(t.Context(), joined(0).At(uint64(n)))
		if !errors.Is(err, want.err) {
			t.Errorf("window %d: error %v, want %v", n, err, want.err)
		}
		if diff := cmp.Diff(want.counts, got.Counts); diff != "" {
			t.Errorf("window %d, -want +got:\n%s", n, diff)
		}
	}
	if err := j.Plan(t.Context(), joined(30)); err != nil || len(vms.plans) > 0 {
		t.Errorf("a source that has ended was planned: %v", err)
	}
}

// An error of one source is an error of the Joint.
func TestJoinFails(t *testing.T) {
	j := join(t, joined(0), &script{err: errScript}, &script{batches: make([]outcome.Batch, 2)})
	if _, err := j.Collect(t.Context(), outcome.Window{To: 10}); !errors.Is(err, errScript) {
		t.Errorf("error %v, want %v", err, errScript)
	}
}

// An outcome that no source observes is refused, in the first plan and in later ones.
func TestJoinNoSource(t *testing.T) {
	j := join(t, joined(0), &script{}, &script{})
	p := joined(10)
	p.Specs = append(p.Specs, outcome.Spec{Name: "nobody's"})
	if err := j.Plan(t.Context(), p); !errors.Is(err, outcome.ErrNoSource) {
		t.Errorf("error %v, want %v", err, outcome.ErrNoSource)
	}
	if _, err := outcome.Join(p); !errors.Is(err, outcome.ErrNoSource) {
		t.Errorf("error %v, want %v", err, outcome.ErrNoSource)
	}
}

// All notices are passed on, and all sources closed.
func TestJoinWatchesAndCloses(t *testing.T) {
	one, two := &script{closed: errors.New("one")}, &script{closed: errors.New("two")}
	one.notices = []outcome.Notice{{Text: "first"}}
	two.notices = []outcome.Notice{{Text: "second"}}
	j := join(t, joined(0), one, two)
	if diff := cmp.Diff(append(one.notices, two.notices...), j.Watch(t.Context())); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if err := j.Close(); !errors.Is(err, one.closed) || !errors.Is(err, two.closed) {
		t.Errorf("error %v", err)
	}
}

// If two sources observe one outcome, their counts of a VM are added. Counts that only one source
// has are kept. A source without a VM adds nothing.
func TestJoinAddsCountsOfOneOutcome(t *testing.T) {
	count := func(pid int, successes uint64, bins ...uint64) outcome.Counts {
		return outcome.Counts{Outcome: "a", VM: outcome.VM{PID: pid}, Successes: successes, Starts: successes, Bins: bins}
	}
	blind := count(4, 0, 0, 0)
	blind.Unobserved = true
	blind.Loss.Missed = 2
	instance := func(pid int, end int64) outcome.Instance {
		return outcome.Instance{Outcome: "a", VM: outcome.VM{PID: pid}, End: end}
	}
	p := outcome.Plan{Window: 10, Specs: []outcome.Spec{{Name: "a", Span: "a", BinWidth: 1, Bins: 2}}}
	for _, test := range []struct {
		what         string
		first, other outcome.Batch
		want         []outcome.Counts
		ends         int
	}{
		{
			"both have a VM", outcome.Batch{Counts: []outcome.Counts{count(1, 3, 1, 2)}}, outcome.Batch{Counts: []outcome.Counts{count(1, 4, 4, 0)}},
			[]outcome.Counts{count(1, 7, 5, 2)}, 0,
		},
		{
			"each has another one", outcome.Batch{Counts: []outcome.Counts{count(2, 3, 1, 2)}}, outcome.Batch{Counts: []outcome.Counts{count(1, 4, 4, 0)}},
			[]outcome.Counts{count(1, 4, 4, 0), count(2, 3, 1, 2)}, 0,
		},
		{
			"one has none", outcome.Batch{Counts: []outcome.Counts{count(0, 0, 0, 0)}}, outcome.Batch{Counts: []outcome.Counts{count(1, 4, 4, 0)}},
			[]outcome.Counts{count(1, 4, 4, 0)}, 0,
		},
		{
			"neither has one", outcome.Batch{Counts: []outcome.Counts{count(0, 0, 0, 0)}}, outcome.Batch{Counts: []outcome.Counts{count(0, 0, 0, 0)}},
			[]outcome.Counts{count(0, 0, 0, 0)}, 0,
		},
		{
			"one has not observed it for all of the window",
			outcome.Batch{Counts: []outcome.Counts{blind}},
			outcome.Batch{Counts: []outcome.Counts{count(4, 5, 5, 0), count(5, 1, 1, 0)}, Instances: []outcome.Instance{instance(4, 1), instance(5, 2)}},
			[]outcome.Counts{
				{Outcome: "a", VM: outcome.VM{PID: 4}, Starts: 5, Bins: []uint64{0, 0}, Loss: outcome.Loss{Missed: 7}, Unobserved: true},
				count(5, 1, 1, 0),
			}, 1,
		},
	} {
		first, other := &script{batches: []outcome.Batch{test.first, {}}}, &script{batches: []outcome.Batch{test.other, {}}}
		j, err := outcome.Join(p, outcome.Part{Source: first, Wants: isSpan}, outcome.Part{Source: other, Wants: isSpan})
		if err != nil {
			t.Fatal(err)
		}
		got, err := j.Collect(t.Context(), p.At(0))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, got.Counts); diff != "" || len(got.Instances) != test.ends {
			t.Errorf("%s: %d instances, counts -want +got:\n%s", test.what, len(got.Instances), diff)
		}
	}
}
