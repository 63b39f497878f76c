package session_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/engine/session"
	"github.com/beamscope/beamscope/internal/files/snapshot"
	"github.com/beamscope/beamscope/internal/host/monotonic"
)

// sharedWorker is a system of two queues that share a worker. The worker sleeps 3 ms on average
// for each message in each queue, so it can handle 167 messages a second.
var sharedWorker = []string{"mm1k", "shared=true", "loops=0", "delay=3", "k=400"}

// Loads of that system: 24 % and 72 % of the worker's capacity, and three times the capacity.
const (
	lowLoad  = "40"
	highLoad = "120"
	overload = "500"
)

// sharedScope is the scope file of that system. The queues are so long and the QTA so generous
// that a machine which stands still for a second does not look like overload: the worker handles
// the backlog in less time than the QTA allows. Bins are narrow because only the divergence
// beyond their width counts. Bounds are wide, so that chance puts the truth of independent
// windows outside only once in 10⁵ times.
const sharedScope = `
history: 300
window: 1s
hold_off: 2m
standard_errors: 4.417
diagram: |
  probe = worker_1 -> worker_2;
snapshots: {before: 6, after: 20s}
outcomes:
  worker_1: {dmax: 4s, bins: 8000}
  worker_2: {dmax: 4s, bins: 8000}
  probe:
    dmax: 8s
    bins: 16000
    qta: {p25: 1.5s, p50: 1.75s, p75: 2s, failure: 0.05}
    triggers: {qta: true, failure: 0.05, divergence: true}
`

// Observed and calculated ΔQ agree at low load. At higher load they diverge, which is a sign of
// overload before anything is wrong. Overload itself violates the QTA, even for a while after the
// load has gone (thesis, 6.1).
func TestDivergenceBeforeOverload(t *testing.T) {
	t.Parallel()
	r := start(t, append(sharedWorker, "rate="+lowLoad), sharedScope, session.Options{})

	r.next(10)
	low := r.allFrames()
	if fired := low.fired(); len(fired) > 0 {
		t.Errorf("at low load: %+v", fired)
	}
	if g := gap(low); g > 0 {
		t.Errorf("at low load, the bands of observed and calculated are %.3f apart", g)
	}

	r.set("rate", highLoad)
	diverged := r.fires("divergence")
	t.Logf("%d windows at low load, then %d: %s", len(low), int(diverged.Number)-len(low)+1, diverged.Fired[0].Cause)
	nothingWrong(t, r.allFrames()[:diverged.Number+1])

	r.set("rate", overload)
	violated := r.fires("qta")
	r.fires("failure")
	r.set("rate", lowLoad)
	relieved := monotonic.Now()

	r.await(t, "the snapshot", func() bool { return r.snapshots() > 0 })
	shown := r.onlySnapshot("divergence", "failure", "qta")
	thereAndBack(t, shown, violated.Number, relieved)
}

// nothingWrong checks that the divergence is the only warning.
func nothingWrong(t *testing.T, frames frameList) {
	t.Helper()
	if fired := frames.fired(); len(fired) != 1 {
		t.Errorf("fired: %+v, want the divergence alone", fired)
	}
	for _, f := range frames {
		for _, p := range f.Outcomes {
			if p.Counts.Failures+p.Counts.Timeouts > 0 {
				t.Errorf("frame %d: %s has %d failures and %d timeouts before the divergence",
					f.Number, p.Name, p.Counts.Failures, p.Counts.Timeouts)
			}
		}
		if j := outcomeOf(f, "probe").Judgement; j != nil && j.Met != dq.Yes {
			t.Errorf("frame %d: the QTA is not met before the divergence: %v", f.Number, j.Met)
		}
	}
}

// onlySnapshot ends the session, and returns the shown frames of its only snapshot. It checks
// that the kinds of the snapshot's causes, sorted by name, are these.
func (r *rig) onlySnapshot(causes ...string) frameList {
	r.t.Helper()
	r.stop()
	infos, err := snapshot.List(r.folder())
	if err != nil {
		r.t.Fatal(err)
	}
	if len(infos) != 1 {
		r.t.Fatalf("%d snapshots, want 1: %+v", len(infos), infos)
	}
	info := infos[0]
	var kinds []string
	for _, c := range info.Causes {
		kinds = append(kinds, c.Trigger)
	}
	slices.Sort(kinds)
	if diff := cmp.Diff(causes, kinds); diff != "" || info.Err != nil {
		r.t.Errorf("causes, -want +got:\n%s\nerror: %v", diff, info.Err)
	}
	return replaySnapshot(r.t, info.Path)
}

// thereAndBack checks that a snapshot shows the windows before the violation of a QTA, its
// continuation after the load has gone, and its end.
func thereAndBack(t *testing.T, shown frameList, violated uint64, relieved int64) {
	t.Helper()
	met := func(f *scope.Frame) dq.Verdict {
		if j := outcomeOf(f, "probe").Judgement; j != nil {
			return j.Met
		}
		return dq.CannotTell
	}
	first := slices.IndexFunc(shown, func(f *scope.Frame) bool { return met(f) == dq.No })
	if first < 1 || shown[first].Number != violated {
		t.Fatalf("%d frames before the violation, which is that of frame %d", first, violated)
	}
	// More messages wait than the worker can handle within the QTA, although none is dropped any
	// more.
	lingers := 0
	for _, f := range shown {
		if f.Window.From >= relieved && met(f) == dq.No && outcomeOf(f, "probe").Counts.Failures == 0 {
			lingers++
		}
	}
	t.Logf("%d windows before the violation, %d of it after the load had gone, of %d", first, lingers, len(shown))
	if lingers == 0 {
		t.Error("the QTA is met as soon as the load is gone")
	}
	for _, f := range shown[len(shown)-3:] {
		if met(f) != dq.Yes {
			t.Errorf("frame %d, one of the last: QTA met: %v", f.Number, met(f))
		}
	}
}
