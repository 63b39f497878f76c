package wrapper

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/beamscope/beamscope/internal/host/monotonic"
)

// A clock provides the time.
type clock struct {
	now    func() int64 // nanoseconds of CLOCK_MONOTONIC
	offset func() int64 // difference between CLOCK_MONOTONIC and wall time, in nanoseconds
}

func systemClock() clock { return clock{now: monotonic.Now, offset: wallOffset} }

// wallOffset reads both clocks several times. It uses the reading that took least time, because
// the process may lose the processor in between.
func wallOffset() int64 {
	const readings = 5
	var offset int64
	least := int64(1<<63 - 1)
	for range readings {
		var wall unix.Timespec
		before := monotonic.Now()
		if err := unix.ClockGettime(unix.CLOCK_REALTIME, &wall); err != nil {
			panic(err) // the kernel always has this clock
		}
		after := monotonic.Now()
		if took := after - before; took < least {
			least = took
			offset = before + took/2 - wall.Nano()
		}
	}
	return offset
}

const (
	// refresh is the largest age of an offset. The offset changes only if the wall clock is set,
	// or if the machine was asleep.
	refresh = int64(time.Second)

	// tolerance is how far a peer's clock may be ahead of ours.
	tolerance = int64(100 * time.Millisecond)
)

// A timeline converts wall times of a peer to our clock.
type timeline struct {
	clock  clock
	now    int64 // when lines were last read
	offset int64
	taken  int64 // when the offset was read
}

func newTimeline(c clock) timeline {
	now := c.now()
	return timeline{clock: c, now: now, offset: c.offset(), taken: now}
}

// read records that lines were read just now.
func (t *timeline) read() {
	t.now = t.clock.now()
	if t.now-t.taken >= refresh {
		t.offset, t.taken = t.clock.offset(), t.now
	}
}

// convert converts a wall time to our clock, and returns by how much it is ahead of the present.
// A received instance has already ended, so an end that is at most tolerance ahead counts as the
// present.
func (t *timeline) convert(wall int64) (at, ahead int64) {
	ahead = wall - (t.now - t.offset)
	if ahead <= 0 {
		return wall + t.offset, 0
	}
	return t.now, ahead
}
