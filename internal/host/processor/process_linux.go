package processor

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Process returns the processor time that a process has used since its start. It is the sum of utime
// and stime in /proc/PID/stat for all threads, also those that have ended, but not rounded to ticks.
func Process(pid int) (time.Duration, error) {
	const clockOfProcess = 2 // CPUCLOCK_SCHED of a process, include/linux/posix-timers.h
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^uint32(pid)<<3|clockOfProcess), &t); err != nil {
		return 0, fmt.Errorf("processor time of %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}
