//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"text/tabwriter"

	"github.com/beamscope/beamscope/internal/sources/vmsource"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/engine/outcome"
)

// spanName is the name of the spans, and label the name of their outcome.
const spanName = "load"

// The methods that are compared in a separate line.
const (
	nobody          = "nobody attached"
	counting        = "beamscope"
	discoveringToo  = "beamscope, with discovery"
	discoveringOnly = "discovery, of no outcome"
)

// The methods for spans that are recorded in the VM's memory. They use a separate VM.
const (
	ringUnread = "ring: nobody reads"
	ringRead   = "ring: beamscope"
)

// barePair is two calls of dyntrace:pn instead of a span, with nobody attached.
const barePair = "dyntrace:pn twice, nobody attached"

// A spanMethod is a method with the function of span_load that makes its load.
type spanMethod struct {
	method
	load string
}

// spanMethods are the ways to observe spans by probes.
func spanMethods() []spanMethod {
	return append(ofSpans(
		method{nobody, attachNothing},
		method{"empty eBPF program", attachEmpty},
		method{counting, attachBeamscope(vmsource.Config{Plan: planOf(spanSpec(spanName, outcome.CountsOnly))})},
		method{"beamscope, streaming", attachBeamscope(vmsource.Config{Plan: planOf(spanSpec(spanName, outcome.Everything))})},
		method{discoveringToo, attachBeamscope(vmsource.Config{Plan: planOf(spanSpec(spanName, outcome.CountsOnly)), Discover: true})},
		method{discoveringOnly, attachBeamscope(vmsource.Config{Plan: planOf(spanSpec("another", outcome.CountsOnly)), Discover: true})},
		method{"bpftrace histogram", attachBpftrace},
	), spanMethod{method{barePair, attachNothing}, "probes"})
}

// ofSpans returns methods whose load is that of span_load:run.
func ofSpans(methods ...method) []spanMethod {
	var all []spanMethod
	for _, m := range methods {
		all = append(all, spanMethod{m, "run"})
	}
	return all
}

// ringMethods are the ways to observe spans that are recorded.
func ringMethods() []spanMethod {
	counts, single := attachRing(planOf(spanSpec(spanName, outcome.CountsOnly))), attachRing(planOf(spanSpec(spanName, outcome.Worst)))
	return []spanMethod{
		{method{ringUnread, attachNothing}, "run"},
		{method{ringRead, counts}, "run"},
		{method{"ring: with processes", single}, "run"},
		{method{"ring: with_span", counts}, "within"},
		{method{"ring: child spans", counts}, "children"},
		{method{"ring: failures with a class", counts}, "failing"},
	}
}

// benchSpans measures the cost of observing spans.
func benchSpans(ctx context.Context, rounds, spans int) error {
	otp, err := erlang.FindOTP(ctx)
	if err != nil {
		return err
	}
	beam, err := erlang.StartVM(ctx, otp, erlang.Options{Carrier: erlang.Probes})
	if err != nil {
		return err
	}
	defer beam.Stop()
	vms, _, err := vm.Find(ctx, vm.Target{PID: beam.PID()})
	if err != nil {
		return err
	}
	recording, err := erlang.StartVM(ctx, otp, erlang.Options{Carrier: erlang.Ring})
	if err != nil {
		return err
	}
	defer recording.Stop()
	if err := endFirstLease(ctx, recording); err != nil {
		return err
	}
	recordingVMs, _, err := vm.Find(ctx, vm.Target{PID: recording.PID()})
	if err != nil {
		return err
	}
	results := make(map[string][]float64)
	var idle []float64
	for round := range rounds {
		ns, err := loadSpans(ctx, beam, "idle", spans)
		if err != nil {
			return err
		}
		idle = append(idle, ns)
		for _, m := range spanMethods() {
			ns, err := measureSpans(ctx, beam, vms[0], m, spans)
			if err != nil {
				return fmt.Errorf("%s: %w", m.name, err)
			}
			results[m.name] = append(results[m.name], ns)
		}
		for _, m := range ringMethods() {
			ns, err := measureSpans(ctx, recording, recordingVMs[0], m, spans)
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
	return reportSpans(results, rounds, spans)
}

// endFirstLease creates a VM's ring, and waits until spans are no longer recorded.
func endFirstLease(ctx context.Context, beam *erlang.VM) error {
	if _, err := loadSpans(ctx, beam, "run", 1); err != nil {
		return err
	}
	_, err := beam.Call(ctx, "timer", "sleep", "[6000]") // its first lease is shorter
	return err
}

// measureSpans returns the nanoseconds that a start and an end take together.
func measureSpans(ctx context.Context, beam *erlang.VM, v vm.VM, m spanMethod, spans int) (float64, error) {
	detach, err := m.attach(ctx, v, func() error {
		_, err := loadSpans(ctx, beam, m.load, spans/100)
		return err
	})
	if err != nil {
		return 0, err
	}
	ns, err := loadSpans(ctx, beam, m.load, spans)
	_, derr := detach()
	return ns, errors.Join(err, derr)
}

var perSpan = regexp.MustCompile(`ns_per_span => ([0-9.e+]+)`)

// loadSpans makes one Erlang process start and end spans as fast as possible with a function of
// span_load. It returns the nanoseconds for one span.
func loadSpans(ctx context.Context, beam *erlang.VM, function string, spans int) (float64, error) {
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

// reportSpans prints the medians, without the load generator.
func reportSpans(results map[string][]float64, rounds, spans int) error {
	empty := median(results["empty eBPF program"])
	bpftrace := median(results["bpftrace histogram"])
	fmt.Printf("start_span + end_span in one process, medians of %d rounds of %d spans, without the load generator\n\n", rounds, spans)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "attached\tns a pair\tlowest\thighest\t÷ empty program\t÷ bpftrace\t")
	for _, m := range slices.Concat(spanMethods(), ringMethods()) {
		ns := results[m.name]
		fmt.Fprintf(w, "%s\t%.0f\t%.0f\t%.0f\t%.2f\t%.2f\t\n", m.name, median(ns), slices.Min(ns), slices.Max(ns), median(ns)/empty, median(ns)/bpftrace)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	price := func(name string) float64 { return median(results[name]) / median(results[counting]) }
	fmt.Printf("\ndiscovery: a span of an outcome costs %.2f of what it does without; one of no outcome, whose name is known, %.2f\n",
		price(discoveringToo), price(discoveringOnly))
	fmt.Printf("ring: %.2f of what a probe costs where nobody watches, %.2f of two calls of dyntrace:pn, and %.2f of what a probe costs with beamscope\n",
		median(results[ringUnread])/median(results[nobody]), median(results[ringUnread])/median(results[barePair]), price(ringRead))
	return nil
}
