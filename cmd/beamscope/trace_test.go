package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/engine/session"
	"github.com/beamscope/beamscope/internal/engine/worst"
	"github.com/beamscope/beamscope/internal/explain/trace"
	"github.com/beamscope/beamscope/internal/files/recording"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// Spans that are slow for a known reason have that explanation, with a scope file and without.
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

// traced returns the output of trace while load runs. It repeats that until something is
// explained.
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

// An enough printer calls done after some explained instances.
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

// If a VM exits before a span was explained, the error names the VM and the time for which it was
// observed, whatever the value of --for.
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

// The error contains the reason why no span was explained.
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
		{0, 0, false, 1, []outcome.VMStatus{running}, "the observation ended before two whole windows were over: let it run for some seconds"},
		{0, 0, true, 2, []outcome.VMStatus{running}, "spans were found, and it ended 2s after the observation began, before any of them was observed: let it run for some seconds"},
		{3, 0, true, 2, []outcome.VMStatus{running, exited}, "3 started in 2s and none ended: give them more time with --for"},
		{3, 2, true, 2, nil, "2 ended in 2s, and nothing was recorded of them"},
		{3, 2, true, 2, []outcome.VMStatus{exited, refused}, exited.VM.String() + " exited, 2s after the observation began"},
	} {
		k := keeping{Keeper: new(worst.Keeper)}
		for n := range 2 {
			f := scope.Frame{Window: outcome.Window{From: int64(n) * 1e9, To: int64(n+1) * 1e9}}
			if n == 0 {
				f.Outcomes = []scope.Outcome{{Counts: outcome.Counts{Starts: test.starts, Successes: test.ends}}}
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

// An awaited is a log that signals when a text was written to it.
type awaited struct {
	mu    sync.Mutex
	text  string
	want  string
	found chan struct{} // closed then
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

// trace explains the spans of the distribution's own VMs: a span waits for the process that it
// calls.
func TestTraceOfStockVM(t *testing.T) {
	vmtest.NeedEBPF(t)
	file := filepath.Join(t.TempDir(), "scope.yaml")
	if err := os.WriteFile(file, []byte("outcomes: {slow: {dmax: 10s}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, release := range vmtest.StockReleases() {
		t.Run(strconv.Itoa(release), func(t *testing.T) {
			beam := vmtest.StartOn(t, vmtest.Stock(t, release), erlang.Options{})
			vmtest.Eval(t, beam, `Server = spawn(fun Loop() -> receive {From, Ref} -> truth:busy(30000000), From ! Ref, Loop() end end),
				Call = fun() -> Ref = make_ref(), Server ! {self(), Ref}, receive Ref -> ok end end,
				spawn(fun Loop() -> ok = beamscope:with_span(<<"slow">>, Call), Loop() end), ok`)
			out, err := exec.CommandContext(t.Context(), "beamscope", "trace", "--pid", strconv.Itoa(beam.PID()), "-c", file, "--for", "5s", "-n", "1").CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if want := `(?s)slow #.*waiting for <0\.\d+\.0>.*running of <0\.\d+\.0>`; !regexp.MustCompile(want).Match(out) {
				t.Errorf("%s\nwant %q", out, want)
			}
		})
	}
}

// If spans cannot be explained because no VM has probes or is a known build, trace ends at once and
// suggests alternatives.
func TestTraceWithoutProbes(t *testing.T) {
	vmtest.NeedEBPF(t)
	file := filepath.Join(t.TempDir(), "scope.yaml")
	if err := os.WriteFile(file, []byte("outcomes: {slow: {dmax: 10s}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	beam := vmtest.StartOn(t, vmtest.WithoutProbes(t), erlang.Options{})
	vmtest.Eval(t, beam, `beamscope:with_span(<<"slow">>, fun() -> ok end)`)
	for _, config := range []string{"", file} {
		cmd := exec.CommandContext(t.Context(), "beamscope", "trace", "--pid", strconv.Itoa(beam.PID()), "--for", "1s")
		if config != "" {
			cmd.Args = append(cmd.Args, "-c", config)
		}
		out, err := cmd.CombinedOutput()
		exit := (*exec.ExitError)(nil)
		if !errors.As(err, &exit) || exit.ExitCode() != 1 {
			t.Errorf("%v", err)
		}
		want := fmt.Sprintf(`^beamscope: spans of pid %d \(.*\) cannot be explained: .* `+"without probes.*`beamscope run` .*`beamscope top`.*\n$", beam.PID())
		if !regexp.MustCompile(want).Match(out) {
			t.Errorf("%q, want %q", out, want)
		}
	}
}

// For a recording without explanations the error gives advice, if there is any.
func TestTraceUnexplainedRecording(t *testing.T) {
	span := outcome.Spec{Name: "a", Span: "a", BinWidth: 1, Bins: 1}
	explained := span
	explained.Explain = true
	overTCP := outcome.Spec{Name: "b", Wrapper: "b", BinWidth: 1, Bins: 1}
	ofVM := outcome.Spec{Name: "gc", VM: outcome.Events{Builtin: "gc"}, BinWidth: 1, Bins: 1}
	for name, test := range map[string]struct {
		specs []outcome.Spec
		want  string
	}{
		"spans":            {[]outcome.Spec{span, overTCP, ofVM}, "no span in it is explained: record them with --explain, or write explain: true in the scope file, see docs/reference/explain.md"},
		"to be explained":  {[]outcome.Spec{explained, ofVM}, "it explains no span, although explanations were on: they need a VM with probes or of a known build, and spans that end during the recording, see docs/reference/explain.md"},
		"over TCP":         {[]outcome.Spec{overTCP, ofVM}, "its spans came over TCP, which does not say where their time went: only spans that programs in the kernel see can be explained, see docs/reference/explain.md"},
		"none":             {[]outcome.Spec{ofVM}, "it has no spans, and only spans are explained, see docs/reference/explain.md"},
		"no configuration": {nil, "it has no spans, and only spans are explained, see docs/reference/explain.md"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.bsr")
			w, err := recording.Create(path, false, recording.Header{Time: time.Now()})
			if err != nil {
				t.Fatal(err)
			}
			if test.specs != nil {
				err = w.Config(&recording.Config{Plan: outcome.Plan{Window: time.Second, Specs: test.specs}})
			}
			if err := errors.Join(err, w.Close()); err != nil {
				t.Fatal(err)
			}
			f := traceFlags{count: 1}
			if err := f.recorded(t.Context(), path, io.Discard, io.Discard); err == nil || err.Error() != path+": "+test.want {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

// A span that took longer than a dMax that beamscope chose is no timeout, in a recording too.
func TestTraceOfFittedRecording(t *testing.T) {
	for scope, want := range map[string]string{
		"outcomes: {a: {dmax: 5ms, fitted: true}}\n": "a #7: took longer than 5.00ms, a limit that beamscope chose, start ",
		"outcomes: {a: {dmax: 5ms}}\n":               "a #7: timeout after 5.00ms, start ",
	} {
		path := filepath.Join(t.TempDir(), "x.bsr")
		w, err := recording.Create(path, false, recording.Header{Time: time.Now()})
		if err != nil {
			t.Fatal(err)
		}
		const took = int64(5 * time.Millisecond)
		spec := outcome.Spec{Name: "a", Span: "a", BinWidth: time.Millisecond, Bins: 5, Explain: true}
		i := outcome.Instance{
			Outcome: "a", VM: outcome.VM{PID: 1}, ID: 7, Status: outcome.Timeout, End: took, Process: 1,
			Trace: &trace.Trace{Spans: []trace.Span{{Parent: -1, End: took, Process: 1}, {Kind: trace.Running, End: took, Process: 1}}},
		}
		err = errors.Join(
			w.Config(&recording.Config{Files: []recording.File{{Name: "scope.yaml", Text: []byte(scope)}}, Plan: outcome.Plan{Window: time.Second, Specs: []outcome.Spec{spec}}}),
			w.Batch(&outcome.Batch{Window: outcome.Window{To: int64(time.Second)}, Instances: []outcome.Instance{i}}),
			w.Close())
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		f := traceFlags{count: 1}
		if err := f.recorded(t.Context(), path, &out, io.Discard); err != nil || !strings.HasPrefix(out.String(), want) {
			t.Errorf("%v: %q", err, out.String())
		}
	}
}
