package top

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// ProcessorOf is the [Processor] of this machine. The time is the sum of utime and stime in
// /proc/PID/stat for all threads, but not rounded to ticks.
func ProcessorOf(pid int) (used time.Duration, processors int, err error) {
	const clockOfProcess = 2 // CPUCLOCK_SCHED of a process, include/linux/posix-timers.h
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^uint32(pid)<<3|clockOfProcess), &ts); err != nil {
		return 0, 0, fmt.Errorf("processor time of %d: %w", pid, err)
	}
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(pid, &set); err != nil {
		return 0, 0, fmt.Errorf("processors of %d: %w", pid, err)
	}
	return time.Duration(ts.Nano()), set.Count(), nil
}
