package bpf

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"

	"github.com/beamscope/beamscope/internal/monotonic"
)

// ErrNoPlace says that other VMs have all slots.
var ErrNoPlace = errors.New("no slot is free")

// A displacement is a slot on its way from a VM to another one. Programs that ran in the old VM
// when it lost the slot may still count there: so the slot is handed over with the next window
// that is read, and what is counted in it until then is dropped.
type displacement struct {
	slot int
	old  int   // pid that had the slot
	heir int   // pid that gets it; 0: whichever VM comes first
	at   int64 // nanoseconds of CLOCK_MONOTONIC
}

// handOverAfter is how long a slot that was taken from a VM waits for programs that still run in
// that VM: they take less than a microsecond, but may lose the processor.
const handOverAfter = 100 * time.Millisecond

// Place gives a VM a slot before it needs one. A VM that has a slot keeps it. The error is
// [ErrNoPlace] where no slot is free.
func (c *Collector) Place(pid int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	if c.isPlaced(pid) {
		return nil
	}
	c.isCrowded()
	var slot uint32
	err := c.maps.FreeSlots.LookupAndDelete(nil, &slot)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return ErrNoPlace
	}
	if err != nil {
		return fmt.Errorf("place VM %d: %w", pid, err)
	}
	return c.settleIn(pid, slot)
}

// Displace takes the slot of a VM, which goes on, and gives it to another one. The old VM is
// counted with those without a slot from now on; what it had in windows that are not read yet
// is dropped. The heir has the slot from about the next [Collector.Read] on, and no counts in
// windows that began before.
func (c *Collector) Displace(old, heir int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	c.isCrowded()
	var slot uint32
	err := c.maps.Vms.LookupAndDelete(uint32(old), &slot)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("displace VM %d: %w", old, err)
	}
	atomic.StoreUint64(&c.memory.slotPIDs[slot], 0)
	c.displaced = append(c.displaced, displacement{int(slot), old, heir, monotonic.Now()})
	if err := forgetCached(c.maps.VmCache, old); err != nil {
		return fmt.Errorf("displace VM %d: %w", old, err)
	}
	return nil
}

// isPlaced reports whether a VM has a slot, or is about to get one.
func (c *Collector) isPlaced(pid int) bool {
	return slices.ContainsFunc(c.displaced, func(d displacement) bool { return d.heir == pid }) ||
		slices.ContainsFunc(c.memory.slotPIDs, func(entry uint64) bool { return int(entry) == pid })
}

// Holders returns the pids of the VMs that have slots, or are about to get one, and how many
// slots there are.
func (c *Collector) Holders() (pids []int, slots int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for slot := range c.opts.VMs {
		if pid, ok := c.vmIn(slot); ok {
			pids = append(pids, pid)
		}
	}
	for _, d := range c.displaced {
		if d.heir != 0 {
			pids = append(pids, d.heir)
		}
	}
	return pids, c.opts.VMs
}

// settleIn gives a VM a slot that nobody has.
func (c *Collector) settleIn(pid int, slot uint32) error {
	c.since[pid] = monotonic.Now()
	atomic.StoreUint64(&c.memory.slotPIDs[slot], uint64(pid)) // before anything is counted there
	err := c.maps.Vms.Update(uint32(pid), slot, ebpf.UpdateNoExist)
	if err == nil {
		c.since[pid] = monotonic.Now()
		return nil
	}
	atomic.StoreUint64(&c.memory.slotPIDs[slot], 0)
	if errors.Is(err, ebpf.ErrKeyExist) { // a program was faster
		err = nil
	}
	if err := errors.Join(err, c.maps.FreeSlots.Put(nil, slot)); err != nil {
		return fmt.Errorf("place VM %d: %w", pid, err)
	}
	return nil
}

// handOver hands over the slots whose old VMs cannot count in them any more.
func (c *Collector) handOver() error {
	var errs []error
	now := monotonic.Now()
	over, waiting := 0, c.displaced
	for over < len(waiting) && now-waiting[over].at >= int64(handOverAfter) {
		over++
	}
	c.displaced = slices.Clone(waiting[over:])
	for _, d := range waiting[:over] {
		// A program that looked the slot up before may have put it into the cache since.
		errs = append(errs, forgetCached(c.maps.VmCache, d.old))
		c.empty(d.slot)
		if d.heir != 0 {
			errs = append(errs, c.settleIn(d.heir, uint32(d.slot)))
		} else if err := c.maps.FreeSlots.Put(nil, uint32(d.slot)); err != nil {
			errs = append(errs, fmt.Errorf("free a slot: %w", err))
		}
	}
	return errors.Join(errs...)
}

// empty drops what was counted in a slot and not read.
func (c *Collector) empty(slot int) {
	for i := range c.entries {
		if !c.entries[i].used {
			continue
		}
		for row := range windows {
			c.readRow(i, slot, row)
			c.memory.worsts[(i*c.layout.slots+slot)*windows+row] = kernelWorst{}
		}
		c.readColumns(i, slot, windows)
	}
	c.forgetNames(slot)
}

// disinherit has a slot that a VM is about to get go to whichever VM comes first.
func (c *Collector) disinherit(pid int) {
	for i := range c.displaced {
		if c.displaced[i].heir == pid {
			c.displaced[i].heir = 0
		}
	}
}

// isWhole reports whether all that happened in a VM since a time was counted in its slot.
func (c *Collector) isWhole(pid int, from int64) bool { return c.since[pid] <= from }

// meet notes since when the VMs in slots have them. One that has a slot since the last reading,
// while other VMs had none, may have been without one.
func (c *Collector) meet(crowd bool) {
	there := make(map[int]bool, len(c.memory.slotPIDs))
	for slot := range c.memory.slotPIDs {
		pid, ok := c.vmIn(slot)
		if !ok {
			continue
		}
		there[pid] = true
		if _, known := c.since[pid]; !known {
			c.since[pid] = 0
			if crowd || c.wasCrowd {
				c.since[pid] = monotonic.Now()
			}
		}
	}
	for pid := range c.since {
		if !there[pid] {
			delete(c.since, pid)
		}
	}
	c.wasCrowd = crowd
}
