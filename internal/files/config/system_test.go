package config_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/diagram"
	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/files/config"
)

func system(t *testing.T, c config.Config) *scope.System {
	t.Helper()
	s, err := c.System()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func specs(s *scope.System) []outcome.Spec {
	var specs []outcome.Spec
	for _, p := range s.Outcomes {
		specs = append(specs, p.Spec)
	}
	return specs
}

// A system has the outcomes in their order, followed by the names of the diagram without an
// entry.
func TestSystemOutcomes(t *testing.T) {
	s := system(t, parse(t, every))
	byDefault := func(name string) outcome.Spec {
		return outcome.Spec{Name: name, Span: name, BinWidth: 2 * time.Microsecond, Bins: 50, Explain: true}
	}
	want := []outcome.Spec{
		{Name: "by_exponent", Span: "by_exponent", BinWidth: 16 * time.Microsecond, Bins: 10, Explain: true},
		{Name: "by_dmax", Span: "żółw", BinWidth: 500 * time.Millisecond, Bins: 3, Explain: true},
		{Name: "narrow", Span: "narrow", BinWidth: time.Microsecond, Bins: 1000},
		{Name: "tcp", Wrapper: "narrow", BinWidth: 2 * time.Microsecond, Bins: 50},
		{Name: "gc", VM: outcome.Events{Builtin: "gc"}, Group: "mfa", BinWidth: 20 * time.Microsecond, Bins: 1000},
		{Name: "gc_fine", VM: outcome.Events{Builtin: "gc"}, BinWidth: 40 * time.Microsecond, Bins: 500},
		{Name: "gc_short", VM: outcome.Events{Builtin: "gc"}, BinWidth: 20 * time.Microsecond, Bins: 50},
		{Name: "gc_based", VM: outcome.Events{Builtin: "gc"}, BinWidth: 4 * time.Microsecond, Bins: 50},
		{Name: "served", VM: outcome.Events{
			Start: `message-receive[receiver="<0.123.0>"]`, End: `message-send[sender="<0.123.0>"]`,
			StartKey: "sender", EndKey: "sender", Pairing: dtrace.Last,
		}, BinWidth: 2 * time.Microsecond, Bins: 50},
		{Name: "hops", VM: outcome.Events{
			Start: "message__send", End: "message-queued or message-receive", StartKey: "receiver", EndKey: "receiver", Pairing: dtrace.FIFO,
		}, Group: "size", BinWidth: 2 * time.Microsecond, Bins: 50, ExitFails: true},
		{Name: "collections", VM: outcome.Events{
			Start: "gc_minor-start", End: "gc_minor-end", StartKey: "thread", EndKey: "thread", Pairing: dtrace.First,
		}, BinWidth: 2 * time.Microsecond, Bins: 50},
		{Name: "whole", Span: "whole", BinWidth: time.Millisecond, Bins: 50, ExitFails: true, Explain: true},
		byDefault("race"), byDefault("a"), byDefault("b"), byDefault("c"),
	}
	if diff := cmp.Diff(want, specs(s)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Outcomes of spans are explained according to their own setting, or else the setting for all.
func TestExplained(t *testing.T) {
	const outcomes = "outcomes: {as_all: {}, on: {explain: true}, off: {explain: false}, vm: {vm: gc}, tcp: {wrapper: x}}\n"
	for text, want := range map[string][]string{
		outcomes:                             {"on"},
		outcomes + "explain: false":          {"on"},
		outcomes + "explain: true":           {"as_all", "on"},
		"diagram: p = a -> b":                nil,
		"diagram: p = a -> b\nexplain: true": {"p", "a", "b"},
	} {
		s := system(t, parse(t, text))
		var got []string
		for _, spec := range s.Plan(0).Specs {
			if spec.Explain {
				got = append(got, spec.Name)
			}
			if detailed := spec.Detail != outcome.CountsOnly; detailed != spec.Explain {
				t.Errorf("%s: %s: detail %d", text, spec.Name, spec.Detail)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
}

// A configuration with only a diagram is valid.
func TestSystemOfDiagram(t *testing.T) {
	for _, text := range []string{
		"diagram: p = x -> a:q(y, s:r); r = z -> y",
		"outcomes: {}\ndiagram: p = x -> a:q(y, s:r); r = z -> y",
	} {
		s := system(t, parse(t, text))
		var names []string
		for _, spec := range specs(s) {
			names = append(names, spec.Name)
		}
		if got, want := strings.Join(names, " "), "p q r x y z"; got != want {
			t.Errorf("probes %s, want %s", got, want)
		}
		if got, want := diagram.Format(s.Diagram), "p = x -> a:q(y, s:r);\nr = z -> y;\n"; got != want {
			t.Errorf("diagram %s, want %s", got, want)
		}
	}
}

// Requirements and other settings reach the system.
func TestSystemRequirements(t *testing.T) {
	s := system(t, parse(t, every))
	if s.Window != 250*time.Millisecond || s.History != 60 || s.Samples != 20 || s.HoldOff != 30*time.Second {
		t.Errorf("%+v", s)
	}
	whole := s.Outcomes[11]
	want := []dq.Step{{T: 6500 * time.Microsecond, P: 0.5}, {T: 12 * time.Millisecond, P: 0.75}, {T: 50 * time.Millisecond, P: 0.999}}
	if diff := cmp.Diff(want, whole.QTA.Steps()); diff != "" || whole.QTA.MinSuccess() != 0.95 {
		t.Errorf("QTA: success %v, -want +got:\n%s", whole.QTA.MinSuccess(), diff)
	}
	var triggers []string
	for _, trigger := range whole.Triggers {
		triggers = append(triggers, trigger.Kind()+"="+trigger.Setting())
	}
	if got, want := strings.Join(triggers, " "), "condition=p99 > 20*ms && n > 100 divergence=true failure=0.05 hazard=0.0005 load=5000 loss=true qta=true"; got != want {
		t.Errorf("triggers %s, want %s", got, want)
	}
	for i, p := range s.Outcomes {
		if i != 11 && (p.QTA != nil || p.Triggers != nil) {
			t.Errorf("%+v: it has no requirement", p)
		}
	}
}

// The bounds of means use a confidence, or standard errors as in the thesis.
func TestMeanBounds(t *testing.T) {
	for keys, want := range map[string]scope.MeanBounds{
		"":                      {Confidence: 0.95},
		"confidence: 0.68":      {Confidence: 0.68},
		"confidence: .950":      {Confidence: 0.95},
		"standard_errors: 1.96": {Confidence: 0.95, StandardErrors: 1.96},
		"standard_errors: 1":    {Confidence: 0.95, StandardErrors: 1},
	} {
		if got := system(t, parse(t, "outcomes: {a: }\n"+keys)).Bounds; got != want {
			t.Errorf("%s: %+v, want %+v", keys, got, want)
		}
	}
}

// An edited configuration is checked like one that is read. Errors use the keys of a scope file.
func TestSystemOfEdited(t *testing.T) {
	for _, test := range []struct {
		edit func(c *config.Config)
		want string
	}{
		{func(c *config.Config) { c.Outcomes[0].Scale.Bins = 0 }, `outcomes.a.bins: "0" is not a whole number from 1 to 65536`},
		{func(c *config.Config) { c.Outcomes[0].Scale.Bins = 1001 }, `outcomes.a: invalid grid: 1001 bins: want 1 to 1000`},
		{func(c *config.Config) { c.Outcomes[0].Name = "a: b" }, `outcomes.a: b: a name consists of letters, digits and underscores, has at most 255 bytes, and does not begin with a digit`},
		{func(c *config.Config) { c.Window = time.Minute },
			`window: "1m" is out of range: write a number and a unit (ns, us, ms, s, m, h), as in 500ms, from 100ms to 10s`},
		{func(c *config.Config) { c.Snapshots.Size = 1000 },
			`snapshots.size: "1000B" is not a size from 1MiB to 1024GiB: write a whole number and a unit (KiB, MiB, GiB), as in 100MiB`},
		{func(c *config.Config) { c.Outcomes[0].Triggers = []config.Trigger{{Kind: "qta", Setting: "true"}} },
			`outcomes.a.triggers.qta: nothing is required of a: write qta beside triggers, as in qta: {p50: 12ms}`},
		{func(c *config.Config) { c.Outcomes[0].QTA = &config.QTA{Points: []dq.Step{{T: time.Second, P: 0.5}}} },
			`outcomes.a.qta.p50: "1s" is above dMax, 50ms, where delays end: lower it, or raise dMax`},
		{func(c *config.Config) { c.Diagram = "p = s:q\n" }, "diagram:1:7: s:q is not defined\np = s:q\n      ^"},
		{func(c *config.Config) { c.Diagram, c.DiagramFile = "p =", "system.dq" }, "system.dq:1:4: unexpected end of the source: want a name\np =\n   ^"},
	} {
		c := minimal()
		test.edit(&c)
		if _, err := c.System(); !errors.Is(err, config.ErrInvalid) || err.Error() != test.want {
			t.Errorf("error %v, want %s", err, test.want)
		}
	}
}
