//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"text/tabwriter"
	"time"

	"github.com/beamscope/beamscope/internal/sources/vmsource"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/host/monotonic"
)

// attachedTogether lists the numbers of outcomes to attach at a time.
var attachedTogether = []int{1, 5, 10, len(dtrace.Builtins())}

// benchAttach measures the time to attach to these numbers of built-in outcomes of one VM, and to
// detach. The kernel's verifier takes most of the time.
func benchAttach(ctx context.Context, rounds int) error {
	otp, err := erlang.FindOTP(ctx)
	if err != nil {
		return err
	}
	beam, err := erlang.StartVM(ctx, otp, erlang.Options{Carrier: erlang.Probes})
	if err != nil {
		return err
	}
	defer beam.Stop()
	times := make(map[int][]attachTime)
	for round := range rounds {
		for _, n := range attachedTogether {
			t, err := timeAttach(ctx, beam.PID(), builtinSpecs(dtrace.Builtins()[:n]...))
			if err != nil {
				return err
			}
			times[n] = append(times[n], t)
		}
		fmt.Fprintf(os.Stderr, "round %d of %d\n", round+1, rounds)
	}
	fmt.Printf("milliseconds to attach to built-in outcomes, and to detach, and processor time to attach; medians of %d rounds\n\n", rounds)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "outcomes\tprograms\tattach\tprocessor\tdetach\t")
	for _, n := range attachedTogether {
		t := times[n]
		fmt.Fprintf(w, "%d\t%d\t%.0f\t%.0f\t%.0f\t\n", n, t[0].programs,
			medianOf(t, func(t attachTime) float64 { return float64(t.attach.Milliseconds()) }),
			medianOf(t, func(t attachTime) float64 { return float64(t.processor.Milliseconds()) }),
			medianOf(t, func(t attachTime) float64 { return float64(t.detach.Milliseconds()) }))
	}
	return w.Flush()
}

// An attachTime contains the elapsed times to attach and to detach. processor is the processor time
// to attach, including the kernel's verifier: unlike the other two, it does not depend on the load
// of the machine.
type attachTime struct {
	programs                  int // loaded programs
	attach, processor, detach time.Duration
}

func timeAttach(ctx context.Context, pid int, specs []outcome.Spec) (t attachTime, err error) {
	plan := planOf(specs...)
	begin := time.Now()
	used, err := processorTime(os.Getpid())
	if err != nil {
		return attachTime{}, err
	}
	plan.From = monotonic.Now()
	source, err := vmsource.New(ctx, vmsource.Config{
		Target: vm.Target{PID: pid}, Plan: plan,
		Progress: func(p vmsource.Progress) { t.programs = p.All },
	})
	if err != nil {
		return attachTime{}, err
	}
	t.attach = time.Since(begin)
	now, err := processorTime(os.Getpid())
	if err != nil {
		return attachTime{}, errors.Join(err, source.Close())
	}
	t.processor = now - used
	begin = time.Now()
	err = source.Close()
	t.detach = time.Since(begin)
	return t, err
}
