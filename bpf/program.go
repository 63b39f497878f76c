package bpf

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cilium/ebpf"

	"github.com/beamscope/beamscope/dtrace"
)

// A variant identifies a program specialised for one layout of arguments.
type variant struct {
	program string
	special specialization // of rules' programs
	args    arguments
	terms   siteTerms
	entry   int // of programs at tracepoints
	layout  ProcessLayout

	returns bool // it runs at the return of a function instead of its entry
	stepped bool // the kernel single-steps the instruction there
}

// siteTerms are the constants of pid.bpf.h for reading terms at a site. The zero value is for
// programs that read no terms.
type siteTerms struct {
	form             dtrace.TermForm
	argsAreTerms     bool  // the arguments at the site are terms, not text
	processes, ports int64 // places of the VM's tables: bytes after the site
	atoms            int64 // place of its table of atoms in the same form; 0: not needed
}

func (t siteTerms) kernelForm() kernelTermForm {
	switch t.form {
	case dtrace.TermsByNumber:
		return kernelTermFormTERMS_BY_NUMBER
	case dtrace.TermsByPlace:
		return kernelTermFormTERMS_BY_PLACE
	}
	return kernelTermFormTERMS_UNKNOWN
}

// A loaded is a loaded program, or the error of loading it.
type loaded struct {
	program *ebpf.Program
	err     error
}

// program returns a program, loading it the first time. The collector owns it.
func (c *Collector) program(v variant) (*ebpf.Program, error) {
	p, ok := c.programs[v]
	if !ok {
		p.program, p.err = c.loadProgram(c.object.Copy(), v)
		c.programs[v] = p
	}
	return p.program, p.err
}

// loaders is the number of programs that are loaded at a time: half the number of processors. On
// many kernels the verifier cannot be preempted, and the VMs run on the other processors.
func loaders() int { return max(1, runtime.GOMAXPROCS(0)/2) }

// preload loads programs in parallel: most of the time for attaching is spent in the kernel's
// verifier, which checks each program separately. If the context is done, preload returns its cause
// as soon as the programs under way are loaded.
func (c *Collector) preload(ctx context.Context, variants []variant) error {
	seen := make(map[variant]bool)
	missing := slices.DeleteFunc(variants, func(v variant) bool {
		_, have := c.programs[v]
		have, seen[v] = have || seen[v], true
		return have
	})
	var (
		mu      sync.Mutex
		loading sync.WaitGroup
		next    atomic.Int64
		done    int
	)
	for range min(loaders(), len(missing)) {
		loading.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(missing)) && ctx.Err() == nil; i = next.Add(1) - 1 {
				mu.Lock()
				spec := c.object.Copy()
				mu.Unlock()
				p, err := c.loadProgram(spec, missing[i])
				mu.Lock()
				c.programs[missing[i]] = loaded{p, err}
				done++
				c.progress(done, len(missing))
				mu.Unlock()
			}
		})
	}
	loading.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// progress reports the number of loaded programs, if the caller requested it.
func (c *Collector) progress(done, all int) {
	if c.opts.Progress != nil {
		c.opts.Progress(done, all)
	}
}

// forgetFailed allows another attempt for programs that could not be loaded.
func (c *Collector) forgetFailed() {
	maps.DeleteFunc(c.programs, func(_ variant, p loaded) bool { return p.err != nil })
}

// loadProgram loads one program of an object with the collector's maps. The caller owns the
// program.
func (c *Collector) loadProgram(spec *ebpf.CollectionSpec, v variant) (*ebpf.Program, error) {
	if err := c.fixed.set(spec); err != nil {
		return nil, err
	}
	if err := v.set(spec); err != nil {
		return nil, fmt.Errorf("specialise %s: %w", v.program, err)
	}
	spec.Programs = map[string]*ebpf.ProgramSpec{v.program: spec.Programs[v.program]}
	c.adapt(spec.Programs[v.program])
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
	if err := setVariables(spec, map[string]any{
		kernelVarAtReturn:           v.returns,
		kernelVarIsStepped:          v.stepped,
		kernelVarTermsAre:           v.terms.kernelForm(),
		kernelVarProcessTable:       v.terms.processes,
		kernelVarPortTable:          v.terms.ports,
		kernelVarAtomTable:          v.terms.atoms,
		kernelVarArgsAreTerms:       v.terms.argsAreTerms,
		kernelVarRunqueueOutcome:    uint32(v.entry),
		kernelVarProcessState:       v.layout.State,
		kernelVarProcessFlags:       v.layout.Flags,
		kernelVarProcessSave:        v.layout.Save,
		kernelVarMessageWords:       v.layout.Message,
		kernelVarProcessSeqClock:    v.layout.SeqTraceClock,
		kernelVarProcessSeqLastcnt:  v.layout.SeqTraceLastCount,
		kernelVarProcessSuspensions: v.layout.Suspensions,
		kernelVarProcessTimer:       v.layout.Timer,
	}); err != nil {
		return err
	}
	return v.special.set(spec)
}

func (c *Collector) sharedMaps() map[string]*ebpf.Map {
	return map[string]*ebpf.Map{
		kernelMapArming:        c.maps.Arming,
		kernelMapCells:         c.maps.Cells,
		kernelMapClocks:        c.maps.Clocks,
		kernelMapArrivals:      c.maps.Arrivals,
		kernelMapAskedVms:      c.maps.AskedVms,
		kernelMapBorn:          c.maps.Born,
		kernelMapExits:         c.maps.Exits,
		kernelMapCrowdRuns:     c.maps.CrowdRuns,
		kernelMapFreeSlots:     c.maps.FreeSlots,
		kernelMapGroups:        c.maps.Groups,
		kernelMapHashes:        c.maps.Hashes,
		kernelMapLabels:        c.maps.Labels,
		kernelMapLogHeads:      c.maps.LogHeads,
		kernelMapLogRecords:    c.maps.LogRecords,
		kernelMapNamesSeen:     c.maps.NamesSeen,
		kernelMapNewGroup:      c.maps.NewGroup,
		kernelMapNewRunner:     c.maps.NewRunner,
		kernelMapObserved:      c.maps.Observed,
		kernelMapOffCpus:       c.maps.OffCpus,
		kernelMapOutcomes:      c.maps.Outcomes,
		kernelMapQueues:        c.maps.Queues,
		kernelMapQueueRooms:    c.maps.QueueRooms,
		kernelMapRecent:        c.maps.Recent,
		kernelMapRests:         c.maps.Rests,
		kernelMapRing:          c.maps.Ring,
		kernelMapRooms:         c.maps.Rooms,
		kernelMapRoomUsers:     c.maps.RoomUsers,
		kernelMapRunners:       c.maps.Runners,
		kernelMapSeenNames:     c.maps.SeenNames,
		kernelMapSlotPids:      c.maps.SlotPids,
		kernelMapSpans:         c.maps.Spans,
		kernelMapSpawned:       c.maps.Spawned,
		kernelMapSweepRequests: c.maps.SweepRequests,
		kernelMapTermCache:     c.maps.TermCache,
		kernelMapTextsSeen:     c.maps.TextsSeen,
		kernelMapThreads:       c.maps.Threads,
		kernelMapTextParts:     c.maps.TextParts,
		kernelMapSlices:        c.maps.Slices,
		kernelMapVmCache:       c.maps.VmCache,
		kernelMapVms:           c.maps.Vms,
		kernelMapUnwatched:     c.maps.Unwatched,
		kernelMapWatches:       c.maps.Watches,
		kernelMapWatchings:     c.maps.Watchings,
		kernelMapWorsts:        c.maps.Worsts,
	}
}

func (f fixed) set(spec *ebpf.CollectionSpec) error {
	return setVariables(spec, map[string]any{
		kernelVarStripeMask:  f.stripeMask,
		kernelVarStripeCells: f.stripeCells,
		kernelVarVmSlots:     f.vmSlots,
		kernelVarNamespace:   f.namespace,
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
