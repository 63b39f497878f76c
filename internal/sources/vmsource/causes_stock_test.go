package vmsource_test

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/internal/sources/ring"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// newStock observes the spans called slow of a VM of Debian, and has them explained.
func newStock(t *testing.T, release int) (*erlang.VM, *source) {
	t.Helper()
	vmtest.NeedEBPF(t)
	beam := vmtest.StartOn(t, vmtest.Stock(t, release), erlang.Options{})
	specs := []outcome.Spec{{
		Name: "slow", Span: "slow", BinWidth: 10 * time.Millisecond, Bins: 1000, Detail: outcome.Worst, Explain: true,
	}}
	s := newSourceEvery(t, vm.Target{PID: beam.PID()}, 500*time.Millisecond, specs)
	callSpans(t, beam, s, specs)
	return beam, s
}

// callSpans has the application in a VM report the spans of some specs to programs in the kernel,
// which it does as soon as the ring is found.
func callSpans(t *testing.T, beam *erlang.VM, s *source, specs []outcome.Spec) {
	t.Helper()
	r, err := ring.New(t.Context(), ring.Config{
		Target: vm.Target{PID: beam.PID()}, Kernel: s.CountsSpans,
		Plan: outcome.Plan{From: monotonic.Now(), Window: time.Hour, Specs: specs},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	s.collectUntil("a span that calls a function", func() bool {
		return vmtest.Eval(t, beam, "{_, S} = beamscope:start_span(<<\"first\">>), ok = beamscope:end_span(undefined, S), element(1, S)") == "explained"
	})
}

// On the distribution's own VMs, without probes, spans that are slow for a known cause are explained by
// it, as on VMs with probes.
func TestKnownCausesOfStockVM(t *testing.T) {
	for _, release := range vmtest.StockReleases() {
		t.Run(strconv.Itoa(release), func(t *testing.T) {
			beam, s := newStock(t, release)
			for _, c := range causes() {
				t.Run(c.scenario, func(t *testing.T) {
					s.t = t
					if c.scenario == "overload" {
						overload(t, beam)
					} else {
						vmtest.Favour(t, beam)
					}
					each, found := runCause(t, s, beam, c, false, 3)
					judge(t, c, each, found, s.notices())
				})
			}
		})
	}
}

// Nothing that is marked exact is wrong on the distribution's own VMs, by what the processes
// themselves tell.
func TestNothingExactIsWrongOnStockVM(t *testing.T) {
	for _, release := range vmtest.StockReleases() {
		t.Run(strconv.Itoa(release), func(t *testing.T) {
			beam, s := newStock(t, release)
			vmtest.Favour(t, beam)
			scenarios := slices.Concat(waitScenarios, metScenarios)
			for i, r := range (waits{s, pauseAlone, vmtest.WatchStalls(t)}).runs(t, beam, scenarios, false) {
				t.Run(scenarios[i], func(t *testing.T) { r.judge(t, 0) })
			}
		})
	}
}
