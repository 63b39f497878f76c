package config_test

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/files/config"
)

var update = flag.Bool("update", false, "write what is formatted now into testdata")

// The canonical forms of scope files equal those in testdata, and formatting them again changes
// nothing.
func TestFormatGolden(t *testing.T) {
	for name, text := range map[string]string{
		"minimal.yaml": "outcomes: {a: }",
		"every.yaml":   every,
		"diagram.yaml": "diagram: |2\n\n    \tfirst = a -> b; # two tabs\t\n  # and less\n\n  \n  last = s:first -> c\n",
	} {
		got := parse(t, text).Format()
		golden := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(golden, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
		if again := parse(t, string(got)).Format(); string(again) != string(got) {
			t.Errorf("%s: formatted again:\n%s", name, again)
		}
	}
}

// An inline diagram is preserved to the byte, whatever its layout.
func TestFormatKeepsDiagrams(t *testing.T) {
	for _, source := range []string{
		"p = a", "p = a\n", "p = a\n\n", "\np = a", "\n\n  p = a\n \n", "  p = a", "\tp = a\n", "p = a;\r\nq = b;", " ", "# only\n",
		"p = a; // żółw → ok\n", "p = a; # \u0085\u2028\uFEFF\n", "p = a; # null: ~, \"x\", 'y', \\n\n", "/*\n---\n...\n*/ p = a",
	} {
		c := minimal()
		c.Diagram = source
		got, err := config.Parse("scope.yaml", c.Format())
		if err != nil || got.Diagram != source {
			t.Errorf("%q is read back as %q, error %v, from\n%s", source, got.Diagram, err, c.Format())
		}
	}
}

// Durations are written in the usual form.
func TestFormatDurations(t *testing.T) {
	for _, text := range []string{
		"0s", "100ns", "1us", "1.5us", "500us", "1ms", "6.5ms", "25ms", "999.999999ms", "1s", "1.5s", "1.000000001s", "90s", "2m", "90m", "1h",
	} {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		c := minimal()
		c.HoldOff = d
		if got := string(c.Format()); !strings.Contains(got, "\nhold_off: "+text+"\n") {
			t.Errorf("%s is written so:\n%s", text, got)
		}
	}
}

// The file of any configuration is read back as the same configuration, and written again as the
// same file.
func TestFormatParse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := anyConfig(t)
		text := c.Format()
		got, err := config.Parse("scope.yaml", text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if diff := cmp.Diff(c, got); diff != "" {
			t.Fatalf("-want +got:\n%s\n%s", diff, text)
		}
		if again := got.Format(); string(again) != string(text) {
			t.Fatalf("first\n%s\nthen\n%s", text, again)
		}
		if _, err := c.System(); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
	})
}

// anyConfig draws a configuration that a scope file can contain.
func anyConfig(t *rapid.T) config.Config {
	c := minimal()
	c.Target = anyTarget(t)
	c.Window = anyDuration(t, config.MinWindow, config.MaxWindow, "window")
	c.Base = time.Duration(rapid.Int64Range(1, 1000).Draw(t, "base")) << 10 * time.Microsecond
	c.History = rapid.IntRange(1, 1024).Draw(t, "history")
	c.Confidence = rapid.SampledFrom([]float64{0.95, 0.68, 0.5, 1e-9, 1 - 1e-9, math.Nextafter(0.95, 1)}).Draw(t, "confidence")
	if c.Confidence == 0.95 {
		c.StandardErrors = rapid.SampledFrom([]float64{0, 1, 1.96, 100}).Draw(t, "standard errors")
	}
	c.Samples = rapid.Uint64Range(1, 1_000_000).Draw(t, "samples")
	c.HoldOff = anyDuration(t, 0, time.Hour, "hold-off")
	c.Explain = rapid.Bool().Draw(t, "explain")
	c.Snapshots = config.Snapshots{
		Dir:    anyName(t, "dir"),
		Before: rapid.IntRange(0, 1024).Draw(t, "before"),
		After:  anyDuration(t, 0, 10*time.Minute, "after"),
		Keep:   rapid.IntRange(1, 100_000).Draw(t, "keep"),
		Size:   rapid.Int64Range(1<<10, 1<<30).Draw(t, "size") << 10,
	}
	c.Diagram = rapid.SampledFrom([]string{"", "o0 = x -> y", "# why\n\to0 = f:fast(x, y) ;\n\n", "o0 = x;\r\n"}).Draw(t, "diagram")
	c.Outcomes = nil
	for i := range rapid.IntRange(1, 4).Draw(t, "outcomes") {
		c.Outcomes = append(c.Outcomes, anyOutcome(t, fmt.Sprintf("o%d", i), c))
	}
	if rapid.Bool().Draw(t, "wrapper") || slices.ContainsFunc(c.Outcomes, func(o config.Outcome) bool { return o.Wrapper != "" }) {
		c.Wrapper = anyWrapper(t)
	}
	return c
}

func anyTarget(t *rapid.T) vm.Target {
	return rapid.SampledFrom([]vm.Target{{}, {PID: 17}, {Node: "shop@db1"}, {Node: "'ó: @\t"}, {Exe: "null"}, {Exe: "/a b/#beam.smp"}, {User: "0"}, {Node: "a@b", User: "x: #y"}}).Draw(t, "target")
}

func anyWrapper(t *rapid.T) config.Wrapper {
	w := config.Wrapper{Listen: rapid.SampledFrom([]string{"127.0.0.1:8080", "localhost:1", "[::1]:65535"}).Draw(t, "listen")}
	if w.Remote = rapid.Bool().Draw(t, "remote"); w.Remote {
		w.Connect = rapid.SampledFrom([][]string{nil, {"db1:1"}, {"[fe80::1%eth0]:1", "10.0.0.1:2"}}).Draw(t, "connect")
	}
	return w
}

func anyOutcome(t *rapid.T, name string, c config.Config) config.Outcome {
	o := config.Outcome{Name: name, Span: name + anyName(t, "span"), Scale: config.Scale{
		Bins:     rapid.IntRange(1, 1000).Draw(t, "bins"),
		Exponent: rapid.IntRange(-10, 10).Draw(t, "exponent"),
	}}
	if rapid.Bool().Draw(t, "by dMax") {
		o.Scale = config.Scale{DMax: time.Duration(o.Scale.Bins) * anyDuration(t, time.Microsecond, time.Second, "width"), Bins: o.Scale.Bins}
	}
	switch rapid.IntRange(0, 2).Draw(t, "origin") {
	case 0:
		o.ExitFails = rapid.Bool().Draw(t, "exit fails")
		o.Explain = rapid.SampledFrom([]config.Override{config.AsAll, config.On, config.Off}).Draw(t, "explained")
	case 1:
		o.Span, o.Wrapper = "", o.Span
	case 2:
		o.Span, o.VM = "", anyEvents(t)
		o.Group = rapid.SampledFrom([]string{"", "pid", "mfa"}).Draw(t, "group")
	}
	grid, err := o.Scale.Grid(c.Base)
	if err != nil {
		t.Fatal(err)
	}
	if rapid.Bool().Draw(t, "QTA") {
		o.QTA = anyQTA(t, grid.DMax())
	}
	o.Triggers = anyTriggers(t, o.QTA, name == "o0" && c.Diagram != "")
	return o
}

// anyEvents draws events whose starts belong to processes.
func anyEvents(t *rapid.T) outcome.Events {
	return rapid.SampledFrom([]outcome.Events{
		{Builtin: "gc"},
		{Builtin: "dirty-nif"},
		{Start: "process-spawn", End: "process-exit", Pairing: dtrace.Last},
		{Start: `port-open[name="a 'quoted'*"]`, End: "process-exit", StartKey: "pid", EndKey: "pid", Pairing: dtrace.First},
		{Start: "port-open [ name = \"ż: #\" ]", End: "process-exit", StartKey: "thread", EndKey: "thread", Pairing: dtrace.FIFO},
		{Start: "message-send\n or message__queued", End: "message-receive", StartKey: "sender", EndKey: "receiver", Pairing: dtrace.Last},
	}).Draw(t, "events")
}

func anyQTA(t *rapid.T, dMax time.Duration) *config.QTA {
	q := &config.QTA{Failure: rapid.Float64Range(0, 1).Draw(t, "failure")}
	ps := rapid.SliceOfNDistinct(anyProbability(), 0, 4, rapid.ID[float64]).Draw(t, "probabilities")
	slices.Sort(ps)
	last := time.Duration(0)
	for _, p := range ps {
		last = anyDuration(t, last, dMax, "delay")
		q.Points = append(q.Points, dq.Step{T: last, P: p})
	}
	return q
}

func anyProbability() *rapid.Generator[float64] {
	return rapid.OneOf(
		rapid.SampledFrom([]float64{0.25, 0.5, 0.75, 0.07, 0.29, 0.999, 1, math.SmallestNonzeroFloat64, math.Nextafter(1, 0)}),
		rapid.Float64Range(1e-9, 1))
}

// hazards returns settings of a hazard trigger that the QTA allows.
func hazards(q *config.QTA) []string {
	if q == nil {
		return nil
	}
	least := q.Failure
	for _, p := range q.Points {
		least = min(least, 1-p.P)
	}
	if least < 1e-12 {
		return []string{"true"}
	}
	return []string{"true", "1e-12"}
}

func anyTriggers(t *rapid.T, q *config.QTA, calculated bool) []config.Trigger {
	var triggers []config.Trigger
	for _, kind := range []struct {
		name     string
		settings []string
	}{
		{"condition", []string{"ok >= 0", "n > 1", "p99 > 20*ms && n > 100 // why", "p50 > 1 ||\n\tn > 1 // 'x' \"y\""}},
		{"divergence", []string{"true", "0.1"}},
		{"failure", []string{"0", "0.05", "1e-09"}},
		{"hazard", hazards(q)},
		{"load", []string{"0", "5000"}},
		{"loss", []string{"true", "10"}},
		{"qta", []string{"true"}},
	} {
		possible := (q != nil || kind.name != "qta" && kind.name != "hazard") && (calculated || kind.name != "divergence")
		if possible && rapid.Bool().Draw(t, kind.name) {
			setting := rapid.SampledFrom(kind.settings).Draw(t, "setting")
			triggers = append(triggers, config.Trigger{Kind: kind.name, Setting: setting})
		}
	}
	return triggers
}

// anyDuration draws round durations and others.
func anyDuration(t *rapid.T, low, high time.Duration, label string) time.Duration {
	unit := rapid.SampledFrom([]time.Duration{1, time.Microsecond, time.Millisecond, time.Second, time.Minute}).Draw(t, "unit")
	return max(low, rapid.Custom(func(t *rapid.T) time.Duration {
		return time.Duration(rapid.Int64Range(int64(low), int64(high)).Draw(t, label))
	}).Draw(t, label)/unit*unit)
}

// anyName draws a non-empty text without NUL, with all kinds of characters.
func anyName(t *rapid.T, label string) string {
	return rapid.StringOfN(rapid.OneOf(
		rapid.RuneFrom([]rune("ab :#{}[],&*!|>'\"%@`-?~=\\\t\n\r\u0085\u2028\uFEFF\x1b/.")),
		rapid.Rune().Filter(func(r rune) bool { return r != 0 }),
	), 1, 20, 80).Draw(t, label)
}

// Any input gives either a valid configuration or an error. The configuration can be formatted
// and read back unchanged, and converted to a system. The error has one line with the place, or
// several lines for a diagram.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		every,
		"outcomes: {a: {}}",
		"target: {pid: 1}\nwindow: 1s\nbase: 1us\noutcomes: {a: {exponent: -3, bins: 7}}",
		"outcomes: {a: {dmax: 50ms, bins: 50, exit: failure, qta: {p50: 1ms}}}",
		"outcomes: {a: {qta: {points: {1: 5ms, 0.5: 1ms}, failure: 1}}}",
		"outcomes: {a: {triggers: {condition: \"n > 1 or\\n p50 > 1\", loss: 7}}}",
		"x: &a {b: *a}\noutcomes: *a",
		"diagram: |\n  p = a\noutcomes:\n  a:\n",
		"diagram: \"\\r\\n\\tp = a -> b\\0\"",
		"diagram: p = s:q",
		"diagram: .dq",
		"outcomes: {a: {span: \"\\0\"}}",
		"outcomes: {a: {wrapper: \"\\x85\"}}\nwrapper: {listen: '[::1%0]:1'}",
		"<<: {outcomes: {a: {}}}",
		"outcomes: [",
		`"a\nb": c`,
		"outcomes: {a: {vm: gc, group: pid}, b: {vm: gc, bins: 3}}",
		"outcomes: {a: {start: 'port-busy', end: port-not_busy, key: port, pair: first, group: port}}",
		"outcomes: {a: {start: \"message-send[\\nsize=\\e\", end: '\"'}}",
		"outcomes: {a: {start: process-spawn, end: process-spawn, key: {start: pid, end: thread}, exit: failure}}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := config.Parse("f", data)
		if err != nil {
			checkError(t, err)
			return
		}
		text := c.Format()
		again, err := config.Parse("f", text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if diff := cmp.Diff(c, again); diff != "" || string(again.Format()) != string(text) {
			t.Errorf("-read +read again:\n%s", diff)
		}
		checkSystem(t, c)
	})
}

func checkError(t *testing.T, err error) {
	var ofDiagram *config.DiagramError
	var syntax *dtrace.SyntaxError
	oneLine := !strings.ContainsAny(err.Error(), "\n\r")
	if !errors.Is(err, config.ErrInvalid) || !oneLine && !errors.As(err, &ofDiagram) && !errors.As(err, &syntax) {
		t.Errorf("error %q", err)
	}
}

// checkSystem checks everything on which sources rely.
func checkSystem(t *testing.T, c config.Config) {
	s := system(t, c)
	names, spans := make(map[string]bool), make(map[string]bool)
	for _, spec := range specs(s) {
		if spec.VM != (outcome.Events{}) {
			checkEvents(t, spec)
			names[spec.Name] = true
			continue
		}
		span := spec.Span + "\x00" + spec.Wrapper
		if names[spec.Name] || spans[span] || len(span) < 2 || len(span) > 256 || spec.DMax() <= 0 || spec.Group != "" {
			t.Errorf("accepted %+v", spec)
		}
		names[spec.Name], spans[span] = true, true
	}
	if s.Window < config.MinWindow || s.Window > config.MaxWindow || !(s.Bounds.Confidence > 0) {
		t.Errorf("accepted %+v", s)
	}
}

// checkEvents checks everything on which the source of outcomes of the VM relies.
func checkEvents(t *testing.T, spec outcome.Spec) {
	rule, err := spec.VM.Rule()
	if err == nil {
		err = rule.Validate()
	}
	if err != nil || spec.Span != "" || spec.Wrapper != "" || spec.DMax() <= 0 {
		t.Errorf("accepted %+v: %v", spec, err)
		return
	}
	for _, e := range rule.Start {
		if _, ok := e.Probe.Operand(spec.Group); spec.Group != "" && !ok {
			t.Errorf("accepted %+v: %s cannot be grouped by %s", spec, e.Probe.Name, spec.Group)
		}
	}
}
