package vmsource

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/host/guard"
	"github.com/beamscope/beamscope/usdt"
)

// callersMost is the largest number of suspending functions that are looked up for a VM. OTP 25
// has two dozen. A malicious VM could invent more, and each lookup reads all its symbols.
const callersMost = 64

// suspendProbe is the probe that reports callers.
const suspendProbe = "process__suspend"

// callers finds the names of the functions that suspend processes in each VM. Several goroutines
// may use it.
type callers struct {
	finder vm.Finder

	mu  sync.Mutex
	vms map[int]*callersOf
}

// callersOf contains the names found in one VM.
type callersOf struct {
	vm    vm.VM
	probe uint64 // address of the probe, as linked
	names map[int64]string
}

// add adds a VM with its probes.
func (c *callers) add(v vm.VM, probes []usdt.Probe) {
	i := slices.IndexFunc(probes, func(p usdt.Probe) bool { return p.Name == suspendProbe && len(p.Sites) == 1 })
	if i < 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.vms == nil {
		c.vms = make(map[int]*callersOf)
	}
	c.vms[v.PID()] = &callersOf{vm: v, probe: probes[i].Sites[0].Address, names: make(map[int64]string)}
}

// remove removes a VM.
func (c *callers) remove(pid int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.vms, pid)
}

// name sets the names of callers in suspension events, if they can be found.
func (c *callers) name(events []bpf.Event) {
	for i := range events {
		if e := &events[i]; e.Kind == bpf.EventSuspend && !e.Port && e.Caller != 0 {
			e.Text = c.of(e.VM, e.Caller)
		}
	}
}

// of returns the name of a caller, or "".
func (c *callers) of(pid int, caller int64) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.vms[pid]
	if v == nil {
		return ""
	}
	name, known := v.names[caller]
	if !known && len(v.names) < callersMost {
		var err error
		if name, err = c.look(v, caller); errors.Is(err, guard.ErrNoAnswer) {
			delete(c.vms, pid) // do not try again
		}
		v.names[caller] = name
	}
	return name
}

// callerPatience is the time limit for reading the symbols of a VM. Recorded events wait
// meanwhile.
const callerPatience = 500 * time.Millisecond

// look finds a caller in the symbols. The call comes right before the return address. An error
// may mean that the VM has exited.
func (c *callers) look(v *callersOf, caller int64) (string, error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), callerPatience, guard.ErrNoAnswer)
	defer cancel()
	return vm.Read(ctx, &c.finder, v.vm, func(f *usdt.File) (string, error) { return f.Function(v.probe + uint64(caller) - 1) })
}
