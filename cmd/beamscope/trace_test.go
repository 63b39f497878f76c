package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/scope"
	"github.com/beamscope/beamscope/internal/session"
	"github.com/beamscope/beamscope/internal/vmtest"
	"github.com/beamscope/beamscope/internal/worst"
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
		{"mailbox", file, "waiting in the mailbox of "},
		{"callee", file, ", through <"},
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
	c, err := f.configured(t.Context())
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
	o := f.observation(c, enough{&keeping{Keeper: k}, cancel})
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
	*keeping
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

// A VM that exits before a span was explained is named, with the time for which it was
// observed, whatever --for says.
func TestTraceVMExits(t *testing.T) {
	vmtest.NeedEBPF(t)
	beam := vmtest.Start(t, erlang.Options{})
	f := traceFlags{count: 1}
	f.observe.pid, f.observe.duration = beam.PID(), time.Hour
	log := newAwaited("observing")
	done := make(chan error, 1)
	go func() { done <- f.live(t.Context(), io.Discard, log) }()
	select {
	case <-log.found:
	case err := <-done:
		t.Fatal(err)
	}
	if err := beam.Stop(); err != nil {
		t.Fatal(err)
	}
	err := <-done
	want := fmt.Sprintf(`^no span was explained: pid %d exited, \d+(\.\d+)?s after the observation began\. `, beam.PID())
	if err == nil || !regexp.MustCompile(want).MatchString(err.Error()) {
		t.Errorf("error %v, want %s", err, want)
	}
}

// Why no span was explained.
func TestNothingExplained(t *testing.T) {
	running := outcome.VMStatus{VM: outcome.VM{PID: 7, Node: "a@b"}}
	exited := running
	exited.Ended = true
	refused := outcome.VMStatus{VM: outcome.VM{PID: 8}, Refused: "no probes"}
	for _, test := range []struct {
		starts, ends uint64
		found        bool
		whole        int
		vms          []outcome.VMStatus
		want         string
	}{
		{0, 0, false, 2, []outcome.VMStatus{running}, "none started in 2s"},
		{0, 0, false, 1, []outcome.VMStatus{running}, "it ended before two whole windows were observed: let it run for some seconds"},
		{0, 0, true, 2, []outcome.VMStatus{running}, "spans were found, and it ended 2s after the observation began, before any of them was observed: let it run for some seconds"},
		{3, 0, true, 2, []outcome.VMStatus{running, exited}, "3 started in 2s and none ended: give them more time with --for"},
		{3, 2, true, 2, nil, "2 ended in 2s, and nothing was recorded of them"},
		{3, 2, true, 2, []outcome.VMStatus{exited, refused}, exited.VM.String() + " exited, 2s after the observation began"},
	} {
		k := keeping{Keeper: new(worst.Keeper)}
		for n := range 2 {
			f := scope.Frame{Window: outcome.Window{From: int64(n) * 1e9, To: int64(n+1) * 1e9}}
			if n == 0 {
				f.Probes = []scope.Probe{{Counts: outcome.Counts{Starts: test.starts, Successes: test.ends}}}
			}
			if err := k.Frame(&f); err != nil {
				t.Fatal(err)
			}
		}
		k.finish(session.Status{VMs: test.vms, Spans: test.found}, test.whole)
		if got := k.nothing(false).Error(); got != "no span was explained: "+test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}

// An awaited is a log that tells when something was written to it.
type awaited struct {
	mu    sync.Mutex
	text  string
	want  string
	found chan struct{} // is closed then
}

func newAwaited(want string) *awaited { return &awaited{want: want, found: make(chan struct{})} }

// Write implements io.Writer.
func (a *awaited) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	had := strings.Contains(a.text, a.want)
	a.text += string(p)
	if !had && strings.Contains(a.text, a.want) {
		close(a.found)
	}
	return len(p), nil
}
