package vmsource_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// A process that hits the probes of an executable and is not found as a VM costs nothing from the
// next plan on. VMs are observed as before, including those that start later.
func TestStranger(t *testing.T) {
	otp := vmtest.Private(t)
	known := vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Probes})
	stranger := vmtest.StartOn(t, vmtest.Hidden(t, otp), erlang.Options{Carrier: erlang.Probes})
	s := newSource(t, exe(t, known))
	knownID := outcome.VM{PID: known.PID()}
	run(t, known, 10)
	notice := fmt.Sprintf("pid %d (user 0) hits the probes of %s and is not a VM that beamscope observes: from now on beamscope attaches to VMs one by one", stranger.PID(), otp.Emulator())
	s.collectUntil("the stranger", func() bool {
		run(t, stranger, 3)
		return s.noticed(notice)()
	})
	if last := s.batches[len(s.batches)-1]; !last.Renew || !last.Strangers {
		t.Errorf("renew %v, strangers %v", last.Renew, last.Strangers)
	}
	s.change(s.plan.Window, s.plan.Specs...)
	s.collectNow()
	if observed(t, stranger) || !observed(t, known) {
		t.Error("the stranger pays, or the VM does not")
	}
	later := vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Probes})
	laterID := outcome.VM{PID: later.PID()}
	s.collectUntil("the later VM", s.noticed("observing "+laterID.String()))
	run(t, known, 100)
	run(t, stranger, 100)
	run(t, later, 30)
	s.collectNow()
	got := s.totals()
	delete(got, outcome.VM{PID: stranger.PID()}) // from before the plan
	slow := cmpopts.IgnoreFields(outcome.Counts{}, "Unobserved")
	want := map[outcome.VM]outcome.Counts{knownID: succeeded(knownID, 111), laterID: succeeded(laterID, 30)}
	if diff := cmp.Diff(want, got, slow); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if last := s.batches[len(s.batches)-1]; last.Renew || last.Strangers {
		t.Errorf("after the plan: renew %v, strangers %v", last.Renew, last.Strangers)
	}
	if slices.ContainsFunc(s.notices(), func(n string) bool { return strings.Contains(n, "come and gone") }) {
		t.Errorf("a notice reports a running process as gone: %q", s.notices())
	}
}
