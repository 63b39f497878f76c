package bpf_test

import (
	"fmt"
	"testing"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// BenchmarkOpen measures the time of a program for a span or a message if few spans are open, and if so
// many are open that each further one takes a place in the hash map.
func BenchmarkOpen(b *testing.B) {
	const recent = 1 << 14 // RECENT of open.bpf.h
	vm := vmtest.Start(b, oneScheduler())
	for _, bench := range []struct {
		name    string
		outcome bpf.Outcome
		open    int
		run     func(n int)
	}{
		{"spans, few open", load(endless), 0, func(n int) { vmtest.Call(b, vm, "span_load", "run", spans(1, n)) }},
		{"spans, many open", load(endless), recent, func(n int) { vmtest.Call(b, vm, "span_load", "run", spans(1, n)) }},
		{"messages, few open", builtin(b, "message", ""), 0, func(n int) { vmtest.Call(b, vm, "vm_spans", "pairs", fmt.Sprintf("[%d]", n)) }},
		{"messages, many open", builtin(b, "message", ""), recent, func(n int) { vmtest.Call(b, vm, "vm_spans", "pairs", fmt.Sprintf("[%d]", n)) }},
	} {
		b.Run(bench.name, func(b *testing.B) {
			c := vmtest.NewCollector(b, bpf.Options{Outcomes: []bpf.Outcome{bench.outcome, named("filler", endless)}})
			c.Observe(vm)
			emit(b, vm, "filler", "start", recent, bench.open) // no two ids share a place
			measured, err := c.MeasurePrograms()
			if err != nil {
				b.Fatal(err)
			}
			defer measured.Close()
			bench.run(10)
			runs, took, err := c.ProgramTime()
			if err != nil {
				b.Fatal(err)
			}
			b.ResetTimer()
			bench.run(b.N)
			b.StopTimer()
			runs2, took2, err := c.ProgramTime()
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(took2-took)/float64(runs2-runs), "ns/program")
		})
	}
}

// BenchmarkSweep measures a sweep over few open spans in the hash map, and over many.
func BenchmarkSweep(b *testing.B) {
	const recent = 1 << 14 // RECENT of open.bpf.h
	vm := vmtest.Start(b, oneScheduler())
	for _, hashed := range []int{10, 100_000} {
		b.Run(fmt.Sprint(hashed), func(b *testing.B) {
			c := vmtest.NewCollector(b, bpf.Options{Outcomes: []bpf.Outcome{load(endless)}})
			c.Observe(vm)
			emit(b, vm, "load", "start", recent, recent+hashed)
			for b.Loop() {
				if _, err := c.Sweep(monotonic.Now()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
