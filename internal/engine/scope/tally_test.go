package scope

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/explain/trace"
)

// A tally keeps few causes, however many there are. The large ones are exact, and all of them add
// up to the total time.
func TestTallyBounded(t *testing.T) {
	const instances, processes, large = 200, 200, int64(time.Millisecond)
	var tally Tally
	var total time.Duration
	pid := trace.PID(100)
	for range instances {
		root := trace.Span{Parent: -1, Process: 1}
		i := outcome.Instance{Trace: &trace.Trace{Spans: []trace.Span{root}}}
		spend := func(kind trace.Kind, p trace.PID, name string, took int64) {
			i.Trace.Spans = append(i.Trace.Spans, trace.Span{Kind: kind, Start: i.End, End: i.End + took, Process: p, Name: name})
			i.End += took
		}
		spend(trace.Mailbox, 2, "queue_2", large)
		spend(trace.Running, 3, "", large)
		for range processes {
			pid++
			spend(trace.Running, pid, "", 1+int64(pid%7))
		}
		i.Trace.Spans[0].End = i.End
		total += i.Elapsed()
		tally.Add([]outcome.Instance{i})
		if n := len(tally.times); n > MaxCauses || n != len(tally.index) {
			t.Fatalf("%d causes are kept, %d of them can be found", n, len(tally.index))
		}
	}
	shares, sum := tally.Shares()
	for _, s := range shares {
		sum += s.Time
	}
	if sum != total || tally.Total != total || tally.Instances != instances {
		t.Errorf("%d instances add up to %v of %v, want %v", tally.Instances, sum, tally.Total, total)
	}
	each := time.Duration(instances * large)
	want := []Share{
		{Cause: Cause{Kind: trace.Running, Process: 3}, Time: each, Of: float64(each) / float64(total)},
		{Cause: Cause{Kind: trace.Mailbox, Name: "queue_2"}, Time: each, Of: float64(each) / float64(total)},
	}
	if diff := cmp.Diff(want, shares[:2]); diff != "" {
		t.Error(diff)
	}
	if n := tally.Causes(); n != 2+instances*processes {
		t.Errorf("of %d causes, want %d", n, 2+instances*processes)
	}
}

// tallied returns an instance whose time went to Erlang code of these processes. took gives the
// nanoseconds of each.
func tallied(processes int, took func(p int) int64) outcome.Instance {
	i := outcome.Instance{Trace: &trace.Trace{Spans: []trace.Span{{Parent: -1, Process: 1}}}}
	for p := range processes {
		i.Trace.Spans = append(i.Trace.Spans, trace.Span{Kind: trace.Running, Start: i.End, End: i.End + took(p), Process: trace.PID(p + 2)})
		i.End += took(p)
	}
	i.Trace.Spans[0].End = i.End
	return i
}

// Up to the limit, causes are distinguished, even if they come again. One more cause drops the
// smaller half.
func TestTallyFull(t *testing.T) {
	all := tallied(MaxCauses, func(p int) int64 { return int64(p + 1) })
	one := tallied(MaxCauses+1, func(p int) int64 { return int64(p + 1) })
	var tally Tally
	tally.Add([]outcome.Instance{all})
	tally.Add([]outcome.Instance{all})
	if n := tally.Causes(); n != MaxCauses || len(tally.times) != MaxCauses || tally.others != 0 {
		t.Errorf("%d causes, %d of them distinguished, others %v", n, len(tally.times), tally.others)
	}
	// The largest one comes last.
	last := tallied(1, func(int) int64 { return 1 << 40 })
	last.Trace.Spans[1].Kind = trace.GC
	tally = Tally{}
	tally.Add([]outcome.Instance{all})
	tally.Add([]outcome.Instance{last})
	if shares, _ := tally.Shares(); shares[0].Cause.Kind != trace.GC || shares[0].Time != 1<<40 {
		t.Errorf("the largest is %v", shares[0])
	}
	tally = Tally{}
	tally.Add([]outcome.Instance{one})
	const left = MaxCauses + 1 - MaxCauses/2
	if n := tally.Causes(); n != MaxCauses+1 || len(tally.times) != MaxCauses/2 || tally.others != left*(left+1)/2 {
		t.Errorf("%d causes, %d of them distinguished, others %v", n, len(tally.times), tally.others)
	}
}

// Shares does not change the tally.
func TestSharesDoesNotChangeTally(t *testing.T) {
	var tally Tally
	for range 2 {
		tally.Add([]outcome.Instance{tallied(3, func(p int) int64 { return []int64{1, 10, 100}[p] })})
		tally.Shares()
	}
	shares, _ := tally.Shares()
	var got []time.Duration
	for _, s := range shares {
		got = append(got, s.Time)
	}
	if diff := cmp.Diff([]time.Duration{200, 20, 2}, got); diff != "" {
		t.Error(diff)
	}
}

// Causes with equal time are sorted by kind. Within a kind, the instance's own process comes
// first, and causes with names come last.
func TestOrderOfCauses(t *testing.T) {
	want := []Cause{
		{Kind: trace.Running, Own: true}, {Kind: trace.Running, Process: 3}, {Kind: trace.Running, Process: 4}, {Kind: trace.Running, Name: "a"},
		{Kind: trace.Running, Name: "b"}, {Kind: trace.GC, Own: true}, {Kind: trace.GC, Process: 1},
	}
	for i := range want {
		var times []causeTime
		for j := range want { // in reverse, from each possible start on
			times = append(times, causeTime{cause: want[(2*len(want)-i-j)%len(want)], time: 5})
		}
		sortTimes(times)
		var got []Cause
		for _, c := range times {
			got = append(got, c.cause)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("from %d: %s", i, diff)
		}
	}
}

// A cause has mixed reasons if one of its parts had.
func TestMixedReasons(t *testing.T) {
	for _, tt := range []struct{ one, other, mixed bool }{{}, {one: true, mixed: true}, {other: true, mixed: true}, {true, true, true}} {
		c := causeTime{mixed: tt.one, reason: "r"}
		if c.add(causeTime{mixed: tt.other, reason: "r"}); c.mixed != tt.mixed {
			t.Errorf("%+v", tt)
		}
	}
}
