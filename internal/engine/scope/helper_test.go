package scope_test

import (
	"context"
	"reflect"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/beamscope/beamscope/diagram"
	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const ms = time.Millisecond

// spec returns a spec for spans of the same name, in bins of a millisecond.
func spec(name string, bins int) outcome.Spec {
	return outcome.Spec{Name: name, Span: name, BinWidth: ms, Bins: bins}
}

// system returns a system with outcomes for these specs and a diagram, or no diagram for "".
func system(t testing.TB, source string, specs ...outcome.Spec) *scope.System {
	t.Helper()
	s := &scope.System{
		Window:  time.Second,
		History: scope.DefaultHistory,
		Bounds:  scope.MeanBounds{StandardErrors: dq.Z95},
		Samples: 1,
		HoldOff: scope.DefaultHoldOff,
	}
	for _, p := range specs {
		s.Outcomes = append(s.Outcomes, scope.OutcomeSystem{Spec: p})
	}
	if source != "" {
		var err error
		if s.Diagram, err = diagram.Parse(source); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// triggers parses triggers, given as kind and setting in turn.
func triggers(t testing.TB, settings ...string) []scope.Trigger {
	t.Helper()
	var all []scope.Trigger
	for i := 0; i < len(settings); i += 2 {
		trigger, err := scope.ParseTrigger(settings[i], settings[i+1])
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, trigger)
	}
	return all
}

var beam = outcome.VM{PID: 7, Node: "a@b"}

// counts returns the counts of a window with this many successes in each bin.
func counts(name string, bins ...uint64) outcome.Counts {
	c := outcome.Counts{Outcome: name, VM: beam, Bins: bins}
	for _, n := range bins {
		c.Successes += n
	}
	c.Starts, c.Ends = c.Successes, c.Successes
	return c
}

// A play feeds an engine with successive windows of one second.
type play struct {
	t      testing.TB
	engine *scope.Engine
	next   int64
}

func newPlay(t testing.TB, s *scope.System) *play {
	t.Helper()
	e, err := scope.NewEngine(s)
	if err != nil {
		t.Fatal(err)
	}
	return &play{t: t, engine: e}
}

func (p *play) step(c ...outcome.Counts) *scope.Frame {
	p.t.Helper()
	return p.batch(outcome.Batch{Counts: c})
}

func (p *play) batch(b outcome.Batch) *scope.Frame {
	p.t.Helper()
	b.Window = outcome.Window{From: p.next, To: p.next + int64(time.Second)}
	p.next = b.Window.To
	f, err := p.engine.Step(&b)
	if err != nil {
		p.t.Fatal(err)
	}
	return f
}

// fired returns the kinds of the triggers that fired, with their outcomes.
func fired(f *scope.Frame) []string {
	var all []string
	for _, x := range f.Fired {
		all = append(all, x.Trigger+" "+x.Outcome)
	}
	return all
}

// outcomeOf returns the only row of an outcome.
func outcomeOf(t testing.TB, f *scope.Frame, name string) *scope.Outcome {
	t.Helper()
	var found *scope.Outcome
	for i := range f.Outcomes {
		if f.Outcomes[i].Name != name {
			continue
		}
		if found != nil {
			t.Fatalf("probe %s is there twice", name)
		}
		found = &f.Outcomes[i]
	}
	if found == nil {
		t.Fatalf("there is no outcome %s", name)
	}
	return found
}

// A watcher is an observer that calls functions.
type watcher struct {
	configured func(*scope.System, outcome.Plan)
	framed     func(*outcome.Batch, *scope.Frame) error
	noticed    func(outcome.Notice)
}

func (w watcher) Configured(s *scope.System, p outcome.Plan) error {
	if w.configured != nil {
		w.configured(s, p)
	}
	return nil
}

func (w watcher) Framed(b *outcome.Batch, f *scope.Frame) error {
	if w.framed != nil {
		return w.framed(b, f)
	}
	return nil
}

func (w watcher) Noticed(n outcome.Notice) error {
	if w.noticed != nil {
		w.noticed(n)
	}
	return nil
}

// A script is a source that returns prepared results and records the requests.
type script struct {
	batches  []outcome.Batch
	last     error // returned with the last batch
	asked    []outcome.Window
	at       []int64 // times of the requests
	plans    []outcome.Plan
	planFail error
	now      func() int64
}

func (s *script) Plan(_ context.Context, p outcome.Plan) error {
	if s.planFail == nil {
		s.plans = append(s.plans, p)
	}
	return s.planFail
}

func (s *script) Collect(_ context.Context, w outcome.Window) (outcome.Batch, error) {
	s.asked = append(s.asked, w)
	s.at = append(s.at, s.now())
	var b outcome.Batch
	if n := len(s.asked); n <= len(s.batches) {
		b = s.batches[n-1]
	}
	b.Window = w
	if len(s.asked) == len(s.batches) {
		return b, s.last
	}
	return b, nil
}

func (s *script) Watch(context.Context) []outcome.Notice { return nil }
func (s *script) Close() error                           { return nil }

type reflectType = reflect.Type
