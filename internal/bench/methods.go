package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/monotonic"
	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/ring"
	"github.com/beamscope/beamscope/internal/vm"
	"github.com/beamscope/beamscope/usdt"
)

// A method is one way to observe a VM.
type method struct {
	name string
	attach
}

// An attach attaches to the VM, and returns when it observes as it will go on to, with
// a function that ends it; load has the VM do some of what is observed.
type attach func(ctx context.Context, v vm.VM, load func() error) (detach, error)

// A detach ends an observation. It returns what was seen, where that is counted.
type detach func() (seen, error)

// seen is what was observed between attaching and detaching.
type seen struct {
	events    float64       // of probes
	instances uint64        // of outcomes
	lost      uint64        // of them
	perEvent  time.Duration // what beamscope says that an event costs; 0 where it does not
}

// uncounted is the detach of what does not count.
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

// attachBeamscope attaches as `beamscope run` does, and reads windows as it does.
// It returns after the first window with events, in which the programs are measured, or
// where there are none.
func attachBeamscope(cfg outcome.VMConfig) attach {
	return func(ctx context.Context, v vm.VM, load func() error) (detach, error) {
		cfg.Target = vm.Target{PID: v.PID()}
		cfg.Plan.From = monotonic.Now() + int64(time.Second)
		source, err := outcome.NewVMSource(ctx, cfg)
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

// collectFrom collects the windows of a source from now on, and has the VM do some of what is
// observed.
func collectFrom(ctx context.Context, source outcome.Source, plan outcome.Plan, load func() error) (*collecting, detach, error) {
	c := &collecting{source: source, plan: plan, observing: make(chan struct{}), end: make(chan int64, 1), last: monotonic.Now(), done: make(chan error, 1)}
	c.observes = sync.OnceFunc(func() { close(c.observing) })
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
	return func(ctx context.Context, v vm.VM, load func() error) (detach, error) {
		plan.From = monotonic.Now() + int64(time.Second)
		source, err := ring.New(ctx, ring.Config{Target: vm.Target{PID: v.PID()}, Plan: plan})
		if err != nil {
			return nil, err
		}
		_, end, err := collectFrom(ctx, source, plan, load)
		return end, err
	}
}

// planOf returns a plan, without its beginning, of outcomes. Its windows are short, for
// each round waits for some.
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
	observing chan struct{} // closed when it observes as it will go on to
	observes  func()        // closes it
	end       chan int64    // takes a time, after whose window it ends
	last      int64         // when a window was last read
	done      chan error    // gets how it ended
	seen      seen
}

// patience is how many windows are waited for an event. Some outcomes have none.
const patience = 8

// run reads windows, each when it has been over for as long as it was, up to the one
// with the time that is the end.
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
	// The cost is that of a window's length, and not of the time since the last one was read.
	now := monotonic.Now()
	c.seen.events += float64(b.Cost.Events) * float64(now-c.last) / float64(c.plan.Window)
	c.last = now
	if b.Cost.PerEvent > 0 {
		c.seen.perEvent = b.Cost.PerEvent
	}
	for _, k := range b.Counts {
		c.seen.instances += k.Instances()
		c.seen.lost += k.Loss.Total()
		if b.Cost.Events == 0 { // in the VM; those of the kernel are none
			c.seen.events += float64(k.Starts + k.Ends)
		}
	}
}

// bpftraceScript makes the histogram that beamscope makes of this span. It leaves
// out what bpftrace 0.17 cannot do: read the name, which is the seventh argument.
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
