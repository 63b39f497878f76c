//go:build linux

// Command bench measures what observing costs the observed VM.
//
//	bench spans      a span, side by side with what else could be attached to its probe
//	bench ring       how many recorded spans are counted, and the collector's time for a record
//	bench builtins   an event of each built-in outcome of the VM
//	bench prices     an event, a span and samples on a VM with probes and on the distribution's own VM
//	bench rabbitmq   each built-in outcome's share of RabbitMQ's throughput
//	bench drilldown  what spans, and explaining the slow ones, take of systems' throughput
//	bench attach     how long attaching takes
//	bench crowds     how much is counted of what very many processes do
//	bench sampling   samples of the VM, beside the events that top observes
//	bench edges      how many messages between processes are inferred, and how many rightly
//
// prices takes the names of outcomes to measure, such as "prices span gc". Without names it
// measures all.
//
// spans, which is the default, compares
//
//   - nothing, when a span is a look at a semaphore;
//   - an empty eBPF program, which is the price of the probe itself;
//   - beamscope, counting in the kernel, and streaming single instances too;
//   - beamscope with discovery, of spans that are an outcome's and of others;
//   - a bpftrace script that makes the same histogram.
//
// The rounds of all methods alternate in one run, so that other load on the machine affects all
// methods alike. bench prints the medians, and ratios of medians.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"time"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/beam/vm"
)

func main() {
	rounds := flag.Int("rounds", 9, "rounds of each")
	spans := flag.Int("spans", 200000, "spans a round")
	messages := flag.Int("messages", 20000, "messages a round, through RabbitMQ")
	length := flag.Duration("length", 2*time.Second, "of each round, of systems that do as much as they can")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	switch subject := flag.Arg(0); subject {
	case "", "spans":
		err = benchSpans(ctx, *rounds, *spans)
	case "ring":
		err = benchRing(ctx, *rounds, *length)
	case "builtins":
		err = benchBuiltins(ctx, *rounds)
	case "prices":
		err = benchPrices(ctx, *rounds, flag.Args()[1:])
	case "rabbitmq":
		err = benchRabbitMQ(ctx, *rounds, *messages)
	case "drilldown":
		err = benchDrilldown(ctx, *rounds, *length)
	case "attach":
		err = benchAttach(ctx, *rounds)
	case "crowds":
		err = benchCrowds(ctx, *length)
	case "sampling":
		err = benchSampling(ctx, *rounds)
	case "edges":
		err = benchEdges(ctx, *length)
	default:
		err = fmt.Errorf("%s: none of spans, ring, builtins, prices, rabbitmq, drilldown, attach, crowds, sampling and edges", subject)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// startOneScheduler starts a VM with one scheduler and returns it. The time of a load with two
// schedulers depends on which of them is asleep.
func startOneScheduler(ctx context.Context) (*erlang.VM, vm.VM, error) {
	otp, err := erlang.FindOTP(ctx)
	if err != nil {
		return nil, vm.VM{}, err
	}
	beam, err := erlang.StartVM(ctx, otp, erlang.Options{Carrier: erlang.Probes, Args: []string{"+S", "1:1"}})
	if err != nil {
		return nil, vm.VM{}, err
	}
	vms, _, err := vm.Find(ctx, vm.Target{PID: beam.PID()})
	if err != nil {
		beam.Stop()
		return nil, vm.VM{}, err
	}
	return beam, vms[0], nil
}

// medianOf returns the median of a figure of samples.
func medianOf[T any](samples []T, figure func(T) float64) float64 {
	var values []float64
	for _, s := range samples {
		values = append(values, figure(s))
	}
	return median(values)
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}
