package bpf

import (
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// System calls are named where they are known, and none is.
func TestOffCPUDetails(t *testing.T) {
	for _, test := range []struct {
		why  OffReason
		call int16
		want string
	}{
		{OffBlocked, syscall.SYS_FUTEX, "futex"},
		{OffBlocked, 9999, "system call 9999"},
		{OffBlocked, -1, ""},
		{OffStopped, syscall.SYS_FUTEX, ""},
		{OffReady, -1, ""},
	} {
		r := kernelRecord{Kind: uint8(EventOffCPU), Now: 9, Size: uint32(test.why) | uint32(uint16(test.call))<<16, Details: [2]uint64{3, 5}}
		want := Event{Kind: EventOffCPU, Time: 9, From: 3, To: 5, Off: test.why, Text: test.want}
		for range 2 { // the second time it was not seen when the thread ran again
			got, ok := decodeEvent(&r, nil)
			if diff := cmp.Diff(want, got); diff != "" || !ok {
				t.Errorf("-want +got:\n%s", diff)
			}
			r.Flags, want.Unseen = logUnseen, true
		}
	}
	var e Event
	if e.off(uint32(OffBlocked), 0); e.Text == "" {
		t.Error("the system call 0 has no name")
	}
}
