package session_test

import (
	"bytes"
	"context"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/engine/session"
	"github.com/beamscope/beamscope/internal/files/recording"
	"github.com/beamscope/beamscope/internal/files/snapshot"
)

// requests is a system of 100 requests a second.
var requests = []string{"ftf", "rate=100"}

// replayScope is a scope file that changes during the run. Its history is short, so that a
// snapshot contains everything on which its frames depend. Its load exceeds what accumulates
// while the machine stands still: the source catches up on one second of that at most.
const replayScope = `
window: 200ms
history: 5
samples: 10
snapshots: {before: 3, after: 400ms}
diagram: |
  probe = f:probe(worker_1, worker_2);
outcomes:
  worker_1: {dmax: 100ms, bins: 200}
  worker_2: {dmax: 100ms, bins: 200}
  probe:
    dmax: 100ms
    bins: 200
    qta: {p50: 50ms, failure: 0.5}
    triggers: {load: 160}
`

func recordTo(w io.Writer) func() (*recording.Writer, error) {
	return func() (*recording.Writer, error) { return recording.NewWriter(w, recording.Header{}) }
}

// Replays of a recording and of a snapshot give exactly the frames that were seen live, even if
// windows, bins and requirements changed meanwhile.
func TestReplayEqualsLive(t *testing.T) {
	t.Parallel()
	var file bytes.Buffer
	r := start(t, requests, replayScope, session.Options{Record: recordTo(&file)})
	r.next(6)
	changed := strings.NewReplacer("window: 200ms", "window: 300ms", "worker_2: {dmax: 100ms", "worker_2: {dmax: 200ms",
		"p50: 50ms", "p50: 20ms").Replace(replayScope)
	r.apply(changed)
	r.next(8)
	r.set("rate", "1000")
	r.await(t, "the snapshot", func() bool { return r.snapshots() > 0 })
	shown := r.onlySnapshot("load")

	live := r.allFrames()
	sameFrames(t, "recording", live, replay(t, file.Bytes(), session.Replay{}))
	sameFrames(t, "snapshot", live[shown[0].Number:][:len(shown)], shown)
	if len(shown) < 5 { // 3 before, the one that fired, and those of 400 ms after it
		t.Errorf("the snapshot shows %d frames", len(shown))
	}
}

// Another configuration gives different verdicts on the same data.
func TestReplayWithAnotherConfiguration(t *testing.T) {
	t.Parallel()
	var file bytes.Buffer
	r := start(t, requests, replayScope, session.Options{Record: recordTo(&file)})
	r.next(30)
	r.stop()
	live := r.allFrames()
	if fired := live.fired(); len(fired) > 0 {
		t.Errorf("live: %+v", fired)
	}

	other := parse(t, strings.NewReplacer("f:probe(worker_1, worker_2)", "worker_1 -> worker_2",
		"history: 5", "history: 30", "p50: 50ms", "p50: 0.5ms", "load: 160", "divergence: true, qta: true").Replace(replayScope))
	anew := frameList(replay(t, file.Bytes(), session.Replay{Config: &other}))
	for _, kind := range []string{"qta", "divergence"} {
		if anew.firing(kind) == nil {
			t.Errorf("replayed: %s has not fired: %+v", kind, anew.fired())
		}
	}
	counts := func(frames frameList) (all [][]uint64) {
		for _, f := range frames {
			all = append(all, outcomeOf(f, "probe").Counts.Bins)
		}
		return all
	}
	if diff := cmp.Diff(counts(live), counts(anew)); diff != "" {
		t.Errorf("the data differs, -live +replayed:\n%s", diff)
	}
}

// A replay whose context is done gives no more notices about its scope file.
func TestReplayWithoutNoticesAfterCancel(t *testing.T) {
	var file bytes.Buffer
	w, err := recording.NewWriter(&file, recording.Header{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Config(&recording.Config{Plan: outcome.Plan{Window: time.Second}}); err != nil {
		t.Fatal(err)
	}
	in, err := recording.NewReader(&file)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	said := 0
	c := parse(t, "outcomes: {a: {}, b: {}, c: {}}")
	r := session.Replay{Config: &c, Notify: func(outcome.Notice) { said++; cancel() }}
	if err := r.Play(ctx, in); err != nil || said != 1 {
		t.Errorf("%d notices, error %v", said, err)
	}
}

// replay returns the frames of a recording.
func replay(t *testing.T, file []byte, p session.Replay) frameList {
	t.Helper()
	in, err := recording.NewReader(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	return play(t, in, p)
}

func play(t *testing.T, entries session.Entries, p session.Replay) frameList {
	t.Helper()
	observerLog := newObserverLog()
	p.Observers = []scope.Observer{observerLog}
	if err := p.Play(t.Context(), entries); err != nil {
		t.Fatal(err)
	}
	return observerLog.allFrames()
}

// replaySnapshot returns the frames that a snapshot shows, without those that only serve the
// history.
func replaySnapshot(t *testing.T, path string) frameList {
	t.Helper()
	in, err := snapshot.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	frames := play(t, in, session.Replay{First: in.Snapshot.First})
	return frames[in.Snapshot.Prelude:]
}

// sameFrames checks that frames are equal in every respect.
func sameFrames(t *testing.T, what string, want, got frameList) {
	t.Helper()
	if len(want) != len(got) {
		t.Fatalf("%s: %d frames, want %d", what, len(got), len(want))
	}
	everything := cmp.Exporter(func(reflect.Type) bool { return true })
	for i := range want {
		if diff := cmp.Diff(want[i], got[i], everything, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("%s: frame %d of %d, -live +replayed:\n%s", what, i, len(want), diff)
		}
	}
	if !slices.ContainsFunc(want, func(f *scope.Frame) bool { return len(f.Fired)+len(f.Notices) > 0 }) {
		t.Errorf("%s: these frames have no instances", what)
	}
}
