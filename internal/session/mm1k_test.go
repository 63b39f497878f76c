package session_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/monotonic"
	"github.com/beamscope/beamscope/internal/scope"
	"github.com/beamscope/beamscope/internal/session"
	"github.com/beamscope/beamscope/internal/snapshot"
)

// Two queues that share a worker, who takes 3 ms asleep in the mean for each message
// in each queue: 167 messages a second are what it can do.
var sharedWorker = []string{"mm1k", "shared=true", "loops=0", "delay=3", "k=400"}

// Its load: at 24 % and 72 % of what the worker can do, and at three times that.
const (
	lowLoad  = "40"
	highLoad = "120"
	overload = "500"
)

// sharedScope is its scope file. The queues have so much room, and the QTA allows so
// much, that a machine which stands still for a second does not look like overload:
// what piles up is worked off in less time than the QTA leaves. Bins are narrow, as
// the divergence that counts is that beyond what they may hide. Bounds are wide, so
// that chance puts the truth of independent windows outside of them once in 10⁵ times.
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

// Observed and calculated agree while there is little to do. When there is more, they
// diverge: a sign of overload before anything is wrong. Overload itself breaks the
// QTA, and goes on doing so for a while after the load is gone (thesis, 6.1).
func TestOverloadComing(t *testing.T) {
	t.Parallel()
	r := start(t, append(sharedWorker, "rate="+lowLoad), sharedScope, session.Options{})

	r.next(10)
	low := r.reel()
	if fired := low.fired(); len(fired) > 0 {
		t.Errorf("at low load: %+v", fired)
	}
	if g := gap(low); g > 0 {
		t.Errorf("at low load, the bands of observed and calculated are %.3f apart", g)
	}

	r.set("rate", highLoad)
	diverged := r.fires("divergence")
	t.Logf("%d windows at low load, then %d: %s", len(low), int(diverged.Number)-len(low)+1, diverged.Fired[0].Cause)
	nothingWrong(t, r.reel()[:diverged.Number+1])

	r.set("rate", overload)
	violated := r.fires("qta")
	r.fires("failure")
	r.set("rate", lowLoad)
	relieved := monotonic.Now()

	r.await(t, "the snapshot", func() bool { return r.snapshots() > 0 })
	shown := r.onlySnapshot("divergence", "failure", "qta")
	thereAndBack(t, shown, violated.Number, relieved)
}

// nothingWrong checks that nothing but the divergence tells of what is to come.
func nothingWrong(t *testing.T, frames reel) {
	t.Helper()
	if fired := frames.fired(); len(fired) != 1 {
		t.Errorf("fired: %+v, want the divergence alone", fired)
	}
	for _, f := range frames {
		for _, p := range f.Probes {
			if p.Counts.Failures+p.Counts.Timeouts > 0 {
				t.Errorf("frame %d: %s has %d failures and %d timeouts before the divergence",
					f.Number, p.Name, p.Counts.Failures, p.Counts.Timeouts)
			}
		}
		if j := probe(f, "probe").Judgement; j != nil && j.Met != dq.Yes {
			t.Errorf("frame %d: the QTA is not met before the divergence: %v", f.Number, j.Met)
		}
	}
}

// onlySnapshot ends the session, and returns the frames that are shown of the only
// snapshot that it made, whose causes are triggers of these kinds, in the order of
// the alphabet.
func (r *rig) onlySnapshot(causes ...string) reel {
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

// thereAndBack checks what a snapshot shows of the violation of a QTA: the windows
// before, how it goes on when the load is gone already, and the end of it.
func thereAndBack(t *testing.T, shown reel, violated uint64, relieved int64) {
	t.Helper()
	met := func(f *scope.Frame) dq.Verdict {
		if j := probe(f, "probe").Judgement; j != nil {
			return j.Met
		}
		return dq.CannotTell
	}
	first := slices.IndexFunc(shown, func(f *scope.Frame) bool { return met(f) == dq.No })
	if first < 1 || shown[first].Number != violated {
		t.Fatalf("%d frames before the violation, which is that of frame %d", first, violated)
	}
	// More messages are there than can be worked off in the time that they are
	// allowed, and none is dropped any more.
	lingers := 0
	for _, f := range shown {
		if f.Window.From >= relieved && met(f) == dq.No && probe(f, "probe").Counts.Failures == 0 {
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
