//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"text/tabwriter"
	"time"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/sources/sampled"
	"github.com/beamscope/beamscope/internal/ui/top"
)

// samplingLoads are loads with many events and with few.
var samplingLoads = []eventLoad{
	scenario("messages"),
	{"lists of 1000", "[lists, foreach, [fun(_) -> lists:seq(1, 1000) end, lists:seq(1, %d)]]"},
}

// samplingMethods are the methods of `top`: samples at its default rate and at its highest rate,
// and events.
func samplingMethods() ([]method, error) {
	var observed []dtrace.Builtin
	for _, name := range []string{"gc", "mailbox", "run"} {
		b, ok := dtrace.LookupBuiltin(name)
		if !ok {
			return nil, fmt.Errorf("no built-in outcome %s", name)
		}
		observed = append(observed, b)
	}
	return []method{
		{"nothing", attachNothing},
		{fmt.Sprintf("samples, %d Hz", sampled.DefaultRate), attachSampled(sampled.DefaultRate)},
		{fmt.Sprintf("samples, %d Hz", sampled.MaxRate), attachSampled(sampled.MaxRate)},
		{"events of top", attachBuiltins(observed...)},
	}, nil
}

// attachSampled takes samples as `beamscope top --sampled` does.
func attachSampled(rate int) attach {
	return func(ctx context.Context, v vm.VM, load func() error) (detach, error) {
		source, err := sampled.Open(ctx, sampled.Config{Target: vm.Target{PID: v.PID()}, Window: 250 * time.Millisecond, Rate: rate})
		if err != nil {
			return nil, err
		}
		sampling, stop := context.WithCancel(ctx)
		done := make(chan error, 1)
		var s seen
		go func() {
			for {
				w, err := source.Next(sampling)
				if err != nil {
					if sampling.Err() != nil && ctx.Err() == nil {
						err = nil
					}
					done <- err
					return
				}
				s.events += float64(w.Cost.Events)
				s.perEvent = w.Cost.PerEvent
			}
		}()
		end := func() (seen, error) {
			stop()
			err := <-done
			return s, errors.Join(err, source.Close())
		}
		if err := load(); err != nil {
			_, derr := end()
			return nil, errors.Join(err, derr)
		}
		return end, nil
	}
}

// byProcessor is a [meter] that uses the processor time of the VM, as counted by the operating
// system. That includes the interrupts for samples, and excludes other programs on the machine.
func byProcessor(ctx context.Context, beam *erlang.VM, load eventLoad, times int) (float64, error) {
	before, _, err := top.ProcessorOf(beam.PID())
	if err != nil {
		return 0, err
	}
	if _, err := loadEvents(ctx, beam, load, times); err != nil {
		return 0, err
	}
	after, _, err := top.ProcessorOf(beam.PID())
	return float64(after-before) / float64(times), err
}

// benchSampling measures the cost of samples for a VM, and compares it with no observation and
// with the events that `top` observes.
func benchSampling(ctx context.Context, rounds int) error {
	beam, v, err := startOneScheduler(ctx)
	if err != nil {
		return err
	}
	defer beam.Stop()
	methods, err := samplingMethods()
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Printf("processor time of the VM that a load takes; medians of %d rounds\n\n", rounds)
	fmt.Fprintln(w, "load\tobserved\tns\tratio to nothing\ta sample or event, as beamscope says\t")
	for _, load := range samplingLoads {
		results := make([][]sample, len(methods))
		times, err := timesOf(ctx, beam, load)
		if err != nil {
			return err
		}
		times *= 10 // a second
		for round := range rounds {
			for i, m := range methods {
				s, err := measure(ctx, beam, v, m.attach, load, times, byProcessor)
				if err != nil {
					return fmt.Errorf("%s: %w", m.name, err)
				}
				results[i] = append(results[i], s)
			}
			fmt.Fprintf(os.Stderr, "%s: round %d of %d\n", load.name, round+1, rounds)
		}
		bare := medianOf(results[0], func(s sample) float64 { return s.ns })
		for i, m := range methods {
			ns := medianOf(results[i], func(s sample) float64 { return s.ns })
			says := time.Duration(medianOf(results[i], func(s sample) float64 { return float64(s.seen.perEvent) }))
			fmt.Fprintf(w, "%s\t%s\t%.0f\t%.3f\t%v\t\n", load.name, m.name, ns, ns/bare, says)
		}
	}
	return w.Flush()
}
