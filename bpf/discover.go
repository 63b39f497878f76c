package bpf

import (
	"strconv"
	"strings"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The room of discovery for each VM, as in discover.bpf.h.
const (
	maxNames = 512
	hashes   = 4096
)

// MaxNames is the maximum number of names that a collector discovers in a VM.
const MaxNames = maxNames

// A SpanName is a name of spans that belongs to no outcome.
type SpanName struct {
	Name string
	PID  int // pid of the VM; 0: VMs without a slot
}

// Discovered returns the names of spans that were seen since the last call and belonged to no
// outcome when they were first seen. It returns nothing without [Options.Discover]. A name from
// several VMs occurs once for each. beyond is the number of names for which there was no room, by
// the pid of the VM.
func (c *Collector) Discovered() (names []SpanName, beyond map[int]uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || !c.opts.Discover {
		return nil, nil
	}
	beyond = make(map[int]uint64)
	for slot := range c.discovered {
		seen := atomic.LoadUint64(&c.memory.namesSeen[slot])
		names = append(names, c.discoveredIn(slot, min(int(seen), maxNames))...)
		if seen > maxNames {
			pid, _ := c.vmIn(slot)
			beyond[pid] = seen - maxNames
		}
	}
	return names, beyond
}

// discoveredIn returns the new names in a slot, which lists n names.
func (c *Collector) discoveredIn(slot, listed int) (names []SpanName) {
	for ; c.discovered[slot] < listed; c.discovered[slot]++ {
		n := &c.memory.seenNames[slot*maxNames+c.discovered[slot]]
		length := atomic.LoadUint32(&n.Length)
		if length == 0 {
			break // being written
		}
		if name := seenName(n); name != "" {
			names = append(names, SpanName{Name: name, PID: int(n.Pid)})
		}
	}
	return names
}

// forgetNames makes room in a slot for the names of another VM. The programs no longer know the
// slot's names, and none of them runs in its VM.
func (c *Collector) forgetNames(slot int) {
	if !c.opts.Discover {
		return
	}
	clear(c.memory.hashes[slot*hashes:][:hashes])
	clear(c.memory.seenNames[slot*maxNames:][:maxNames])
	c.discovered[slot] = 0
	atomic.StoreUint64(&c.memory.namesSeen[slot], 0)
}

func seenName(n *kernelSeenName) string {
	return unix.ByteSliceToString(unsafe.Slice((*byte)(unsafe.Pointer(&n.Name[0])), len(n.Name)))
}

// everyLabel stands for all labels. It is not a label itself.
const everyLabel = noLabel - 2

// labelPrefix is the beginning of the names of the wrapper's probes, before the label.
const labelPrefix = "user_trace__n"

// labelOf returns the label of a probe of the wrapper; false for other probes.
func labelOf(probe string) (label uint32, ok bool) {
	digits, ok := strings.CutPrefix(probe, labelPrefix)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 32)
	return uint32(n), err == nil && 1 <= n && n <= numLabels
}
