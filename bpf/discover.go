package bpf

import (
	"strconv"
	"strings"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The room of discovery, as in discover.bpf.h.
const (
	maxNames = 512
	hashes   = 4096
)

// MaxNames is how many names a collector discovers at most.
const MaxNames = maxNames

// A SpanName is a name of spans that is that of no outcome.
type SpanName struct {
	Name string
	PID  int // of the VM where it was seen first
}

// Discovered returns the names of spans that were seen since it was last called and,
// when they first were, were those of no outcome; nothing without
// [Options.Discover]. beyond is how many names were seen in all for which there was
// no room.
func (c *Collector) Discovered() (names []SpanName, beyond uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || !c.opts.Discover {
		return nil, 0
	}
	seen := atomic.LoadUint64(c.memory.namesSeen)
	for ; c.discovered < min(int(seen), maxNames); c.discovered++ {
		n := &c.memory.seenNames[c.discovered]
		length := atomic.LoadUint32(&n.Length)
		if length == 0 {
			break // being written
		}
		if name := seenName(n); name != "" {
			names = append(names, SpanName{Name: name, PID: int(n.Pid)})
		}
	}
	return names, max(seen, maxNames) - maxNames
}

func seenName(n *kernelSeenName) string {
	return unix.ByteSliceToString(unsafe.Slice((*byte)(unsafe.Pointer(&n.Name[0])), len(n.Name)))
}

// everyLabel stands for all labels at once, among labels, of which it is none.
const everyLabel = noLabel - 2

// labelPrefix is what the names of the wrapper's probes begin with, before the label.
const labelPrefix = "user_trace__n"

// labelOf returns the label of a probe of the wrapper; false for other probes.
func labelOf(probe string) (label uint32, ok bool) {
	digits, ok := strings.CutPrefix(probe, labelPrefix)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 32)
	return uint32(n), err == nil && 1 <= n && n <= wrapperLabels
}
