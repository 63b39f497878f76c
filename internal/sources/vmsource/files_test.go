package vmsource_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// ofCopies renames an emulator, so that the target copies means no VM of another test. It returns the
// options for its VMs.
func ofCopies(t *testing.T, otp erlang.OTP) erlang.Options {
	t.Helper()
	if err := os.Rename(otp.Emulator(), filepath.Join(otp.Bin, copies.Exe)); err != nil {
		t.Fatal(err)
	}
	return erlang.Options{Carrier: erlang.Probes, Args: []string{"-emu_type", "copies"}}
}

var copies = vm.Target{Exe: "beam.copies.smp"}

// A user starts VMs of copies of an executable and kills them. beamscope detaches from each copy some
// time after its VM has ended. Another user's VM loses nothing meanwhile. A VM that runs a copy again is
// found again.
func TestDetachFromCopies(t *testing.T) {
	_, otherOTP := vmtest.OfTwoUsers(t)
	other := vmtest.StartOn(t, otherOTP, ofCopies(t, otherOTP))
	s := newSource(t, copies)
	stop := load(t, other, "load")
	const all = 3
	var last erlang.OTP
	want := make(map[outcome.VM]outcome.Counts)
	options := erlang.Options{}
	for i := range all {
		last = vmtest.Private(t)
		options = ofCopies(t, last)
		var v *erlang.VM
		s.collectDuring(func() { v = vmtest.StartOn(t, last, options) })
		id := outcome.VM{PID: v.PID()}
		s.collectUntil("a VM of a copy", s.noticed("observing "+id.String()))
		s.collectDuring(func() { run(t, v, 10*(i+1)) })
		s.collectNow()
		if s.Files() != i+2 {
			t.Fatalf("%d executables are attached to, want %d", s.Files(), i+2)
		}
		want[id] = succeeded(id, uint64(10*(i+1)))
		s.collectDuring(func() { _ = v.Stop() })
		s.collectUntil("its end", s.noticed(id.String()+" has exited"))
	}
	s.collectUntil("that no VM runs the copies", func() bool { return s.Idle() == all })
	s.AgeIdle()
	s.collectUntil("that beamscope detaches", func() bool { return s.Files() == 1 })
	s.change(s.plan.Window, s.plan.Specs[0], outcome.Spec{Name: "more", Span: "more", BinWidth: time.Millisecond, Bins: 50})
	s.collectNow()
	rounds := stop()
	s.collectNow()
	otherID := outcome.VM{PID: other.PID()}
	want[otherID] = succeeded(otherID, rounds)
	got := s.totals()
	for id := range got {
		if _, wanted := want[id]; !wanted { // windows without a VM
			delete(got, id)
		}
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(outcome.Counts{}, "Outcome")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}

	again := vmtest.StartOn(t, last, options)
	if observed(t, again) {
		t.Error("a VM of a copy pays, although beamscope has detached from it")
	}
	againID := outcome.VM{PID: again.PID()}
	s.collectUntil("the VM that runs a copy again", s.noticed("observing "+againID.String()))
	run(t, again, 7)
	s.collectNow()
	if got := s.totals()[againID]; got.Successes != 7 {
		t.Errorf("%d spans of the VM that runs a copy again, want 7", got.Successes)
	}
}

// While attaching for a user takes too much time, one line says so, and the user's next VM is observed
// later.
func TestAttachingWaits(t *testing.T) {
	first := vmtest.Private(t)
	s := func() *source {
		vmtest.StartOn(t, first, ofCopies(t, first))
		return newSource(t, copies)
	}()
	s.Spend(0, 5*time.Second+300*time.Millisecond)
	otp := vmtest.Private(t)
	var v *erlang.VM
	options := ofCopies(t, otp)
	s.collectDuring(func() { v = vmtest.StartOn(t, otp, options) })
	id := outcome.VM{PID: v.PID()}
	waits := func(n string) bool {
		return strings.HasPrefix(n, "the events of "+id.String()+" are not observed yet: attaching to executables of user 0 takes too much time")
	}
	s.collectUntil("that it waits", func() bool { return slices.ContainsFunc(s.notices(), waits) })
	s.collectUntil("that it is observed", s.noticed("observing "+id.String()))
	for _, st := range s.Status() {
		if st.VM == id && st.Refused != "" {
			t.Errorf("%+v", st)
		}
	}
}
