package session

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/files/config"
)

// Without eBPF, outcomes that need it do not prevent the observation of others.
func TestDoWithout(t *testing.T) {
	span := outcome.Spec{Name: "buy", Span: "buy"}
	tcp := outcome.Spec{Name: "mail", Wrapper: "mail"}
	gc := outcome.Spec{Name: "gc", VM: outcome.Events{Builtin: "gc"}}
	busy := errors.New("busy")
	for _, test := range []struct {
		specs    []outcome.Spec
		discover bool
		why      error
		refused  bool
		lacking  bool // whether outcomes that need eBPF are marked
		notices  int  // beside those of outcomes
	}{
		{specs: []outcome.Spec{span, gc}, why: bpf.ErrPermission, lacking: true, notices: 1},
		{specs: []outcome.Spec{span, gc}, why: bpf.ErrKernel, lacking: true, notices: 1},
		{specs: []outcome.Spec{tcp, gc}, why: bpf.ErrKernel, lacking: true},
		{specs: []outcome.Spec{span}, why: bpf.ErrPermission, notices: 1},
		{discover: true, why: bpf.ErrPermission, notices: 1},
		{specs: []outcome.Spec{gc}, why: bpf.ErrPermission, refused: true},
		{specs: []outcome.Spec{gc}, discover: true, why: bpf.ErrPermission, refused: true},
		{specs: []outcome.Spec{span}, why: vm.ErrNoProbes, notices: 1},
		{specs: []outcome.Spec{span, gc}, why: vm.ErrNoProbes, refused: true}, // another VM may have them
		{specs: []outcome.Spec{span}, why: busy, refused: true},
	} {
		t.Run(fmt.Sprint(test.specs, test.discover, test.why), func(t *testing.T) {
			var s sources
			err := s.doWithout(outcome.Plan{Specs: test.specs}, fmt.Errorf("here: %w", test.why), Options{Discover: test.discover})
			if (err != nil) != test.refused || err != nil && !errors.Is(err, test.why) {
				t.Fatalf("error %v, want one: %v", err, test.refused)
			}
			if len(s.notices) != test.notices {
				t.Errorf("notices %+v", s.notices)
			}
			var said []outcome.Notice
			if s.lacking != nil {
				said = s.lacking.Watch(t.Context())
			}
			if (len(said) == 1) != test.lacking {
				t.Errorf("notices of outcomes %+v", said)
			}
			for _, n := range said {
				if want := "gc is not observed: here: " + test.why.Error(); n.Text != want {
					t.Errorf("%q, want %q", n.Text, want)
				}
			}
		})
	}
}

// Such an outcome is not observed, now and after changes: it has neither successes nor failures, and
// neither it nor a definition that uses it has a figure.
func TestUnavailableFrames(t *testing.T) {
	c, err := config.Parse("scope.yaml", []byte(`
diagram: |
  both = buy -> gc;
outcomes:
  gc: {vm: gc, dmax: 10ms, bins: 10, qta: {p50: 1ms, failure: 0.1}, triggers: {failure: 0, loss: true}}
`))
	if err != nil {
		t.Fatal(err)
	}
	system, err := c.System()
	if err != nil {
		t.Fatal(err)
	}
	plan := system.Plan(0)
	u := newUnavailable(plan.Only(needsEBPF), bpf.ErrKernel)
	engine, err := scope.NewEngine(system)
	if err != nil {
		t.Fatal(err)
	}
	for n := range uint64(3) {
		w := plan.At(n)
		b, err := u.Collect(t.Context(), w)
		if err != nil {
			t.Fatal(err)
		}
		buy := outcome.Counts{VM: outcome.VM{PID: 5}, Starts: 2, Ends: 2, Successes: 2}
		for _, s := range plan.Specs {
			if s.Name == "buy" {
				buy.Outcome, buy.Bins = s.Name, append([]uint64{2}, make([]uint64, s.Bins-1)...)
				b.Counts = append(b.Counts, buy)
			} else if !needsEBPF(s) {
				b.Counts = append(b.Counts, outcome.Counts{Outcome: s.Name, VM: buy.VM, Bins: make([]uint64, s.Bins)})
			}
		}
		ordered := b.Counts[:0:0]
		for _, s := range plan.Specs {
			for _, k := range b.Counts {
				if k.Outcome == s.Name {
					ordered = append(ordered, k)
				}
			}
		}
		b.Counts = ordered
		f, err := engine.Step(&b)
		if err != nil {
			t.Fatal(err)
		}
		if f.Attaching || len(f.Fired) > 0 {
			t.Errorf("attaching: %v, fired %+v", f.Attaching, f.Fired)
		}
		for i := range f.Outcomes {
			p := &f.Outcomes[i]
			_, known := p.Observed.Success()
			switch p.Name {
			case "gc":
				if known || p.Insufficient != "not observed" || p.Judgement != nil {
					t.Errorf("gc: known %v, insufficient %q, judged %+v", known, p.Insufficient, p.Judgement)
				}
			case "buy":
				if !known || p.Counts.Successes != 2 {
					t.Errorf("buy: %+v", p.Counts)
				}
			case "both":
				if _, known := p.Calculated.Success(); known {
					t.Errorf("both is calculated from nothing")
				}
			}
		}
	}
}

// A later plan may have other outcomes. Each is reported once.
func TestUnavailablePlans(t *testing.T) {
	spec := func(name string) outcome.Spec {
		return outcome.Spec{Name: name, VM: outcome.Events{Builtin: name}, Bins: 3}
	}
	first := outcome.Plan{Window: time.Second, Specs: []outcome.Spec{spec("gc")}}
	u := newUnavailable(first, bpf.ErrPermission)
	for _, specs := range [][]outcome.Spec{{spec("run")}, {spec("gc"), spec("call")}} { // the second replaces the first
		if err := u.Plan(t.Context(), outcome.Plan{From: int64(2 * time.Second), Window: time.Second, Specs: specs}); err != nil {
			t.Fatal(err)
		}
	}
	var said []string
	for _, n := range u.Watch(t.Context()) {
		name, _, _ := strings.Cut(n.Text, " ")
		said = append(said, name)
	}
	if diff := cmp.Diff([]string{"gc", "run", "call"}, said); diff != "" {
		t.Errorf("notices, -want +got:\n%s", diff)
	}
	if again := u.Watch(t.Context()); len(again) > 0 {
		t.Errorf("said again: %+v", again)
	}
	for n, want := range [][]string{{"gc"}, {"gc"}, {"gc", "call"}} {
		b, err := u.Collect(t.Context(), first.At(uint64(n)))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range b.Counts {
			got = append(got, c.Outcome)
			if !c.Unobserved || len(c.Bins) != 3 || c.Instances() != 0 {
				t.Errorf("window %d: %+v", n, c)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("window %d, -want +got:\n%s", n, diff)
		}
	}
}
