package scope_test

import (
	"fmt"
	"testing"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/explain/trace"
)

// large returns a system of 100 outcomes with 1000 bins each, and a window with 1000 instances of each.
// The diagram calculates 40 of the outcomes.
func large(b *testing.B) (*scope.System, outcome.Batch) {
	b.Helper()
	var source string
	var specs []outcome.Spec
	var batch outcome.Batch
	add := func(name string) {
		specs = append(specs, spec(name, 1000))
		bins := make([]uint64, 1000)
		for k := range 100 {
			bins[k*7] = 10
		}
		batch.Counts = append(batch.Counts, counts(name, bins...))
	}
	for i := range 60 {
		add(fmt.Sprintf("leaf_%d", i))
	}
	for i := range 20 {
		source += fmt.Sprintf("seq_%d = leaf_%d -> leaf_%d;\n", i, 2*i, 2*i+1)
		source += fmt.Sprintf("par_%d = a:par_%d(leaf_%d, leaf_%d);\n", i, i, i, i+40)
		add(fmt.Sprintf("seq_%d", i))
		add(fmt.Sprintf("par_%d", i))
	}
	s := system(b, source, specs...)
	qta, err := dq.Quartiles(100*ms, 200*ms, 300*ms, 0.1)
	if err != nil {
		b.Fatal(err)
	}
	for i := range s.Outcomes {
		s.Outcomes[i].QTA = &qta
		s.Outcomes[i].Triggers = triggers(b, "load", "1000000", "failure", "0.5", "loss", "true")
	}
	return s, batch
}

// BenchmarkStep measures a window of 100 outcomes with 1000 bins. With windows of 100 ms the engine
// handles ten of these a second.
func BenchmarkStep(b *testing.B) {
	s, batch := large(b)
	p := newPlay(b, s)
	for range 40 {
		p.batch(batch)
	}
	b.ReportAllocs()
	for b.Loop() {
		p.batch(batch)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)*10/1e9*100, "%core@100ms")
}

// BenchmarkExplain measures a window of an outcome with the largest number of explained instances.
// Each has 60 parts of 20 processes. The window is compared with 60 quiet ones.
func BenchmarkExplain(b *testing.B) {
	p := newPlay(b, system(b, "", spec("a", 1)))
	var instances []outcome.Instance
	for id := range uint64(outcome.MaxWorst) {
		var spells []spell
		for n := range 60 {
			spells = append(spells, spell{trace.Kind(1 + n%9), trace.PID(1 + n%20), "", ms, trace.Exact, ""})
		}
		instances = append(instances, explainedBy("a", id, spells...))
	}
	for range 60 {
		p.explain(1, instances...)
	}
	b.ReportAllocs()
	for b.Loop() {
		p.explain(1, instances...)
	}
}
