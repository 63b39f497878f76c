package outcome

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/guard"
	"github.com/beamscope/beamscope/internal/vm"
	"github.com/beamscope/beamscope/usdt"
)

// callersMost is how many functions of a VM are looked up that suspend processes. OTP 25
// has two dozen; a VM could make up others, and each takes a look at all its symbols.
const callersMost = 64

// suspendProbe is the probe that tells of callers.
const suspendProbe = "process__suspend"

// callers names the functions of VMs that suspend processes, by the VMs' pids. Several
// goroutines may use it.
type callers struct {
	finder vm.Finder

	mu  sync.Mutex
	vms map[int]*callersOf
}

// callersOf names those of a VM.
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

// name names the callers of suspensions, where they are known.
func (c *callers) name(events []bpf.Event) {
	for i := range events {
		if e := &events[i]; e.Kind == bpf.EventSuspend && !e.Port && e.Caller != 0 {
			e.Text = c.of(e.VM, e.Caller)
		}
	}
}

// of names one of them, "" where it is not known.
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
			delete(c.vms, pid) // it is not asked again
		}
		v.names[caller] = name
	}
	return name
}

// callerPatience is how long the symbols of a VM may take to be looked at: what was recorded
// waits meanwhile.
const callerPatience = 500 * time.Millisecond

// look looks at the symbols. The call is right before the place where its function goes on.
// An error may be that the VM has exited.
func (c *callers) look(v *callersOf, caller int64) (string, error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), callerPatience, guard.ErrNoAnswer)
	defer cancel()
	return vm.Read(ctx, &c.finder, v.vm, func(f *usdt.File) (string, error) { return f.Function(v.probe + uint64(caller) - 1) })
}
