package session

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/internal/config"
	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/price"
	"github.com/beamscope/beamscope/internal/scope"
)

// counted is a probe with so many events.
func counted(spec outcome.Spec, events uint64) scope.Probe {
	return scope.Probe{Name: spec.Name, Spec: spec, Counts: outcome.Counts{Outcome: spec.Name, Starts: events / 2, Ends: events - events/2}}
}

// What costs most is given up first: not what the diagram is made of, nor spans that are
// discovered, which cost the same without an outcome. The only outcome is not given up.
func TestDearest(t *testing.T) {
	gc := config.Outcome{Name: "gc", VM: outcome.Events{Builtin: "gc"}}
	run := config.Outcome{Name: "run", VM: outcome.Events{Builtin: "run"}}
	a := config.Outcome{Name: "a", Span: "a"}
	frame := func(all uint64, events map[string]uint64, explain bool) *scope.Frame {
		f := &scope.Frame{Cost: outcome.Cost{Events: all}}
		for _, o := range []config.Outcome{gc, run, a} {
			if n, ok := events[o.Name]; ok {
				f.Probes = append(f.Probes, counted(outcome.Spec{Name: o.Name, Span: o.Span, VM: o.VM, Explain: explain && o.Span != ""}, n))
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
		{"the most events", []config.Outcome{gc, run}, "", false, frame(110, map[string]uint64{"gc": 10, "run": 100}, false), &wish{drop: "run"}},
		{"not of the diagram", []config.Outcome{gc, run}, "x = run -> y", false, frame(110, map[string]uint64{"gc": 10, "run": 100}, false), &wish{drop: "gc"}},
		{"spans", []config.Outcome{gc, a}, "", false, frame(110, map[string]uint64{"gc": 10, "a": 100}, false), &wish{drop: "a"}},
		{"not spans that are discovered", []config.Outcome{gc, a}, "", true, frame(110, map[string]uint64{"gc": 10, "a": 100}, false), &wish{drop: "gc"}},
		{"nothing but these", []config.Outcome{a}, "", true, frame(100, map[string]uint64{"a": 100}, false), nil},
		{"the only one", []config.Outcome{run}, "", false, frame(100, map[string]uint64{"run": 100}, false), nil},
		{"explanations", []config.Outcome{gc, a}, "", false, frame(400, map[string]uint64{"gc": 10, "a": 100}, true), &wish{explain: true}},
		{"cheap explanations", []config.Outcome{gc, a}, "", false, frame(200, map[string]uint64{"gc": 10, "a": 100}, true), &wish{drop: "a"}},
	} {
		c := config.Default()
		c.Outcomes, c.Diagram = test.outcomes, test.diagram
		s := &Session{config: c}
		if test.discover {
			s.finder = newFinder(s, config.Config{})
		}
		got := newThrift(s, price.Limit{}, nil).dearest(test.frame)
		if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(wish{})); diff != "" {
			t.Errorf("%s: -want +got:\n%s", test.name, diff)
		}
	}
}

// Outcomes of the VM are added one after the other, while no spans are seen and it costs
// little. Nothing is added or given up before the last change shows.
func TestLook(t *testing.T) {
	frame := func(events uint64) *scope.Frame {
		return &scope.Frame{Window: outcome.Window{To: int64(time.Second)}, Cost: outcome.Cost{Events: events, PerEvent: time.Microsecond},
			Probes: []scope.Probe{counted(outcome.Spec{Name: "gc", VM: outcome.Events{Builtin: "gc"}}, events)}}
	}
	newLook := func() (*Session, *thrift) {
		s := &Session{config: config.Default()}
		s.finder = newFinder(s, config.Config{})
		return s, newThrift(s, price.Limit{Share: 0.1}, []string{"run", "message"})
	}
	step := func(x *thrift, events uint64) string {
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
	x.wish, x.due = nil, x.epoch+1 // as it has been applied, from a window to come on
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
	s.finder.found[origin{span: "checkout"}] = &found{}
	step(x, 1000)
	if got := step(x, 1000); got != "" || len(x.look) != 0 {
		t.Errorf("added %q where there are spans", got)
	}
}

// Where nothing is left to give up, the run ends.
func TestTooDear(t *testing.T) {
	s := &Session{config: config.Default()}
	x := newThrift(s, price.Limit{Share: 0.1}, nil)
	f := &scope.Frame{Window: outcome.Window{To: int64(time.Second)}, Cost: outcome.Cost{Events: 200_000, PerEvent: time.Microsecond}}
	for range 5 {
		if err := x.Framed(&outcome.Batch{Strangers: true}, f); err != nil {
			t.Fatalf("for what is not the VMs' cost: %v", err)
		}
	}
	if err := x.Framed(new(outcome.Batch), f); err != nil {
		t.Fatalf("at once: %v", err)
	}
	if err := x.Framed(new(outcome.Batch), f); !errors.Is(err, ErrPrice) {
		t.Errorf("error %v, want %v", err, ErrPrice)
	}
}
