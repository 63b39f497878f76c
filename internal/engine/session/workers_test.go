package session_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/engine/session"
)

// workersScope returns the scope file of two workers side by side. Bins are half a millisecond
// wide, an eighth of a worker's mean delay. The bounds are 4.417 standard errors: for independent
// windows, chance puts the truth outside of them once in 10⁵ times. The history is as long as the
// frames that are examined after a change.
func workersScope(probe string) string {
	return `
window: 500ms
hold_off: 1s
history: 15
standard_errors: 4.417
diagram: |
  probe = ` + probe + `;
outcomes:
  worker_1: {dmax: 100ms, bins: 200}
  worker_2: {dmax: 100ms, bins: 200}
  probe: {dmax: 100ms, bins: 200, triggers: {divergence: true}}
`
}

const (
	inSequence    = "worker_1 -> worker_2"
	firstToFinish = "f:probe(worker_1, worker_2)"
	allToFinish   = "a:probe(worker_1, worker_2)"
)

// A trial is an experiment with two workers, and the faults that it found.
type trial struct {
	*rig
	faults []string
}

func (x *trial) errorf(format string, args ...any) {
	x.faults = append(x.faults, fmt.Sprintf(format, args...))
}

// try runs an experiment. If it found faults while the machine stood still, try runs it again:
// both workers are late at the same time then, and that dependence would invalidate the result.
// Timeouts show that the machine stood still, because a worker takes 80 ms more than its 4 ms
// with a probability of only e⁻²⁰.
func try(t *testing.T, system, scopeFile string, experiment func(x *trial)) {
	t.Helper()
	const tries = 5
	for range tries {
		x := &trial{rig: start(t, []string{system}, scopeFile, session.Options{})}
		experiment(x)
		x.stop()
		if len(x.faults) == 0 {
			return
		}
		if !x.allFrames().timedOut() {
			t.Fatalf("%s\n%v", strings.Join(x.faults, "\n"), x)
		}
		t.Logf("once more, as the machine stood still: %s", strings.Join(x.faults, "; "))
	}
	t.Errorf("the machine stood still every time: no result in %d tries", tries)
}

func (r frameList) timedOut() bool {
	return slices.ContainsFunc(r, func(f *scope.Frame) bool {
		return slices.ContainsFunc(f.Outcomes, func(p scope.Outcome) bool { return p.Counts.Timeouts > 0 })
	})
}

// A diagram with a sequence instead of the first to finish is reported as wrong. With the right
// diagram the calculated and the observed ΔQ agree (thesis, 6.2.1).
func TestWrongOperator(t *testing.T) {
	t.Parallel()
	try(t, "ftf", workersScope(inSequence), func(x *trial) {
		wrong := x.fires("divergence")
		x.t.Logf("frame %d: %s", wrong.Number, wrong.Fired[0].Cause)
		if cause := wrong.Fired[0].Cause; !strings.Contains(cause, "faster than the calculated one") {
			x.errorf("cause %q, want that the observed ΔQ is the faster one", cause)
		}
		if gap(x.allFrames()) == 0 {
			x.errorf("the bands of a sequence and of the first to finish meet everywhere")
		}

		before := len(x.allFrames())
		x.apply(workersScope(firstToFinish))
		x.await(x.t, "the end of the incident", func() bool { return len(x.allFrames().last("probe").Active) == 0 })
		if !x.allFrames()[before:].noticed("another diagram: every calculated history begins anew") {
			x.errorf("no frame says that the diagram is another one")
		}
		agree(x, x.next(15))
	})
}

// The first to finish does not depend on how slow the other worker is (thesis, 6.2.1).
func TestFirstToFinishIsUnchanged(t *testing.T) {
	t.Parallel()
	const slow = 20 * time.Millisecond

	try(t, "ftf", workersScope(firstToFinish), func(x *trial) {
		before := x.next(10)
		x.set("slow_2", "20")
		after := x.next(15)

		// The medians of 1000 and 1500 delays have an error of at most 0.6 ms. The rest of the
		// margin allows for a busy machine, which may delay one of them.
		rise := after.median(x.t, "worker_2") - before.median(x.t, "worker_2")
		if rise < slow-3*time.Millisecond || rise > slow+10*time.Millisecond {
			x.errorf("worker_2's median has risen by %v, want %v", rise, slow)
		}
		// The other worker can be first only if worker 1 takes longer than 20 ms, with a
		// probability of e⁻⁵.
		d := distance(x.t, after.pooled(x.t, "probe"), after.pooled(x.t, "worker_1"))
		x.t.Logf("worker_2's median has risen by %v, the outcome probe is %.3f apart from worker_1", rise, d)
		if d > 0.05 {
			x.errorf("the outcome probe is %.3f apart from worker_1 alone", d)
		}
		agree(x, x.allFrames())
	})
}

// All to finish is as slow as the slower worker: a delay of 2 ms in addition to 4 ms is visible
// (thesis, 6.2.2).
func TestAllToFinishFollows(t *testing.T) {
	t.Parallel()
	try(t, "atf", workersScope(allToFinish), func(x *trial) {
		x.next(5)
		x.set("slow_2", "2")
		slowed := x.next(25)

		// If worker 2 were as fast as worker 1, the outcome probe would take at most 5 ms with the
		// probability that two workers like worker 1 both do: 0.51. The real probability is 0.38,
		// and the difference has a standard deviation of 0.02. Both figures come from the same
		// windows, because in different ones the machine might have been slower.
		const within = 10 // bins of 0.5 ms
		worker := slowed.pooled(x.t, "worker_1").AppendECDF(nil)[within]
		got := slowed.pooled(x.t, "probe").AppendECDF(nil)[within]
		x.t.Logf("up to 5 ms: %.3f, and %.3f without the delay", got, worker*worker)
		if want := worker * worker; got > want-0.05 {
			x.errorf("the outcome probe takes up to 5 ms %.3f of the time, and %.3f of it without the delay", got, want)
		}
		lag := slowed.median(x.t, "worker_2") - slowed.median(x.t, "worker_1")
		if lag < time.Millisecond || lag > 3*time.Millisecond {
			x.errorf("worker_2's median is %v above that of worker_1, want 2 ms", lag)
		}
		agree(x, x.allFrames())
	})
}

// agree adds a fault if the observed and the calculated ΔQ of the outcome probe do not agree.
func agree(x *trial, frames frameList) {
	if fired := frames.fired(); len(fired) > 0 {
		x.errorf("%+v", fired)
	}
	if g := gap(frames); g > 0 {
		x.errorf("the bands of observed and calculated are %.3f apart", g)
	}
}

// gap returns the largest distance between the bands of the observed and the calculated mean ΔQ
// of the outcome probe in the last frame, over all edges. It returns 0 if they meet everywhere.
// The bands only cover chance, so gap subtracts two further uncertainties. The mean of the
// calculated ΔQs is a mean of the middles of their bounds, and differs from the exact one by at
// most half the width of these bounds. And a band has no width at delays that no instance had,
// although by chance a share of up to −ln α/n of all instances may have such delays.
func gap(frames frameList) float64 {
	const alpha = 1e-5 // probability of more than 4.417 standard errors

	p := frames.last("probe")
	o, c := p.Mean.Band, p.CalculatedMean.Band
	behind := frames[len(frames)-min(len(frames), p.CalculatedMean.Windows):]
	var n uint64
	for _, f := range behind {
		n += outcomeOf(f, "probe").Counts.Instances()
	}
	unseen := -math.Log(alpha) / float64(n)
	var worst float64
	for k := range o.Mean {
		hidden := unseen
		for _, f := range behind {
			hidden += outcomeOf(f, "probe").Calculated.At(k).Width() / 2 / float64(len(behind))
		}
		worst = max(worst, o.Lo[k]-c.Hi[k]-hidden, c.Lo[k]-o.Hi[k]-hidden)
	}
	return worst
}

// distance returns the largest difference of two distribution functions.
func distance(t *testing.T, a, b *dq.Observed) float64 {
	t.Helper()
	v, err := dq.Diverge(deltaQ(t, a), deltaQ(t, b))
	if err != nil {
		t.Fatal(err)
	}
	return v.Nominal
}

func deltaQ(t *testing.T, o *dq.Observed) *dq.DeltaQ {
	t.Helper()
	d, err := o.DeltaQ()
	if err != nil {
		t.Fatal(err)
	}
	return d
}
