// Package monotonic reads the clock that everything inside runs on:
// CLOCK_MONOTONIC, which the eBPF programs read too, in nanoseconds. Wall time
// appears only at the edges.
package monotonic

import (
	"time"

	"golang.org/x/sys/unix"
)

// Now returns the time in nanoseconds of CLOCK_MONOTONIC.
func Now() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err) // the kernel always has this clock
	}
	return ts.Nano()
}

// Wall returns the wall time of a monotonic time, as the wall clock stands now.
func Wall(ns int64) time.Time {
	return time.Now().Add(time.Duration(ns - Now())).Round(0)
}
