package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/scope"
	"github.com/beamscope/beamscope/internal/vmtest"
)

// Spans that are slow for a known reason are explained by it, with a scope file and
// without.
func TestTraceLive(t *testing.T) {
	vmtest.NeedEBPF(t)
	beam := vmtest.Start(t, erlang.Options{})
	file := filepath.Join(t.TempDir(), "scope.yaml")
	if err := os.WriteFile(file, []byte("outcomes: {slow: {dmax: 10s}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ scenario, config, want string }{
		{"gc", "", "garbage collection of its own process"},
		{"mailbox", file, "mailbox wait of "},
		{"callee", file, ", reached over <"},
	} {
		t.Run(test.scenario, func(t *testing.T) {
			f := traceFlags{count: 3, outcome: "slow"}
			f.observe.pid, f.observe.config = beam.PID(), test.config
			text := traced(t, f, func() {
				vmtest.Call(t, beam, "causes", "run", fmt.Sprintf("[%s, #{spans => 2}]", test.scenario))
			})
			if !strings.Contains(text, test.want) {
				t.Errorf("the time went, without %q:\n%s", test.want, text)
			}
		})
	}
}

// traced returns what is shown of what a VM does meanwhile, again and again until some of
// it is explained.
func traced(t *testing.T, f traceFlags, load func()) string {
	t.Helper()
	c, err := f.configured()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	loaded := make(chan struct{})
	go func() {
		defer close(loaded)
		for ctx.Err() == nil {
			load()
		}
	}()
	k := f.keeper()
	o := f.observation(c, enough{keeping{k}, cancel})
	err = observe(ctx, c, o, io.Discard)
	cancel()
	<-loaded
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := f.print(&out, io.Discard, k); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// An enough printer calls done once there are some explained instances.
type enough struct {
	keeping
	done func()
}

// Frame implements printer.
func (e enough) Frame(f *scope.Frame) error {
	err := e.keeping.Frame(f)
	if totals := e.Totals(); len(totals) > 0 && totals[0].Instances >= 5 {
		e.done()
	}
	return err
}
