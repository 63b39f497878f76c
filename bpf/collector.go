package bpf

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"syscall"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/beamscope/beamscope/dtrace"
)

// MaxNameLen is the length in bytes of the longest outcome name.
const MaxNameLen = 255

// NamesPerLabel is how many outcomes can have names of the same [Label]: as many as
// the programs compare, see OUTCOMES_PER_LABEL in span.bpf.h.
const NamesPerLabel = 8

// ErrOptions is wrapped by the errors of [New] that the caller's options cause.
var ErrOptions = errors.New("bad collector options")

// ErrClosed says that a collector was used after it was closed.
var ErrClosed = errors.New("collector is closed")

// MaxWorst is how many of the worst instances of a VM and a window are streamed at
// least of an outcome with [StreamWorst].
const MaxWorst = len(kernelWorst{}.Ranks)

// Windows is how many windows have room at one time. A window is read before it
// has been over for Windows - 1 others; see [Collector.Skip].
const Windows = windows

// An Outcome is a kind of span to count or, with a Rule, what events of the VM's own
// probes are the starts and ends of.
type Outcome struct {
	Name     string // as the wrapper sends it: 1 to MaxNameLen bytes, no NUL; with a Rule any such name
	DMax     int64  // nanoseconds, at least 1
	BinWidth int64  // nanoseconds, at least 1
	Bins     int    // at least 1; delays beyond the last bin count in the last bin

	Stream    Streaming // which instances [Collector.Drain] passes on
	ExitFails bool      // the exit of the process that started a span is a failure, not a timeout in the end

	// Rule says which events start and end an instance; nil for spans. It is not
	// changed as long as the collector is there.
	Rule *dtrace.Rule

	// Explain has the events of the processes that take part in open instances recorded,
	// for [Collector.Events]. Spans only.
	Explain bool

	// Group is what instances are counted by besides: [GroupByPID], [GroupByMFA] or, with
	// a Rule, an argument of its starts; "" for nothing.
	Group string

	// Accounts has groups have more: of instances that end in the order of their starts
	// [Group.Starts], and of slices of schedulers, which are between process-in and process-out,
	// Processor and Dirty. The latter needs the tracepoints of the kernel's scheduler.
	Accounts bool
}

// ID returns what tells an outcome from others of a collector: its name, and whether it
// is one of spans.
func (o Outcome) ID() string {
	if o.Rule != nil {
		return RuleID(o.Name)
	}
	return o.Name
}

// RuleID returns the ID of an outcome with a rule. No name of spans has a NUL.
func RuleID(name string) string { return "\x00" + name }

// Streaming says which instances of an outcome are streamed.
type Streaming uint8

// Instances to stream, each more than the one before.
const (
	StreamNone  Streaming = iota
	StreamWorst           // the MaxWorst worst of each VM and window at least
	StreamAll
)

// Options describe what a [Collector] counts at first, and the room it has.
type Options struct {
	Outcomes []Outcome

	// Start is where window 0 begins and Window how long each is, both in
	// nanoseconds of CLOCK_MONOTONIC. Spans that start before Start are not
	// counted.
	Start, Window int64

	// Discover has the collector attach to every label and note the names of spans
	// that are those of no outcome, see [Collector.Discovered]. Their spans are not
	// counted.
	Discover bool

	// Explain has everything ready from the beginning for outcomes with Explain that come
	// later: the log, and what fills it. Without it there is a log if there is any such
	// outcome at first, and otherwise [Collector.Change] has no room for one.
	Explain bool

	VMs       int // Erlang VMs that can be told apart at one time; 0: 8
	OpenSpans int // instances that can be open at one time; 0: 131072, about 20 MiB
	Queues    int // keys of instances that end in the order of their starts; 0: 524288. They take memory only as they come
	Groups    int // that there is room for at one time; 0: 16384. They take memory only as they come
	Exits     int // process exits between two sweeps; 0: 131072. They take memory only as they come
	RingBytes int // of the ring buffer, a power of two; 0: 4 MiB

	// Of outcomes with Explain: how many events the log has room for, 64 bytes each, if
	// there is one; 0: 262144. And how many processes can take
	// part in open instances at one time; 0: 16384. They take memory only as they come.
	Events, Watched int

	// Progress, where it is not nil, is called while programs are loaded to be attached,
	// with how many of them are. That may take seconds. One call is over when the next one
	// begins; they come from other goroutines than the one that attaches.
	Progress func(loaded, all int)
}

func (o Options) withDefaults() Options {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	def(&o.VMs, 8)
	def(&o.OpenSpans, 1<<17)
	def(&o.Exits, 1<<17)
	def(&o.Queues, 1<<19)
	def(&o.Groups, 1<<14)
	def(&o.RingBytes, 4<<20)
	def(&o.Events, 1<<18)
	def(&o.Watched, 1<<14)
	return o
}

// check says what is wrong with a start of windows, their length, and outcomes.
func check(start, window int64, outcomes []Outcome) error {
	if window <= 0 || start <= 0 {
		return fmt.Errorf("%w: start %d ns, window %d ns", ErrOptions, start, window)
	}
	seen := make(map[string]bool)
	perLabel := make(map[uint32]int)
	for _, out := range outcomes {
		switch {
		case len(out.Name) == 0 || len(out.Name) > MaxNameLen:
			return fmt.Errorf("%w: outcome %q: the name has %d bytes, not 1 to %d", ErrOptions, out.Name, len(out.Name), MaxNameLen)
		case seen[out.ID()]:
			return fmt.Errorf("%w: outcome %q is there twice", ErrOptions, out.Name)
		case out.DMax < 1 || out.BinWidth < 1 || out.Bins < 1:
			return fmt.Errorf("%w: outcome %q: dMax %d ns, %d bins of %d ns", ErrOptions, out.Name, out.DMax, out.Bins, out.BinWidth)
		}
		if out.Rule != nil && out.Explain {
			return fmt.Errorf("%w: outcome %q: only spans can be explained", ErrOptions, out.Name)
		}
		if out.Rule == nil && !slices.Contains([]string{"", GroupByPID, GroupByMFA}, out.Group) {
			return fmt.Errorf("%w: outcome %q: spans cannot be grouped by %s", ErrOptions, out.Name, out.Group)
		}
		seen[out.ID()] = true
		if out.Rule != nil {
			if err := CheckOutcome(out); err != nil {
				return err
			}
			continue
		}
		label := Label(out.Name)
		if perLabel[label]++; perLabel[label] > NamesPerLabel {
			return fmt.Errorf("%w: outcome %q: more than %d names fall on label %d: rename one", ErrOptions, out.Name, NamesPerLabel, label)
		}
	}
	return nil
}

// A Collector counts outcome instances in the kernel. Its methods may be called
// from several goroutines.
type Collector struct {
	opts   Options
	layout layout
	maps   kernelMaps
	memory *mappings
	sweep  *ebpf.Program
	fixed  fixed

	mu       sync.Mutex
	closed   bool
	object   *ebpf.CollectionSpec // as it was read
	programs map[variant]loaded
	targets  []*Attachment
	traces   map[int][]link.Link // at the kernel's tracepoints, by entry or detailTrace

	plans   []plan         // the one that holds, and the one after it once there is one
	era     int            // which one of the clock's the first of them has
	oldest  uint64         // number of the oldest window that is not read
	entries []entry        // by index in the map outcomes
	arena   arena          // of the cells that no entry has
	rules   uint32         // entries that had rules so far
	numbers map[string]int // of IDs; what the outcomes are called in counts

	discovered []int // names that were passed on, by slot

	sweptQueues int64 // when queues were last swept

	crowded   bool           // all slots were taken at some time
	wasCrowd  bool           // VMs without a slot did something before the last reading
	displaced []displacement // slots that are handed over, in the order of their times
	since     map[int]int64  // from when on all that happens in a VM is in its slot, by pid; 0: always

	vmHits map[int]uint64 // see VMHits
	read   []uint64       // what was read of each cell before, summed over stripes
	counts []Counts       // reused by each read

	groups    groupReader
	functions map[uint64]string // that groups are, beside what the programs have read

	ring stream
	log  eventLog
}

// Room in maps that is not worth an option.
const (
	armingMost  = 1 << 13 // keys that are armed at a time; the least recent go first
	textsMost   = 1 << 13 // texts that groups have
	threadsMost = 1 << 14 // of VMs; the least recent go first
	spawnedMost = 1 << 17 // processes of which the function is known; the least recent go first
	bornMost    = 1 << 13 // processes of which the function is to be found out
	runnersMost = 1 << 12 // threads of schedulers; the least recent go first
)

// fixed are the constants that every program is loaded with.
type fixed struct {
	stripeMask, stripeCells, vmSlots uint32
	logMask                          uint32
	pidnsDev, pidnsIno               uint64
	discover                         bool
}

// New creates the kernel's maps for the outcomes, with room for later ones.
// Nothing is attached yet. The caller closes the collector. The error wraps
// [ErrPermission], [ErrKernel] or [ErrOptions] where it is for that reason.
func New(opts Options) (*Collector, error) {
	opts = opts.withDefaults()
	if err := check(opts.Start, opts.Window, opts.Outcomes); err != nil {
		return nil, err
	}
	if err := Supported(); err != nil {
		return nil, err
	}
	l, err := newLayout(opts.Outcomes, opts.VMs, runtime.NumCPU(), opts.Discover)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	c := &Collector{
		opts:   opts,
		layout: l,

		discovered: make([]int, l.slots),
		programs:   make(map[variant]loaded),
		entries:    make([]entry, len(opts.Outcomes)+spareEntries(opts)),
		arena:      newArena(l.ofOutcomes()),
		numbers:    make(map[string]int),
		traces:     make(map[int][]link.Link),

		functions: make(map[uint64]string),
		read:      make([]uint64, l.stripeCells),
		vmHits:    make(map[int]uint64),
		since:     make(map[int]int64),
		fixed: fixed{
			stripeMask:  uint32(l.stripes - 1),
			stripeCells: uint32(l.stripeCells),
			vmSlots:     uint32(opts.VMs),
			discover:    opts.Discover,
		},
	}
	if c.fixed.pidnsDev, c.fixed.pidnsIno, err = pidNamespace(); err != nil {
		return nil, err
	}
	if err := c.load(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	c.groups.texts = textReader{seen: c.maps.TextsSeen}
	if c.hasLog() {
		c.log.open(c.memory.records, c.memory.heads, textReader{seen: c.maps.TextsSeen})
	}
	return c, nil
}

// load creates the maps, fills them, and loads the sweep program.
func (c *Collector) load() error {
	var err error
	if c.object, err = loadKernel(); err != nil {
		return fmt.Errorf("read the eBPF object: %w", err)
	}
	spec := c.object.Copy()
	size := map[string]int{
		kernelMapOutcomes:  len(c.entries),
		kernelMapCells:     c.layout.stripes * c.layout.stripeCells,
		kernelMapFreeSlots: c.opts.VMs,
		kernelMapSlotPids:  c.opts.VMs,
		kernelMapSpans:     c.opts.OpenSpans,
		kernelMapExits:     c.opts.Exits,
		kernelMapQueues:    c.opts.Queues,
		kernelMapArming:    armingMost,
		kernelMapGroups:    c.opts.Groups,
		kernelMapRests:     len(c.entries) * c.layout.slots * windows, // there is always room
		kernelMapTextsSeen: textsMost,
		kernelMapSpawned:   spawnedMost,
		kernelMapBorn:      bornMost,
		kernelMapThreads:   threadsMost,
		kernelMapSlices:    threadsMost,
		kernelMapRing:      c.opts.RingBytes,
		kernelMapWatches:   c.opts.Watched,
		kernelMapRunners:   runnersMost,
		kernelMapOffCpus:   threadsMost,
		kernelMapWorsts:    len(c.entries) * c.layout.slots * windows,
	}
	if c.opts.Explain || explained(c.opts.Outcomes) {
		perStripe := ceilPowerOfTwo(max(c.opts.Events/c.layout.stripes, 2))
		c.fixed.logMask = uint32(perStripe - 1)
		size[kernelMapLogRecords], size[kernelMapLogHeads] = perStripe*c.layout.stripes, c.layout.stripes
	}
	if c.opts.Discover {
		size[kernelMapHashes], size[kernelMapSeenNames] = hashes*c.layout.slots, maxNames*c.layout.slots
		size[kernelMapNamesSeen] = c.layout.slots
	}
	for name, n := range size {
		spec.Maps[name].MaxEntries = uint32(n)
	}
	if err := c.fixed.set(spec); err != nil {
		return err
	}
	if err := spec.LoadAndAssign(&c.maps, nil); err != nil {
		return fmt.Errorf("create the eBPF maps: %w", explain(err))
	}
	if c.memory, err = mapMaps(&c.maps); err != nil {
		return err
	}
	for i := range c.memory.outcomes {
		c.memory.outcomes[i].SinceNs = forever // until there is an entry
	}
	for slot := range c.opts.VMs {
		if err := c.maps.FreeSlots.Put(nil, uint32(slot)); err != nil {
			return fmt.Errorf("write slot %d: %w", slot, err)
		}
	}
	if err := c.begin(); err != nil {
		return err
	}
	c.sweep, err = c.loadProgram(c.object.Copy(), variant{program: kernelProgSweep, args: newArguments(nil)})
	return err
}

// Close detaches everything and frees the maps. The kernel takes the VMs'
// semaphores down with it.
func (c *Collector) Close() error {
	err := c.ring.close()
	c.log.close()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return err
	}
	c.closed = true
	errs := []error{err}
	for _, t := range c.targets {
		errs = append(errs, t.close())
	}
	c.targets = nil
	errs = append(errs, c.closeTraces(func(int) bool { return true }))
	for _, p := range c.programs {
		if p.program != nil {
			errs = append(errs, p.program.Close())
		}
	}
	if c.sweep != nil {
		errs = append(errs, c.sweep.Close())
	}
	errs = append(errs, c.memory.close(), c.maps.Close())
	return errors.Join(errs...)
}

// InHostPIDs reports whether this process is in the pid namespace of the host. Where it is
// not, processes that it cannot see may run the executables that it attaches to.
func InHostPIDs() (bool, error) {
	dev, ino, err := pidNamespace()
	return dev == 0 && ino == 0, err
}

// pidNamespace identifies our pid namespace for the programs; zeros for the
// initial one, whose pids they get more cheaply.
func pidNamespace() (dev, ino uint64, err error) {
	const initial = 0xEFFFFFFC // PROC_PID_INIT_INO, linux/proc_ns.h

	info, err := os.Stat("/proc/self/ns/pid")
	if err != nil {
		return 0, 0, fmt.Errorf("find the pid namespace: %w", err)
	}
	st := info.Sys().(*syscall.Stat_t)
	if st.Ino == initial {
		return 0, 0, nil
	}
	return st.Dev, st.Ino, nil
}
