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

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/vm"
)

// An eventLoad is something to do in an Erlang VM, and to be done several times.
type eventLoad struct {
	name string
	tc   string // arguments of timer:tc/3, with %d for how many times
}

// scenario is a load that the module vm_events has.
func scenario(name string) eventLoad {
	return eventLoad{name, "[vm_events, run, [" + name + ", %d]]"}
}

// builtinLoads are loads whose events are nearly all those of an outcome. Ports are
// busy too seldom for that.
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
	ns     float64 // that each time of the load took
	events float64 // in each
	seen   seen
}

// benchBuiltins measures what an event of each built-in outcome costs: what a load
// takes longer while it is observed, by the events in it. One scheduler runs it, for
// what two take depends on which of them is asleep.
func benchBuiltins(ctx context.Context, rounds int) error {
	otp, err := erlang.FindOTP(ctx)
	if err != nil {
		return err
	}
	beam, err := erlang.StartVM(ctx, otp, erlang.Options{Args: []string{"+S", "1:1"}})
	if err != nil {
		return err
	}
	defer beam.Stop()
	vms, _, err := vm.Find(ctx, vm.Target{PID: beam.PID()})
	if err != nil {
		return err
	}
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
				s, err := measureBuiltin(ctx, beam, vms[0], m.attach, load, times)
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

// attachBuiltins observes built-in outcomes, on the scales that they have.
func attachBuiltins(builtins ...dtrace.Builtin) attach {
	return attachBeamscope(outcome.VMConfig{Plan: planOf(builtinSpecs(builtins...)...)})
}

// builtinSpecs returns built-in outcomes on the scales that they have.
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

// timesOf returns how often the load has to be done to take a tenth of a second.
func timesOf(ctx context.Context, beam *erlang.VM, load eventLoad) (int, error) {
	const few, wanted = 1000, 100e6
	ns, err := loadEvents(ctx, beam, load, few)
	if err != nil {
		return 0, err
	}
	return max(few, int(wanted/ns)), nil
}

func measureBuiltin(ctx context.Context, beam *erlang.VM, v vm.VM, attach attach, load eventLoad, times int) (sample, error) {
	before := times / 10
	detach, err := attach(ctx, v, func() error {
		_, err := loadEvents(ctx, beam, load, before)
		return err
	})
	if err != nil {
		return sample{}, err
	}
	ns, err := loadEvents(ctx, beam, load, times)
	seen, derr := detach()
	return sample{ns: ns, events: seen.events / float64(before+times), seen: seen}, errors.Join(err, derr)
}

var microseconds = regexp.MustCompile(`^\{(\d+),`)

// loadEvents has the VM do a load some times, and returns the nanoseconds for one.
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
