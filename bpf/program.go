package bpf

import (
	"fmt"

	"github.com/cilium/ebpf"

	"github.com/beamscope/beamscope/usdt"
)

// A variant identifies a program specialised for one layout of arguments.
type variant struct {
	program string
	args    arguments
}

// program returns the named program specialised for these arguments, loading it
// the first time. The collector owns it.
func (c *Collector) program(name string, args []usdt.Arg) (*ebpf.Program, error) {
	v := variant{program: name, args: newArguments(args)}
	if p, ok := c.programs[v]; ok {
		return p, nil
	}
	p, err := c.loadProgram(name, args)
	if err != nil {
		return nil, err
	}
	c.programs[v] = p
	return p, nil
}

// loadProgram loads one program on the collector's maps.
func (c *Collector) loadProgram(name string, args []usdt.Arg) (*ebpf.Program, error) {
	spec, err := loadKernel()
	if err != nil {
		return nil, fmt.Errorf("read the eBPF object: %w", err)
	}
	if err := c.fixed.set(spec); err != nil {
		return nil, err
	}
	if err := newArguments(args).set(spec); err != nil {
		return nil, fmt.Errorf("specialise %s: %w", name, err)
	}
	spec.Programs = map[string]*ebpf.ProgramSpec{name: spec.Programs[name]}
	shared := c.sharedMaps()
	for m, have := range shared {
		spec.Maps[m].MaxEntries = have.MaxEntries()
	}
	coll, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{MapReplacements: shared})
	if err != nil {
		return nil, fmt.Errorf("load program %s: %w", name, explain(err))
	}
	defer coll.Close()
	return coll.DetachProgram(name), nil
}

func (c *Collector) sharedMaps() map[string]*ebpf.Map {
	return map[string]*ebpf.Map{
		kernelMapCells:     c.maps.Cells,
		kernelMapClocks:    c.maps.Clocks,
		kernelMapArrivals:  c.maps.Arrivals,
		kernelMapExits:     c.maps.Exits,
		kernelMapFreeSlots: c.maps.FreeSlots,
		kernelMapHashes:    c.maps.Hashes,
		kernelMapLabels:    c.maps.Labels,
		kernelMapNamesSeen: c.maps.NamesSeen,
		kernelMapOutcomes:  c.maps.Outcomes,
		kernelMapRecent:    c.maps.Recent,
		kernelMapRing:      c.maps.Ring,
		kernelMapSeenNames: c.maps.SeenNames,
		kernelMapSlotPids:  c.maps.SlotPids,
		kernelMapSpans:     c.maps.Spans,
		kernelMapVmCache:   c.maps.VmCache,
		kernelMapVms:       c.maps.Vms,
		kernelMapWorsts:    c.maps.Worsts,
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
