package outcome

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// takeNotices returns the notices since it was last called.
func (s *VMSource) takeNotices() []string {
	all := texts(s)
	s.notices = nil
	return all
}

// Each run of windows with loss is told when it begins, and when it is over how much was
// lost in all, unless that was told.
func TestUnrecordedIsTold(t *testing.T) {
	var s VMSource
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

// Of each outcome it is told when events begin to find no room, and when they find room
// again. The VMs of an outcome count together.
func TestNoRoomIsTold(t *testing.T) {
	const why = "found no room in the kernel's tables: too many instances are open at a time, or too many processes have messages. Windows in which that happens are insufficient"
	s := VMSource{crowded: make(map[string]lossRun)}
	for n, step := range []struct {
		hop, hopOfOther, mailbox uint64
		want                     []string
	}{
		{0, 0, 0, nil},
		{5, 2, 0, []string{"outcome hop: 7 events " + why}},
		{1, 0, 3, []string{"outcome mailbox: 3 events " + why}},
		{0, 1, 0, []string{"outcome mailbox: events find room again. 3 did not (windows: 1)"}},
		{0, 0, 0, []string{"outcome hop: events find room again. 9 did not (windows: 3)"}},
		{0, 0, 0, nil},
	} {
		s.noteNoRoom([]Counts{
			{Outcome: "hop", VM: VM{PID: 1}, Loss: Loss{NoRoom: step.hop}},
			{Outcome: "hop", VM: VM{PID: 2}, Loss: Loss{NoRoom: step.hopOfOther}},
			{Outcome: "mailbox", VM: VM{PID: 1}, Loss: Loss{NoRoom: step.mailbox}},
		})
		if diff := cmp.Diff(step.want, s.takeNotices()); diff != "" {
			t.Errorf("window %d: -want +got:\n%s", n, diff)
		}
	}
	s.noteNoRoom([]Counts{{Outcome: "hop", Loss: Loss{NoRoom: 1}}})
	s.noteNoRoom(nil)
	if len(s.crowded) > 0 {
		t.Errorf("%v is kept of an outcome that is not observed any more", s.crowded)
	}
}
