package vmsource

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/beamscope/beamscope/internal/engine/outcome"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/explain"
	"github.com/beamscope/beamscope/internal/explain/trace"
	"github.com/beamscope/beamscope/internal/host/monotonic"
)

// A fakeEvents is a log of events.
type fakeEvents func(func([]bpf.Event)) (bpf.Loss, error)

func (f fakeEvents) Events(_ int, fn func([]bpf.Event)) (bpf.Loss, error) { return f(fn) }

func (f fakeEvents) DropEvents() (dropped bpf.Loss, err error) {
	missing, err := f(func(events []bpf.Event) { dropped.Add(lossOf(events)) })
	dropped.Add(missing)
	return dropped, err
}

// A record keeps a limited number of events. Dropped events count as lost.
func TestRecordIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRecord(nil, nil)
		r.most = 1024
		now, added, lost := int64(0), uint64(0), uint64(0)
		for range rapid.IntRange(1, 40).Draw(t, "reads") {
			n := rapid.SampledFrom([]int{0, 1, 7, 8, 25, 256, 3000}).Draw(t, "events")
			events := make([]bpf.Event, n)
			for i := range events {
				now++
				events[i].Time = now
			}
			over := rapid.Uint64Range(0, 3).Draw(t, "lost")
			if err := r.read(fakeEvents(func(fn func([]bpf.Event)) (bpf.Loss, error) {
				fn(events[:n/2])
				fn(events[n/2:])
				return bpf.Loss{Events: over, From: now - int64(n), To: now}, nil
			})); err != nil {
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
			t.Fatalf("%d lost counted again", again)
		}
		r.forget(math.MaxInt64)
		if r.held != 0 || len(r.chunks) != 0 {
			t.Fatalf("%d events are held after all were dropped", r.held)
		}
		if lost := r.takeLost(); lost != 0 {
			t.Fatalf("events dropped by forget count as lost: %d", lost)
		}
	})
}

// Time whose events were dropped is unexplained, and the reason is given.
func TestRecordGivenUpIsUnexplained(t *testing.T) {
	r := newRecord(nil, nil)
	r.most = 2
	events := []bpf.Event{
		{Time: 10, VM: 1, Kind: bpf.EventWatch, Process: 2},
		{Time: 20, VM: 1, Kind: bpf.EventGCStart, Process: 2},
		{Time: 30, VM: 1, Kind: bpf.EventGCEnd, Process: 2},
		{Time: 40, VM: 1, Kind: bpf.EventGCStart, Process: 2},
	}
	r.add(events, bpf.Loss{})
	got := r.explain(explain.Instance{VM: 1, Start: 15, End: 40, Owner: 2})
	const why = "assumed: the process that started the span still has it" // the end of the slice was not seen
	want := &trace.Trace{Spans: []trace.Span{
		{Parent: -1, Kind: trace.Root, Start: 15, End: 40, Process: 2},
		{Parent: 0, Kind: trace.Unexplained, Start: 15, End: 21, Process: 2, Mark: trace.Inferred, Reason: "too long ago: beamscope no longer has these events"},
		{Parent: 0, Kind: trace.GC, Start: 21, End: 30, Process: 2, Mark: trace.Inferred, Reason: why},
		{Parent: 0, Kind: trace.Running, Start: 30, End: 40, Process: 2, Mark: trace.Inferred, Reason: why},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A read error is reported, and the events that could be read are kept.
func TestRecordReadError(t *testing.T) {
	r := newRecord(nil, nil)
	r.most = 1024
	broken := errors.New("broken")
	err := r.read(fakeEvents(func(fn func([]bpf.Event)) (bpf.Loss, error) {
		fn([]bpf.Event{{Time: 1}})
		return bpf.Loss{}, broken
	}))
	if !errors.Is(err, broken) || r.held != 1 {
		t.Errorf("got %v, and %d events are held", err, r.held)
	}
}

// After a VM has ended, nothing remains for the next VM with the same pid.
func TestRecordForgetsVM(t *testing.T) {
	r := newRecord(nil, nil)
	r.most = 1024
	r.add([]bpf.Event{
		{VM: 1, Kind: bpf.EventWatch, Process: 5, Time: 10}, {VM: 1, Kind: bpf.EventGCStart, Process: 5, Time: 20},
		{VM: 2, Kind: bpf.EventWatch, Process: 5, Time: 10}, {VM: 2, Kind: bpf.EventGCStart, Process: 5, Time: 20},
	}, bpf.Loss{})
	r.forgetVM(1)
	for vm, want := range map[int]trace.Kind{1: trace.Unexplained, 2: trace.Running} {
		tr := r.explain(explain.Instance{VM: vm, Start: 10, End: 20, Owner: 5})
		if got := tr.Spans[1].Kind; got != want {
			t.Errorf("VM %d: kind %d, want %d", vm, got, want)
		}
	}
}

// Time while nothing was explained is unknown. No process is assumed to have stayed in its
// earlier state.
func TestRecordSkips(t *testing.T) {
	r := newRecord(nil, nil)
	r.most = 1024
	step := func(how func(eventLog) error, events ...bpf.Event) {
		t.Helper()
		for i := range events {
			events[i].VM, events[i].Process = 1, 7
		}
		if err := how(fakeEvents(func(fn func([]bpf.Event)) (bpf.Loss, error) { fn(events); return bpf.Loss{}, nil })); err != nil {
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

// One notice reports that processes could not be tracked for lack of space.
func TestNoteUnwatched(t *testing.T) {
	var s Source
	for _, n := range []uint64{0, 3, 0, 5} {
		s.noteUnwatched(bpf.Others{Unwatched: n})
	}
	if len(s.notices) != 1 || !strings.Contains(s.notices[0].Text, "could not be tracked") {
		t.Errorf("%v", s.notices)
	}
}

// The worst instances of each outcome and VM are explained if the spec requests it.
func TestWorstExplained(t *testing.T) {
	st := &stage{specs: []outcome.Spec{{Name: "yes", Span: "yes", Explain: true}, {Name: "no", Span: "no"}}}
	a, b := outcome.VM{PID: 1}, outcome.VM{PID: 2}
	var all []outcome.Instance
	for n := range int64(outcome.MaxWorst + 5) {
		all = append(all, outcome.Instance{Outcome: "yes", VM: a, Start: 0, End: 100 + n, ID: uint64(n)}, outcome.Instance{Outcome: "no", VM: a, End: n})
	}
	all[0].Status, all[2].Status = outcome.Failure, outcome.Timeout // the fastest ones
	all = append(all, outcome.Instance{Outcome: "yes", VM: b, End: 1, ID: 77}, outcome.Instance{Outcome: "another"})
	got := make(map[int]bool)
	for _, i := range worstExplained(st, all) {
		got[i] = true
	}
	for i := range all {
		n := i / 2
		want := i < 2*(outcome.MaxWorst+5) && i%2 == 0 && (n < 2 || n >= 7) || all[i].ID == 77
		if got[i] != want {
			t.Errorf("instance %d: explained %t, want %t", i, got[i], want)
		}
	}
}

// The number of spans never exceeds the limit. Each instance has a trace as long as there is room
// at least for a reason.
func TestTracesAreBounded(t *testing.T) {
	st := &stage{specs: []outcome.Spec{{Name: "slow", Span: "slow", Explain: true}, {Name: "fast", Span: "fast", Explain: true}}}
	rapid.Check(t, func(t *rapid.T) {
		var all []outcome.Instance
		for n := range rapid.IntRange(1, 40).Draw(t, "instances") {
			name, elapsed := "slow", int64(1000)
			if rapid.Bool().Draw(t, "fast") {
				name, elapsed = "fast", 0
			}
			all = append(all, outcome.Instance{Outcome: name, VM: outcome.VM{PID: 1}, End: elapsed + rapid.Int64Range(0, 100).Draw(t, "elapsed"), ID: uint64(n)})
		}
		order := worstExplained(st, all)
		most := rapid.IntRange(0, 300).Draw(t, "most")
		size := make(map[uint64]int)
		traceAll(order, all, most, func(i *outcome.Instance) *trace.Trace {
			size[i.ID] = rapid.IntRange(3, 30).Draw(t, "spans")
			return &trace.Trace{Spans: make([]trace.Span, size[i.ID])}
		})
		spans := 0
		for _, at := range order {
			i := &all[at]
			switch {
			case i.Trace == nil:
				if most >= bareSpans*len(order) {
					t.Fatalf("#%d has no trace", i.ID)
				}
				continue
			case len(i.Trace.Spans) <= bareSpans:
				if err := i.Trace.Check(); err != nil {
					t.Fatal(err)
				}
				if shares := i.Trace.Shares(); len(shares) > 0 && (shares[0].Kind != trace.Unexplained || shares[0].Reason != whyNoRoom) {
					t.Fatalf("#%d: %+v", i.ID, shares)
				}
			case len(i.Trace.Spans) != size[i.ID]:
				t.Fatalf("#%d has %d spans of %d", i.ID, len(i.Trace.Spans), size[i.ID])
			}
			spans += len(i.Trace.Spans)
		}
		if spans > most {
			t.Fatalf("%d spans, more than %d", spans, most)
		}
	})
}

// The worst instances of each outcome come before the second worst of any, however slow those
// are.
func TestWorstExplainedInTurn(t *testing.T) {
	st := &stage{specs: []outcome.Spec{{Name: "slow", Span: "slow", Explain: true}, {Name: "fast", Span: "fast", Explain: true}}}
	all := []outcome.Instance{
		{Outcome: "slow", End: 500}, {Outcome: "slow", End: 700}, {Outcome: "slow", End: 600},
		{Outcome: "fast", End: 6}, {Outcome: "fast", End: 5},
	}
	if got, want := worstExplained(st, all), []int{1, 3, 2, 4, 0}; !slices.Equal(got, want) {
		t.Errorf("%v are explained, want %v", got, want)
	}
}

// The known processes of a trace have names.
func TestNameTrace(t *testing.T) {
	tr := &trace.Trace{Spans: []trace.Span{{Parent: -1, Process: 1}, {Kind: trace.Ready, Process: 1, Other: 2}, {Kind: trace.Waiting, Process: 3}}}
	nameTrace(tr, func(p outcome.PID) string { return map[outcome.PID]string{1: "one", 2: "two"}[p] })
	for i, want := range [][2]string{{"one", ""}, {"one", "two"}, {"", ""}} {
		if s := tr.Spans[i]; s.Name != want[0] || s.OtherName != want[1] {
			t.Errorf("span %d: %q, %q, want %q", i, s.Name, s.OtherName, want)
		}
	}
}

// A pace spends at most its part of all time, and a quarter of a second at once.
func TestPace(t *testing.T) {
	const second = int64(time.Second)
	p := pace{part: 2}
	for _, step := range []struct {
		at, took int64
		want     bool
	}{
		{10 * second, second / 8, true},
		{11 * second, 2 * second, true},   // it has a quarter of a second
		{14 * second, 0, false},           // -1.75 s and 1.5
		{14*second + second/2, 1, false},  // 0
		{15 * second, second / 10, true},  // a quarter
		{15*second + 1, second / 4, true}, // less than that
		{15*second + 2, 0, false},
	} {
		if got := p.hasTime(step.at); got != step.want {
			t.Errorf("at %v: time %v, want %v; %+v", time.Duration(step.at), got, step.want, p)
		}
		p.spend(step.took)
	}
}

// ticking returns a clock that every second look advances: the one after something was done.
func ticking(by time.Duration) func() int64 {
	at, looks := int64(time.Hour), 0
	return func() int64 {
		if looks++; looks%2 == 0 {
			at += int64(by)
		}
		return at
	}
}

// However many events there are, only as many are added as there is time for. The others are lost, and a
// window need not wait for them.
func TestEventsAreAddedWhileThereIsTime(t *testing.T) {
	r := newRecord(nil, nil)
	r.now = ticking(50 * time.Millisecond)
	const all = 100 * addedAtOnce
	events := make([]bpf.Event, all)
	for i := range events {
		events[i] = bpf.Event{Time: int64(i + 1)}
	}
	err := r.read(fakeEvents(func(add func([]bpf.Event)) (bpf.Loss, error) {
		add(events)
		return bpf.Loss{Events: 3, From: 0, To: 1}, nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	// A quarter of a second at first, and half of the time that adding takes.
	if most := 20 * addedAtOnce; r.held == 0 || r.held > most || r.held%addedAtOnce != 0 {
		t.Errorf("%d events are held, want at most %d", r.held, most)
	}
	if lost, want := r.takeLost(), uint64(all-r.held+3); lost != want {
		t.Errorf("%d lost, want %d", lost, want)
	}
}

// Events that are added in parts have the same history as if they were added at once, also if some are missing
// among them.
func TestEventsAreAddedInParts(t *testing.T) {
	var events []bpf.Event
	for i := range 3 * addedAtOnce {
		kind := bpf.EventGCStart
		if i%2 == 1 {
			kind = bpf.EventGCEnd
		}
		events = append(events, bpf.Event{VM: 1, Process: 2, Kind: kind, Time: int64(10 + 10*i)})
	}
	events[0].Kind = bpf.EventWatch
	last := events[len(events)-1].Time
	for _, missing := range []bpf.Loss{{}, {Events: 1, From: 25, To: 35}, {Events: 1, From: last - 105, To: last - 45}, {Events: 1, From: last + 1, To: last + 9}} {
		parts, whole := newRecord(nil, nil), newRecord(nil, nil)
		whole.add(events, missing)
		if err := parts.read(fakeEvents(func(add func([]bpf.Event)) (bpf.Loss, error) { add(events); return missing, nil })); err != nil {
			t.Fatal(err)
		}
		for _, in := range []explain.Instance{{VM: 1, Owner: 2, Start: 20, End: 300}, {VM: 1, Owner: 2, Start: last - 300, End: last}} {
			if diff := cmp.Diff(whole.log.Explain(in), parts.log.Explain(in)); diff != "" {
				t.Errorf("missing %+v: -at once +in parts:\n%s", missing, diff)
			}
		}
	}
}

// If explaining an instance takes all the time that there is, the next one is not explained, and its trace says so.
func TestInstancesAreExplainedWhileThereIsTime(t *testing.T) {
	r := newRecord(nil, nil)
	r.now = ticking(2 * time.Second)
	for _, want := range []bool{true, false} {
		tr := r.explain(explain.Instance{VM: 1, Start: 10, End: 20, Owner: 5})
		if err := tr.Check(); err != nil {
			t.Fatal(err)
		}
		if got := tr.Spans[1].Reason != whyNoTime; got != want {
			t.Errorf("explained: %t, want %t", got, want)
		}
	}
}

// While the instances of a window are explained, no events are added: otherwise the window would wait for them
// again before each instance.
func TestWindowHasTheRecord(t *testing.T) {
	r := newRecord(nil, nil)
	read := false
	err := r.forWindow(fakeEvents(func(func([]bpf.Event)) (bpf.Loss, error) { read = true; return bpf.Loss{}, nil }), nil, func() {
		if !read || r.mu.TryLock() {
			t.Error("others can use the record")
		}
		r.explain(explain.Instance{VM: 1, Start: 10, End: 20, Owner: 5})
		r.forget(10)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Events for which there is no time are lost, with the times of the first and the last.
func TestEventsWithoutTime(t *testing.T) {
	r := newRecord(nil, nil)
	r.adding = pace{part: addingPart, at: monotonic.Now(), left: -int64(time.Hour)}
	err := r.read(fakeEvents(func(add func([]bpf.Event)) (bpf.Loss, error) {
		add([]bpf.Event{{Time: 20}, {Time: 10}, {Time: 30}})
		return bpf.Loss{Events: 2, From: 15, To: 40}, nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	if r.held != 0 || r.takeLost() != 5 {
		t.Errorf("%d events are held", r.held)
	}
	if got, want := lossOf([]bpf.Event{{Time: 20}, {Time: 10}, {Time: 30}}), (bpf.Loss{Events: 3, From: 10, To: 30}); got != want {
		t.Errorf("loss %+v, want %+v", got, want)
	}
}
