package vmtest

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/beamscope/beamscope/internal/host/monotonic"
)

// A thread reads the clock all the time. If a gap is between two readings, and the kernel ran no other
// thread, the processor stalled. These stalls are found. None is counted twice.
func TestStalls(t *testing.T) {
	NeedEBPF(t)
	s := WatchStalls(t)
	runtime.LockOSThread() // the thread ends with the test
	attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 50}
	if err := unix.SchedSetAttr(0, &attr, 0); err != nil {
		Missing(t, fmt.Errorf("take a real-time priority: %w", err))
	}
	const longestPause = 700_000 // ns between two readings
	var gaps []interval
	before, last := contextSwitches(t), monotonic.Now()
	begin := last
	for end := begin + int64(500*time.Millisecond); last < end; {
		between, now := contextSwitches(t), monotonic.Now()
		if now-last > longestPause && contextSwitches(t) == before {
			gaps = append(gaps, interval{last, now})
		}
		before, last = between, now
	}
	var length, found int64
	for _, gap := range gaps {
		length += gap.to - gap.from
		found += s.Within(gap.from, gap.to)
	}
	t.Logf("%d gaps of %d ns, %d found", len(gaps), length, found)
	if found < length*3/4 || found > length {
		t.Errorf("in gaps of %d ns, %d ns of stalls were found", length, found)
	}
	quarter := (last - begin) / 4
	half, parts := s.Within(begin, begin+2*quarter), s.Within(begin, begin+quarter)+s.Within(begin+quarter, begin+2*quarter)
	if half != parts || half > 2*quarter {
		t.Errorf("stalled for %d ns of %d, and %d in the two parts", half, 2*quarter, parts)
	}
}

// contextSwitches returns how often the calling thread stopped running.
func contextSwitches(t *testing.T) int64 {
	t.Helper()
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &usage); err != nil {
		t.Fatal(err)
	}
	return usage.Nvcsw + usage.Nivcsw
}
