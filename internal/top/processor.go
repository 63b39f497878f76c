package top

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/beamscope/beamscope/internal/outcome"
)

// A Processor says how much time of processors the operating system counts for a VM, since
// its start, and on how many processors the VM may run.
type Processor func(pid int) (used time.Duration, processors int, err error)

// ProcessorOf is the [Processor] of this machine. The time is what utime and stime of
// /proc/PID/stat are together, of all threads, not rounded to ticks.
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

// Used is what the operating system says of VMs together.
type Used struct {
	Known      bool
	Share      float64 // of the time: 1 is one processor
	Processors int     // that the VMs may use; the most that one of them may
}

// processors reads how much VMs use, window by window.
type processors struct {
	of   Processor
	used map[int]time.Duration // at the last reading, by pid
	at   int64                 // when that was
}

// read returns what VMs have used since the last reading. It is not known where a VM was not
// there then.
func (p *processors) read(vms []outcome.VM, now int64) Used {
	if p.of == nil {
		return Used{}
	}
	all := Used{Known: p.at != 0 && now > p.at && len(vms) > 0}
	used := make(map[int]time.Duration)
	var sum time.Duration
	for _, vm := range vms {
		t, n, err := p.of(vm.PID)
		before, has := p.used[vm.PID]
		if err != nil || !has || t < before {
			all.Known = false
		}
		if err == nil {
			used[vm.PID] = t
		}
		sum += t - before
		all.Processors = max(all.Processors, n)
	}
	if all.Known {
		all.Share = sum.Seconds() / time.Duration(now-p.at).Seconds()
	}
	p.used, p.at = used, now
	if !all.Known {
		return Used{}
	}
	return all
}

// usedIn returns what VMs used in some windows, on average.
func usedIn(windows []*window) Used {
	var all Used
	var observed time.Duration
	for _, w := range windows {
		if w.used.Known {
			all.Known = true
			all.Share += w.used.Share * float64(w.Duration())
			all.Processors = w.used.Processors
			observed += w.Duration()
		}
	}
	if all.Known {
		all.Share /= float64(observed)
	}
	return all
}
