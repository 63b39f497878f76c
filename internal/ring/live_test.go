package ring

import (
	"testing"
	"time"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/monotonic"
	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/vm"
	"github.com/beamscope/beamscope/internal/vmtest"
)

// A run is a source whose windows the test collects, and what it has counted.
type run struct {
	*Source
	t       *testing.T
	plan    outcome.Plan
	number  uint64
	total   map[string]outcome.Counts
	single  []outcome.Instance
	notices []outcome.Notice
}

const window = 100 * time.Millisecond

// observe begins to observe a VM, with outcomes of the spans of these names.
func observe(t *testing.T, beam *erlang.VM, specs ...outcome.Spec) *run {
	t.Helper()
	p := outcome.Plan{From: monotonic.Now() + int64(window), Window: window, Specs: specs}
	s, err := New(t.Context(), Config{Target: vm.Target{PID: beam.PID()}, Plan: p})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return &run{Source: s, t: t, plan: p, total: make(map[string]outcome.Counts)}
}

func spec(name string, dMax time.Duration) outcome.Spec {
	const bins = 100
	return outcome.Spec{Name: name, Span: name, BinWidth: dMax / bins, Bins: bins}
}

// collectTo collects the windows up to a time, each when it has been over for as long as it was.
func (r *run) collectTo(at int64) {
	r.t.Helper()
	for {
		w := r.plan.At(r.number)
		if w.From > at {
			return
		}
		r.number++
		vmtest.WaitUntil(w.To + int64(window))
		b, err := r.Collect(r.t.Context(), w)
		if err != nil {
			r.t.Fatal(err)
		}
		for _, c := range b.Counts {
			sum := r.total[c.Outcome].Add(c)
			sum.Outcome = c.Outcome
			sum.Bins = append(sum.Bins, r.total[c.Outcome].Bins...)
			r.total[c.Outcome] = sum
		}
		r.single = append(r.single, b.Instances...)
		r.notices = append(r.notices, r.Watch(r.t.Context())...)
	}
}

func TestSpansAreExact(t *testing.T) {
	beam := vmtest.Start(t, erlang.Options{Ring: true, Args: []string{"+S", "2:2"}})
	r := observe(t, beam, spec("a", time.Second))
	vmtest.WaitUntil(r.plan.From)
	out := vmtest.Call(t, beam, "span_load", "run", `[#{procs => 4, spans => 200000, name => <<"a">>}]`)
	t.Log(out)
	r.collectTo(monotonic.Now() + int64(window))
	t.Log(r.notices)
	n := r.total["a"]
	if n.Successes != 200_000 || n.Starts != 200_000 || n.Ends != 200_000 || n.Instances() != n.Successes || n.Loss.Total() != 0 || n.Unobserved {
		t.Errorf("%+v", n)
	}
}
