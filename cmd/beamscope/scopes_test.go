package main

import (
	"context"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/diagram"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/files/config"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// The scope files of the synthetic systems have a diagram of their outcomes.
func TestScopeFiles(t *testing.T) {
	for _, name := range []string{"mm1k", "ftf", "atf"} {
		c := loadScope(t, name)
		d, err := diagram.Parse(c.Diagram)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if d.Lookup("probe") == nil {
			t.Errorf("%s: the diagram does not define probe", name)
		}
		if diff := cmp.Diff([]string{"worker_1", "worker_2"}, d.Outcomes()); diff != "" {
			t.Errorf("%s: outcomes of the diagram, -want +got:\n%s", name, diff)
		}
	}
}

// The systems have all outcomes that their scope files name. Otherwise this test hangs.
func TestScopesOfSystems(t *testing.T) {
	vmtest.NeedEBPF(t)
	for _, name := range []string{"mm1k", "ftf", "atf"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			beam := vmtest.Start(t, erlang.Options{Main: []string{name}})
			c := loadScope(t, name)
			c.Target = vm.Target{PID: beam.PID()}
			c.Window = config.MinWindow
			c.Snapshots.Dir = t.TempDir()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			all := &waiting{probes: len(c.Outcomes), seen: make(map[string]bool), done: cancel}
			if err := observe(ctx, c, observation{printer: all}, io.Discard); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func loadScope(t *testing.T, name string) config.Config {
	t.Helper()
	c, err := config.Load(name + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A waiting printer prints nothing. It calls done once an instance of each of the required number
// of probes has succeeded.
type waiting struct {
	probes int
	seen   map[string]bool
	done   func()
}

// Frame implements printer.
func (w *waiting) Frame(f *scope.Frame) error {
	for _, p := range f.Outcomes {
		if p.Observed.Successes() > 0 {
			w.seen[p.Name] = true
		}
	}
	if len(w.seen) == w.probes {
		w.done()
	}
	return nil
}

// Close implements printer.
func (w *waiting) Close() error { return nil }
