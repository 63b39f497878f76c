// Package processor reads the processor time of threads and processes. Unlike elapsed time it stands
// still while the thread or process waits for a processor.
package processor

import (
	"time"

	"golang.org/x/sys/unix"
)

// Thread returns the processor time that the calling thread has used. Lock the goroutine to its
// thread between two calls.
func Thread() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(err) // the kernel always has this clock
	}
	return time.Duration(t.Nano())
}
