package bpf

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"

	"github.com/beamscope/beamscope/internal/host/monotonic"
)

// ErrNoPlace means that other VMs have all slots.
var ErrNoPlace = errors.New("no slot is free")

// A displacement is the transfer of a slot from a VM to another one. Programs that ran in the old
// VM when it lost the slot may still count there. So the slot is handed over with the next window
// that is read, and its counts until then are dropped.
type displacement struct {
	slot int
	old  int   // pid that had the slot
	heir int   // pid that gets it; 0: the first VM with an event
	user int   // of the heir
	at   int64 // nanoseconds of CLOCK_MONOTONIC
}

// handOverAfter is the time that a slot taken from a VM waits for programs that still run in that
// VM: they take less than a microsecond, but may be preempted.
const handOverAfter = 100 * time.Millisecond

// Place gives a VM a slot before it needs one. A VM that has a slot keeps it. The error is
// [ErrNoPlace] if no slot is free.
func (c *Collector) Place(pid, user int) error {
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
	return c.settleIn(pid, user, slot)
}

// Displace takes the slot of a running VM and gives it to another one. From now on the old VM is
// counted with the VMs without a slot, and its counts in unread windows are dropped. The new VM has
// the slot from about the next [Collector.Read] on, and no counts in windows that began before.
func (c *Collector) Displace(old, heir, user int) error {
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
	c.displaced = append(c.displaced, displacement{int(slot), old, heir, user, monotonic.Now()})
	if err := forgetCached(c.maps.VmCache, old); err != nil {
		return fmt.Errorf("displace VM %d: %w", old, err)
	}
	return nil
}

// isPlaced reports whether a VM has a slot, or is about to get one.
func (c *Collector) isPlaced(pid int) bool {
	return slices.ContainsFunc(c.displaced, func(d displacement) bool { return d.heir == pid }) ||
		slices.ContainsFunc(c.memory.slotPIDs, func(entry uint64) bool { return int(uint32(entry)) == pid })
}

// A Holder is a VM that has a slot, or is about to get one.
type Holder struct {
	PID  int
	User int  // as of [Collector.UserHits]
	Heir bool // it is about to get the slot
}

// Holders returns the VMs that have slots, and how many slots there are.
func (c *Collector) Holders() (all []Holder, slots int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for slot := range c.memory.slotPIDs {
		if pid, user := c.inSlot(slot); pid != 0 {
			all = append(all, Holder{PID: pid, User: user})
		}
	}
	for _, d := range c.displaced {
		if d.heir != 0 {
			all = append(all, Holder{d.heir, d.user, true})
		}
	}
	return all, c.opts.VMs
}

// settleIn gives a VM a free slot.
func (c *Collector) settleIn(pid, user int, slot uint32) error {
	c.since[pid] = monotonic.Now()
	atomic.StoreUint64(&c.memory.slotPIDs[slot], uint64(uint32(user))<<32|uint64(pid)) // before anything is counted there
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

// handOver hands over the slots in which their old VMs can no longer count.
func (c *Collector) handOver() error {
	var errs []error
	now := monotonic.Now()
	over, waiting := 0, c.displaced
	for over < len(waiting) && now-waiting[over].at >= int64(handOverAfter) {
		over++
	}
	c.displaced = slices.Clone(waiting[over:])
	for _, d := range waiting[:over] {
		// A program that looked up the slot before may have cached it since.
		errs = append(errs, forgetCached(c.maps.VmCache, d.old))
		c.empty(d.slot)
		if d.heir != 0 {
			errs = append(errs, c.settleIn(d.heir, d.user, uint32(d.slot)))
		} else if err := c.maps.FreeSlots.Put(nil, uint32(d.slot)); err != nil {
			errs = append(errs, fmt.Errorf("free a slot: %w", err))
		}
	}
	return errors.Join(errs...)
}

// empty drops the unread counts of a slot.
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

// disinherit gives a slot that was meant for a VM to the first VM with an event instead.
func (c *Collector) disinherit(pid int) {
	for i := range c.displaced {
		if c.displaced[i].heir == pid {
			c.displaced[i].heir = 0
		}
	}
}

// hasSlotSince reports whether everything in a VM since a time was counted in its slot.
func (c *Collector) hasSlotSince(pid int, from int64) bool { return c.since[pid] <= from }

// meet records the times since which VMs have their slots. If other VMs had no slot, a VM that got
// its slot since the last reading may have had none for some time.
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
