package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/files/config"
)

// parse parses a valid scope file.
func parse(t *testing.T, text string) config.Config {
	t.Helper()
	c, err := config.Parse("scope.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// write writes files into a folder.
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// minimal returns the configuration of a scope file that only names one outcome.
func minimal() config.Config {
	return config.Config{
		Dir:        ".",
		Window:     time.Second,
		Base:       time.Millisecond,
		History:    30,
		Confidence: 0.95,
		Samples:    50,
		HoldOff:    10 * time.Second,
		Snapshots:  config.Snapshots{Dir: "snapshots", Before: 30, After: 5 * time.Second, Keep: 100, Size: 100 << 20},
		Outcomes:   []config.Outcome{{Name: "a", Span: "a", Scale: config.Scale{Bins: 50}}},
	}
}

// Missing keys of a scope file have their defaults.
func TestDefaults(t *testing.T) {
	for _, text := range []string{"outcomes: {a: }", "outcomes: {a: {}}", "outcomes: {a: {triggers: {load: false}}}"} {
		if diff := cmp.Diff(minimal(), parse(t, text)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", text, diff)
		}
	}
}

// every is a scope file with every key.
const every = `
target: {node: shop@db1}
window: 250ms
base: 2us
history: 60
confidence: 0.99
samples: 20
hold_off: 30s
explain: true
diagram: |
  # the whole
  whole = a -> f:race(b, c);
wrapper: {listen: "0.0.0.0:8080", connect: ["127.0.0.1:8081", "localhost:8082", "[::1]:8083"], remote: true}
snapshots: {dir: seen, before: 10, after: 500ms, keep: 7, size: 1GiB}
outcomes:
  by_exponent: {exponent: 3, bins: 10}
  by_dmax: {dmax: 1.5s, bins: 3, span: "żółw"}
  narrow: {exponent: -1, bins: 1000, exit: timeout, explain: false}
  tcp: {wrapper: narrow}
  gc: {vm: gc, group: mfa}
  gc_fine: {vm: gc, bins: 500}
  gc_short: {vm: gc, dmax: 1ms, exit: timeout}
  gc_based: {vm: gc, exponent: 1}
  served: {start: 'message-receive[receiver="<0.123.0>"]', end: "message-send[sender=\"<0.123.0>\"]\n", key: sender}
  hops:
    start: message__send
    end: message-queued or message-receive
    key: {start: receiver, end: receiver}
    pair: fifo
    group: size
    exit: failure
  collections: {start: gc_minor-start, end: gc_minor-end, key: {start: thread, end: thread}, pair: first}
  whole:
    dmax: 50ms
    exit: failure
    explain: true
    qta: {p99.9: 50ms, p50: 6.5ms, points: {.75: 12ms}, failure: 0.05}
    triggers:
      load: 5000
      qta: true
      failure: 0.050
      hazard: 0.0005
      divergence: 0.05
      loss: true
      condition: p99 > 20*ms && n > 100
`

// Every key has its effect.
func TestEveryKey(t *testing.T) {
	want := config.Config{
		Dir:        ".",
		Target:     vm.Target{Node: "shop@db1"},
		Diagram:    "# the whole\nwhole = a -> f:race(b, c);\n",
		Window:     250 * time.Millisecond,
		Base:       2 * time.Microsecond,
		History:    60,
		Confidence: 0.99,
		Samples:    20,
		HoldOff:    30 * time.Second,
		Explain:    true,
		Wrapper: config.Wrapper{
			Listen:  "0.0.0.0:8080",
			Connect: []string{"127.0.0.1:8081", "localhost:8082", "[::1]:8083"},
			Remote:  true,
		},
		Snapshots: config.Snapshots{Dir: "seen", Before: 10, After: 500 * time.Millisecond, Keep: 7, Size: 1 << 30},
		Outcomes: []config.Outcome{
			{Name: "by_exponent", Span: "by_exponent", Scale: config.Scale{Exponent: 3, Bins: 10}},
			{Name: "by_dmax", Span: "żółw", Scale: config.Scale{DMax: 1500 * time.Millisecond, Bins: 3}},
			{Name: "narrow", Span: "narrow", Scale: config.Scale{Exponent: -1, Bins: 1000}, Explain: config.Off},
			{Name: "tcp", Wrapper: "narrow", Scale: config.Scale{Bins: 50}},
			{Name: "gc", VM: outcome.Events{Builtin: "gc"}, Group: "mfa", Scale: config.Scale{DMax: 20 * time.Millisecond, Bins: 1000}},
			{Name: "gc_fine", VM: outcome.Events{Builtin: "gc"}, Scale: config.Scale{DMax: 20 * time.Millisecond, Bins: 500}},
			{Name: "gc_short", VM: outcome.Events{Builtin: "gc"}, Scale: config.Scale{DMax: time.Millisecond, Bins: 50}},
			{Name: "gc_based", VM: outcome.Events{Builtin: "gc"}, Scale: config.Scale{Exponent: 1, Bins: 50}},
			{Name: "served", VM: outcome.Events{
				Start: `message-receive[receiver="<0.123.0>"]`, End: `message-send[sender="<0.123.0>"]`,
				StartKey: "sender", EndKey: "sender", Pairing: dtrace.Last,
			}, Scale: config.Scale{Bins: 50}},
			{Name: "hops", VM: outcome.Events{
				Start: "message__send", End: "message-queued or message-receive", StartKey: "receiver", EndKey: "receiver", Pairing: dtrace.FIFO,
			}, Group: "size", ExitFails: true, Scale: config.Scale{Bins: 50}},
			{Name: "collections", VM: outcome.Events{
				Start: "gc_minor-start", End: "gc_minor-end", StartKey: "thread", EndKey: "thread", Pairing: dtrace.First,
			}, Scale: config.Scale{Bins: 50}},
			{
				Name:      "whole",
				Span:      "whole",
				Scale:     config.Scale{DMax: 50 * time.Millisecond, Bins: 50},
				ExitFails: true,
				Explain:   config.On,
				QTA: &config.QTA{
					Points: []dq.Step{
						{T: 6500 * time.Microsecond, P: 0.5},
						{T: 12 * time.Millisecond, P: 0.75},
						{T: 50 * time.Millisecond, P: 0.999},
					},
					Failure: 0.05,
				},
				Triggers: []config.Trigger{
					{Kind: "condition", Setting: "p99 > 20*ms && n > 100"},
					{Kind: "divergence", Setting: "true"},
					{Kind: "failure", Setting: "0.05"},
					{Kind: "hazard", Setting: "0.0005"},
					{Kind: "load", Setting: "5000"},
					{Kind: "loss", Setting: "true"},
					{Kind: "qta", Setting: "true"},
				},
			},
		},
	}
	if diff := cmp.Diff(want, parse(t, every)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Without failure, a QTA allows any share of failures.
func TestQTAWithoutFailure(t *testing.T) {
	got := parse(t, "outcomes: {a: {qta: {points: {1: 0s}}}}").Outcomes[0].QTA
	if diff := cmp.Diff(&config.QTA{Points: []dq.Step{{P: 1}}, Failure: 1}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A configuration with spans of the wrapper listens for wrappers by default.
func TestWrapperDefault(t *testing.T) {
	for text, want := range map[string]config.Wrapper{
		"outcomes: {a: {wrapper: a}}":                               {Listen: "127.0.0.1:8080"},
		"outcomes: {a: {}}\nwrapper: {}":                            {Listen: "127.0.0.1:8080"},
		"outcomes: {a: {}}\nwrapper: {listen: '[::1]:1'}":           {Listen: "[::1]:1"},
		"outcomes: {a: {}}\nwrapper: {connect: ['localhost:8081']}": {Listen: "127.0.0.1:8080", Connect: []string{"localhost:8081"}},
		"outcomes: {a: {}}":                                         {},
	} {
		if diff := cmp.Diff(want, parse(t, text).Wrapper); diff != "" {
			t.Errorf("%s: -want +got:\n%s", text, diff)
		}
	}
}

// A target is a process, a node or an executable, optionally limited to one user.
func TestTargets(t *testing.T) {
	for text, want := range map[string]vm.Target{
		"{pid: 1234}":              {PID: 1234},
		"{node: a@b}":              {Node: "a@b"},
		"{exe: beam.smp}":          {Exe: "beam.smp"},
		"{exe: /usr/bin/beam.smp}": {Exe: "/usr/bin/beam.smp"},
		"{node: a@b, user: shop}":  {Node: "a@b", User: "shop"},
		"{user: 1001, exe: beam}":  {Exe: "beam", User: "1001"},
		"{user: rabbitmq}":         {User: "rabbitmq"},
	} {
		if got := parse(t, "target: "+text+"\noutcomes: {a: {}}").Target; got != want {
			t.Errorf("%s: %+v", text, got)
		}
	}
}

// A diagram may be in a file next to the scope file.
func TestDiagramFile(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"system.dq": "probe = a;", "scope.yaml": "diagram: system.dq"})
	c, err := config.Load(filepath.Join(dir, "scope.yaml"))
	if err != nil || c.Diagram != "probe = a;" || c.DiagramFile != "system.dq" {
		t.Errorf("%+v, error %v", c, err)
	}
	if got, want := c.Path(c.DiagramFile), filepath.Join(dir, "system.dq"); got != want {
		t.Errorf("it is in %s, want %s", got, want)
	}
}

// Files that do not exist or are too large are rejected, with their names.
func TestLoadRefuses(t *testing.T) {
	dir := t.TempDir()
	large := filepath.Join(dir, "large.yaml")
	if err := os.WriteFile(large, make([]byte, 1<<20+1), 0o644); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		dir:                            dir + ": is a folder: name the scope file in it",
		large:                          large + ": is not a file of at most 1024 KiB",
		filepath.Join(dir, "none.yml"): filepath.Join(dir, "none.yml") + ": cannot be read: no such file or directory",
	} {
		if _, err := config.Load(path); !errors.Is(err, config.ErrInvalid) || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}
