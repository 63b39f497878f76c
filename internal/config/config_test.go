package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/internal/config"
	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/vm"
)

// What a scope file leaves out has its default.
func TestDefaults(t *testing.T) {
	c, err := config.Parse("scope.yaml", []byte("outcomes: {a: , b: {span: other}}"))
	if err != nil {
		t.Fatal(err)
	}
	if c.Target != (vm.Target{}) || c.Window != time.Second || c.Base != time.Millisecond || c.Diagram != "" || c.Later != nil {
		t.Errorf("got %+v", c)
	}
	want := []outcome.Spec{
		{Name: "a", Span: "a", BinWidth: time.Millisecond, Bins: 50},
		{Name: "b", Span: "other", BinWidth: time.Millisecond, Bins: 50},
	}
	if diff := cmp.Diff(want, c.Specs()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Every key has its effect, and those that have none yet are named with their
// lines.
func TestEveryKey(t *testing.T) {
	c, err := config.Parse("scope.yaml", []byte(`
target: {node: shop@db1}
window: 250ms
base: 2us
diagram: |
  probe = a -> b;
outcomes:
  by_exponent: {exponent: 3, bins: 10}
  by_dmax: {dmax: 1.5s, bins: 3, span: "żółw"}
  narrow: {exponent: -1, bins: 1000, exit: timeout}
  fails:
    exit: failure
    qta: {p50: 1ms}
    triggers: {load: 5}
`))
	if err != nil {
		t.Fatal(err)
	}
	if want := (vm.Target{Node: "shop@db1"}); c.Target != want || c.Window != 250*time.Millisecond || c.Base != 2*time.Microsecond {
		t.Errorf("got %+v", c)
	}
	if c.Diagram != "probe = a -> b;\n" {
		t.Errorf("diagram %q", c.Diagram)
	}
	want := []outcome.Spec{
		{Name: "by_exponent", Span: "by_exponent", BinWidth: 16 * time.Microsecond, Bins: 10},
		{Name: "by_dmax", Span: "żółw", BinWidth: 500 * time.Millisecond, Bins: 3},
		{Name: "narrow", Span: "narrow", BinWidth: time.Microsecond, Bins: 1000},
		{Name: "fails", Span: "fails", BinWidth: 2 * time.Microsecond, Bins: 50, ExitFails: true},
	}
	if diff := cmp.Diff(want, c.Specs()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	later := []string{
		"scope.yaml:5: diagram",
		"scope.yaml:13: outcomes.fails.qta",
		"scope.yaml:14: outcomes.fails.triggers",
	}
	if diff := cmp.Diff(later, c.Later); diff != "" {
		t.Errorf("without effect, -want +got:\n%s", diff)
	}
}

// Targets are one of a process, a node and an executable.
func TestTargets(t *testing.T) {
	for text, want := range map[string]vm.Target{
		"{pid: 1234}":              {PID: 1234},
		"{node: a@b}":              {Node: "a@b"},
		"{exe: beam.smp}":          {Exe: "beam.smp"},
		"{exe: /usr/bin/beam.smp}": {Exe: "/usr/bin/beam.smp"},
	} {
		c, err := config.Parse("scope.yaml", []byte("target: "+text+"\noutcomes: {a: {}}"))
		if err != nil || c.Target != want {
			t.Errorf("%s: %+v, error %v", text, c.Target, err)
		}
	}
}

// A diagram may be in a file beside the scope file.
func TestDiagramFile(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"system.dq":  "probe = a;",
		"scope.yaml": "diagram: system.dq\noutcomes: {a: {}}",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c, err := config.Load(filepath.Join(dir, "scope.yaml"))
	if err != nil || c.Diagram != "probe = a;" {
		t.Errorf("diagram %q, error %v", c.Diagram, err)
	}
}

// Every error says where it is and what to do. Each is in the form in which it is
// printed, behind the name of the file.
func TestErrors(t *testing.T) {
	const (
		unit = `: write a number and a unit (ns, us, ms, s, m, h), as in 500ms, from `
		good = "outcomes: {a: {}}\n"
	)
	for _, test := range []struct{ text, want string }{
		{"", `: empty: write outcomes, see docs/scope-file.md`},
		{"# nothing", `: empty: write outcomes, see docs/scope-file.md`},
		{"outcomes: [", ``}, // as the YAML parser says it; see below
		{"just a text", `:1: "just a text" where keys and values are expected, as in {key: value}`},
		{"- a list", `:1: a list where keys and values are expected, as in {key: value}`},
		{"window: 1s", `:1: no outcomes: name what to observe, as in outcomes: {worker_1: {span: worker_1}}`},
		{good + "outcome: {}", `:2: outcome: unknown key: use one of base, diagram, outcomes, target, window`},
		{good + "window: 1s\nwindow: 2s", `:3: window: there already on line 2: remove one`},
		{good + "{a: b}: c", ``},
		{good + `"a\nb": c`, `:2: "a\nb": unknown key: use one of base, diagram, outcomes, target, window`},
		{`outcomes: {"\e[2J": {}}`, `:1: outcomes."\x1b[2J": a name is made of letters, digits and underscores, and begins with no digit`},
		{good + `"": c`, `:2: a key that is not a word`},

		{good + "---\nfoo: 1", ":2: a second YAML document: write one"},
		{good + "window: soon", `:2: window: "soon" is not a duration` + unit + `100ms to 10s`},
		{good + "window: 5", `:2: window: "5" is not a duration` + unit + `100ms to 10s`},
		{good + "window: -1s", `:2: window: "-1s" is not a duration` + unit + `100ms to 10s`},
		{good + "window: [1s]", `:2: window: a list is not a duration` + unit + `100ms to 10s`},
		{good + "window: 99ms", `:2: window: "99ms" is out of range` + unit + `100ms to 10s`},
		{good + "window: 11s", `:2: window: "11s" is out of range` + unit + `100ms to 10s`},
		{good + "window: 99999999999999s", `:2: window: "99999999999999s" is not a duration` + unit + `100ms to 10s`},
		{good + "base: 999ns", `:2: base: "999ns" is out of range` + unit + `1µs to 1h`},

		{good + "target: beam.smp", `:2: target: "beam.smp" where keys and values are expected, as in {key: value}`},
		{good + "target: {}", `:2: target: give one of exe, pid and node`},
		{good + "target: {pid: 1, exe: a}", `:2: target: give one of exe, pid and node`},
		{good + "target: {pid: 0}", `:2: target.pid: "0" is not a whole number from 1 to 2147483647`},
		{good + "target: {pid: one}", `:2: target.pid: "one" is not a whole number from 1 to 2147483647`},
		{good + "target: {pid: [1]}", `:2: target.pid: a list is not a whole number from 1 to 2147483647`},
		{good + "target: {node: shop}", `:2: target.node: "shop" is not the name of a node: write name@host`},
		{good + "target: {node: '@db1'}", `:2: target.node: "@db1" is not the name of a node: write name@host`},
		{good + "target: {exe: }", `:2: target.exe: nothing where a text is expected`},
		{good + "target: {host: a}", `:2: target.host: unknown key: use one of exe, node, pid`},

		{good + "diagram: {a: b}", `:2: diagram: keys and values where a text is expected`},
		{good + "diagram: missing.dq", `:2: diagram: "missing.dq" cannot be read: no such file or directory`},
		{good + `diagram: "a\nb.dq"`, `:2: diagram: "a\nb.dq" cannot be read: no such file or directory`},

		{"outcomes: {}", `:1: outcomes: empty: name at least one outcome, as in {worker_1: {span: worker_1}}`},
		{"outcomes:", `:1: outcomes: nothing where keys and values are expected, as in {key: value}`},
		{"outcomes: a", `:1: outcomes: "a" where keys and values are expected, as in {key: value}`},
		{"outcomes:\n  a: {}\n  a: {}", `:3: outcomes.a: there already on line 2: remove one`},
		{"outcomes:\n  a: {}\n  b: {span: a}", `:3: outcomes.b: span "a" is observed by a already: an instance belongs to one outcome`},
		{"outcomes: {a-b: {}}", `:1: outcomes.a-b: a name is made of letters, digits and underscores, and begins with no digit`},
		{"outcomes: {1a: {}}", `:1: outcomes.1a: a name is made of letters, digits and underscores, and begins with no digit`},
		{"outcomes: {a: b}", `:1: outcomes.a: "b" where keys and values are expected, as in {key: value}`},
		{"outcomes:\n  a:\n    dmx: 1ms", `:3: outcomes.a.dmx: unknown key: use one of bins, dmax, exit, exponent, qta, span, triggers`},
		{"outcomes: {a: {vm: gc}}", `:1: outcomes.a.vm: outcomes of VM probes are not there in this version: use span`},
		{"outcomes: {a: {start: x, end: y}}", `:1: outcomes.a.start: outcomes of VM probes are not there in this version: use span`},

		{"outcomes: {a: {span: ''}}", `:1: outcomes.a.span: a span's name has 1 to 255 bytes and no NUL`},
		{"outcomes: {a: {span: \"x\\0\"}}", `:1: outcomes.a.span: a span's name has 1 to 255 bytes and no NUL`},
		{"outcomes: {a: {span: " + strings.Repeat("x", 256) + "}}", `:1: outcomes.a.span: a span's name has 1 to 255 bytes and no NUL`},
		{"outcomes: {a: {span: [x]}}", `:1: outcomes.a.span: a list where a text is expected`},
		{"outcomes: {a: {exit: crash}}", `:1: outcomes.a.exit: "crash" is neither timeout nor failure`},
		{"outcomes: {a: {exponent: 11}}", `:1: outcomes.a.exponent: "11" is not a whole number from -10 to 10`},
		{"outcomes: {a: {exponent: 0.5}}", `:1: outcomes.a.exponent: "0.5" is not a whole number from -10 to 10`},
		{"outcomes: {a: {bins: 0}}", `:1: outcomes.a.bins: "0" is not a whole number from 1 to 65536`},
		{"outcomes: {a: {bins: 65537}}", `:1: outcomes.a.bins: "65537" is not a whole number from 1 to 65536`},
		{"outcomes: {a: {bins: 123456789012345678901234567890123456789012345}}",
			`:1: outcomes.a.bins: "1234567890123456789012345678901234567890…" is not a whole number from 1 to 65536`},
		{"outcomes: {a: {dmax: 2h}}", `:1: outcomes.a.dmax: "2h" is out of range` + unit + `1µs to 1h`},
		{"outcomes: {a: {dmax: 61m}}", `:1: outcomes.a.dmax: "61m" is out of range` + unit + `1µs to 1h`},
		{"outcomes: {a: {dmax: 1ms, exponent: 1}}", `:1: outcomes.a: dmax and exponent contradict each other: give one of them`},
		{"outcomes: {a: {dmax: 1ms, bins: 3}}",
			`:1: outcomes.a: invalid grid: dMax 1ms over 3 bins is not a whole number of nanoseconds a bin`},
		{"outcomes: {a: {dmax: 10us, bins: 20}}", `:1: outcomes.a: invalid grid: bin width 500ns: want at least 1µs`},
		{"outcomes: {a: {bins: 1001}}", `:1: outcomes.a: invalid grid: 1001 bins: want 1 to 1000`},
		{"base: 1us\noutcomes: {a: {exponent: -1}}", `:2: outcomes.a: invalid grid: bin width 500ns: want at least 1µs`},
		{"base: 1us\noutcomes: {a: {exponent: -4}}",
			`:2: outcomes.a: invalid grid: base 1µs times 2^-4 is not a whole number of nanoseconds`},
		{"outcomes: {a: {qta: fast}}", `:1: outcomes.a.qta: "fast" where keys and values are expected, as in {key: value}`},
	} {
		_, err := config.Parse("f", []byte(test.text))
		var placed *config.Error
		if !errors.As(err, &placed) || !errors.Is(err, config.ErrInvalid) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: error %v, want a config.Error of one line", test.text, err)
			continue
		}
		if got := strings.TrimPrefix(err.Error(), "f"); test.want != "" && got != test.want {
			t.Errorf("%q:\n got %s\nwant %s", test.text, got, test.want)
		}
		if test.want == "" && placed.Line == 0 {
			t.Errorf("%q: no line: %v", test.text, err)
		}
	}
}

// Files that are none, or too large, are refused by name.
func TestLoadRefuses(t *testing.T) {
	dir := t.TempDir()
	large := filepath.Join(dir, "large.yaml")
	if err := os.WriteFile(large, make([]byte, 1<<20+1), 0o644); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		dir:                            dir + ": is a folder: name the scope file in it",
		large:                          large + ": not a file of at most 1024 KiB",
		filepath.Join(dir, "none.yml"): filepath.Join(dir, "none.yml") + ": cannot be read: no such file or directory",
	} {
		if _, err := config.Load(path); !errors.Is(err, config.ErrInvalid) || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

// Whatever a scope file says, it is a configuration that a source can work with,
// or an error of one line that says where.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"outcomes: {a: {}}",
		"target: {pid: 1}\nwindow: 1s\nbase: 1us\noutcomes: {a: {exponent: -3, bins: 7}}",
		"outcomes: {a: {dmax: 50ms, bins: 50, exit: failure, qta: {p50: 1ms}}}",
		"x: &a {b: *a}\noutcomes: *a",
		"diagram: |\n  p = a\noutcomes:\n  a:\n",
		"outcomes: {a: {span: \"\\0\"}}",
		"<<: {outcomes: {a: {}}}",
		"outcomes: [",
		`"a\nb": c`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := config.Parse("f", data)
		if err != nil {
			if !errors.Is(err, config.ErrInvalid) || strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("error %q", err)
			}
			return
		}
		if len(c.Outcomes) == 0 || c.Window < config.MinWindow || c.Window > config.MaxWindow {
			t.Errorf("accepted %+v", c)
		}
		spans := make(map[string]bool)
		for _, s := range c.Specs() {
			if s.Span == "" || len(s.Span) > 255 || spans[s.Span] || s.BinWidth < time.Microsecond || s.Bins < 1 || s.DMax() <= 0 {
				t.Errorf("accepted %+v", s)
			}
			spans[s.Span] = true
		}
	})
}
