package script_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/beamscope/beamscope/internal/sources/vmsource"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/internal/sources/script"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// compared returns the built-in outcomes that are counted in both ways. Their dMax is longer than
// any delay, because instances that end close to dMax may be timeouts in one way only.
func compared() []outcome.Spec {
	var specs []outcome.Spec
	for _, name := range []string{"gc", "mailbox", "run", "file-io", "lifetime"} {
		specs = append(specs, outcome.Spec{
			Name:     strings.ReplaceAll(name, "-", "_"),
			VM:       outcome.Events{Builtin: name},
			BinWidth: 100 * time.Microsecond,
			Bins:     10_000,
		})
	}
	return specs
}

// load makes a bounded number of instances of all of them, in Erlang.
const load = `
	lists:foreach(fun(I) ->
		{ok, _} = file:read_file("/proc/self/stat"),
		Self = self(),
		Pid = spawn(fun() -> receive {From, N} -> lists:seq(1, 5000), From ! N end end),
		Pid ! {Self, I},
		receive I -> ok end,
		erlang:garbage_collect(),
		timer:sleep(2)
	end, lists:seq(1, 300))`

// A growing is a text that can be read while it is being written.
type growing struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements [io.Writer].
func (g *growing) Write(b []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.text.Write(b)
}

func (g *growing) String() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.text.String()
}

// A tapped is the output of bpftrace, and keeps a copy.
type tapped struct {
	io.Reader
	io.Closer
}

// bpftrace runs the script for outcomes of a VM until the test ends. It returns the output, and a
// copy of the part that was read.
func bpftrace(t *testing.T, beam *erlang.VM, specs []outcome.Spec) (io.ReadCloser, *growing) {
	t.Helper()
	vmtest.NeedProgram(t, "bpftrace")
	vms, _, err := vm.Find(t.Context(), vm.Target{PID: beam.PID()})
	if err != nil {
		t.Fatal(err)
	}
	var outcomes []dtrace.ScriptOutcome
	for _, spec := range specs {
		rule, err := spec.VM.Rule()
		if err != nil {
			t.Fatal(err)
		}
		outcomes = append(outcomes, dtrace.ScriptOutcome{Name: spec.Name, Rule: rule})
	}
	image, err := vms[0].Image()
	if err != nil {
		t.Fatal(err)
	}
	terms, err := vms[0].Terms()
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := dtrace.WriteScript(&text, dtrace.FormatBPFtrace, outcomes, dtrace.ScriptTarget{Exe: vms[0].Exe.Name, PID: beam.PID(), Releases: []int{image.Release}, Stepped: image.Landing > 0, Terms: terms}); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "events.bt")
	if err := os.WriteFile(file, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "bpftrace", "-q", "-p", strconv.Itoa(beam.PID()), file)
	cmd.Env = append(os.Environ(), "BPFTRACE_PERF_RB_PAGES=4096") // prevents losses
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	var complaints growing
	cmd.Stderr = &complaints
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	t.Cleanup(func() {
		_ = cmd.Wait() // interrupted when the test's context is done
		if t.Failed() {
			t.Logf("bpftrace: %s", complaints.String())
		}
	})
	copied := new(growing)
	return tapped{io.TeeReader(r, copied), r}, copied
}

// A race observes the same VM in two ways, in the same windows.
type race struct {
	t       *testing.T
	plan    outcome.Plan
	sources [2]outcome.Source // our programs, and the script
	batches [2][]outcome.Batch
	next    outcome.Window
}

// while collects the windows that are due until do has returned.
func (r *race) while(do func() error) {
	r.t.Helper()
	done := make(chan error, 1)
	go func() { done <- do() }()
	for {
		select {
		case err := <-done:
			if err != nil {
				r.t.Fatal(err)
			}
			return
		case <-time.After(time.Duration(r.next.To + int64(r.plan.Window) - monotonic.Now())):
			r.collect()
		}
	}
}

// collect collects the next window of both.
func (r *race) collect() {
	r.t.Helper()
	for i, s := range r.sources {
		s.Watch(r.t.Context())
		b, err := s.Collect(context.Background(), r.next)
		if err != nil {
			r.t.Fatal(err)
		}
		b.Counts = slices.Clone(b.Counts)
		for i := range b.Counts {
			b.Counts[i].Bins = slices.Clone(b.Counts[i].Bins)
		}
		r.batches[i] = append(r.batches[i], b)
	}
	r.next = r.plan.At(r.plan.Number(r.next.To))
}

// to collects windows up to the one that contains a time.
func (r *race) to(at int64) {
	r.t.Helper()
	r.while(func() error {
		vmtest.WaitUntil(at + 2*int64(r.plan.Window))
		return nil
	})
	for r.next.From <= at {
		r.collect()
	}
}

// sum adds up the counts of an outcome in the windows between two times.
func (r *race) sum(i int, name string, from, to int64) outcome.Counts {
	var sum outcome.Counts
	for _, b := range r.batches[i] {
		if b.Window.From < from || b.Window.To > to {
			continue
		}
		for _, c := range b.Counts {
			if c.Outcome != name || c.VM.PID == 0 {
				continue
			}
			bins := sum.Bins
			sum = sum.Add(c)
			sum.Bins = bins
			if sum.Bins == nil {
				sum.Bins = make([]uint64, len(c.Bins))
			}
			for k, n := range c.Bins {
				sum.Bins[k] += n
			}
		}
	}
	return sum
}

// A VM is observed by the script for bpftrace and by our own programs at the same time. Both give
// the same counts.
// The delays are the same except for the two readings of the clock: at each event one program
// runs after the other. That changes a delay by some microseconds, or by more if a thread loses
// its processor in between. So some delays near the edge of a bin are in the next bin.
func TestAgainstOurs(t *testing.T) {
	vmtest.NeedEBPF(t)
	beam := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	specs := compared()
	// Both attach while nothing happens. A message whose end only one of them sees would disturb
	// all messages that follow.
	text, copied := bpftrace(t, beam, specs)
	attached(t, beam)
	plan := outcome.Plan{From: monotonic.Now() + int64(time.Second), Window: time.Second / 2, Specs: specs}
	theirs, err := script.New(script.Config{Text: text, Plan: plan})
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	ours, err := vmsource.New(t.Context(), vmsource.Config{Target: vm.Target{PID: beam.PID()}, Plan: plan})
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	r := &race{t: t, plan: plan, sources: [2]outcome.Source{ours, theirs}, next: plan.At(0)}
	r.while(func() error { return awaitProcess(t, beam, copied) })
	// Nothing happens at the edges of the windows that are compared.
	from := plan.At(plan.Number(monotonic.Now()) + 2).From
	r.while(func() error {
		vmtest.WaitUntil(from + int64(plan.Window)/2)
		_, err := beam.Call(t.Context(), "erlang", "apply", vmtest.Fun(load))
		return err
	})
	to := plan.At(plan.Number(monotonic.Now()) + 1).To
	r.to(to)

	for _, s := range specs {
		a, b := r.sum(0, s.Name, from, to), r.sum(1, s.Name, from, to)
		t.Logf("%s: %d starts, %d ends, %d instances", s.Name, a.Starts, a.Ends, a.Instances())
		if a.Instances() < 300 {
			t.Errorf("%s: %d instances", s.Name, a.Instances())
		}
		compareBins(t, s.Name, a, b)
		a.Bins, b.Bins = nil, nil
		a.VM, b.VM = outcome.VM{}, outcome.VM{}
		a.Dropped, b.Dropped = 0, 0 // a script does not report events that fail its conditions
		if s.Name == "mailbox" {    // our programs identify a message by its address, a script by its order
			if a.Inferred != 0 || b.Inferred != b.Instances() {
				t.Errorf("mailbox: %d of ours are inferred, and %d of theirs, want 0 and %d", a.Inferred, b.Inferred, b.Instances())
			}
			a.Inferred, b.Inferred = 0, 0
		}
		if diff := cmp.Diff(a, b); diff != "" {
			t.Errorf("%s (-ours +theirs):\n%s", s.Name, diff)
		}
	}
}

// attached waits until bpftrace has attached to the last probe of its script. It attaches to one
// after the other.
func attached(t *testing.T, beam *erlang.VM) {
	t.Helper()
	const last, patience = "process__spawn", 30 * time.Second
	for begin := time.Now(); vmtest.Semaphore(t, beam.PID(), last) == 0; {
		if time.Since(begin) > patience {
			t.Fatal("bpftrace does not attach")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// awaitProcess makes the VM spawn processes until bpftrace reports one.
func awaitProcess(t *testing.T, beam *erlang.VM, copied *growing) error {
	for !strings.Contains(copied.String(), "\ns lifetime ") {
		if _, err := beam.Call(t.Context(), "erlang", "apply", vmtest.Fun("spawn(fun() -> ok end)")); err != nil {
			return err
		}
	}
	return nil
}

// compareBins compares distributions of delays by the number of delays below each edge.
func compareBins(t *testing.T, name string, a, b outcome.Counts) {
	t.Helper()
	var below, most int64
	for k := range a.Bins {
		below += int64(a.Bins[k]) - int64(b.Bins[k])
		most = max(most, below, -below)
	}
	t.Logf("%s: at most %d of %d are on the other side of an edge", name, most, a.Successes)
	if most > int64(a.Successes)/20 {
		t.Errorf("%s: %d of %d delays are on different sides of an edge", name, most, a.Successes)
	}
}
