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

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/engine/outcome"
)

// An eventLoad is a load in an Erlang VM that can be repeated.
type eventLoad struct {
	name string
	tc   string // arguments of timer:tc/3, with %d for the number of repetitions
}

// scenario returns a load of the module vm_events.
func scenario(name string) eventLoad {
	return eventLoad{name, "[vm_events, run, [" + name + ", %d]]"}
}

// builtinLoads are loads whose events nearly all belong to one outcome. There is none for busy
// ports, which are too rare.
var builtinLoads = map[string]eventLoad{
	"gc":        scenario("minor_gcs"),
	"gc-minor":  scenario("minor_gcs"),
	"gc-major":  scenario("major_gcs"),
	"hop":       scenario("messages"),
	"mailbox":   scenario("messages"),
	"message":   scenario("messages"),
	"call":      scenario("gen_server_calls"),
	"lifetime":  scenario("processes"),
	"dirty-nif": scenario("dirty_nifs"),
	"file-io":   scenario("dirty_nifs"),
	"run":       scenario("yields"),
	"run-wait":  {"slices", "[lists, foreach, [fun erlang:bump_reductions/1, lists:duplicate(%d, 4000)]]"},
	"os-wait":   scenario("port_messages"),
}

// A sample is one observation of a load.
type sample struct {
	ns     float64 // for each repetition of the load
	events float64 // in each
	seen   seen
}

// benchBuiltins measures the cost of an event of each built-in outcome: the additional time of a
// load while the outcome is observed, divided by the number of its events.
func benchBuiltins(ctx context.Context, rounds int) error {
	beam, v, err := startOneScheduler(ctx)
	if err != nil {
		return err
	}
	defer beam.Stop()
	bare, observed := make(map[string][]sample), make(map[string][]sample)
	for round := range rounds {
		for _, b := range dtrace.Builtins() {
			load, ok := builtinLoads[b.Name]
			if !ok {
				continue
			}
			times, err := timesOf(ctx, beam, load)
			if err != nil {
				return err
			}
			for _, m := range []struct {
				attach
				results map[string][]sample
			}{{attachNothing, bare}, {attachBuiltins(b), observed}} {
				s, err := measure(ctx, beam, v, m.attach, load, times, loadEvents)
				if err != nil {
					return fmt.Errorf("%s: %w", b.Name, err)
				}
				m.results[b.Name] = append(m.results[b.Name], s)
			}
		}
		fmt.Fprintf(os.Stderr, "round %d of %d\n", round+1, rounds)
	}
	return reportBuiltins(bare, observed, rounds)
}

// attachBuiltins observes built-in outcomes on their default scales.
func attachBuiltins(builtins ...dtrace.Builtin) attach {
	return attachBeamscope(vmsource.Config{Plan: planOf(builtinSpecs(builtins...)...)})
}

// builtinSpecs returns built-in outcomes on their default scales.
func builtinSpecs(builtins ...dtrace.Builtin) []outcome.Spec {
	var specs []outcome.Spec
	for _, b := range builtins {
		specs = append(specs, outcome.Spec{
			Name:     b.Name,
			VM:       outcome.Events{Builtin: b.Name},
			BinWidth: b.DMax / time.Duration(b.Bins),
			Bins:     b.Bins,
		})
	}
	return specs
}

// timesOf returns the number of repetitions for which the load takes a tenth of a second.
func timesOf(ctx context.Context, beam *erlang.VM, load eventLoad) (int, error) {
	const few, wanted = 1000, 100e6
	ns, err := loadEvents(ctx, beam, load, few)
	if err != nil {
		return 0, err
	}
	return max(few, int(wanted/ns)), nil
}

// measure runs a load some times while it is observed. do runs it and returns the nanoseconds for
// each repetition.
func measure(ctx context.Context, beam *erlang.VM, v vm.VM, attach attach, load eventLoad, times int, do meter) (sample, error) {
	before := times / 10
	detach, err := attach(ctx, v, func() error {
		_, err := loadEvents(ctx, beam, load, before)
		return err
	})
	if err != nil {
		return sample{}, err
	}
	ns, err := do(ctx, beam, load, times)
	seen, derr := detach()
	return sample{ns: ns, events: seen.events / float64(before+times), seen: seen}, errors.Join(err, derr)
}

// A meter runs a load some times, and returns the nanoseconds for each repetition.
type meter func(ctx context.Context, beam *erlang.VM, load eventLoad, times int) (float64, error)

var microseconds = regexp.MustCompile(`^\{(\d+),`)

// loadEvents is a [meter] that uses the clock of the VM.
func loadEvents(ctx context.Context, beam *erlang.VM, load eventLoad, times int) (float64, error) {
	result, err := beam.Call(ctx, "timer", "tc", fmt.Sprintf(load.tc, times))
	if err != nil {
		return 0, err
	}
	found := microseconds.FindStringSubmatch(result)
	if found == nil {
		return 0, fmt.Errorf("%s: no time in %s", load.name, result)
	}
	us, err := strconv.ParseFloat(found[1], 64)
	return us * 1000 / float64(times), err
}

func reportBuiltins(bare, observed map[string][]sample, rounds int) error {
	fmt.Printf("what a load takes, bare and observed, and what an event costs by that; medians of %d rounds\n\n", rounds)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "outcome\tload\tbare ns\tobserved ns\tevents\tinstances\tns an event\tas beamscope says\t")
	for _, b := range dtrace.Builtins() {
		if observed[b.Name] == nil {
			continue
		}
		if medianOf(observed[b.Name], func(s sample) float64 { return float64(s.seen.instances) }) == 0 {
			return fmt.Errorf("%s: nothing was observed under %s", b.Name, builtinLoads[b.Name].name)
		}
		bareNs := medianOf(bare[b.Name], func(s sample) float64 { return s.ns })
		ns := medianOf(observed[b.Name], func(s sample) float64 { return s.ns })
		events := medianOf(observed[b.Name], func(s sample) float64 { return s.events })
		instances := medianOf(observed[b.Name], func(s sample) float64 { return float64(s.seen.instances) / s.seen.events * s.events })
		says := medianOf(observed[b.Name], func(s sample) float64 { return float64(s.seen.perEvent) })
		fmt.Fprintf(w, "%s\t%s\t%.0f\t%.0f\t%.1f\t%.2f\t%.0f\t%.0f\t\n", b.Name, builtinLoads[b.Name].name, bareNs, ns, events, instances, (ns-bareNs)/events, says)
	}
	return w.Flush()
}
