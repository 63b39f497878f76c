//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/beamscope/beamscope/internal/sources/vmsource"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/engine/outcome"
)

// A flow is a system with spans that is driven to its limit.
type flow struct {
	name  string
	vm    vm.VM
	spans []string

	// run drives the flow as fast as possible for some time, with or without tokens of seq_trace.
	// It returns the number of messages and the elapsed time.
	run func(ctx context.Context, d time.Duration, tokens bool) (messages, seconds float64, err error)
}

// A drillMethod is a way to observe a flow.
type drillMethod struct {
	name    string
	observe bool // its spans
	explain bool // the worst of them
	tokens  bool // the wrapper sets tokens of seq_trace
}

// drillMethods are the ways to observe a flow. The others are compared with the first.
func drillMethods() []drillMethod {
	return []drillMethod{
		{name: "nobody attached"},
		{name: "spans", observe: true},
		{name: "drill-down", observe: true, explain: true},
		{name: "drill-down and seq_trace", observe: true, explain: true, tokens: true},
	}
}

func (m drillMethod) attach(f flow) attach {
	if !m.observe {
		return attachNothing
	}
	var specs []outcome.Spec
	for _, span := range f.spans {
		spec := spanSpec(span, outcome.CountsOnly)
		if m.explain {
			spec.Detail, spec.Explain = outcome.Worst, true
		}
		specs = append(specs, spec)
	}
	return attachBeamscope(vmsource.Config{Plan: planOf(specs...)})
}

// benchDrilldown measures by how much drill-down reduces the throughput of systems.
func benchDrilldown(ctx context.Context, rounds int, length time.Duration) (err error) {
	synthetic, stop, err := startSynthetic(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	server, stopServer, err := startRabbitMQ(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stopServer()) }()
	flows := append(mm1kFlows(synthetic), rabbitFlow(server))

	results := make(map[string]map[string][]delivery)
	for round := range rounds {
		for _, f := range flows {
			if results[f.name] == nil {
				results[f.name] = make(map[string][]delivery)
			}
			for _, m := range drillMethods() {
				d, err := measureFlow(ctx, f, m, length)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", f.name, m.name, err)
				}
				results[f.name][m.name] = append(results[f.name][m.name], d)
			}
		}
		fmt.Fprintf(os.Stderr, "round %d of %d\n", round+1, rounds)
	}
	return reportDrilldown(flows, results, rounds, length)
}

// A system is a synthetic system in a VM that the benchmark started.
type system struct {
	*erlang.VM
	found vm.VM
}

// startSynthetic starts a VM with one scheduler: the time of a load with two schedulers depends on
// which of them is asleep.
func startSynthetic(ctx context.Context) (system, func() error, error) {
	otp, err := erlang.FindOTP(ctx)
	if err != nil {
		return system{}, nil, err
	}
	beam, err := erlang.StartVM(ctx, otp, erlang.Options{Carrier: erlang.Probes, Args: []string{"+S", "1:1"}})
	if err != nil {
		return system{}, nil, err
	}
	vms, _, err := vm.Find(ctx, vm.Target{PID: beam.PID()})
	if err != nil {
		return system{}, nil, errors.Join(err, beam.Stop())
	}
	return system{beam, vms[0]}, beam.Stop, nil
}

// mm1kFlows are queues of two kinds. In one kind the workers have nothing to do, which shows the
// cost of observing best. In the other they work for some tens of microseconds.
func mm1kFlows(s system) []flow {
	flows := []flow{{name: "M/M/1/K, no work"}, {name: "M/M/1/K, 20000 loops of work at each"}}
	for i, loops := range []int{0, 20000} {
		flows[i].vm = s.found
		flows[i].spans = []string{"probe", "worker_1", "worker_2"}
		flows[i].run = func(ctx context.Context, d time.Duration, tokens bool) (messages, seconds float64, err error) {
			result, err := s.Call(ctx, "mm1k", "flow", fmt.Sprintf("[#{loops => %d, seq_trace => %t}, %d]", loops, tokens, d.Milliseconds()))
			if err != nil {
				return 0, 0, err
			}
			var ns float64
			if messages, err = number(result, flowMessages); err == nil {
				ns, err = number(result, flowTime)
			}
			return messages, messages * ns / 1e9, err
		}
	}
	return flows
}

var (
	flowMessages   = regexp.MustCompile(`messages => (\d+)`)
	flowTime       = regexp.MustCompile(`ns_per_message => ([0-9.e+]+)`)
	rabbitMessages = regexp.MustCompile(`(\d+) messages in`)
)

// rabbitFlow is a server without slow parts. All of its load runs in its VM.
func rabbitFlow(v vm.VM) flow {
	return flow{
		name:  "RabbitMQ",
		vm:    v,
		spans: rabbitSpans(),
		run: func(ctx context.Context, d time.Duration, tokens bool) (messages, seconds float64, err error) {
			out, err := rabbitSpansOf(ctx, "plain", d, 0, tokens)
			if err != nil {
				return 0, 0, err
			}
			if messages, err = number(out, rabbitMessages); err != nil {
				return 0, 0, err
			}
			rate, err := number(out, throughput)
			return messages, messages / rate, err
		},
	}
}

// rabbitSpans are the names of the spans within a server.
func rabbitSpans() []string { return []string{"publish", "delivery"} }

// number returns the number that an expression matches in brackets.
func number(text string, in *regexp.Regexp) (float64, error) {
	found := in.FindStringSubmatch(text)
	if found == nil {
		return 0, fmt.Errorf("no %q in %q", in, text)
	}
	return strconv.ParseFloat(found[1], 64)
}

func measureFlow(ctx context.Context, f flow, m drillMethod, length time.Duration) (delivery, error) {
	var all float64 // messages during the observation
	detach, err := m.attach(f)(ctx, f.vm, func() error {
		messages, _, err := f.run(ctx, length/4, m.tokens)
		all = messages
		return err
	})
	if err != nil {
		return delivery{}, err
	}
	from, err := processorTime(f.vm.PID())
	if err != nil {
		return delivery{}, err
	}
	messages, seconds, rerr := f.run(ctx, length, m.tokens)
	to, terr := processorTime(f.vm.PID())
	seen, derr := detach()
	all += messages
	d := delivery{
		rate:   messages / seconds,
		cpu:    float64((to - from).Microseconds()) / messages,
		events: seen.events / all,
		seen:   seen,
	}
	if err := errors.Join(rerr, terr, derr); err != nil || !m.explain {
		return d, err
	}
	d.records, d.lostRecords, err = countRecords(ctx, f, m.tokens, length/4)
	return d, err
}

// countRecords returns the number of recorded events for each message, and the share of events that
// are overwritten before they are read.
func countRecords(ctx context.Context, f flow, tokens bool, length time.Duration) (each, lost float64, err error) {
	var messages, kept, overwritten float64
	err = listen(ctx, f.vm, f.spans, func(events []bpf.Event, missing bpf.Loss) {
		kept += float64(len(events))
		overwritten += float64(missing.Events)
	}, func() error {
		messages, _, err = f.run(ctx, length, tokens)
		return err
	})
	all := kept + overwritten
	return all / max(1, messages), overwritten / max(1, all), err
}

func reportDrilldown(flows []flow, results map[string]map[string][]delivery, rounds int, length time.Duration) error {
	fmt.Printf("as many messages as systems can take, medians of %d rounds of %v\n\n", rounds, length)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "system\tobserved\tmessages/s\tof nobody\tof spans\tµs CPU a message\tof nobody\tof spans\tevents a message\trecords a message\trecords lost\t")
	methods := drillMethods()
	for _, f := range flows {
		figure := func(method int, of func(delivery) float64) float64 {
			return medianOf(results[f.name][methods[method].name], of)
		}
		for i, m := range methods {
			rate, cpu := figure(i, deliveryRate), figure(i, deliveryCPU)
			fmt.Fprintf(w, "%s\t%s\t%.0f\t%.2f\t%.2f\t%.1f\t%.2f\t%.2f\t%.1f\t%.1f\t%.1f %%\t\n", f.name, m.name,
				rate, rate/figure(0, deliveryRate), rate/figure(1, deliveryRate),
				cpu, cpu/figure(0, deliveryCPU), cpu/figure(1, deliveryCPU),
				figure(i, func(d delivery) float64 { return d.events }),
				figure(i, func(d delivery) float64 { return d.records }),
				figure(i, func(d delivery) float64 { return 100 * d.lostRecords }))
		}
	}
	return w.Flush()
}
