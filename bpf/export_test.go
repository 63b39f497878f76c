package bpf

import (
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
)

// SweepQueues sweeps the queues now, however long ago that was done.
func (c *Collector) SweepQueues() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := c.runSweep(&kernelSweepRequest{})
	return err
}

// LoseThreads makes the programs at the kernel's tracepoints ignore the threads of a VM, until
// ObserveThreads is called for it again.
func (c *Collector) LoseThreads(pid int) error { return c.forgetThreads(pid) }

// ForgetOffCPU drops the record that a thread does not run, as if there had been no room for it.
func (c *Collector) ForgetOffCPU(thread int) error { return c.maps.OffCpus.Delete(uint32(thread)) }

// NamespacePlaces is what programs need to know of our pid namespace.
type NamespacePlaces = namespaceNamespacePlaces

// FindNamespace finds what programs need to know of our pid namespace, with its inode and the types
// of the kernel.
func FindNamespace(inode uint32, load func() (*btf.Spec, error)) (NamespacePlaces, error) {
	return findNamespace(inode, load)
}

// OwnPIDProgram loads the program that returns the pid of the process that runs it.
func OwnPIDProgram(places NamespacePlaces) (*ebpf.Program, error) { return ownPIDProgram(places) }

// KernelPlaces returns where the kernel keeps pids.
func KernelPlaces() (NamespacePlaces, error) {
	places, _, err := namespacePlaces(btf.LoadKernelSpec)
	return places, err
}
