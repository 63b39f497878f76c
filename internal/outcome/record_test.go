package outcome

import (
	"errors"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/explain"
	"github.com/beamscope/beamscope/internal/trace"
)

// A record keeps no more than so many events, and what it gives up is lost.
func TestRecordIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := record{most: 1024}
		now, added, lost := int64(0), uint64(0), uint64(0)
		for range rapid.IntRange(1, 40).Draw(t, "reads") {
			n := rapid.SampledFrom([]int{0, 1, 7, 8, 25, 256, 3000}).Draw(t, "events")
			events := make([]bpf.Event, n)
			for i := range events {
				now++
				events[i].Time = now
			}
			over := rapid.Uint64Range(0, 3).Draw(t, "lost")
			if err := r.read(func(fn func([]bpf.Event)) (bpf.Loss, error) {
				fn(events[:n/2])
				fn(events[n/2:])
				return bpf.Loss{Events: over, From: now - int64(n), To: now}, nil
			}); err != nil {
				t.Fatal(err)
			}
			added, lost = added+uint64(n), lost+over
			if r.held > r.most {
				t.Fatalf("%d events are held", r.held)
			}
		}
		if got, want := r.takeLost(), lost+added-uint64(r.held); got != want {
			t.Fatalf("%d lost, want %d", got, want)
		}
		if again := r.takeLost(); again != 0 {
			t.Fatalf("%d lost again", again)
		}
		r.forget(math.MaxInt64)
		if r.held != 0 || len(r.chunks) != 0 {
			t.Fatalf("%d events are held after all were forgotten", r.held)
		}
		if lost := r.takeLost(); lost != 0 {
			t.Fatalf("what was forgotten is lost: %d", lost)
		}
	})
}

// What could not be read is said, and what could be is kept.
func TestRecordReadError(t *testing.T) {
	r := record{most: 1024}
	broken := errors.New("broken")
	err := r.read(func(fn func([]bpf.Event)) (bpf.Loss, error) {
		fn([]bpf.Event{{Time: 1}})
		return bpf.Loss{}, broken
	})
	if !errors.Is(err, broken) || r.held != 1 {
		t.Errorf("got %v, and %d events are held", err, r.held)
	}
}

// What happened while nothing was to be explained is not known, and nobody is taken to have
// stayed as it was before.
func TestRecordSkips(t *testing.T) {
	r := record{most: 1024}
	step := func(how func(func(func([]bpf.Event)) (bpf.Loss, error)) error, events ...bpf.Event) {
		t.Helper()
		for i := range events {
			events[i].VM, events[i].Process = 1, 7
		}
		if err := how(func(fn func([]bpf.Event)) (bpf.Loss, error) { fn(events); return bpf.Loss{}, nil }); err != nil {
			t.Fatal(err)
		}
	}
	step(r.read, bpf.Event{Time: 10, Kind: bpf.EventWatch}, bpf.Event{Time: 20, Kind: bpf.EventIn})
	step(r.skip, bpf.Event{Time: 1000, Kind: bpf.EventGCStart})
	step(r.read)
	step(r.read, bpf.Event{Time: 90000, Kind: bpf.EventOut, State: bpf.StateKnown})
	got := r.explain(explain.Instance{VM: 1, ID: 1, Start: 30000, End: 80000, Owner: 7})
	for _, s := range got.Spans[1:] {
		if s.Kind != trace.Unexplained {
			t.Errorf("%v", s)
		}
	}
	if lost := r.takeLost(); lost > 0 {
		t.Errorf("%d lost", lost)
	}
}

// That processes found no room to be watched is said once.
func TestNoteUnwatched(t *testing.T) {
	var s VMSource
	for _, n := range []uint64{0, 3, 0, 5} {
		s.noteUnwatched(bpf.Others{Unwatched: n})
	}
	if len(s.notices) != 1 || !strings.Contains(s.notices[0].Text, "no room") {
		t.Errorf("%v", s.notices)
	}
}

// The worst of each outcome and VM are explained, where that is asked for.
func TestWorstExplained(t *testing.T) {
	st := &stage{specs: []Spec{{Name: "yes", Span: "yes", Explain: true}, {Name: "no", Span: "no"}}}
	a, b := VM{PID: 1}, VM{PID: 2}
	var all []Instance
	for n := range int64(MaxWorst + 5) {
		all = append(all, Instance{Outcome: "yes", VM: a, Start: 0, End: 100 + n, ID: uint64(n)}, Instance{Outcome: "no", VM: a, End: n})
	}
	all[0].Status, all[2].Status = Failure, Timeout // the fastest ones
	all = append(all, Instance{Outcome: "yes", VM: b, End: 1, ID: 77}, Instance{Outcome: "another"})
	got := make(map[int]bool)
	for _, i := range worstExplained(st, all) {
		got[i] = true
	}
	for i := range all {
		n := i / 2
		want := i < 2*(MaxWorst+5) && i%2 == 0 && (n < 2 || n >= 7) || all[i].ID == 77
		if got[i] != want {
			t.Errorf("instance %d: explained %t, want %t", i, got[i], want)
		}
	}
}

// The processes of a trace are named, those that are known.
func TestNameTrace(t *testing.T) {
	tr := &trace.Trace{Spans: []trace.Span{{Parent: -1, Process: 1}, {Kind: trace.Ready, Process: 1, Other: 2}, {Kind: trace.Waiting, Process: 3}}}
	nameTrace(tr, func(p PID) string { return map[PID]string{1: "one", 2: "two"}[p] })
	for i, want := range [][2]string{{"one", ""}, {"one", "two"}, {"", ""}} {
		if s := tr.Spans[i]; s.Name != want[0] || s.OtherName != want[1] {
			t.Errorf("span %d: %q, %q, want %q", i, s.Name, s.OtherName, want)
		}
	}
}
