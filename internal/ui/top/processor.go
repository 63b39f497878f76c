package top

import (
	"time"

	"github.com/beamscope/beamscope/internal/engine/outcome"
)

// A Processor returns the processor time of a VM since its start according to the operating
// system, and the number of processors on which the VM may run.
type Processor func(pid int) (used time.Duration, processors int, err error)

// Used is the processor time of VMs together, from the operating system.
type Used struct {
	Known      bool
	Share      float64 // of the time: 1 is one processor
	Processors int     // processors that the VMs may use; the largest number of any VM
}

// processors reads the processor time of VMs, window by window.
type processors struct {
	of   Processor
	used map[int]time.Duration // at the last reading, by pid
	at   int64                 // time of the last reading
}

// read returns the processor time of VMs since the last reading. It is unknown if a VM is new
// since then.
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

// usedIn returns the average processor time of VMs in some windows.
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
