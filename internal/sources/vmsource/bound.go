package vmsource

import (
	"time"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/spent"
)

// usage is the processor time that VMs used, read together with the hits.
type usage struct {
	of   func(pid int) (time.Duration, error)
	vms  map[int]*usedTime // by pid
	last int64             // time of the last reading
}

// usedTime is the processor time of a VM.
type usedTime struct {
	total spent.Total
	since int64         // time of the first reading
	last  time.Duration // last reading
}

// read reads the processor time of VMs, and forgets the others.
func (u *usage) read(at int64, vms map[int]*observedVM) {
	was := u.vms
	u.vms, u.last = make(map[int]*usedTime, len(vms)), at
	for pid := range vms {
		used, err := u.of(pid)
		if err != nil {
			continue
		}
		t := was[pid]
		if t == nil || used < t.last { // another process with this pid
			t = &usedTime{since: at}
		}
		t.total.Read(at, float64(used))
		t.last = used
		u.vms[pid] = t
	}
}

// within returns the processor time that a VM used in a window, if it was read before and after.
func (u *usage) within(pid int, w outcome.Window) (used time.Duration, known bool) {
	t := u.vms[pid]
	if t == nil || w.From < t.since || w.To > u.last {
		return 0, false
	}
	return time.Duration(t.total.Within(w.From, w.To)), true
}

// forget drops readings that are not needed for times from before on.
func (u *usage) forget(before int64) {
	for _, t := range u.vms {
		t.total.Forget(before)
	}
}

// tick is the longest time that a reading of a VM's processor time may miss: the kernel adds the
// time of a running thread at ticks.
const tick = 10 * time.Millisecond

// bound returns the price of each of some events, so that no VM pays more than the processor time
// that it used, and which VMs would. It is the measured price if there are none. The loads are the
// shares of the VMs in the events. used returns their processor time, if that is known.
func bound(price time.Duration, events uint64, loads []outcome.Load, used func(pid int) (time.Duration, bool)) (time.Duration, []outcome.VM) {
	paid := float64(events) * float64(price)
	var beyond []outcome.VM
	for _, l := range loads {
		limit, known := used(l.VM.PID)
		if excess := float64(l.Events)*float64(price) - float64(limit); known && excess > float64(tick) {
			paid -= excess
			beyond = append(beyond, l.VM)
		}
	}
	if len(beyond) == 0 {
		return price, nil
	}
	return max(time.Duration(paid/float64(events)), 1), beyond // 0 would mean that it is not known
}
