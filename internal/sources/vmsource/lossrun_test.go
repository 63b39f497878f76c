package vmsource

import (
	"testing"

	"github.com/beamscope/beamscope/internal/engine/outcome"

	"github.com/google/go-cmp/cmp"
)

// takeNotices returns the notices since the last call.
func (s *Source) takeNotices() []string {
	all := texts(s)
	s.notices = nil
	return all
}

// A notice reports the beginning of each run of windows with losses. Another one reports the
// total at the end, unless the first one already did.
func TestUnrecordedIsTold(t *testing.T) {
	var s Source
	for n, step := range []struct {
		lost uint64
		want []string
	}{
		{0, nil},
		{7, []string{"events that would explain slow instances were lost (7): where they are missing, time is unexplained"}},
		{0, nil},
		{0, nil},
		{1, []string{"events that would explain slow instances were lost (1): where they are missing, time is unexplained"}},
		{20, nil},
		{300, nil},
		{0, []string{"events that would explain slow instances were lost (321, in 3 windows); none any more"}},
		{0, nil},
	} {
		s.noteUnrecorded(step.lost)
		if diff := cmp.Diff(step.want, s.takeNotices()); diff != "" {
			t.Errorf("window %d: -want +got:\n%s", n, diff)
		}
	}
}

// Notices report for each outcome when its events find no room, and when they find room again.
// The VMs of an outcome count together.
func TestNoRoomIsTold(t *testing.T) {
	const why = "found no room in the kernel's tables: too many instances are open at a time, or too many processes have messages. Windows in which that happens are insufficient"
	s := Source{noRoom: make(map[string]lossRun)}
	for n, step := range []struct {
		hop, hopOfOther, mailbox uint64
		want                     []string
	}{
		{0, 0, 0, nil},
		{5, 2, 0, []string{"outcome hop: 7 events " + why}},
		{1, 0, 3, []string{"outcome mailbox: 3 events " + why}},
		{0, 1, 0, []string{"outcome mailbox: there is room for events again. 3 events were lost (windows: 1)"}},
		{0, 0, 0, []string{"outcome hop: there is room for events again. 9 events were lost (windows: 3)"}},
		{0, 0, 0, nil},
	} {
		s.noteNoRoom([]outcome.Counts{
			{Outcome: "hop", VM: outcome.VM{PID: 1}, Loss: outcome.Loss{NoRoom: step.hop}},
			{Outcome: "hop", VM: outcome.VM{PID: 2}, Loss: outcome.Loss{NoRoom: step.hopOfOther}},
			{Outcome: "mailbox", VM: outcome.VM{PID: 1}, Loss: outcome.Loss{NoRoom: step.mailbox}},
		})
		if diff := cmp.Diff(step.want, s.takeNotices()); diff != "" {
			t.Errorf("window %d: -want +got:\n%s", n, diff)
		}
	}
	s.noteNoRoom([]outcome.Counts{{Outcome: "hop", Loss: outcome.Loss{NoRoom: 1}}})
	s.noteNoRoom(nil)
	if len(s.noRoom) > 0 {
		t.Errorf("%v is kept for an outcome that is no longer observed", s.noRoom)
	}
}
