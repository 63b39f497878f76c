//go:build !linux

package usdt

import "errors"

// threadMemory fails: only Linux accesses memory by threads.
func (p Process) threadMemory() (Memory, error) { return nil, p.wrap("mem", errors.ErrUnsupported) }

// threadPages fails, too.
func (p Process) threadPages() (ReadableMemory, error) {
	return nil, p.wrap("pagemap", errors.ErrUnsupported)
}
