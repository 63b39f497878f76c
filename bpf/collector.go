package bpf

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/cilium/ebpf"
)

// MaxNameLen is the length in bytes of the longest outcome name.
const MaxNameLen = 255

// outcomesPerLabel is how many names one label can tell apart, as in span.bpf.c.
const outcomesPerLabel = 8

// ErrOptions is wrapped by the errors of [New] that the caller's options cause.
var ErrOptions = errors.New("bad collector options")

// ErrClosed says that a collector was used after it was closed.
var ErrClosed = errors.New("collector is closed")

// Windows is how many windows have room at one time. A window is read before it
// has been over for Windows - 1 others; see [Collector.Skip].
const Windows = windows

// An Outcome is a kind of span to count.
type Outcome struct {
	Name     string // as the wrapper sends it: 1 to MaxNameLen bytes, no NUL
	DMax     int64  // nanoseconds, at least 1
	BinWidth int64  // nanoseconds, at least 1
	Bins     int    // at least 1; delays beyond the last bin count in the last bin

	// Group names the outcomes whose probes are switched on and off together.
	Group string

	Stream    bool // also send every instance to the [Stream]
	ExitFails bool // the exit of the process that started a span is a failure, not a timeout in the end
}

// Options describe what a [Collector] counts, and the room it has for it.
type Options struct {
	Outcomes []Outcome

	// Start is where window 0 begins and Window how long each is, both in
	// nanoseconds of CLOCK_MONOTONIC. What happens before Start is lost.
	Start, Window int64

	VMs       int // Erlang VMs that can be told apart at one time; 0: 8
	OpenSpans int // spans that can be open at one time; 0: 131072, about 16 MiB
	Exits     int // process exits between two sweeps; 0: 64k for each second of two windows, used only with ExitFails
	RingBytes int // of the ring buffer, a power of two; 0: 4 MiB, used only with Stream
}

func (o Options) withDefaults() Options {
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	def(&o.VMs, 8)
	def(&o.OpenSpans, 1<<17)
	def(&o.Exits, o.exits())
	def(&o.RingBytes, 4<<20)
	return o
}

// exits returns the room there is for exits by default: a second of a VM that
// spawns as fast as it can, and more for longer windows.
func (o Options) exits() int {
	for _, out := range o.Outcomes {
		if out.ExitFails {
			return (1 << 16) * max(1, int(2*o.Window/int64(time.Second)))
		}
	}
	return 1
}

func (o Options) check() error {
	if len(o.Outcomes) == 0 {
		return fmt.Errorf("%w: no outcome", ErrOptions)
	}
	if o.Window <= 0 || o.Start <= 0 {
		return fmt.Errorf("%w: start %d ns, window %d ns", ErrOptions, o.Start, o.Window)
	}
	seen := make(map[string]bool)
	perLabel := make(map[uint32]int)
	for _, out := range o.Outcomes {
		switch {
		case len(out.Name) == 0 || len(out.Name) > MaxNameLen:
			return fmt.Errorf("%w: outcome %q: the name has %d bytes, not 1 to %d", ErrOptions, out.Name, len(out.Name), MaxNameLen)
		case seen[out.Name]:
			return fmt.Errorf("%w: outcome %q is there twice", ErrOptions, out.Name)
		case out.DMax < 1 || out.BinWidth < 1 || out.Bins < 1:
			return fmt.Errorf("%w: outcome %q: dMax %d ns, %d bins of %d ns", ErrOptions, out.Name, out.DMax, out.Bins, out.BinWidth)
		}
		seen[out.Name] = true
		label := Label(out.Name)
		if perLabel[label]++; perLabel[label] > outcomesPerLabel {
			return fmt.Errorf("%w: outcome %q: more than %d names fall on label %d: rename one", ErrOptions, out.Name, outcomesPerLabel, label)
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
	cells  *ebpf.Memory
	sweep  *ebpf.Program
	fixed  fixed

	mu       sync.Mutex
	programs map[variant]*ebpf.Program
	targets  []*Attachment
	groups   []string // names, by number
	off      map[string]bool
	crowded  bool     // all slots were taken at some time
	read     []uint64 // what was read of each cell before, summed over stripes
	oldest   uint64   // number of the oldest window that is not read
}

// fixed are the constants that every program is loaded with.
type fixed struct {
	stripeMask, stripeCells, vmSlots uint32
	pidnsDev, pidnsIno               uint64
}

// New creates the kernel's maps for the outcomes. Nothing is attached yet. The
// caller closes the collector.
func New(opts Options) (*Collector, error) {
	opts = opts.withDefaults()
	if err := opts.check(); err != nil {
		return nil, err
	}
	l, err := newLayout(opts.Outcomes, opts.VMs, runtime.NumCPU())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	c := &Collector{
		opts:     opts,
		layout:   l,
		programs: make(map[variant]*ebpf.Program),
		off:      make(map[string]bool),
		read:     make([]uint64, l.stripeCells),
		fixed: fixed{
			stripeMask:  uint32(l.stripes - 1),
			stripeCells: uint32(l.stripeCells),
			vmSlots:     uint32(opts.VMs),
		},
	}
	for _, o := range opts.Outcomes {
		if c.group(o.Group) < 0 {
			c.groups = append(c.groups, o.Group)
		}
	}
	if c.fixed.pidnsDev, c.fixed.pidnsIno, err = pidNamespace(); err != nil {
		return nil, err
	}
	if err := c.load(); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// group returns the number of a group, -1 where there is none of that name.
func (c *Collector) group(name string) int { return slices.Index(c.groups, name) }

// load creates the maps, fills them, and loads the sweep program.
func (c *Collector) load() error {
	spec, err := loadKernel()
	if err != nil {
		return fmt.Errorf("read the eBPF object: %w", err)
	}
	size := map[string]int{
		kernelMapOutcomes:  len(c.opts.Outcomes),
		kernelMapCells:     c.layout.stripes * c.layout.stripeCells,
		kernelMapFreeSlots: c.opts.VMs,
		kernelMapSpans:     c.opts.OpenSpans,
		kernelMapExits:     c.opts.Exits,
		kernelMapRing:      c.opts.RingBytes,
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
	if c.cells, err = c.maps.Cells.Memory(); err != nil {
		return fmt.Errorf("map the counters: %w", err)
	}
	if err := c.fill(); err != nil {
		return err
	}
	c.sweep, err = c.loadProgram(kernelProgSweep, nil)
	return err
}

// fill writes the outcomes, the labels, the clock and the free slots.
func (c *Collector) fill() error {
	chain := make(map[uint32]uint32)
	for i, o := range c.opts.Outcomes {
		label := Label(o.Name)
		out := kernelOutcome{
			DmaxNs:  uint64(o.DMax),
			BinNs:   uint64(o.BinWidth),
			Bins:    uint32(o.Bins),
			Cells:   uint32(c.layout.first[i]),
			Next:    chain[label],
			NameLen: uint64(len(o.Name)),
			Label:   label,
			Group:   uint32(c.group(o.Group)),
			Flags:   o.flags(),
		}
		for j, b := range []byte(o.Name) {
			out.Name[j] = int8(b)
		}
		if err := c.maps.Outcomes.Put(uint32(i), &out); err != nil {
			return fmt.Errorf("write outcome %q: %w", o.Name, err)
		}
		chain[label] = uint32(i) + 1
	}
	for label, first := range chain {
		if err := c.maps.Labels.Put(label, first); err != nil {
			return fmt.Errorf("write label %d: %w", label, err)
		}
	}
	for slot := range c.opts.VMs {
		if err := c.maps.FreeSlots.Put(nil, uint32(slot)); err != nil {
			return fmt.Errorf("write slot %d: %w", slot, err)
		}
	}
	return c.setClock(0)
}

// The flags of an outcome, as in count.bpf.h.
const (
	flagStream    = 1 << 0
	flagExitFails = 1 << 1
)

func (o Outcome) flags() uint32 {
	var f uint32
	if o.Stream {
		f |= flagStream
	}
	if o.ExitFails {
		f |= flagExitFails
	}
	return f
}

// Close detaches everything and frees the maps. The kernel takes the VMs'
// semaphores down with it.
func (c *Collector) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, t := range c.targets {
		errs = append(errs, t.closeLinks())
	}
	c.targets = nil
	for _, p := range c.programs {
		errs = append(errs, p.Close())
	}
	c.programs = make(map[variant]*ebpf.Program)
	if c.sweep != nil {
		errs = append(errs, c.sweep.Close())
		c.sweep = nil
	}
	errs = append(errs, c.maps.Close())
	return errors.Join(errs...)
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
