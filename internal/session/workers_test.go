package session_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/scope"
	"github.com/beamscope/beamscope/internal/session"
)

// workersScope is the scope file of two workers side by side. Bins are of half a
// millisecond, an eighth of what a worker takes in the mean. The bounds are 4.417
// standard errors: of independent windows, chance puts the truth outside of them once in
// 10⁵ times. The history is as
// long as what is looked at after a change.
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

// A trial is an experiment with two workers, and what was found wrong.
type trial struct {
	*rig
	faults []string
}

func (x *trial) errorf(format string, args ...any) {
	x.faults = append(x.faults, fmt.Sprintf(format, args...))
}

// try does an experiment, and does it again where it found something wrong while the
// machine stood still: then both workers are late at the same time, which is the
// very dependence that must not be found otherwise. It is known by the timeouts, as
// a worker takes 80 ms more than its 4 with a probability of e⁻²⁰.
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
		if !x.reel().timedOut() {
			t.Fatalf("%s\n%v", strings.Join(x.faults, "\n"), x)
		}
		t.Logf("once more, as the machine stood still: %s", strings.Join(x.faults, "; "))
	}
	t.Errorf("the machine stands still all the time: no result in %d tries", tries)
}

func (r reel) timedOut() bool {
	return slices.ContainsFunc(r, func(f *scope.Frame) bool {
		return slices.ContainsFunc(f.Probes, func(p scope.Probe) bool { return p.Counts.Timeouts > 0 })
	})
}

// Whoever takes the first to finish for a sequence is told so; with the right
// diagram, what is calculated is what is observed (thesis, 6.2.1).
func TestWrongOperator(t *testing.T) {
	t.Parallel()
	try(t, "ftf", workersScope(inSequence), func(x *trial) {
		wrong := x.fires("divergence")
		x.t.Logf("frame %d: %s", wrong.Number, wrong.Fired[0].Cause)
		if cause := wrong.Fired[0].Cause; !strings.Contains(cause, "faster than the calculated one") {
			x.errorf("cause %q, want that the observed ΔQ is the faster one", cause)
		}
		if gap(x.reel()) == 0 {
			x.errorf("the bands of a sequence and of the first to finish meet everywhere")
		}

		before := len(x.reel())
		x.apply(workersScope(firstToFinish))
		x.await(x.t, "the end of the incident", func() bool { return len(x.reel().last("probe").Active) == 0 })
		if !x.reel()[before:].noticed("another diagram: every calculated history begins anew") {
			x.errorf("no frame says that the diagram is another one")
		}
		agree(x, x.next(15))
	})
}

// The first to finish does not care how slow the other worker is (thesis, 6.2.1).
func TestFirstToFinishIsUnmoved(t *testing.T) {
	t.Parallel()
	const slow = 20 * time.Millisecond

	try(t, "ftf", workersScope(firstToFinish), func(x *trial) {
		before := x.next(10)
		x.set("slow_2", "20")
		after := x.next(15)

		// The medians of 1000 and 1500 delays are known to within 0.6 ms. The rest
		// of the margin is for what a busy machine adds to one of them.
		rise := after.median(x.t, "worker_2") - before.median(x.t, "worker_2")
		if rise < slow-3*time.Millisecond || rise > slow+10*time.Millisecond {
			x.errorf("worker_2's median has risen by %v, want %v", rise, slow)
		}
		// Only where worker 1 takes longer than 20 ms, e⁻⁵ of the time, can the other
		// one be first.
		d := distance(x.t, after.pooled(x.t, "probe"), after.pooled(x.t, "worker_1"))
		x.t.Logf("worker_2's median has risen by %v, the probe is %.3f apart from worker_1", rise, d)
		if d > 0.05 {
			x.errorf("the probe is %.3f apart from worker_1 alone", d)
		}
		agree(x, x.reel())
	})
}

// All to finish is as slow as the slower worker: 2 ms of 4 are seen (thesis, 6.2.2).
func TestAllToFinishFollows(t *testing.T) {
	t.Parallel()
	try(t, "atf", workersScope(allToFinish), func(x *trial) {
		x.next(5)
		x.set("slow_2", "2")
		slowed := x.next(25)

		// If worker 2 were as fast as worker 1, the probe would take no longer than
		// 5 ms as often as both of two like worker 1 do: 0.51 of the time. It does so
		// 0.38 of the time; the difference has a standard deviation of 0.02. Both are
		// of the same windows: from others, it might be the machine that is slower.
		const within = 10 // bins of 0.5 ms
		worker := slowed.pooled(x.t, "worker_1").AppendECDF(nil)[within]
		got := slowed.pooled(x.t, "probe").AppendECDF(nil)[within]
		x.t.Logf("up to 5 ms: %.3f, and %.3f without the delay", got, worker*worker)
		if want := worker * worker; got > want-0.05 {
			x.errorf("the probe takes up to 5 ms %.3f of the time, and %.3f of it without the delay", got, want)
		}
		lag := slowed.median(x.t, "worker_2") - slowed.median(x.t, "worker_1")
		if lag < time.Millisecond || lag > 3*time.Millisecond {
			x.errorf("worker_2's median is %v above that of worker_1, want 2 ms", lag)
		}
		agree(x, x.reel())
	})
}

// agree finds fault where the observed and the calculated ΔQ of the probe do not
// agree.
func agree(x *trial, frames reel) {
	if fired := frames.fired(); len(fired) > 0 {
		x.errorf("%+v", fired)
	}
	if g := gap(frames); g > 0 {
		x.errorf("the bands of observed and calculated are %.3f apart", g)
	}
}

// gap returns by how much the bands of the observed and the calculated mean ΔQ of the
// probe miss each other, in the last frame, at the edge where that is the most; 0
// where they meet everywhere.
//
// The bands are about chance. Besides, the mean of the calculated ΔQs is one of the
// middles of their bounds, and apart from the exact one by half of what is between
// these at the most. And a band has no width where none of the instances came so
// early, or so late: by chance, a share of −ln α/n of what is to come may all the same.
func gap(frames reel) float64 {
	const alpha = 1e-5 // the chance of more than 4.417 standard errors

	p := frames.last("probe")
	o, c := p.Mean.Band, p.CalculatedMean.Band
	behind := frames[len(frames)-min(len(frames), p.CalculatedMean.Windows):]
	var n uint64
	for _, f := range behind {
		n += probe(f, "probe").Counts.Instances()
	}
	unseen := -math.Log(alpha) / float64(n)
	var worst float64
	for k := range o.Mean {
		hidden := unseen
		for _, f := range behind {
			hidden += probe(f, "probe").Calculated.At(k).Width() / 2 / float64(len(behind))
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
