package bpf

import (
	"errors"
	"fmt"
	"hash/fnv"

	"github.com/cilium/ebpf"
)

// functionsMost is the maximum number of different functions for [Collector.SetFunction].
const functionsMost = 1 << 16

// SetFunction counts a process with a function from now on, in outcomes with [GroupByMFA]; process
// is as in [Instance]. It is for processes whose spawn does not report the function. Earlier
// instances that were not counted with a function stay counted with the process. If there are too
// many functions, it does nothing.
func (c *Collector) SetFunction(vm int, process uint64, function string) error {
	if len(function) > textMost {
		function = function[:textMost] // like those that the programs read
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

// Born passes on the processes that were spawned since the last call and whose spawn does not
// report the function, such as those of OTP's behaviours; process is as in [Instance]. There are
// none if no outcome has [GroupByMFA]. If there are very many, some are missing.
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
