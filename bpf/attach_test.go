package bpf_test

import (
	"errors"
	"fmt"
	"maps"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// sameLabel returns n names with the same label.
func sameLabel(n int) []string {
	names := make(map[uint32][]string)
	for i := 0; ; i++ {
		name := fmt.Sprintf("span_%d", i)
		label := bpf.Label(name)
		if names[label] = append(names[label], name); len(names[label]) == n {
			return names[label]
		}
	}
}

func load1(name string, n int) string {
	return fmt.Sprintf(`[#{name => <<"%s">>, spans => %d}]`, name, n)
}

// Names that share a label are counted separately. A third name with that label, which no outcome
// has, is ignored.
func TestNamesOnOneLabel(t *testing.T) {
	names := sameLabel(3)
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	c := vmtest.NewCollector(t, bpf.Options{Outcomes: []bpf.Outcome{
		named(names[0], 300*time.Millisecond), named(names[1], 300*time.Millisecond),
	}})
	c.Observe(vm)

	c.Call(vm, "span_load", "run", load1(names[0], 1000))
	c.Call(vm, "span_load", "failing", load1(names[1], 200))
	c.Call(vm, "span_load", "run", load1(names[2], 30))
	c.Call(vm, "span_load", "open", load1(names[0], 4))
	keep(t, vm, names[1], 5)
	endKept(t, vm)
	endKept(t, vm) // late
	c.ReadAll()

	a, b := succeeded(1000), failed(200)
	a.Starts, a.Timeouts = 1004, 4
	b.Starts, b.Ends, b.Successes, b.Binned, b.Lates = 205, 210, 5, 5, 5
	checkTotal(t, c, 0, vm.PID(), a)
	checkTotal(t, c, 1, vm.PID(), b)
	checkNoOthers(t, c)
}

// Open instances that are given up do not count as timeouts, and their ends do not count as
// instances.
func TestEndsAfterCut(t *testing.T) {
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	c := vmtest.NewCollector(t, bpf.Options{Outcomes: []bpf.Outcome{load(endless)}})
	c.Observe(vm)

	keep(t, vm, "load", 100)
	if err := c.CutOpen(monotonic.Now()); err != nil {
		t.Fatal(err)
	}
	endKept(t, vm)
	c.ReadAll()

	got := c.Total(0, vm.PID())
	if got.Orphans+got.Lates != 100 {
		t.Errorf("%d orphans and %d late, want 100 together", got.Orphans, got.Lates)
	}
	got.Orphans, got.Lates = 0, 0
	if diff := cmp.Diff(vmtest.Total{Counters: bpf.Counters{Starts: 100, Ends: 100, Cut: 100}}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Instances of a VM that has ended are given up, except those that had timed out before. Those of other VMs go on.
func TestCutOfVM(t *testing.T) {
	ended, other := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes}), vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	c := vmtest.NewCollector(t, bpf.Options{Outcomes: []bpf.Outcome{load(endless), named("overdue", 100*time.Microsecond)}})
	c.Observe(ended)
	c.Observe(other)

	const open, overdue, others = 100, 20, 30
	before := monotonic.Now()
	keep(t, ended, "load", open)
	c.Call(ended, "span_load", "open", fmt.Sprintf(`[#{spans => %d, name => <<"overdue">>}]`, overdue))
	keep(t, other, "load", others)
	kill(t, ended)
	now := monotonic.Now()
	checkOpen := func(want map[int]int) {
		t.Helper()
		got, err := c.OpenSpans(ended.PID(), other.PID())
		if err != nil {
			t.Fatal(err)
		}
		if !maps.Equal(got, want) {
			t.Errorf("open: %v, want %v", got, want)
		}
	}
	// Another process may have the pid of the VM by now: what began after the end is its own.
	for _, cut := range []struct {
		end  int64
		open int
	}{{before, open}, {now, 0}} {
		if err := c.CutVMs(map[int]int64{ended.PID(): cut.end}, now); err != nil {
			t.Fatal(err)
		}
		checkOpen(map[int]int{ended.PID(): cut.open, other.PID(): others})
	}
	endKept(t, other)
	c.ReadAll()
	checkTotal(t, c, 0, ended.PID(), vmtest.Total{Counters: bpf.Counters{Starts: open, Cut: open}})
	checkTotal(t, c, 1, ended.PID(), timedOut(overdue))
	checkTotal(t, c, 0, other.PID(), succeeded(others))
	checkNoOthers(t, c)
}

func kill(t *testing.T, vm *erlang.VM) {
	t.Helper()
	if err := syscall.Kill(vm.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-vm.Done()
}

// After detaching from a VM, or closing the collector, the VM's semaphores are 0.
func TestDetachLowersSemaphores(t *testing.T) {
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	c := vmtest.NewCollector(t, bpf.Options{Outcomes: []bpf.Outcome{exitFails(load(endless))}})
	for _, probe := range []string{probeOf("load"), "process__exit"} {
		a, err := c.Attach(t.Context(), vmtest.Target(t, vm))
		if err != nil {
			t.Fatal(err)
		}
		if got := vmtest.Semaphore(t, vm.PID(), probe); got != 1 {
			t.Errorf("attached: the semaphore of %s is %d, want 1", probe, got)
		}
		if err := a.Detach(); err != nil {
			t.Fatal(err)
		}
		if got := vmtest.Semaphore(t, vm.PID(), probe); got != 0 {
			t.Errorf("detached: the semaphore of %s is %d, want 0", probe, got)
		}
	}
	c.Observe(vm)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if got := semaphore(t, vm, "load"); got != 0 {
		t.Errorf("closed: the semaphore is %d, want 0", got)
	}
}

func probeOf(name string) string { return fmt.Sprintf("user_trace__n%d", bpf.Label(name)) }

func semaphore(t *testing.T, vm *erlang.VM, name string) uint16 {
	t.Helper()
	return vmtest.Semaphore(t, vm.PID(), probeOf(name))
}

// A path that leads to another file than the one from which the probes were read is refused,
// because offsets are wrong there.
func TestAttachToReplacedFile(t *testing.T) {
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	c := vmtest.NewCollector(t, bpf.Options{Outcomes: []bpf.Outcome{load(endless)}})
	target := vmtest.Target(t, vm)
	target.Inode = 1
	if _, err := c.Attach(t.Context(), target); !errors.Is(err, bpf.ErrReplaced) {
		t.Errorf("got %v, want %v", err, bpf.ErrReplaced)
	}
}

// expr returns the expression of a text.
func expr(t *testing.T, text string) dtrace.Expr {
	t.Helper()
	e, err := dtrace.ParseExpr(text)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// A probe that is not known to be harmless on the VM's release is not attached to.
func TestRefused(t *testing.T) {
	beam := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	applied := ruled(dtrace.Rule{
		Start: expr(t, "global-function-entry"), End: expr(t, "process-exit"), Key: dtrace.Key{Start: "pid", End: "pid"},
	}, endless)
	for _, test := range []struct {
		outcome bpf.Outcome
		release int
		refused bool
	}{
		{applied, 25, false},
		{applied, 27, true},
		{applied, 29, true},
		{applied, 0, true},
		{load(endless), 27, false},
		{load(endless), 26, true},
		{exitFails(load(endless)), 0, true},
	} {
		c := vmtest.NewCollector(t, bpf.Options{Outcomes: []bpf.Outcome{test.outcome}})
		target := vmtest.Target(t, beam)
		target.Release = test.release
		_, err := c.Attach(t.Context(), target)
		if refused := errors.Is(err, dtrace.ErrRefused); refused != test.refused || err != nil && !refused {
			t.Errorf("%s on OTP %d: %v", test.outcome.Name, test.release, err)
		}
		if test.refused {
			for _, probe := range []string{"global__function__entry", "process__exit", probeOf("load")} {
				if n := vmtest.Semaphore(t, beam.PID(), probe); n != 0 {
					t.Errorf("%s on OTP %d: %s is switched on", test.outcome.Name, test.release, probe)
				}
			}
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	c := vmtest.NewCollector(t, bpf.Options{Discover: true})
	target := vmtest.Target(t, beam)
	target.Release = 0
	if _, err := c.Attach(t.Context(), target); !errors.Is(err, dtrace.ErrRefused) {
		t.Errorf("discovery: %v", err)
	}
}

// A closed collector returns an error.
func TestClosed(t *testing.T) {
	vmtest.NeedEBPF(t)
	c, err := bpf.New(bpf.Options{Outcomes: []bpf.Outcome{load(endless)}, Start: 1, Window: int64(time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Sweep(1); !errors.Is(err, bpf.ErrClosed) {
		t.Errorf("got %v, want %v", err, bpf.ErrClosed)
	}
}

// All programs are loaded together, with progress: each number occurs once, in order, up to the
// total.
func TestLoadingShowsItsProgress(t *testing.T) {
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	var outcomes []bpf.Outcome
	for _, b := range dtrace.Builtins() {
		outcomes = append(outcomes, builtin(t, b.Name, ""))
	}
	var got, want [][2]int
	c := vmtest.NewCollector(t, bpf.Options{Outcomes: outcomes, Progress: func(loaded, all int) {
		got = append(got, [2]int{loaded, all})
	}})
	c.Observe(vm)
	for i := range got {
		want = append(want, [2]int{i + 1, len(got)})
	}
	if diff := cmp.Diff(want, got); diff != "" || len(got) < len(outcomes) {
		t.Errorf("%d outcomes, -want +got:\n%s", len(outcomes), diff)
	}
	c.Observe(vm)
	if len(got) != len(want) {
		t.Errorf("%d programs are loaded again", len(got)-len(want))
	}
}
