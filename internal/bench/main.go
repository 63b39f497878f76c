// Command bench measures what observing a span costs the observed VM, side by
// side with what else could be attached to the same probes:
//
//   - nothing, when a span is a look at a semaphore;
//   - an empty eBPF program, which is the price of the probe itself;
//   - beamscope, counting in the kernel, and streaming single instances too;
//   - beamscope with discovery, of spans that are an outcome's and of others;
//   - a bpftrace script that makes the same histogram.
//
// The rounds of all of them alternate in one run, so that what the machine does
// besides falls on all alike. It prints the medians, and ratios of medians, all
// without what the load generator itself takes, which is measured alike.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strconv"
	"text/tabwriter"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/vm"
)

func main() {
	rounds := flag.Int("rounds", 9, "rounds of each")
	spans := flag.Int("spans", 200000, "spans a round")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *rounds, *spans); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// spanName is the name of the spans, and label what their probe is called.
const spanName = "load"

// A method is one way to observe spans. attach returns when it observes as it will
// go on to, with a function that ends it; load has the VM start and end some spans.
type method struct {
	name   string
	attach func(ctx context.Context, v vm.VM, load func() error) (detach func() error, err error)
}

// The methods whose prices are compared in a line of their own.
const (
	counting        = "beamscope"
	discoveringToo  = "beamscope, with discovery"
	discoveringOnly = "discovery, of no outcome"
)

func methods() []method {
	return []method{
		{"nobody attached", attachNothing},
		{"empty eBPF program", attachEmpty},
		{counting, attachBeamscope(outcome.VMConfig{Plan: planOf(spanName, outcome.CountsOnly)})},
		{"beamscope, streaming", attachBeamscope(outcome.VMConfig{Plan: planOf(spanName, outcome.Everything)})},
		{discoveringToo, attachBeamscope(outcome.VMConfig{Plan: planOf(spanName, outcome.CountsOnly), Discover: true})},
		{discoveringOnly, attachBeamscope(outcome.VMConfig{Plan: planOf("another", outcome.CountsOnly), Discover: true})},
		{"bpftrace histogram", attachBpftrace},
	}
}

func run(ctx context.Context, rounds, spans int) error {
	otp, err := erlang.FindOTP(ctx)
	if err != nil {
		return err
	}
	beam, err := erlang.StartVM(ctx, otp, erlang.Options{})
	if err != nil {
		return err
	}
	defer beam.Stop()
	vms, err := vm.Find(vm.Target{PID: beam.PID()})
	if err != nil {
		return err
	}
	results := make(map[string][]float64)
	var idle []float64
	for round := range rounds {
		ns, err := load(ctx, beam, "idle", spans)
		if err != nil {
			return err
		}
		idle = append(idle, ns)
		for _, m := range methods() {
			ns, err := measure(ctx, beam, vms[0], m, spans)
			if err != nil {
				return fmt.Errorf("%s: %w", m.name, err)
			}
			results[m.name] = append(results[m.name], ns)
		}
		fmt.Fprintf(os.Stderr, "round %d of %d\n", round+1, rounds)
	}
	for _, r := range results {
		for i := range r {
			r[i] -= median(idle)
		}
	}
	return report(results, rounds, spans)
}

// measure returns the nanoseconds that a start and an end take together.
func measure(ctx context.Context, beam *erlang.VM, v vm.VM, m method, spans int) (float64, error) {
	detach, err := m.attach(ctx, v, func() error {
		_, err := load(ctx, beam, "run", spans/100)
		return err
	})
	if err != nil {
		return 0, err
	}
	ns, err := load(ctx, beam, "run", spans)
	return ns, errors.Join(err, detach())
}

var perSpan = regexp.MustCompile(`ns_per_span => ([0-9.e+]+)`)

// load has one Erlang process start and end spans as fast as it can, with a
// function of span_load, and returns the nanoseconds for one.
func load(ctx context.Context, beam *erlang.VM, function string, spans int) (float64, error) {
	result, err := beam.Call(ctx, "span_load", function, fmt.Sprintf("[#{procs => 1, spans => %d, name => <<%q>>}]", spans, spanName))
	if err != nil {
		return 0, err
	}
	found := perSpan.FindStringSubmatch(result)
	if found == nil {
		return 0, fmt.Errorf("no ns_per_span in %s", result)
	}
	return strconv.ParseFloat(found[1], 64)
}

func report(results map[string][]float64, rounds, spans int) error {
	empty := median(results["empty eBPF program"])
	bpftrace := median(results["bpftrace histogram"])
	fmt.Printf("start_span + end_span in one process, medians of %d rounds of %d spans, without the load generator\n\n", rounds, spans)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "attached\tns a pair\tlowest\thighest\t÷ empty program\t÷ bpftrace\t")
	for _, m := range methods() {
		ns := results[m.name]
		fmt.Fprintf(w, "%s\t%.0f\t%.0f\t%.0f\t%.2f\t%.2f\t\n", m.name, median(ns), slices.Min(ns), slices.Max(ns), median(ns)/empty, median(ns)/bpftrace)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	price := func(name string) float64 { return median(results[name]) / median(results[counting]) }
	fmt.Printf("\ndiscovery: a span of an outcome costs %.2f of what it does without; one of no outcome, whose name is known, %.2f\n",
		price(discoveringToo), price(discoveringOnly))
	return nil
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}
