package bpf_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// builtins are the outcomes of these built-in rules.
func builtins(t *testing.T, names ...string) []bpf.Outcome {
	t.Helper()
	var outcomes []bpf.Outcome
	for _, b := range dtrace.Builtins() {
		for _, name := range names {
			if b.Name == name {
				o := named(name, endless)
				o.Rule = &b.Rule
				outcomes = append(outcomes, o)
			}
		}
	}
	if len(outcomes) != len(names) {
		t.Fatalf("only %d of %v are built in", len(outcomes), names)
	}
	return outcomes
}

// If the context ends while programs are loaded, Attach and Change load no further program and
// leave everything as it was. They work when they are called again.
func TestAttachIsStopped(t *testing.T) {
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	errStopped := errors.New("stopped by the test")
	stop := func(error) {}
	loads := 0
	c := vmtest.NewCollector(t, bpf.Options{
		Outcomes: builtins(t, "gc", "message"),
		Progress: func(int, int) { loads++; stop(errStopped) },
	})
	target := vmtest.Target(t, vm)
	check := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, errStopped) {
			t.Errorf("%s: %v, want %v", what, err, errStopped)
		}
		if most := runtime.GOMAXPROCS(0); loads > most { // one for each loader
			t.Errorf("%s loaded %d programs after the context was done, want at most %d in all", what, loads, most)
		}
		stop, loads = func(error) {}, 0
	}

	attaching, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	stop = cancel
	_, err := c.Attach(attaching, target)
	check("Attach", err)
	a, err := c.Attach(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	before := a.Probes()

	more := append(builtins(t, "gc", "message", "run", "call"), load(endless))
	from := func() int64 { from, _ := c.Window(uint64(c.Number(monotonic.Now()) + 100)); return from }
	changing, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	stop, loads = cancel, 0
	_, err = c.Change(changing, from(), int64(time.Second), more)
	check("Change", err)
	if diff := cmp.Diff(before, a.Probes()); diff != "" {
		t.Errorf("after the change that was stopped:\n-before +after:\n%s", diff)
	}
	if missing, err := c.Change(t.Context(), from(), int64(time.Second), more); missing != nil || err != nil {
		t.Errorf("the change again: %v, %v", missing, err)
	}
}
