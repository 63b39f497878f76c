package bpf

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/beamscope/beamscope/dtrace"
)

// ErrNoTracepoints means that programs cannot be attached to tracepoints of the kernel's scheduler,
// because there are none or because we may not.
var ErrNoTracepoints = errors.New("waits for a processor cannot be observed: the kernel's sched tracepoints are not available")

// ObserveThreads counts the waits of a VM's threads for a processor, if an outcome requests them.
func (c *Collector) ObserveThreads(pid int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	if err := c.maps.Observed.Put(uint32(pid), uint8(1)); err != nil {
		return fmt.Errorf("observe the threads of %d: %w", pid, err)
	}
	return nil
}

// forgetThreads is the opposite of ObserveThreads.
func (c *Collector) forgetThreads(pid int) error {
	err := c.maps.Observed.Delete(uint32(pid))
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("forget the threads of %d: %w", pid, err)
	}
	return nil
}

// openTraces attaches the programs that entries need to the tracepoints.
func (c *Collector) openTraces() error {
	for i, e := range c.entries {
		if c.traces[i] != nil {
			continue
		}
		for _, v := range e.threadVariants(i) {
			l, err := c.openTrace(v)
			if err != nil {
				err = fmt.Errorf("%w: outcome %q: %w", ErrNoTracepoints, e.outcome.Name, err)
				return errors.Join(err, c.closeTraces(func(entry int) bool { return entry == i }))
			}
			c.traces[i] = append(c.traces[i], l)
		}
	}
	return nil
}

// threadVariants returns the programs at the tracepoints of entry i. Ends come first: a wait with a
// seen start must not end unseen.
func (e entry) threadVariants(i int) []variant {
	switch {
	case !e.used || e.outcome.Rule == nil:
		return nil
	case e.outcome.Rule.RunQueue:
		return waitVariants(i)
	case e.outcome.ofSlices():
		return []variant{{program: kernelProgSliceSwitch, args: newArguments(nil)}}
	}
	return nil
}

// waitVariants returns the programs for waits for a processor.
func waitVariants(entry int) []variant {
	special := specialization{rule: kernelRule{
		Pairing: pairing(dtrace.First),
		Loose:   1, // a thread may have waited before we attached
		Amount:  noArg,
		Label:   noArg,
		Message: noArg,
	}}
	var all []variant
	for _, name := range []string{kernelProgThreadSwitch, kernelProgThreadWakeup} {
		all = append(all, variant{program: name, special: special, args: newArguments(nil), entry: entry})
	}
	return all
}

// traceVariants returns the wanted programs at tracepoints.
func (c *Collector) traceVariants() []variant {
	var all []variant
	for i, e := range c.entries {
		if c.traces[i] == nil {
			all = append(all, e.threadVariants(i)...)
		}
	}
	if c.explains() && c.traces[detailTrace] == nil {
		all = append(all, detailVariants()...)
	}
	return all
}

// closeTraces detaches the programs of some entries from the tracepoints.
func (c *Collector) closeTraces(of func(entry int) bool) error {
	var links []link.Link
	for i, l := range c.traces {
		if of(i) {
			links = append(links, l...)
			delete(c.traces, i)
		}
	}
	return closeAll(links)
}
