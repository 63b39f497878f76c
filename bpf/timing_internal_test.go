package bpf

import (
	"runtime"
	"testing"
	"time"

	"github.com/beamscope/beamscope/internal/host/processor"
)

// A call costs no more than the processor time that its thread used for all calls, however long it
// waited for a processor.
func TestCallsCostProcessorTime(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	begun, all := processor.Thread(), 0
	cost := timeCalls(func() {
		time.Sleep(time.Millisecond) // as if another thread had the processor
		all++
	}, batch)
	used := processor.Thread() - begun
	if time.Duration(all)*cost > 2*used { // no median exceeds the mean twice
		t.Errorf("%d calls at %v each used %v", all, cost, used)
	}
}

// Halts of the whole machine count as processor time. They do not change the cost of a call while
// they hit less than half of the batches.
func TestHaltsCostNothing(t *testing.T) {
	const cost, batches = 700 * time.Nanosecond, 21
	for _, test := range []struct {
		name string
		hit  func(batch int) bool
	}{
		{"none", func(int) bool { return false }},
		{"the first ones", func(b int) bool { return b < batches/2 }},
		{"the last one", func(b int) bool { return b == batches-1 }},
		{"every third one", func(b int) bool { return b%3 == 0 }},
	} {
		var now time.Duration
		calls := 0
		got := timeBatches(func() {
			now += cost
			if calls%batch == 7 && test.hit(calls/batch) {
				now += 4 * time.Millisecond
			}
			calls++
		}, batches*batch, func() time.Duration { return now })
		if got != cost || calls != batches*batch {
			t.Errorf("%s: %v after %d calls, want %v", test.name, got, calls, cost)
		}
	}
}
