// Package hits counts, in the kernel, how often processes that run a file hit places in it: probes,
// and functions that stand in for them. It reads no arguments.
//
// Two of the places may mark periods of time. Hits within these periods are counted separately, so
// an observed program can distinguish what it did on purpose from its other activities.
package hits

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/beamscope/beamscope/usdt"
)

// A Place is a set of sites whose hits are counted.
type Place struct {
	// Sites are the sites of a probe. Only Offset and Semaphore are used.
	Sites []usdt.Site

	// Return means that the sites are functions whose returns are counted.
	Return bool

	Mark Mark
}

// A Mark determines whether a hit of a place begins or ends a period.
type Mark uint8

// The marks. A hit of a mark counts as inside the period that it begins or ends.
const (
	None Mark = iota
	Begins
	Ends
)

// The bits of marks in cookies, beside the number of the place (hits.bpf.c).
const (
	cookieBegins = 1 << 32
	cookieEnds   = 1 << 33
)

// A Count is the number of hits of a place since the counter was attached.
type Count struct {
	Inside  uint64 // within the periods that marks delimit
	Outside uint64 // outside of them
}

// All returns the hits altogether.
func (c Count) All() uint64 { return c.Inside + c.Outside }

// Sub returns the hits since an earlier count.
func (c Count) Sub(earlier Count) Count {
	return Count{Inside: c.Inside - earlier.Inside, Outside: c.Outside - earlier.Outside}
}

// A Counter counts hits, until it is closed.
type Counter struct {
	kernel kernelObjects
	links  []link.Link
	places int
}

// New attaches to the places in the file with this path. It counts all processes that run the file,
// also those that start later. The caller closes the counter.
func New(path string, places []Place) (*Counter, error) {
	c := &Counter{places: len(places)}
	if err := c.load(); err != nil {
		return nil, fmt.Errorf("count hits: %w", err)
	}
	if err := c.attach(path, places); err != nil {
		return nil, errors.Join(fmt.Errorf("count hits in %s: %w", path, err), c.Close())
	}
	return c, nil
}

func (c *Counter) load() error {
	spec, err := loadKernel()
	if err != nil {
		return fmt.Errorf("read the eBPF object: %w", err)
	}
	spec.Maps[kernelMapCounters].MaxEntries = uint32(max(1, c.places))
	if err := spec.LoadAndAssign(&c.kernel, nil); err != nil {
		return fmt.Errorf("load the eBPF program: %w", err)
	}
	return nil
}

func (c *Counter) attach(path string, places []Place) error {
	exe, err := link.OpenExecutable(path)
	if err != nil {
		return err
	}
	var entries, returns link.UprobeMultiOptions
	for i, p := range places {
		options := &entries
		if p.Return {
			options = &returns
		}
		for _, s := range p.Sites {
			options.Addresses = append(options.Addresses, s.Offset)
			options.RefCtrOffsets = append(options.RefCtrOffsets, s.Semaphore)
			options.Cookies = append(options.Cookies, p.cookie(i))
		}
	}
	return errors.Join(
		c.link(exe.UprobeMulti, &entries),
		c.link(exe.UretprobeMulti, &returns),
	)
}

func (p Place) cookie(number int) uint64 {
	switch p.Mark {
	case Begins:
		return uint64(number) | cookieBegins
	case Ends:
		return uint64(number) | cookieEnds
	}
	return uint64(number)
}

func (c *Counter) link(to func([]string, *ebpf.Program, *link.UprobeMultiOptions) (link.Link, error), options *link.UprobeMultiOptions) error {
	if len(options.Addresses) == 0 {
		return nil
	}
	l, err := to(nil, c.kernel.Hit, options)
	if err != nil {
		return fmt.Errorf("attach to %d places: %w", len(options.Addresses), err)
	}
	c.links = append(c.links, l)
	return nil
}

// Read returns the counts by place, in the order in which these were given.
func (c *Counter) Read() ([]Count, error) {
	counts := make([]Count, c.places)
	for i := range counts {
		var n kernelCounter
		if err := c.kernel.Counters.Lookup(uint32(i), &n); err != nil {
			return nil, fmt.Errorf("read the hits of place %d: %w", i, err)
		}
		counts[i] = Count{Inside: n.Inside, Outside: n.Outside}
	}
	return counts, nil
}

// Close detaches from all places.
func (c *Counter) Close() error {
	var errs []error
	for _, l := range c.links {
		errs = append(errs, l.Close())
	}
	return errors.Join(errors.Join(errs...), c.kernel.Close())
}
