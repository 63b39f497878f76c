package bpf

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/beamscope/beamscope/dtrace"
)

// MaxNameLen is the length in bytes of the longest outcome name.
const MaxNameLen = 255

// NamesPerLabel is the maximum number of outcomes with names of the same [Label]: the number that
// the programs compare, see OUTCOMES_PER_LABEL in span.bpf.h.
const NamesPerLabel = 8

// ErrOptions is wrapped by the errors of [New] that the caller's options cause.
var ErrOptions = errors.New("bad collector options")

// ErrClosed means that a collector was used after it was closed.
var ErrClosed = errors.New("collector is closed")

// MaxWorst is the minimum number of the worst instances that are streamed for each VM and window of
// an outcome with [StreamWorst].
const MaxWorst = len(kernelWorst{}.Ranks)

// Windows is the number of windows that have room at one time. A window must be read before Windows
// - 1 later ones have ended; see [Collector.Skip].
const Windows = windows

// An Outcome is a kind of span to count or, with a Rule, a kind of instance that begins and ends
// with events of the VM's own probes.
type Outcome struct {
	Name     string // name of the spans: 1 to MaxNameLen bytes, no NUL; with a Rule any such name
	DMax     int64  // nanoseconds, at least 1
	BinWidth int64  // nanoseconds, at least 1
	Bins     int    // at least 1; delays beyond the last bin count in the last bin

	Stream    Streaming // selects the instances that [Collector.Drain] passes on
	ExitFails bool      // the exit of the process that started a span is a failure instead of a timeout

	// Rule defines the events that start and end an instance; nil for spans. The caller must not
	// change it while the collector exists.
	Rule *dtrace.Rule

	// Explain records the events of processes that take part in open instances, for
	// [Collector.Events]. Spans only.
	Explain bool

	// Group is the property that also groups instances: [GroupByPID], [GroupByMFA] or, with a Rule,
	// an argument of its starts; "" for no groups.
	Group string

	// Accounts requests further figures of groups: [Group.Starts] for instances that end in the
	// order of their starts; Processor and Dirty for slices of schedulers, which last from
	// process-in to process-out. The latter two need the tracepoints of the kernel's scheduler.
	Accounts bool
}

// ID returns the identity of the outcome in a collector: its name, and whether it is an outcome of
// spans.
func (o Outcome) ID() string {
	if o.Rule != nil {
		return RuleID(o.Name)
	}
	return o.Name
}

// RuleID returns the ID of an outcome with a rule. No name of spans has a NUL.
func RuleID(name string) string { return "\x00" + name }

// Streaming selects the instances of an outcome that are streamed.
type Streaming uint8

// The selections, each larger than the one before.
const (
	StreamNone  Streaming = iota
	StreamWorst           // at least the MaxWorst worst of each VM and window
	StreamAll
)

// Options describe the first outcomes of a [Collector], and its capacity.
type Options struct {
	Outcomes []Outcome

	// Start is the beginning of window 0, and Window the length of each window, both in nanoseconds
	// of CLOCK_MONOTONIC. Spans that start before Start are not counted.
	Start, Window int64

	// Discover makes the collector attach to every label and record the names of spans that belong
	// to no outcome, see [Collector.Discovered]. It does not count their spans.
	Discover bool

	// Explain makes room for the log, for later outcomes with Explain. Until then no program fills it.
	// Without it there is a log only if there is such an outcome at first, and otherwise
	// [Collector.Change] has no room for one.
	Explain bool

	VMs       int // maximum number of Erlang VMs with a slot at one time; 0: 8
	OpenSpans int // maximum number of open instances, see [Collector.ShareRoom]; 0: 131072, about 20 MiB
	Queues    int // keys of instances that end in the order of their starts; 0: 524288. Memory is allocated on use
	Groups    int // maximum number at one time; 0: 16384. Memory is allocated on use
	Exits     int // process exits between two sweeps; 0: 131072. Memory is allocated on use
	RingBytes int // of the ring buffer, a power of two; 0: 4 MiB

	// For outcomes with Explain: the capacity of the log in events of 64 bytes, if there is a log;
	// 0: 262144. And the maximum number of processes that take part in open instances at one time;
	// 0: 16384. Memory is allocated on use.
	Events, Watched int

	// SingleLinks makes a link for each place, as on a kernel without uprobe_multi, see [MultiLinks].
	SingleLinks bool

	// Progress, if not nil, is called while programs are loaded for attaching, which may take
	// seconds, with the number of loaded programs. The calls do not overlap. They come from other
	// goroutines than the one that attaches.
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

// check checks the start and the length of windows, and outcomes.
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
	multi  bool // one link of a program to many places
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

	plans   []plan         // the current one, and the next one if there is one
	era     int            // which of the clock's plans the first of them is
	oldest  uint64         // number of the oldest window that is not read
	entries []entry        // by index in the map outcomes
	arena   arena          // free cells
	rules   uint32         // number of entries with rules so far
	numbers map[string]int // numbers of IDs, which identify outcomes in counts

	discovered []int // names that were passed on, by slot

	sweptQueues int64 // time when queues were last swept

	crowded   bool           // all slots were taken at some time
	wasCrowd  bool           // VMs without a slot did something before the last reading
	displaced []displacement // slots that are being handed over, in order of time
	since     map[int]int64  // time from which everything in a VM is counted in its slot, by pid; 0: always

	vmHits    map[int]uint64    // see VMHits
	userHits  map[int]uint64    // see UserHits
	crowdRuns map[uint32]uint64 // that were read, by user
	counts    []Counts          // reused by each read

	rooms     rooms
	groups    groupReader
	functions map[uint64]string // functions of groups, in addition to those that the programs read

	ring stream
	log  eventLog
}

// Sizes of maps that are not options.
const (
	armingMost  = 1 << 13 // armed keys at a time; the least recent is evicted first
	textsMost   = 1 << 13 // texts that groups have
	threadsMost = 1 << 14 // of VMs; the least recent is evicted first
	spawnedMost = 1 << 17 // processes with a known function; the least recent is evicted first
	bornMost    = 1 << 13 // processes whose function must be determined
	runnersMost = 1 << 12 // threads of schedulers; the least recent is evicted first
)

// fixed contains the constants of every program.
type fixed struct {
	stripeMask, stripeCells, vmSlots uint32
	logMask                          uint32
	namespace                        namespaceNamespacePlaces
	discover                         bool
}

// New creates the kernel's maps for the outcomes, with room for later ones. It attaches nothing.
// The caller closes the collector. The error wraps [ErrPermission], [ErrKernel] or [ErrOptions] if
// that is the reason.
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
		multi:  !opts.SingleLinks && MultiLinks() == nil,
		layout: l,

		discovered: make([]int, l.slots),
		programs:   make(map[variant]loaded),
		entries:    make([]entry, len(opts.Outcomes)+spareEntries(opts)),
		arena:      newArena(l.ofOutcomes()),
		numbers:    make(map[string]int),
		traces:     make(map[int][]link.Link),

		functions: make(map[uint64]string),
		vmHits:    make(map[int]uint64),
		userHits:  make(map[int]uint64),
		crowdRuns: make(map[uint32]uint64),
		since:     make(map[int]int64),
		rooms:     rooms{ofAccount: make(map[int]uint32)},
		fixed: fixed{
			stripeMask:  uint32(l.stripes - 1),
			stripeCells: uint32(l.stripeCells),
			vmSlots:     uint32(opts.VMs),
			discover:    opts.Discover,
		},
	}
	if c.fixed.namespace, err = ownNamespace(); err != nil {
		return nil, err
	}
	if err := c.load(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	c.groups.texts = textReader{seen: c.maps.TextsSeen, parts: c.maps.TextParts}
	if c.hasLog() {
		c.log.open(c.memory.records, c.memory.heads, textReader{seen: c.maps.TextsSeen, parts: c.maps.TextParts})
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
		kernelMapTextParts: textsMost,
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
	c.divideRoom(0)
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

// Close detaches everything and frees the maps. The kernel then decrements the VMs' semaphores.
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
