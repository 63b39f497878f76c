package vmsource

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/beamscope/beamscope/internal/engine/outcome"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/beam/procname"
	"github.com/beamscope/beamscope/internal/host/guard"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/usdt"
)

// A registry remembers the functions with which processes were started, even after the processes
// have ended. Several goroutines may use it.
type registry struct {
	mu         sync.Mutex
	young, old map[watchedProcess]string // when young is full, it replaces old, and the entries of old are dropped
}

// knownMost is the number of processes that a registry remembers at least.
const knownMost = 1 << 16

func (r *registry) put(p watchedProcess, function string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.young == nil || len(r.young) >= knownMost {
		r.young, r.old = make(map[watchedProcess]string), r.young
	}
	r.young[p] = function
}

// get returns the function of a process, or "".
func (r *registry) get(p watchedProcess) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f, ok := r.young[p]; ok {
		return f
	}
	return r.old[p]
}

// forgetVM drops the processes of a VM that has ended, because another VM may get its pid.
func (r *registry) forgetVM(pid int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, all := range []map[watchedProcess]string{r.young, r.old} {
		maps.DeleteFunc(all, func(p watchedProcess, _ string) bool { return p.vm == pid })
	}
}

// A census finds the functions with which processes were started, for a collector that groups by
// function. It covers the processes that exist when it begins and those that start later. The
// collector uses each function as soon as the census has found it. It works in the background,
// and takes at most a quarter of a processor.
type census struct {
	collector *bpf.Collector
	names     *names
	known     *registry

	mu      sync.Mutex
	places  map[int]uint32 // for VMs whose processes are not all read yet: the next place in the process table
	newborn []newborn
	stop    func()
}

// A newborn is a process that may not have stored its function yet.
type newborn struct {
	watchedProcess
	since int64 // time of its event, nanoseconds of CLOCK_MONOTONIC
}

const (
	// censusPeriod is the interval between the rounds of a census, and censusWork the time limit
	// of a round.
	censusPeriod = 100 * time.Millisecond
	censusWork   = 25 * time.Millisecond

	// firstCensus is how long the first window waits for the functions of processes.
	firstCensus = time.Second

	// firstNames is how long the first window waits for the names of the VMs' processes.
	firstNames = time.Second

	// newbornPatience is how long the census waits for a process to store its function.
	newbornPatience = 5 * time.Second

	// newbornMost is the largest number of newborns that the census waits for.
	newbornMost = 1 << 14

	// walkPlaces is the number of places of the process table that are read at once.
	walkPlaces = 64
)

// newCensus returns a census that runs until it is closed.
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
				return // the reader of the counts gets the same error
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

// add adds a VM whose processes the census reads.
func (c *census) add(vm int) {
	c.names.open(vm)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.places[vm] = 0
}

// forget removes a VM.
func (c *census) forget(vm int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.places, vm)
}

// catchUp runs until all VMs have been read completely, or until the time limit.
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

// pending returns the VMs that are not completely read.
func (c *census) pending() map[int]uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.places)
}

// work finds functions until the time limit.
func (c *census) work(limit time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	end, now := time.Now().Add(limit), monotonic.Now()
	err := c.collector.Born(func(vm int, process uint64) {
		if len(c.newborn) < newbornMost {
			c.newborn = append(c.newborn, newborn{watchedProcess{vm, outcome.PID(process)}, now})
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

// nameNewborn finds the functions of new processes.
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

// walk finds the functions of some processes of a VM. It returns false if it can do no more at
// the moment.
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
		w := watchedProcess{vm, outcome.PID(p.Number) | outcome.PID(p.Serial)<<32}
		function, final := p.Name.Function()
		if !final {
			c.newborn = append(c.newborn, newborn{w, now})
		} else if err := c.set(w, function); err != nil {
			return false, err
		}
	}
	return err == nil && next != 0, nil
}

// set records the function of a process.
func (c *census) set(p watchedProcess, function string) error {
	c.known.put(p, function)
	return c.collector.SetFunction(p.vm, uint64(p.process), function)
}

// read reads the current name of a process of a VM that is open.
func (n *names) read(vm int, p outcome.PID) (procname.Name, error) {
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

// wait waits until a VM is open or could not be opened, or until the time limit.
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
