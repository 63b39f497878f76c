package scope_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/explain/trace"
)

// noisy returns an instance of 100 ms whose time went to four causes: a share around middle to
// the mailbox of queue_2, and the rest randomly to others.
func noisy(r *rand.Rand, middle float64) outcome.Instance {
	queue := min(1, max(0, middle+0.1*r.NormFloat64()))
	cuts := [3]float64{r.ExpFloat64(), r.ExpFloat64(), r.ExpFloat64()}
	whole := cuts[0] + cuts[1] + cuts[2]
	part := func(of float64) time.Duration { return time.Duration(of * 1e8) }
	return explainedBy("a", 7,
		spell{trace.Mailbox, 2, "queue_2", part(queue), trace.Exact, ""},
		spell{trace.Running, 1, "", part((1 - queue) * cuts[0] / whole), trace.Exact, ""},
		spell{trace.GC, 1, "", part((1 - queue) * cuts[1] / whole), trace.Exact, ""},
		spell{trace.Running, 3, "server", part((1 - queue) * cuts[2] / whole), trace.Exact, ""},
	)
}

// Windows with random shares and no real change show no shift, so that the line below the table
// does not flicker.
func TestNoShiftByChance(t *testing.T) {
	const runs, windows = 20, 300
	shown := 0
	for seed := range uint64(runs) {
		r := rand.New(rand.NewPCG(seed, 1))
		p := newPlay(t, system(t, "", spec("a", 1)))
		for n := range windows {
			if s := explained(t, p.explain(1, noisy(r, 0.4)), "a").Shift; s != nil {
				shown++
				if shown < 5 {
					t.Errorf("run %d: window %d: shift %v", seed, n, s)
				}
			}
		}
	}
	if shown > 0 {
		t.Errorf("%d of %d windows have a shift where nothing has changed", shown, runs*windows)
	}
}

// A share that has grown is shown once, a few windows later. While it lasts, neither its cause
// nor its beginning changes, however noisy the share is.
func TestShiftSettles(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 2))
		p := newPlay(t, system(t, "", spec("a", 1)))
		for range 20 {
			p.explain(1, noisy(r, 0.1))
		}
		var first *scope.Shift
		began := noon.Add(time.Duration(p.next))
		for n := range 25 {
			s := explained(t, p.explain(1, noisy(r, 0.7)), "a").Shift
			switch {
			case s == nil && first == nil && n < 8:
			case s == nil:
				t.Fatalf("seed %d: %d windows later nothing has grown", seed, n)
			case first == nil && n < settling-2: // an earlier window may have been as large by chance
				t.Fatalf("seed %d: after %d windows: shift %v", seed, n+1, s)
			case first == nil:
				kept := *s
				first = &kept
				if d := s.Since.Sub(began); d < -time.Second || d > 3*time.Second || s.Cause.Name != "queue_2" {
					t.Errorf("seed %d: shift %v, want one that began at %v", seed, s, began)
				}
			case s.Cause != first.Cause || s.Since != first.Since || s.From != first.From:
				t.Fatalf("seed %d: %d windows later %v has become %v", seed, n, first, s)
			}
		}
		over := 0
		for n := range 20 {
			if explained(t, p.explain(1, noisy(r, 0.1)), "a").Shift == nil {
				over++
			} else if over > 0 || n > 5 {
				t.Fatalf("seed %d: %d windows after it is over it is shown", seed, n)
			}
		}
	}
}
