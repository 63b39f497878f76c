package outcome

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/guard"
	"github.com/beamscope/beamscope/internal/monotonic"
	"github.com/beamscope/beamscope/internal/procname"
	"github.com/beamscope/beamscope/usdt"
)

// A registry remembers the functions that processes were started with, also when they have
// ended. Several goroutines may use it.
type registry struct {
	mu         sync.Mutex
	young, old map[watchedProcess]string // when the young ones are many, they become the old ones, which are forgotten
}

// knownMost is how many processes a registry remembers at least.
const knownMost = 1 << 16

func (r *registry) put(p watchedProcess, function string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.young == nil || len(r.young) >= knownMost {
		r.young, r.old = make(map[watchedProcess]string), r.young
	}
	r.young[p] = function
}

// get returns the function of a process, "" where it is not known.
func (r *registry) get(p watchedProcess) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f, ok := r.young[p]; ok {
		return f
	}
	return r.old[p]
}

// forgetVM forgets the processes of a VM that has ended: another one may get its pid.
func (r *registry) forgetVM(pid int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, all := range []map[watchedProcess]string{r.young, r.old} {
		maps.DeleteFunc(all, func(p watchedProcess, _ string) bool { return p.vm == pid })
	}
}

// A census finds out the functions that processes were started with, where the groups of a
// collector are functions: of the processes that there are when it begins, and of those
// that are born. What it finds out, the collector counts by from then on. It works in the
// background, and takes a quarter of a processor at most.
type census struct {
	collector *bpf.Collector
	names     *names
	known     *registry

	mu      sync.Mutex
	places  map[int]uint32 // of VMs whose processes are gone through: where in the table to go on
	newborn []newborn
	stop    func()
}

// A newborn is a process that has not noted its function yet, as far as is known.
type newborn struct {
	watchedProcess
	since int64 // when it was told of, nanoseconds of CLOCK_MONOTONIC
}

const (
	// censusPeriod is how often a census works, and censusWork how long it does so at most.
	censusPeriod = 100 * time.Millisecond
	censusWork   = 25 * time.Millisecond

	// firstCensus is for how long the first window waits for the functions of processes.
	firstCensus = time.Second

	// firstNames is for how long the first window waits until the VMs' processes have names.
	firstNames = time.Second

	// newbornPatience is for how long a process may take to note its function.
	newbornPatience = 5 * time.Second

	// newbornMost is how many of them are waited for.
	newbornMost = 1 << 14

	// walkPlaces is how many places of the process table are looked at in one go.
	walkPlaces = 64
)

// newCensus returns a census that works until it is closed.
func newCensus(c *bpf.Collector, n *names, known *registry) *census {
	s := &census{collector: c, names: n, known: known, places: make(map[int]uint32)}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(censusPeriod)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if s.work(censusWork) != nil {
				return // whoever reads the counts finds out why
			}
		}
	})
	s.stop = func() {
		cancel()
		running.Wait()
	}
	return s
}

func (c *census) close() { c.stop() }

// add has the processes of a VM be gone through.
func (c *census) add(vm int) {
	c.names.open(vm)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.places[vm] = 0
}

// forget gives up a VM.
func (c *census) forget(vm int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.places, vm)
}

// catchUp works until all VMs have been gone through, for so long at most.
func (c *census) catchUp(limit time.Duration) error {
	end := time.Now().Add(limit)
	for vm := range c.pending() {
		if !c.names.wait(vm, time.Until(end)) {
			return nil
		}
	}
	for len(c.pending()) > 0 && time.Now().Before(end) {
		if err := c.work(censusWork); err != nil {
			return err
		}
	}
	return nil
}

// pending returns the VMs that have not been gone through.
func (c *census) pending() map[int]uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.places)
}

// work finds out functions for some time.
func (c *census) work(limit time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	end, now := time.Now().Add(limit), monotonic.Now()
	err := c.collector.Born(func(vm int, process uint64) {
		if len(c.newborn) < newbornMost {
			c.newborn = append(c.newborn, newborn{watchedProcess{vm, PID(process)}, now})
		}
	})
	if err != nil {
		return err
	}
	if err := c.nameNewborn(end, now); err != nil {
		return err
	}
	for vm := range c.places {
		for more := true; more; {
			if time.Now().After(end) {
				return nil
			}
			if more, err = c.walk(vm, now); err != nil {
				return err
			}
		}
	}
	return nil
}

// nameNewborn finds out the functions of processes that are new.
func (c *census) nameNewborn(end time.Time, now int64) error {
	var later []newborn
	for i, n := range c.newborn {
		if time.Now().After(end) {
			later = append(later, c.newborn[i:]...)
			break
		}
		name, err := c.names.read(n.vm, n.process)
		patient := now-n.since < int64(newbornPatience)
		function, final := name.Function()
		switch {
		case err == nil && function != "" && (final || !patient):
			if err := c.set(n.watchedProcess, function); err != nil {
				return err
			}
		case patient && (err == nil || errors.Is(err, procname.ErrUnsettled) || errors.Is(err, procname.ErrStarting) || errors.Is(err, guard.ErrNoAnswer)):
			later = append(later, n)
		}
	}
	c.newborn = later
	return nil
}

// walk finds out the functions of some of the processes of a VM; false where that is all
// that can be done now.
func (c *census) walk(vm int, now int64) (more bool, err error) {
	some, next, err := c.names.walk(vm, c.places[vm], walkPlaces)
	if errors.Is(err, procname.ErrStarting) || errors.Is(err, guard.ErrNoAnswer) {
		return false, nil
	}
	if err != nil || next == 0 {
		delete(c.places, vm)
	} else {
		c.places[vm] = next
	}
	for _, p := range some {
		w := watchedProcess{vm, PID(p.Number) | PID(p.Serial)<<32}
		function, final := p.Name.Function()
		if !final {
			c.newborn = append(c.newborn, newborn{w, now})
		} else if err := c.set(w, function); err != nil {
			return false, err
		}
	}
	return err == nil && next != 0, nil
}

// set notes the function of a process.
func (c *census) set(p watchedProcess, function string) error {
	c.known.put(p, function)
	return c.collector.SetFunction(p.vm, uint64(p.process), function)
}

// read reads the name of a process of a VM that is open, as it is now.
func (n *names) read(vm int, p PID) (procname.Name, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	namer := n.namers[vm]
	if namer == nil || p>>48 != 0 {
		return procname.Name{}, usdt.ErrProcessGone
	}
	return namer.Read(uint32(p), uint32(p>>32&0xffff))
}

// walk returns some processes of a VM that is open, see [procname.Namer.Walk].
func (n *names) walk(vm int, from uint32, places int) ([]procname.Process, uint32, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	namer := n.namers[vm]
	if namer == nil {
		return nil, 0, usdt.ErrProcessGone
	}
	return namer.Walk(from, places)
}

// wait waits until a VM is open, or could not be opened, for so long at most.
func (n *names) wait(vm int, limit time.Duration) bool {
	n.mu.Lock()
	namer := n.namers[vm]
	n.mu.Unlock()
	if namer == nil {
		return true
	}
	select {
	case <-namer.Opened():
		return true
	case <-time.After(limit):
		return false
	}
}
