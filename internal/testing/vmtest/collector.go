package vmtest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/host/monotonic"
)

// A Collector is a collector whose windows the test drives: the test determines when to read
// them, and the Collector keeps the results.
type Collector struct {
	*bpf.Collector
	Opts    bpf.Options
	Windows []Window // windows that were read, by number
	Swept   bpf.Swept

	t testing.TB
}

// A Window contains the counts of one window.
type Window struct {
	From, To int64
	Counts   []bpf.Counts
	Others   bpf.Others
}

// NewCollector makes a collector that ends with the test. Its windows begin now. Unless opts has
// another length, they are a quarter of a second long.
func NewCollector(t testing.TB, opts bpf.Options) *Collector {
	t.Helper()
	NeedEBPF(t)
	if opts.Window == 0 {
		opts.Window = int64(time.Second / 4)
	}
	opts.Start = monotonic.Now()
	c, err := bpf.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return &Collector{Collector: c, Opts: opts, t: t}
}

// Observe attaches to these VMs only.
func (c *Collector) Observe(vms ...*erlang.VM) {
	c.t.Helper()
	for _, vm := range vms {
		if _, err := c.Attach(c.t.Context(), Target(c.t, vm)); err != nil {
			c.t.Fatal(err)
		}
	}
}

// Number returns the number of the window that contains at.
func (c *Collector) Number(at int64) int {
	for n, w := range c.Windows {
		if at < w.To {
			return n
		}
	}
	return int(c.Collector.Number(at))
}

// Middle waits for the middle of the next window, so that there is time for an action within one
// window. It returns the window's number.
func (c *Collector) Middle() int {
	n := c.Number(monotonic.Now()) + 1
	from, to := c.Window(uint64(n))
	WaitUntil(from + (to-from)/2)
	return n
}

// ReadTo reads the windows up to the one that contains at. As outside of tests, it reads each one
// when it has been over for its own length.
func (c *Collector) ReadTo(at int64) {
	c.t.Helper()
	for last := c.Number(at); len(c.Windows) <= last; {
		WaitUntil(c.nextDue())
		c.read()
	}
}

// nextDue returns the time to read the next window.
func (c *Collector) nextDue() int64 {
	_, to := c.Window(uint64(len(c.Windows) + 1))
	return to
}

func (c *Collector) read() {
	c.t.Helper()
	n := len(c.Windows)
	var w Window
	w.From, w.To = c.Window(uint64(n))
	var err error
	if c.Swept, err = c.Sweep(w.To); err != nil {
		c.t.Fatal(err)
	}
	if w.Counts, w.Others, err = c.Read(uint64(n)); err != nil {
		c.t.Fatal(err)
	}
	w.Counts = slices.Clone(w.Counts)
	for i, k := range w.Counts {
		w.Counts[i].Bins = slices.Clone(k.Bins)
	}
	c.Windows = append(c.Windows, w)
}

// Call calls a function in the VM, and reads windows as they become due until the call has
// returned. Then it reads windows up to the present.
func (c *Collector) Call(vm *erlang.VM, module, function, args string) string {
	c.t.Helper()
	var term string
	c.While(func() (err error) {
		term, err = vm.Call(c.t.Context(), module, function, args)
		return err
	})
	c.ReadTo(monotonic.Now())
	return term
}

// While reads windows as they become due while do runs.
func (c *Collector) While(do func() error) {
	c.t.Helper()
	done := make(chan error, 1)
	go func() { done <- do() }()
	for {
		select {
		case err := <-done:
			if err != nil {
				c.t.Fatal(err)
			}
			return
		case <-time.After(time.Duration(c.nextDue() - monotonic.Now())):
			c.read()
		}
	}
}

// ReadAll reads windows until no span is open any more, including the window in which the last of
// them ended. It fails the test if spans stay open.
func (c *Collector) ReadAll() {
	c.t.Helper()
	const patience = 15 * time.Second

	begin := monotonic.Now()
	for c.ReadTo(begin); c.Swept.Open > 0; {
		if monotonic.Now()-begin > int64(patience) {
			c.t.Fatalf("%d spans are still open after %v", c.Swept.Open, patience)
		}
		c.ReadTo(monotonic.Now())
	}
}

// A Total contains the counts of one outcome of one VM in several windows.
type Total struct {
	bpf.Counters
	Binned uint64       // total of all bins
	Stray  bpf.Counters // see [bpf.Counts]
}

// Total returns the sum over all windows that were read. The pid 0 stands for the VMs without a
// slot.
func (c *Collector) Total(outcome, pid int) Total { return c.total(outcome, pid, c.Windows) }

// In returns the counts of one window.
func (c *Collector) In(window, outcome, pid int) Total {
	return c.total(outcome, pid, c.Windows[window:window+1])
}

func (c *Collector) total(outcome, pid int, windows []Window) Total {
	var sum Total
	for _, w := range windows {
		for _, n := range w.Counts {
			if n.Outcome != outcome || n.PID != pid {
				continue
			}
			sum.Counters = sum.Counters.Add(n.Counters)
			sum.Stray = sum.Stray.Add(n.Stray)
			for _, k := range n.Bins {
				sum.Binned += k
			}
		}
	}
	return sum
}

// Others returns the sum over all windows that were read.
func (c *Collector) Others() bpf.Others {
	var sum bpf.Others
	for _, w := range c.Windows {
		sum.Hits = sum.Hits.Add(w.Others.Hits)
		sum.Foreign += w.Others.Foreign
		sum.Nameless += w.Others.Nameless
		sum.Unnoted += w.Others.Unnoted
		sum.Unwatched += w.Others.Unwatched
	}
	return sum
}

// streamPeriod is the interval at which the stream is read.
const streamPeriod = 10 * time.Millisecond

// Streamed starts to receive the collector's stream. The returned function ends that and returns
// all instances.
func (c *Collector) Streamed() func() []bpf.Instance {
	var all []bpf.Instance
	stop := c.StreamTo(func(batch []bpf.Instance) { all = append(all, batch...) })
	return func() []bpf.Instance {
		stop()
		return all
	}
}

// StreamTo passes the collector's stream to fn until the returned function is called. That
// function returns when fn has got everything. The test need not call it when it fails.
func (c *Collector) StreamTo(fn func([]bpf.Instance)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		for last := false; !last; {
			select {
			case <-ctx.Done():
				last = true
			case <-time.After(streamPeriod):
			}
			if err := c.Drain(fn); err != nil {
				c.t.Error(err)
				return
			}
		}
	})
	stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	c.t.Cleanup(stop)
	return stop
}

// WaitUntil waits until a time of CLOCK_MONOTONIC.
func WaitUntil(at int64) { time.Sleep(time.Duration(at - monotonic.Now())) }
