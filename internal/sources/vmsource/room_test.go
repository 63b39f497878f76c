package vmsource_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

const (
	roomAll  = 1<<17 + 1<<14 // for open spans, in both tables of the programs
	roomMore = roomAll + 1<<14
)

// A VM with more open spans than there is room for loses those that exceed the share of its user.
// A VM of another user loses none.
func TestRoomOfUsers(t *testing.T) {
	own, other := vmtest.OfTwoUsers(t)
	victim := vmtest.StartOn(t, own, erlang.Options{Carrier: erlang.Probes})
	hostile := vmtest.StartOn(t, other, erlang.Options{Carrier: erlang.Probes})
	s := newSourceOfLongSpans(t, victim)
	s.collectDuring(func() {
		open(t, hostile, roomMore)
		run(t, victim, 1000)
		open(t, victim, 20_000)
		run(t, victim, 1000)
	})
	s.collectNow()
	s.checkVictim(victim, 2000, 20_000)
	if lost := s.totals()[outcome.VM{PID: hostile.PID()}].Loss.NoRoom; lost < roomAll/2-1<<14 {
		t.Errorf("the hostile VM has lost %d instances: it has more than its share", lost)
	}
}

// A VM that starts when a VM of another user has taken all of its share loses nothing either.
func TestRoomOfLaterUser(t *testing.T) {
	own, other := vmtest.OfTwoUsers(t)
	hostile := vmtest.StartOn(t, other, erlang.Options{Carrier: erlang.Probes})
	s := newSourceOfLongSpans(t, hostile)
	var victim *erlang.VM
	s.collectDuring(func() {
		open(t, hostile, roomMore)
		victim = vmtest.StartOn(t, own, erlang.Options{Carrier: erlang.Probes})
		run(t, victim, 1000)
		open(t, victim, 1000)
	})
	s.collectUntil("the later VM", s.noticed("observing "+outcome.VM{PID: victim.PID()}.String()))
	open(t, victim, 1000)
	run(t, victim, 1000)
	s.collectNow()
	s.checkVictim(victim, 2000, 2000)
	if lost := s.totals()[outcome.VM{PID: hostile.PID()}].Loss.NoRoom; lost > roomMore-roomAll+1<<14 {
		t.Errorf("the hostile VM has lost %d instances, although it was alone", lost)
	}
}

// newSourceOfLongSpans observes spans that may be open for an hour.
func newSourceOfLongSpans(t *testing.T, v *erlang.VM) *source {
	t.Helper()
	return newSourceEvery(t, exe(t, v), 500*time.Millisecond, []outcome.Spec{{
		Name: "outcome", Span: "load", BinWidth: 10 * time.Minute, Bins: 6,
	}})
}

// open starts n spans that stay open.
func open(t *testing.T, v *erlang.VM, n int) {
	t.Helper()
	vmtest.Call(t, v, "span_load", "open", fmt.Sprintf("[#{spans => %d}]", n))
}

// checkVictim checks that a VM has successes, open spans and no losses.
func (s *source) checkVictim(v *erlang.VM, successes, open uint64) {
	s.t.Helper()
	want := succeeded(outcome.VM{PID: v.PID()}, successes)
	want.Starts += open
	if diff := cmp.Diff(want, s.totals()[want.VM]); diff != "" {
		s.t.Errorf("-want +got:\n%s", diff)
	}
}
