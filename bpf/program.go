package bpf

import (
	"fmt"

	"github.com/cilium/ebpf"
)

// A variant identifies a program specialised for one layout of arguments.
type variant struct {
	program string
	special specialization // of rules' programs
	args    arguments
	pidBits uint8 // of a pid's data that are its number
	entry   int   // of programs at tracepoints
	layout  ProcessLayout
}

// program returns a program, loading it the first time. The collector owns it.
func (c *Collector) program(v variant) (*ebpf.Program, error) {
	if p, ok := c.programs[v]; ok {
		return p, nil
	}
	p, err := c.loadProgram(v)
	if err != nil {
		return nil, err
	}
	c.programs[v] = p
	return p, nil
}

// loadProgram loads one program on the collector's maps.
func (c *Collector) loadProgram(v variant) (*ebpf.Program, error) {
	spec := c.object.Copy()
	if err := c.fixed.set(spec); err != nil {
		return nil, err
	}
	if err := v.set(spec); err != nil {
		return nil, fmt.Errorf("specialise %s: %w", v.program, err)
	}
	spec.Programs = map[string]*ebpf.ProgramSpec{v.program: spec.Programs[v.program]}
	shared := c.sharedMaps()
	for m, have := range shared {
		spec.Maps[m].MaxEntries = have.MaxEntries()
	}
	coll, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{MapReplacements: shared})
	if err != nil {
		return nil, fmt.Errorf("load program %s: %w", v.program, explain(err))
	}
	defer coll.Close()
	return coll.DetachProgram(v.program), nil
}

func (v variant) set(spec *ebpf.CollectionSpec) error {
	if err := v.args.set(spec); err != nil {
		return err
	}
	if v.pidBits != 0 {
		if err := setVariables(spec, map[string]any{kernelVarPidNumberBits: uint32(v.pidBits)}); err != nil {
			return err
		}
	}
	if err := setVariables(spec, map[string]any{
		kernelVarRunqueueOutcome:    uint32(v.entry),
		kernelVarProcessState:       v.layout.State,
		kernelVarProcessSeqClock:    v.layout.SeqTraceClock,
		kernelVarProcessSeqLastcnt:  v.layout.SeqTraceLastCount,
		kernelVarProcessSuspensions: v.layout.Suspensions,
	}); err != nil {
		return err
	}
	return v.special.set(spec)
}

func (c *Collector) sharedMaps() map[string]*ebpf.Map {
	return map[string]*ebpf.Map{
		kernelMapArming:     c.maps.Arming,
		kernelMapCells:      c.maps.Cells,
		kernelMapClocks:     c.maps.Clocks,
		kernelMapArrivals:   c.maps.Arrivals,
		kernelMapExits:      c.maps.Exits,
		kernelMapFreeSlots:  c.maps.FreeSlots,
		kernelMapGroups:     c.maps.Groups,
		kernelMapHashes:     c.maps.Hashes,
		kernelMapLabels:     c.maps.Labels,
		kernelMapLogHeads:   c.maps.LogHeads,
		kernelMapLogRecords: c.maps.LogRecords,
		kernelMapNamesSeen:  c.maps.NamesSeen,
		kernelMapNoGroup:    c.maps.NoGroup,
		kernelMapNoRunner:   c.maps.NoRunner,
		kernelMapObserved:   c.maps.Observed,
		kernelMapOsWaits:    c.maps.OsWaits,
		kernelMapOutcomes:   c.maps.Outcomes,
		kernelMapQueues:     c.maps.Queues,
		kernelMapRecent:     c.maps.Recent,
		kernelMapRests:      c.maps.Rests,
		kernelMapRing:       c.maps.Ring,
		kernelMapRunners:    c.maps.Runners,
		kernelMapSeenNames:  c.maps.SeenNames,
		kernelMapSlotPids:   c.maps.SlotPids,
		kernelMapSpans:      c.maps.Spans,
		kernelMapSpawned:    c.maps.Spawned,
		kernelMapTextsSeen:  c.maps.TextsSeen,
		kernelMapThreads:    c.maps.Threads,
		kernelMapVmCache:    c.maps.VmCache,
		kernelMapVms:        c.maps.Vms,
		kernelMapUnwatched:  c.maps.Unwatched,
		kernelMapWatches:    c.maps.Watches,
		kernelMapWatchings:  c.maps.Watchings,
		kernelMapWorsts:     c.maps.Worsts,
	}
}

func (f fixed) set(spec *ebpf.CollectionSpec) error {
	return setVariables(spec, map[string]any{
		kernelVarStripeMask:  f.stripeMask,
		kernelVarStripeCells: f.stripeCells,
		kernelVarVmSlots:     f.vmSlots,
		kernelVarPidnsDev:    f.pidnsDev,
		kernelVarPidnsIno:    f.pidnsIno,
		kernelVarDiscover:    f.discover,
		kernelVarLogMask:     f.logMask,
	})
}

func setVariables(spec *ebpf.CollectionSpec, values map[string]any) error {
	for name, value := range values {
		if err := spec.Variables[name].Set(value); err != nil {
			return fmt.Errorf("set %s: %w", name, err)
		}
	}
	return nil
}
