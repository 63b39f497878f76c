//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/beamscope/beamscope/internal/sources/vmsource"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/internal/sources/ring"
	"github.com/beamscope/beamscope/usdt"
)

// A method is one way to observe a VM.
type method struct {
	name string
	attach
}

// An attach attaches to the VM, and returns when the observation is in its steady state. It returns
// a function that ends the observation. load makes the VM produce some observed events.
type attach func(ctx context.Context, v vm.VM, load func() error) (detach, error)

// A detach ends an observation. It returns the counts, if the method counts.
type detach func() (seen, error)

// seen contains the counts between attaching and detaching.
type seen struct {
	events    float64       // of probes
	instances uint64        // of outcomes
	lost      uint64        // of them
	lossy     uint64        // counts of a window and VM with a loss
	perEvent  time.Duration // beamscope's own figure for the cost of an event, 0 if it has none
}

// uncounted is the detach of methods that do not count.
func uncounted(end func() error) detach {
	return func() (seen, error) { return seen{}, end() }
}

func attachNothing(context.Context, vm.VM, func() error) (detach, error) {
	return uncounted(func() error { return nil }), nil
}

// attachEmpty attaches a program that returns at once.
func attachEmpty(_ context.Context, v vm.VM, _ func() error) (detach, error) {
	site, err := spanSite(v)
	if err != nil {
		return nil, err
	}
	end, err := bpf.AttachEmpty(v.Exe.Path, site, v.PID())
	return uncounted(end), err
}

func spanSite(v vm.VM) (usdt.Site, error) {
	probes, err := v.Probes()
	if err != nil {
		return usdt.Site{}, err
	}
	for _, p := range probes {
		if p.Name == probeName() {
			return p.Sites[0], nil
		}
	}
	return usdt.Site{}, fmt.Errorf("%w: %s", bpf.ErrNoProbe, probeName())
}

func probeName() string { return fmt.Sprintf("user_trace__n%d", bpf.Label(spanName)) }

// attachBeamscope attaches and reads windows as `beamscope run` does. It returns after the first
// window with events, in which the cost of the programs is measured, or when it gives up waiting
// for events.
func attachBeamscope(cfg vmsource.Config) attach {
	return func(ctx context.Context, v vm.VM, load func() error) (detach, error) {
		cfg.Target = vm.Target{PID: v.PID()}
		cfg.Plan.From = monotonic.Now() + int64(time.Second)
		source, err := vmsource.New(ctx, cfg)
		if err != nil {
			return nil, err
		}
		c, end, err := collectFrom(ctx, source, cfg.Plan, load)
		if err != nil {
			return nil, err
		}
		select {
		case <-c.observing:
			return end, nil
		case err := <-c.done:
			return nil, errors.Join(err, source.Close())
		}
	}
}

// collectFrom collects the windows of a source from now on, and makes the VM produce some observed
// events.
func collectFrom(ctx context.Context, source outcome.Source, plan outcome.Plan, load func() error) (*collecting, detach, error) {
	c := &collecting{source: source, plan: plan, observing: make(chan struct{}), whole: make(chan struct{}), end: make(chan int64, 1), last: monotonic.Now(), done: make(chan error, 1)}
	c.observes = sync.OnceFunc(func() { close(c.observing) })
	c.isWhole = sync.OnceFunc(func() { close(c.whole) })
	go func() { c.done <- c.run(ctx) }()
	end := func() (seen, error) {
		c.end <- monotonic.Now()
		err := <-c.done
		return c.seen, errors.Join(err, source.Close())
	}
	time.Sleep(time.Duration(plan.From - monotonic.Now()))
	if err := load(); err != nil {
		_, derr := end()
		return nil, nil, errors.Join(err, derr)
	}
	return c, end, nil
}

// attachRing reads the ring of a VM, as `beamscope run` does.
func attachRing(plan outcome.Plan) attach {
	return attachWhole(plan, func(ctx context.Context, target vm.Target, plan outcome.Plan) (outcome.Source, error) {
		return ring.New(ctx, ring.Config{Target: target, Plan: plan})
	})
}

// attachWhole observes a VM with the source that open returns. It starts the load after the first
// completely observed window, because finding an existing ring can take seconds.
func attachWhole(plan outcome.Plan, open func(context.Context, vm.Target, outcome.Plan) (outcome.Source, error)) attach {
	return func(ctx context.Context, v vm.VM, load func() error) (detach, error) {
		plan.From = monotonic.Now() + int64(time.Second)
		source, err := open(ctx, vm.Target{PID: v.PID()}, plan)
		if err != nil {
			return nil, err
		}
		c, end, err := collectFrom(ctx, source, plan, func() error { return nil })
		if err != nil {
			return nil, err
		}
		select {
		case <-c.whole:
		case err := <-c.done:
			return nil, errors.Join(err, source.Close())
		}
		if err := load(); err != nil {
			_, derr := end()
			return nil, errors.Join(err, derr)
		}
		return end, nil
	}
}

// planOf returns a plan of outcomes without its start time. Its windows are short, because each
// round waits for some windows.
func planOf(specs ...outcome.Spec) outcome.Plan {
	return outcome.Plan{Window: 250 * time.Millisecond, Specs: specs}
}

// spanSpec returns the outcome of the spans of a name.
func spanSpec(span string, detail outcome.Detail) outcome.Spec {
	return outcome.Spec{Name: span, Span: span, BinWidth: time.Millisecond, Bins: 50, Detail: detail}
}

// collecting is an observation under way.
type collecting struct {
	source    outcome.Source
	plan      outcome.Plan
	observing chan struct{} // closed when the observation is in its steady state
	observes  func()        // closes it
	whole     chan struct{} // closed after a window in which a VM was completely observed
	isWhole   func()        // closes it
	end       chan int64    // receives a time; the observation ends after its window
	last      int64         // when a window was last read
	done      chan error    // receives the result
	seen      seen
}

// patience is the number of windows to wait for an event. Some outcomes have none.
const patience = 8

// run reads windows up to the one with the end time. It reads each window one window length after
// its end.
func (c *collecting) run(ctx context.Context) error {
	end := int64(math.MaxInt64)
	for n := uint64(0); ; n++ {
		w := c.plan.At(n)
		time.Sleep(time.Duration(w.To + int64(c.plan.Window) - monotonic.Now()))
		b, err := c.source.Collect(ctx, w)
		if err != nil {
			return err
		}
		c.add(b)
		if c.seen.events > 0 || n == patience {
			c.observes()
		}
		if slices.ContainsFunc(b.Counts, func(k outcome.Counts) bool { return k.VM.PID != 0 && !k.Unobserved }) {
			c.isWhole()
		}
		select {
		case end = <-c.end:
		default:
		}
		if w.To > end {
			return nil
		}
	}
}

func (c *collecting) add(b outcome.Batch) {
	// The cost covers a window's length, not the time since the last read.
	now := monotonic.Now()
	c.seen.events += float64(b.Cost.Events) * float64(now-c.last) / float64(c.plan.Window)
	c.last = now
	if b.Cost.PerEvent > 0 {
		c.seen.perEvent = b.Cost.PerEvent
	}
	for _, k := range b.Counts {
		c.seen.instances += k.Instances()
		c.seen.lost += k.Loss.Total()
		if k.Loss.Total() > 0 {
			c.seen.lossy++
		}
		if b.Cost.Events == 0 { // in the VM; kernel probes do not count
			c.seen.events += float64(k.Starts + k.Ends)
		}
	}
}

// bpftraceScript makes the same histogram of this span as beamscope. It does not read the name,
// because bpftrace 0.17 cannot read the seventh argument.
func bpftraceScript(exe string) string {
	probe := fmt.Sprintf("usdt:%s:%s:%s", exe, vm.Provider, probeName())
	return fmt.Sprintf(`BEGIN { printf("ready\n"); }
%[1]s /arg3 == 1/ { @start[arg2] = nsecs; }
%[1]s /arg3 == 2 && @start[arg2]/ {
	@delay = lhist((nsecs - @start[arg2]) / 1000000, 0, 50, 1);
	delete(@start[arg2]);
}`, probe)
}

func attachBpftrace(ctx context.Context, v vm.VM, _ func() error) (detach, error) {
	cmd := exec.CommandContext(ctx, "bpftrace", "-p", fmt.Sprint(v.PID()), "-e", bpftraceScript(v.Exe.Name))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewReader(stdout)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return nil, errors.Join(fmt.Errorf("bpftrace does not start: %s", stderr.String()), cmd.Wait())
		}
		if line == "ready\n" {
			break
		}
	}
	return uncounted(func() error {
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			return err
		}
		out, err := io.ReadAll(lines)
		if err := errors.Join(err, cmd.Wait()); err != nil {
			return err
		}
		if !strings.Contains(string(out), "@delay") {
			return fmt.Errorf("bpftrace saw nothing: %s", stderr.String())
		}
		return nil
	}), nil
}
