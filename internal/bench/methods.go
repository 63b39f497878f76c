package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/monotonic"
	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/vm"
	"github.com/beamscope/beamscope/usdt"
)

func attachNothing(context.Context, vm.VM, func() error) (func() error, error) {
	return func() error { return nil }, nil
}

// attachEmpty attaches a program that returns at once.
func attachEmpty(_ context.Context, v vm.VM, _ func() error) (func() error, error) {
	site, err := spanSite(v)
	if err != nil {
		return nil, err
	}
	return bpf.AttachEmpty(v.Exe.Path, site, v.PID())
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
// It returns after the first window with spans, in which the programs are measured.
func attachBeamscope(cfg outcome.VMConfig) func(context.Context, vm.VM, func() error) (func() error, error) {
	return func(ctx context.Context, v vm.VM, load func() error) (func() error, error) {
		cfg.Target = vm.Target{PID: v.PID()}
		cfg.Plan.From = monotonic.Now() + int64(time.Second)
		plan := cfg.Plan
		source, err := outcome.NewVMSource(cfg)
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithCancel(ctx)
		seen := make(chan struct{})
		done := make(chan error, 1)
		go func() { done <- collect(ctx, source, plan, seen) }()
		detach := func() error {
			cancel()
			return errors.Join(<-done, source.Close())
		}
		time.Sleep(time.Duration(plan.From - monotonic.Now()))
		if err := load(); err != nil {
			return nil, errors.Join(err, detach())
		}
		<-seen
		return detach, nil
	}
}

// planOf returns a plan, without its beginning, of one outcome.
func planOf(span string, detail outcome.Detail) outcome.Plan {
	return outcome.Plan{Window: time.Second, Specs: []outcome.Spec{
		{Name: span, Span: span, BinWidth: time.Millisecond, Bins: 50, Detail: detail},
	}}
}

// collect reads windows, one behind the present, until the context is done. It
// closes seen after the first with spans.
func collect(ctx context.Context, source outcome.Source, plan outcome.Plan, seen chan<- struct{}) error {
	for n := uint64(0); ; n++ {
		w := plan.At(n)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Duration(w.To + int64(plan.Window) - monotonic.Now())):
		}
		b, err := source.Collect(ctx, w)
		if err != nil {
			return err
		}
		if seen != nil && b.Cost.Events > 0 {
			close(seen)
			seen = nil
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

func attachBpftrace(ctx context.Context, v vm.VM, _ func() error) (func() error, error) {
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
	return func() error {
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
	}, nil
}
