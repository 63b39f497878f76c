package vmsource_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/beamscope/beamscope/internal/sources/vmsource"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/seen"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// discoverer observes a VM with discovery.
func discoverer(t *testing.T, v *erlang.VM, specs ...outcome.Spec) *source {
	t.Helper()
	return newSourceOf(t, vmsource.Config{
		Target:   vm.Target{PID: v.PID()},
		Plan:     outcome.Plan{Window: 200 * time.Millisecond, Specs: specs},
		Discover: true,
	})
}

// spanOf makes the VM start and end n spans with a name.
func spanOf(t *testing.T, v *erlang.VM, name string, n int) {
	t.Helper()
	vmtest.Call(t, v, "span_load", "run", fmt.Sprintf("[#{procs => 1, spans => %d, name => <<%q>>}]", n, name))
}

// Without any spec, a window has no counts, but names are found. Each name is passed on once,
// however many collectors see it.
func TestDiscovered(t *testing.T) {
	v := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	s := discoverer(t, v)
	spanOf(t, v, "a", 3)
	spanOf(t, v, "b", 3)
	if diff := cmp.Diff([]outcome.Discovery{{Name: "a"}, {Name: "b"}}, s.Discovered()); diff != "" {
		t.Errorf("discovered, -want +got:\n%s", diff)
	}
	s.collectUntil("what that cost", func() bool {
		return slices.ContainsFunc(s.batches, func(b outcome.Batch) bool { return b.Cost.Events > 0 })
	})
	for _, b := range s.batches {
		if len(b.Counts) != 0 {
			t.Errorf("counts of no outcome: %+v", b.Counts)
		}
	}

	large := spec("a", 60_000, outcome.CountsOnly) // needs more room than there is
	s.change(200*time.Millisecond, large)
	if !s.noticed("what is observed has changed, so programs are attached anew: instances that are open at that moment are lost")() {
		t.Errorf("no other collector took over: %q", s.notices())
	}
	spanOf(t, v, "b", 3)
	spanOf(t, v, "c", 3)
	if diff := cmp.Diff([]outcome.Discovery{{Name: "c"}}, s.Discovered()); diff != "" {
		t.Errorf("discovered after the change, -want +got:\n%s", diff)
	}
	s.collectNow()
}

// One notice reports that there are more names than can be discovered.
func TestDiscoveredTooMany(t *testing.T) {
	v := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	s := discoverer(t, v)
	start := func(from, to int) {
		vmtest.Eval(t, v, fmt.Sprintf(`[beamscope:start_span(<<"n", (integer_to_binary(I))/binary>>) || I <- lists:seq(%d, %d)], ok`, from, to))
	}
	start(1, 400)
	if n := len(s.Discovered()); n != 400 {
		t.Errorf("%d names, want 400", n)
	}
	start(401, 800)
	if n := len(s.Discovered()); n != bpf.MaxNames-400 {
		t.Errorf("%d names more, want %d", n, bpf.MaxNames-400)
	}
	s.Discovered()
	s.collectNow()
	said := 0
	for _, n := range s.notices() {
		if n == fmt.Sprintf("spans of pid %d of user 0 have too many names, more than %d with those of other VMs of that user: what came later is not discovered", v.PID(), bpf.MaxNames) {
			said++
		}
	}
	if said != 1 {
		t.Errorf("%d notices, want 1: %q", said, s.notices())
	}
}

// The status lists the attached probes with their purpose, and stays after a VM has ended.
func TestStatus(t *testing.T) {
	otp := vmtest.Private(t)
	v := vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Probes})
	exits := spec("b", 10, outcome.CountsOnly)
	exits.ExitFails = true
	s := newSourceOf(t, vmsource.Config{
		Target:   exe(t, v),
		Plan:     outcome.Plan{Window: 200 * time.Millisecond, Specs: []outcome.Spec{spec("a", 10, outcome.CountsOnly), exits}},
		Discover: true,
	})
	probe := func(name string, outcomes ...string) outcome.ProbeStatus {
		return outcome.ProbeStatus{Name: fmt.Sprintf("user_trace-n%d", bpf.Label(name)), Sites: 1, Outcomes: outcomes, Discover: true, Seen: seen.Probe}
	}
	want := []outcome.ProbeStatus{
		{Name: "process-exit", Sites: 1, Outcomes: []string{"b"}, Seen: seen.Probe},
		probe("a", "a"), probe("b", "b"),
		{Name: outcome.DiscoveryProbes, Sites: 948, Discover: true},
	}
	byName := func(a, b outcome.ProbeStatus) int { return slices.Compare([]byte(a.Name), []byte(b.Name)) }
	sorted := func(probes []outcome.ProbeStatus) []outcome.ProbeStatus {
		return slices.SortedFunc(slices.Values(probes), byName)
	}
	got := s.Status()
	if len(got) != 1 || got[0].VM.PID != v.PID() || got[0].Exe != exe(t, v).Exe || got[0].Since == 0 || got[0].Ended || got[0].Refused != "" {
		t.Fatalf("%+v", got)
	}
	if diff := cmp.Diff(sorted(want), sorted(got[0].Probes)); diff != "" {
		t.Errorf("probes, -want +got:\n%s", diff)
	}

	if err := v.Stop(); err != nil {
		t.Fatal(err)
	}
	s.collectUntil("its end", func() bool { return s.Status()[0].Ended })
	s.collectNow()
	s.collectNow()
	if got := s.Status(); len(got) != 1 || !got[0].Ended || len(got[0].Probes) != 0 {
		t.Errorf("after its end: %+v", got)
	}
}

// While a process that is called like a VM and cannot be observed runs, the status contains it with
// the reason.
func TestStatusOfRefused(t *testing.T) {
	v := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	target := exe(t, v)
	s := newSource(t, target)
	// A program that is no VM replaces the executable.
	program, err := os.ReadFile("/bin/sleep")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(target.Exe), os.WriteFile(target.Exe, program, 0o755)); err != nil {
		t.Fatal(err)
	}
	other := exec.CommandContext(t.Context(), target.Exe, "1h")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	refused := func() *outcome.VMStatus {
		all := s.Status()
		i := slices.IndexFunc(all, func(v outcome.VMStatus) bool { return v.VM.PID == other.Process.Pid })
		if i < 0 {
			return nil
		}
		return &all[i]
	}
	s.collectUntil("what is refused", func() bool { return refused() != nil })
	if r := refused(); !strings.Contains(r.Refused, vm.ErrNotVM.Error()) || r.Since != 0 || len(r.Probes) != 0 {
		t.Errorf("%+v", r)
	}
	if err := other.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = other.Wait() // the error reports that it was killed
	s.collectUntil("its end", func() bool { return refused() == nil })
}
