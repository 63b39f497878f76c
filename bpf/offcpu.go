package bpf

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"

	"github.com/beamscope/beamscope/internal/host/monotonic"
)

// OffCPU returns an [EventOffCPU] for each scheduler thread of VMs that is blocked or stopped at
// present, with the known part of the event that the log will have when the thread runs again. To
// is 0, and Time is the present.
func (c *Collector) OffCPU() ([]Event, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, ErrClosed
	}
	if c.traces[detailTrace] == nil {
		return nil, nil
	}
	var events []Event
	var tid uint32
	var off kernelOffCpu
	for each := c.maps.OffCpus.Iterate(); ; {
		if !each.Next(&tid, &off) {
			// If threads start and end meanwhile, some are missing.
			if err := each.Err(); err != nil && !errors.Is(err, ebpf.ErrIterationAborted) {
				return nil, fmt.Errorf("threads that do not run: %w", err)
			}
			return events, nil
		}
		if off.SinceNs == 0 || off.ReadyNs != 0 {
			continue
		}
		e := Event{Kind: EventOffCPU, Time: monotonic.Now(), VM: int(off.Pid), Thread: int(tid), From: int64(off.SinceNs)}
		e.off(uint32(off.Why), off.Syscall)
		events = append(events, e)
	}
}

// off sets the reason why a thread does not run.
func (e *Event) off(why uint32, call int16) {
	e.Off = OffReason(why)
	if e.Off == OffBlocked && call >= 0 {
		e.Text = syscallName(int(call))
	}
}
