//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/beamscope/beamscope/internal/sources/vmsource"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/sources/ring"
	"github.com/beamscope/beamscope/internal/sources/sampled"
)

// The VMs whose prices are compared. They are of the same version.
const (
	withProbes = "with probes"                   // its spans are recorded in the ring
	onlyProbes = "with probes, carrier `probes`" // its spans fire probes
	stockVM    = "stock"                         // Debian's own package
)

// stockRelease is the OTP release of these VMs: the release whose [stockVM] has the same version as
// the VM with probes.
const stockRelease = 25

// pricedOutcomes are the built-in outcomes whose prices are compared, in the order of the table.
var pricedOutcomes = []string{"gc", "run", "run-wait", "message", "hop", "mailbox", "call", "lifetime", "dirty-nif"}

const (
	// leaseRest is the longest time for which a VM records spans after a collector has ended.
	leaseRest = 2 * time.Second

	// roundLength is the approximate duration of an unobserved load. dirtyLength is that of dirty
	// functions, which wake threads that may wait for a processor. sampledLength is that of
	// samples, which are rare.
	roundLength   = 100 * time.Millisecond
	dirtyLength   = time.Second
	sampledLength = 4 * time.Second

	// mostSpans is the maximum number of spans in a round: two records for each span fit into the
	// ring of one scheduler.
	mostSpans = 100_000
)

// A priced is a way to observe a VM that has a price to measure.
type priced struct {
	what string
	vm   string // one of the VMs above
	by   string // such as "probe"
	load eventLoad
	attach

	events float64       // events in one repetition of the load, if known
	length time.Duration // duration of an unobserved round
	most   int           // maximum repetitions of the load in a round; 0 for no limit
	rest   time.Duration // pause before the load runs unobserved, until the lease of the ring has ended
}

// A running is a VM that is measured.
type running struct {
	beam  *erlang.VM
	found vm.VM
}

// benchPrices measures the cost of the same outcomes for a VM with probes and for a distribution's
// VM, in processor time of the VM. Each load runs unobserved and observed in turns.
//
// what has the names of the outcomes to measure; if it is empty, all are measured.
func benchPrices(ctx context.Context, rounds int, what []string) (err error) {
	vms, stop, err := startPriced(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	all, err := allPriced(vms)
	if err != nil {
		return err
	}
	if len(what) > 0 {
		all = slices.DeleteFunc(all, func(p priced) bool { return !slices.Contains(what, p.what) })
	}
	if len(all) == 0 {
		return fmt.Errorf("%q: none of %q, span and samples", what, pricedOutcomes)
	}
	results := make([][]turns, len(all))
	times := make([]int, len(all))
	for i, p := range all {
		if times[i], err = p.times(ctx, vms[p.vm]); err != nil {
			return fmt.Errorf("%s, %s: %w", p.what, p.vm, err)
		}
	}
	for round := range rounds {
		for i, p := range all {
			t, err := p.measure(ctx, vms[p.vm], times[i], round%2 == 1)
			if err != nil {
				return fmt.Errorf("%s, %s, %s: %w", p.what, p.vm, p.by, err)
			}
			results[i] = append(results[i], t)
		}
		fmt.Fprintf(os.Stderr, "round %d of %d\n", round+1, rounds)
	}
	return reportPrices(all, results, rounds)
}

// startPriced starts the VMs. Each has one scheduler: the time of a load with two schedulers
// depends on which of them is asleep. The schedulers do not busy-wait, because that takes processor
// time too.
func startPriced(ctx context.Context) (vms map[string]running, stop func() error, err error) {
	vms = make(map[string]running)
	dir, err := os.MkdirTemp("", "beamscope-bench")
	if err != nil {
		return nil, nil, err
	}
	stop = func() error {
		var errs []error
		for _, r := range vms {
			errs = append(errs, r.beam.Stop())
		}
		return errors.Join(append(errs, os.RemoveAll(dir))...)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, stop())
		}
	}()
	otp, err := erlang.FindRelease(ctx, stockRelease)
	if err != nil {
		return nil, nil, err
	}
	emulator, err := debianEmulator(ctx)
	if err != nil {
		return nil, nil, err
	}
	stock, err := otp.WithEmulator(dir, emulator)
	if err != nil {
		return nil, nil, err
	}
	for _, of := range []struct {
		name    string
		otp     erlang.OTP
		carrier erlang.Carrier
	}{{withProbes, otp, erlang.Ring}, {onlyProbes, otp, erlang.Probes}, {stockVM, stock, erlang.Ring}} {
		beam, err := erlang.StartVM(ctx, of.otp, erlang.Options{Carrier: of.carrier, Args: []string{
			"+S", "1:1", "+sbwt", "none", "+sbwtdcpu", "none", "+sbwtdio", "none",
		}})
		if err != nil {
			return nil, nil, err
		}
		vms[of.name] = running{beam: beam}
		found, _, err := vm.Find(ctx, vm.Target{PID: beam.PID()})
		if err != nil {
			return nil, nil, err
		}
		vms[of.name] = running{beam, found[0]}
		if of.carrier == erlang.Ring {
			err = endFirstLease(ctx, beam)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return vms, stop, nil
}

// debianEmulator returns the path of the VM of Debian's package. It downloads the package if
// necessary.
func debianEmulator(ctx context.Context) (string, error) {
	cmd := exec.CommandContext(ctx, "scripts/stock.sh", fmt.Sprint(stockRelease))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("scripts/stock.sh %d: %w", stockRelease, err)
	}
	return string(bytes.TrimSpace(out)), nil
}

// allPriced returns all comparisons in the order of the table.
func allPriced(vms map[string]running) ([]priced, error) {
	var all []priced
	for _, name := range pricedOutcomes {
		length := roundLength
		if name == "dirty-nif" {
			length = dirtyLength
		}
		b, ok := dtrace.LookupBuiltin(name)
		if !ok {
			return nil, fmt.Errorf("no built-in outcome %s", name)
		}
		for _, of := range []string{withProbes, stockVM} {
			by, err := seenBy(vms[of].found, b.Rule)
			if err != nil {
				return nil, err
			}
			all = append(all, priced{what: name, vm: of, by: by, load: builtinLoads[name], attach: attachBuiltins(b), length: length})
		}
	}
	span := func(of, by string, a attach, rest time.Duration) {
		all = append(all, priced{
			what: "span", vm: of, by: by, load: spansLoad(), attach: a,
			events: 2, // a start and an end
			length: roundLength, most: mostSpans, rest: rest,
		})
	}
	counted, explained := spanSpec(spanName, outcome.CountsOnly), spanSpec(spanName, outcome.Worst)
	explained.Explain = true
	span(onlyProbes, "probe", attachBeamscope(vmsource.Config{Plan: planOf(counted)}), 0)
	span(onlyProbes, "probe, explained", attachBeamscope(vmsource.Config{Plan: planOf(explained)}), 0)
	ofSpans, ok := dtrace.Lookup(probeName())
	if !ok {
		return nil, fmt.Errorf("no probe %s", probeName())
	}
	for _, of := range []string{withProbes, stockVM} {
		by, err := seenBy(vms[of].found, dtrace.Rule{Start: dtrace.Expr{{Probe: ofSpans}}})
		if err != nil {
			return nil, err
		}
		span(of, "ring", attachRing(planOf(counted)), leaseRest)
		span(of, by+", explained", attachBoth(planOf(explained)), leaseRest)
	}
	for _, of := range []string{withProbes, stockVM} {
		all = append(all, priced{what: "samples", vm: of, by: fmt.Sprintf("%d Hz", sampled.DefaultRate), load: samplingLoads[1],
			attach: attachSampled(sampled.DefaultRate), length: sampledLength})
	}
	return all, nil
}

// spansLoad returns a load in which one process starts and ends spans.
func spansLoad() eventLoad {
	return eventLoad{"spans", fmt.Sprintf("[span_load, run, [#{procs => 1, spans => %%d, name => <<%q>>}]]", spanName)}
}

// seenBy returns the means by which a VM's events of an outcome are observed: "probe", "stand-in"
// or both.
func seenBy(v vm.VM, r dtrace.Rule) (string, error) {
	image, err := v.Image()
	if err != nil {
		return "", err
	}
	ways := make(map[string]bool)
	for _, e := range slices.Concat(r.Arm, r.Start, r.Via, r.End) {
		sight := image.Sees(e.Probe)
		if sight.Unseen != "" {
			return "", fmt.Errorf("%s: %s", e.Probe.Name, sight.Unseen)
		}
		ways[string(sight.Way())] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(ways)), ", "), nil
}

// attachBoth observes spans by programs in the kernel and by the ring, as `beamscope run` does.
// While the programs follow spans, the ring does not record them.
func attachBoth(plan outcome.Plan) attach {
	return attachWhole(plan, func(ctx context.Context, target vm.Target, plan outcome.Plan) (outcome.Source, error) {
		inKernel, err := vmsource.New(ctx, vmsource.Config{Target: target, Plan: plan})
		if err != nil {
			return nil, err
		}
		rings, err := ring.New(ctx, ring.Config{Target: target, Plan: plan, Kernel: inKernel.CountsSpans})
		if err != nil {
			return nil, errors.Join(err, inKernel.Close())
		}
		every := func(outcome.Spec) bool { return true }
		// The source of the VM comes last, as in a session.
		both, err := outcome.Join(plan, outcome.Part{Source: rings, Wants: every}, outcome.Part{Source: inKernel, Wants: every})
		if err != nil {
			return nil, errors.Join(err, rings.Close(), inKernel.Close())
		}
		return both, nil
	})
}

// times returns the number of repetitions of the load in a round.
func (p priced) times(ctx context.Context, r running) (int, error) {
	n, err := timesOf(ctx, r.beam, p.load)
	n = int(float64(n) * float64(p.length) / float64(100*time.Millisecond))
	if p.most > 0 {
		n = min(n, p.most)
	}
	return n, err
}

// turns contains one measurement of a load unobserved, and one observed.
type turns struct {
	bare, observed sample
}

// added returns the additional nanoseconds for one repetition of the load.
func (t turns) added() float64 { return t.observed.ns - t.bare.ns }

func (t turns) ratio() float64 { return t.observed.ns / t.bare.ns }

// measure runs the load unobserved and observed, or in the reverse order.
func (p priced) measure(ctx context.Context, r running, times int, reverse bool) (t turns, err error) {
	bare := func() error {
		time.Sleep(p.rest)
		t.bare, err = measure(ctx, r.beam, r.found, attachNothing, p.load, times, byProcessor)
		return err
	}
	observed := func() error {
		t.observed, err = measure(ctx, r.beam, r.found, p.attach, p.load, times, byProcessor)
		return err
	}
	order := []func() error{bare, observed}
	if reverse {
		slices.Reverse(order)
	}
	for _, do := range order {
		if err := do(); err != nil {
			return turns{}, err
		}
	}
	return t, nil
}

func reportPrices(all []priced, results [][]turns, rounds int) error {
	fmt.Printf("processor time of the VM, bare and observed, in turns; medians of %d rounds, with the lowest and the highest ratio.\n"+
		"OTP %d with one scheduler. \"÷ probes\": divided by what the same costs a VM with probes\n\n", rounds, stockRelease)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "observed\tVM\tby\tload\tbare ns\tobserved ns\tratio\tlowest\thighest\tadded ns\tevents\tns an event\tas beamscope says\t÷ probes\t")
	byProbes := make(map[string]float64) // the first of each kind belongs to the VM with probes
	for i, p := range all {
		figure := func(of func(turns) float64) float64 { return medianOf(results[i], of) }
		added := figure(turns.added)
		if figure(func(t turns) float64 { return t.observed.events }) == 0 {
			return fmt.Errorf("%s, %s, %s: nothing was observed under %s", p.what, p.vm, p.by, p.load.name)
		}
		events := p.events
		if events == 0 {
			events = figure(func(t turns) float64 { return t.observed.events })
		}
		if _, ok := byProbes[p.what]; !ok {
			byProbes[p.what] = added
		}
		ratios := make([]float64, rounds)
		for r, t := range results[i] {
			ratios[r] = t.ratio()
		}
		says := "–"
		if each := figure(func(t turns) float64 { return float64(t.observed.seen.perEvent) }); each > 0 {
			says = fmt.Sprintf("%.0f", each)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%.0f\t%.0f\t%.3f\t%.3f\t%.3f\t%.0f\t%.2f\t%.0f\t%s\t%.2f\t\n", p.what, p.vm, p.by, p.load.name,
			figure(func(t turns) float64 { return t.bare.ns }), figure(func(t turns) float64 { return t.observed.ns }),
			median(ratios), slices.Min(ratios), slices.Max(ratios), added, events, added/events, says, added/byProbes[p.what])
	}
	return w.Flush()
}
