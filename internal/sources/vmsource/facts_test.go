package vmsource_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/sources/vmsource"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// distort stops a VM, and overwrites the sizes of its table of processes, as the owner of a process can.
// The VM is killed at the end.
func distort(t *testing.T, v *erlang.VM) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(syscall.Kill(v.PID(), syscall.SIGSTOP))
	t.Cleanup(func() { _ = syscall.Kill(v.PID(), syscall.SIGKILL) })
	found, _, err := vm.Find(t.Context(), vm.Target{PID: v.PID()})
	must(err)
	file, err := found[0].Open(t.Context())
	must(err)
	defer file.Close()
	bias, err := found[0].Process.Bias(found[0].Exe, file)
	must(err)
	image, err := vm.ImageOf(file)
	must(err)
	memory, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", v.PID()), os.O_WRONLY, 0)
	must(err)
	defer memory.Close()
	_, err = memory.WriteAt(bytes.Repeat([]byte{7}, 40), int64(image.Terms.Processes+bias))
	must(err)
}

// about returns a function that reports whether a notice is about a VM, and more than that it is observed.
func about(v *erlang.VM) func(string) bool {
	return func(n string) bool {
		return strings.Contains(n, fmt.Sprintf("pid %d", v.PID())) && !strings.HasPrefix(n, "observing ")
	}
}

// The memory of one VM decides nothing about another VM that runs the same executable, whichever is
// found first. Each is observed by what it shows itself. A notice names the one that differs.
func TestFactsOfAnotherVM(t *testing.T) {
	const before, after, later = "found before the other", "found after the other", "changed later"
	for _, when := range []string{before, after, later} {
		t.Run(when, func(t *testing.T) {
			otp := vmtest.OTP(t)
			if image := vm.ReleaseOf(otp.Emulator()); dtrace.TermsOn(image) != dtrace.TermsByPlace {
				otp = vmtest.Release(t, 27)
			}
			otp, err := otp.Private(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			a, b := vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Probes}), vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Probes})
			if when == after {
				a, b = b, a
			}
			if when != later {
				distort(t, a)
			}
			s := newSourceOf(t, vmsource.Config{Target: exe(t, b), Plan: outcome.Plan{Window: 200 * time.Millisecond, Specs: []outcome.Spec{{
				Name: "outcome", Span: "load", BinWidth: 10 * time.Millisecond, Bins: 50, Detail: outcome.Everything, Explain: true,
			}}}})
			if when == later {
				distort(t, a)
				s.Check(a.PID())
			}
			id := outcome.VM{PID: b.PID()}
			if facts, _ := s.Facts(b.PID()); facts.Terms.Form != dtrace.TermsByPlace || facts.NoTerms != nil || facts.Layout.State == 0 {
				t.Errorf("the VM is observed by the facts of another one: %+v, %v, %+v", facts.Terms, facts.NoTerms, facts.Layout)
			}
			s.collectUntil("a notice about the other one", func() bool { return slices.ContainsFunc(s.notices(), about(a)) })
			if slices.ContainsFunc(s.notices(), about(b)) {
				t.Errorf("a notice about the VM that does not differ: %q", s.notices())
			}
			run(t, b, 50)
			s.collectNow()
			if got := s.totals()[id]; got.Successes != 50 || got.Loss.Total() != 0 {
				t.Errorf("%+v", got)
			}
			if s.batches[len(s.batches)-1].Renew {
				s.change(s.plan.Window, s.plan.Specs...)
			}
			s.collectUntil("the other one", func() bool { _, observed := s.Facts(a.PID()); return observed })
			if facts, _ := s.Facts(a.PID()); facts.NoTerms == nil || facts.PID != a.PID() {
				t.Errorf("the VM that differs is observed by %+v, %v, pid %d", facts.Terms, facts.NoTerms, facts.PID)
			}
			run(t, b, 50)
			s.collectNow()
			if got := s.totals()[id]; got.Successes != 100 {
				t.Errorf("%+v", got)
			}
		})
	}
}

// If the debugging information is found for one VM only, because another user runs the same executable
// by another path, each is observed by what is found for it.
func TestFactsByAnotherPath(t *testing.T) {
	otp := vmtest.Private(t) // where no other user can write, so what is found there is believed
	_, link := vmtest.OfTwoUsers(t)
	vmtest.Separate(t, otp.Emulator(), otp.Emulator()+".debug")
	options := ofCopies(t, otp)
	name := filepath.Join(link.Bin, copies.Exe)
	if err := errors.Join(os.Remove(link.Emulator()), os.Link(filepath.Join(otp.Bin, copies.Exe), name)); err != nil {
		t.Fatal(err)
	}
	poor, rich := vmtest.StartOn(t, link, options), vmtest.StartOn(t, otp, options)
	s := newSourceOf(t, vmsource.Config{Target: copies, Plan: outcome.Plan{Window: 200 * time.Millisecond, Specs: []outcome.Spec{{
		Name: "outcome", Span: "load", BinWidth: 10 * time.Millisecond, Bins: 50, Detail: outcome.Everything, Explain: true,
	}}}})
	s.collectUntil("a notice about the one that differs", func() bool { return slices.ContainsFunc(s.notices(), about(rich)) })
	if _, observed := s.Facts(rich.PID()); observed {
		t.Error("the VM is observed by the facts of another one")
	}
	s.collectUntil("that a new plan is wanted", func() bool { n := len(s.batches); return n > 0 && s.batches[n-1].Renew })
	s.change(s.plan.Window, s.plan.Specs...)
	s.collectUntil("the VM that differs", func() bool { _, observed := s.Facts(rich.PID()); return observed })
	s.collectNow()
	for v, known := range map[*erlang.VM]bool{poor: false, rich: true} {
		if facts, _ := s.Facts(v.PID()); (facts.Layout.State != 0) != known || facts.PID != v.PID() {
			t.Errorf("pid %d: %+v of pid %d", v.PID(), facts.Layout, facts.PID)
		}
		id := outcome.VM{PID: v.PID()}
		before := s.totals()[id].Successes
		run(t, v, 30)
		s.collectNow()
		if got := s.totals()[id].Successes - before; got != 30 {
			t.Errorf("pid %d: %d spans, want 30", v.PID(), got)
		}
	}
}
