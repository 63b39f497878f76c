package bpf_test

import (
	"fmt"
	"testing"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
	"github.com/beamscope/beamscope/internal/testing/vmtest/layout"
)

// BenchmarkDetails measures the time for a message and its reply between two processes of one
// scheduler, with five events each. It measures without observation, with an outcome of messages,
// with explained spans of which none is open, and within such a span. It also shows the time of
// each run of our programs.
func BenchmarkDetails(b *testing.B) {
	vm := vmtest.Start(b, oneScheduler())
	vmtest.Call(b, vm, "vm_spans", "pairs", "[10]")
	for _, bench := range []struct {
		name     string
		outcomes []bpf.Outcome
	}{
		{"bare", nil},
		{"message outcome", []bpf.Outcome{builtin(b, "message", "")}},
		{"nobody watched", []bpf.Outcome{explained(named("other", endless))}},
		{"watched", []bpf.Outcome{explained(load(endless))}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			c := vmtest.NewCollector(b, bpf.Options{Outcomes: bench.outcomes})
			target := vmtest.Target(b, vm)
			target.Layout = layout.Of(b, vm)
			if len(bench.outcomes) > 0 {
				if _, err := c.Attach(b.Context(), target); err != nil {
					b.Fatal(err)
				}
			}
			measured, err := c.MeasurePrograms()
			if err != nil {
				b.Fatal(err)
			}
			defer measured.Close()
			vmtest.Call(b, vm, "vm_spans", "pairs", "[10]")
			runs, took, err := c.ProgramTime()
			if err != nil {
				b.Fatal(err)
			}
			b.ResetTimer()
			vmtest.Call(b, vm, "vm_spans", "pairs", fmt.Sprintf("[%d]", b.N))
			b.StopTimer()
			runs2, took2, err := c.ProgramTime()
			if err != nil {
				b.Fatal(err)
			}
			if n := runs2 - runs; n > 0 {
				b.ReportMetric(float64(took2-took)/float64(n), "ns/program")
				b.ReportMetric(float64(n)/float64(b.N), "programs/op")
			}
		})
	}
}
