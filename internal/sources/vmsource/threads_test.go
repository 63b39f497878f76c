package vmsource_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/internal/sources/vmsource"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// standInVM is the environment variable that makes a process of [TestStandInVM] look like a VM.
const standInVM = "BEAMSCOPE_TEST_STAND_IN_VM"

// A VM contains the format of its version. This one is spelled so that the test itself is no VM.
const (
	misspelled = "\x00Erlang/0TP 29%s [erts-16.1] [source]\x00"
	wrong      = "Erlang/0TP 29%s"
)

// TestStandInVM is no test: it is a process with a thread that has the name of a VM's scheduler, and
// that sleeps and wakes up again and again, until its standard input ends.
func TestStandInVM(t *testing.T) {
	if os.Getenv(standInVM) == "" {
		t.Skip("it has no VM to stand in for")
	}
	var over atomic.Bool
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // it ends with the test, also on an error
		over.Store(true)
	}()
	runtime.LockOSThread() // until it ends: no other goroutine must have the name
	name := []byte("erts_sched_1\x00")
	if err := unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&name[0])), 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	for !over.Load() {
		_ = unix.Nanosleep(&unix.Timespec{Nsec: int64(time.Millisecond)}, nil) // a signal may end it early
	}
	t.Logf("%q", misspelled)
}

// startStandIn starts a process that is called beam.smp and has the threads of a VM, until the test
// ends. Its executable contains the version of a VM or not. It has neither probes nor a known build.
func startStandIn(t *testing.T, isVM bool) outcome.VM {
	t.Helper()
	program, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(program, []byte(misspelled)) {
		t.Fatal("the test does not contain the text")
	}
	if isVM {
		program = bytes.ReplaceAll(program, []byte(wrong), []byte(strings.Replace(wrong, "0TP", "OTP", 1)))
	}
	path := filepath.Join(t.TempDir(), "beam.smp")
	if err := os.WriteFile(path, program, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "-test.run=^TestStandInVM$")
	cmd.Env = append(os.Environ(), standInVM+"=1")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	return outcome.VM{PID: cmd.Process.Pid}
}

// osWait is the spec of the waits of schedulers for a processor.
func osWait() outcome.Spec {
	return outcome.Spec{Name: "os-wait", VM: outcome.Events{Builtin: "os-wait"}, BinWidth: time.Millisecond, Bins: 100}
}

// The waits of schedulers for a processor need nothing of the executable, so a VM is observed that
// has no probes and no symbols.
func TestThreadsOfVMWithoutProbes(t *testing.T) {
	stripped := startStandIn(t, true)
	s := newSourceEvery(t, vm.Target{PID: stripped.PID}, 200*time.Millisecond, []outcome.Spec{osWait()})
	s.collectUntil("waits of the thread", func() bool { return s.totals()[stripped].Successes > 0 })
	if all := s.Status(); len(all) != 1 || all[0].Refused != "" {
		t.Errorf("%+v", all)
	}
}

// A process that has the name and the threads of a VM, and is none, does not count.
func TestThreadsOfNoVM(t *testing.T) {
	observed := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	none := startStandIn(t, false)
	s := newSourceEvery(t, vm.Target{}, 200*time.Millisecond, []outcome.Spec{osWait()})
	s.Adopt(none.PID) // as if a program had counted something there
	const windows = 10
	s.collectUntil("waits of the VM, in several windows", func() bool {
		return len(s.batches) > windows && s.totals()[outcome.VM{PID: observed.PID()}].Successes > 0
	})
	if got := s.totals()[none]; got.Starts > 0 || got.Ends > 0 {
		t.Errorf("counted %+v", got)
	}
	for _, b := range s.batches {
		for _, l := range b.Loads {
			if l.VM.PID == none.PID && l.Events > 0 {
				t.Errorf("%d events of it", l.Events)
			}
		}
	}
	if !strings.Contains(strings.Join(s.notices(), "\n"), "not an Erlang VM") {
		t.Errorf("notices: %q", s.notices())
	}
	for _, notice := range s.notices() {
		if strings.Contains(notice, "hits the probes") {
			t.Error(notice)
		}
	}
}

// If a plan also has events of the VM, or has no waits of schedulers, a VM without probes is refused.
func TestEventsOfVMWithoutProbes(t *testing.T) {
	vmtest.NeedEBPF(t)
	stripped := startStandIn(t, true)
	gc := outcome.Spec{Name: "gc", VM: outcome.Events{Builtin: "gc"}, BinWidth: time.Millisecond, Bins: 100}
	span := outcome.Spec{Name: "span", Span: "load", BinWidth: time.Millisecond, Bins: 100}
	for name, specs := range map[string][]outcome.Spec{"events": {osWait(), gc}, "spans": {span}} {
		_, err := vmsource.New(t.Context(), vmsource.Config{
			Target: vm.Target{PID: stripped.PID}, Plan: outcome.Plan{From: monotonic.Now(), Window: time.Second, Specs: specs},
		})
		if !errors.Is(err, vm.ErrNoProbes) || errors.Is(err, vm.ErrNotVM) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A VM without probes that was refused is observed when a plan comes that needs none.
func TestThreadsOfVMThatWasRefused(t *testing.T) {
	v := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	gc := outcome.Spec{Name: "gc", VM: outcome.Events{Builtin: "gc"}, BinWidth: time.Millisecond, Bins: 100}
	stripped := startStandIn(t, true)
	s := newSourceEvery(t, vm.Target{}, 200*time.Millisecond, []outcome.Spec{gc})
	isRefused := func(pid int) bool {
		return slices.ContainsFunc(s.Status(), func(v outcome.VMStatus) bool { return v.VM.PID == pid && v.Refused != "" })
	}
	s.collectUntil("what is refused", func() bool { return isRefused(stripped.PID) })
	s.change(200*time.Millisecond, osWait())
	s.collectUntil("waits of the thread", func() bool { return s.totals()[stripped].Successes > 0 })
	if isRefused(stripped.PID) || isRefused(v.PID()) {
		t.Errorf("%+v", s.Status())
	}
}
