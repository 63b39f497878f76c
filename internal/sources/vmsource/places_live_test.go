package vmsource_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/testing/otheruser"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// Processes of another user that look like VMs and outnumber the places do not prevent the
// observation of a VM that starts later.
func TestPlacesOfUsers(t *testing.T) {
	otp := vmtest.Shared(t)
	first := vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Probes})
	s := newSourceEvery(t, exe(t, first), 200*time.Millisecond, []outcome.Spec{
		{Name: "outcome", Span: "load", BinWidth: 10 * time.Millisecond, Bins: 50},
		{Name: "gc", VM: outcome.Events{Builtin: "gc"}, BinWidth: time.Millisecond, Bins: 50},
	})
	vmtest.StartImpostors(t, otp, first, 12, vmtest.Impostor{Probe: "gc_minor__start", Period: 20 * time.Millisecond})
	const want = "not observed: there is room for 8 VMs at a time, and users with fewer VMs have room first"
	s.collectUntil("that there is no room", func() bool {
		return slices.ContainsFunc(s.notices(), func(n string) bool {
			return strings.Contains(n, fmt.Sprintf("of the VMs of user %d ", otheruser.User)) && strings.HasSuffix(n, want)
		})
	})
	later := vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Probes})
	id := outcome.VM{PID: later.PID()}
	s.collectUntil("the later VM", func() bool {
		run(t, later, 1)
		for _, c := range s.batches[len(s.batches)-1].Counts {
			if c.VM == id && c.Outcome == "outcome" && !c.Unobserved {
				return true
			}
		}
		return false
	})
	s.collectNow()
	before := s.spansOf(id)
	run(t, later, 100)
	s.collectNow()
	if got := s.spansOf(id) - before; got != 100 {
		t.Errorf("%d spans of the later VM, want 100", got)
	}
}

// spansOf returns how many spans of a VM ended in all windows.
func (s *source) spansOf(id outcome.VM) (n uint64) {
	for _, b := range s.batches {
		for _, c := range b.Counts {
			if c.VM == id && c.Outcome == "outcome" {
				n += c.Successes
			}
		}
	}
	return n
}
