package bpf

import (
	"errors"
	"fmt"
	"hash/fnv"

	"github.com/cilium/ebpf"
)

// functionsMost is how many different functions [Collector.SetFunction] takes.
const functionsMost = 1 << 16

// SetFunction has a process be counted with a function from now on, in outcomes with
// [GroupByMFA]; process is as of [Instance]. It is for processes whose spawn does not tell
// the function. What the process is not counted with a function before is counted with the
// process. Of too many functions it does nothing.
func (c *Collector) SetFunction(vm int, process uint64, function string) error {
	if len(function) > textMost {
		function = function[:textMost] // as those that the programs read
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(function)) // never fails
	group := h.Sum64() | isText
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	if _, known := c.functions[group]; !known {
		if len(c.functions) == functionsMost {
			return nil
		}
		c.functions[group] = function
	}
	if err := c.maps.Spawned.Put(kernelProcessKey{Process: process, Pid: uint64(vm)}, group); err != nil {
		return fmt.Errorf("note the function of a process: %w", err)
	}
	return nil
}

// Born passes on the processes that were spawned since it was last called and whose spawn
// does not tell the function, those of OTP's behaviours; process is as of [Instance]. There
// are none where no outcome has [GroupByMFA]. Of very many some are missing.
func (c *Collector) Born(fn func(vm int, process uint64)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	for range bornMost {
		var k kernelProcessKey
		err := c.maps.Born.LookupAndDelete(nil, &k)
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the new processes: %w", err)
		}
		fn(int(k.Pid), k.Process)
	}
	return nil
}
