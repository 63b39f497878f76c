package trace_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/beamscope/beamscope/internal/trace"
)

const ms = int64(1e6)

// pid returns the process <0.n.0>.
func pid(n uint64) trace.PID { return trace.PID(n) }

// call is an instance of 100 ms whose process asks a server with a full mailbox, which
// asks another one.
func call() *trace.Trace {
	return &trace.Trace{Spans: []trace.Span{
		{Parent: -1, Kind: trace.Root, Start: 0, End: 100 * ms, Process: pid(10), Name: "client"},
		{Parent: 0, Kind: trace.Running, Start: 0, End: 2 * ms, Process: pid(10), Name: "client"},
		{Parent: 0, Kind: trace.Waiting, Start: 2 * ms, End: 99 * ms, Process: pid(20), Name: "queue_2",
			Link: trace.Link{From: pid(10), To: pid(20), Sent: 2 * ms, Received: 72 * ms, Mark: trace.Inferred}, Mark: trace.Inferred},
		{Parent: 2, Kind: trace.Mailbox, Start: 2 * ms, End: 72 * ms, Process: pid(20), Name: "queue_2", Behind: 812, Mark: trace.Inferred},
		{Parent: 2, Kind: trace.Running, Start: 72 * ms, End: 73 * ms, Process: pid(20), Name: "queue_2", Mark: trace.Inferred},
		{Parent: 2, Kind: trace.Waiting, Start: 73 * ms, End: 99 * ms, Process: pid(30), Mark: trace.Inferred},
		{Parent: 5, Kind: trace.Ready, Start: 73 * ms, End: 74 * ms, Process: pid(30), Other: pid(40), OtherName: "small", Mark: trace.Inferred},
		{Parent: 5, Kind: trace.Running, Start: 74 * ms, End: 95 * ms, Process: pid(30), Mark: trace.Inferred},
		{Parent: 5, Kind: trace.Ready, Start: 95 * ms, End: 99 * ms, Process: pid(30), Other: pid(50), OtherName: "large", Mark: trace.Inferred},
		{Parent: 0, Kind: trace.Running, Start: 99 * ms, End: 100 * ms, Process: pid(10)},
	}}
}

func TestShares(t *testing.T) {
	want := []trace.Share{
		{Kind: trace.Mailbox, Process: pid(20), Name: "queue_2", Behind: 812, Mark: trace.Inferred, Duration: 70 * ms},
		{Kind: trace.Running, Process: pid(30), Via: pid(20), ViaName: "queue_2", Mark: trace.Inferred, Duration: 21 * ms},
		{Kind: trace.Ready, Process: pid(30), Via: pid(20), ViaName: "queue_2", Other: pid(50), OtherName: "large", Mark: trace.Inferred, Duration: 5 * ms},
		{Kind: trace.Running, Process: pid(10), Name: "client", Own: true, Duration: 3 * ms},
		{Kind: trace.Running, Process: pid(20), Name: "queue_2", Mark: trace.Inferred, Duration: 1 * ms},
	}
	if diff := cmp.Diff(want, call().Shares()); diff != "" {
		t.Error(diff)
	}
}

func TestSharesOfNothing(t *testing.T) {
	bare := &trace.Trace{Spans: []trace.Span{{Parent: -1, Start: 5, End: 9, Process: pid(1)}}}
	want := []trace.Share{{Kind: trace.Unexplained, Process: pid(1), Own: true, Duration: 4}}
	if diff := cmp.Diff(want, bare.Shares()); diff != "" {
		t.Error(diff)
	}
	bare.Spans[0].End = 5
	if got := bare.Shares(); len(got) != 0 {
		t.Errorf("an instance without a duration has the shares %v", got)
	}
}

// TestSharesAddUp draws trees whose children divide their parents.
func TestSharesAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr := drawTrace(t)
		var sum, last int64
		for i, s := range tr.Shares() {
			if s.Duration <= 0 || i > 0 && s.Duration > last {
				t.Fatalf("share %d is of %d ns, after %d", i, s.Duration, last)
			}
			last = s.Duration
			sum += s.Duration
		}
		if want := tr.Spans[0].Duration(); sum != want {
			t.Fatalf("the shares add up to %d ns of %d", sum, want)
		}
	})
}

// drawTrace draws a trace.
func drawTrace(t *rapid.T) *trace.Trace {
	tr := &trace.Trace{}
	span := func(parent int, kind trace.Kind, from, to int64) {
		tr.Spans = append(tr.Spans, trace.Span{
			Parent: parent, Kind: kind, Start: from, End: to,
			Process: pid(rapid.Uint64Range(0, 5).Draw(t, "process")),
			Mark:    trace.Mark(rapid.IntRange(0, int(trace.Marks)-1).Draw(t, "mark")),
			Behind:  rapid.IntRange(0, 1000).Draw(t, "behind"),
			Detail:  rapid.SampledFrom([]string{"", "file:read/2"}).Draw(t, "detail"),
			Reason:  rapid.SampledFrom([]string{"", "woken by a timer"}).Draw(t, "reason"),
		})
	}
	from := rapid.Int64Range(0, 1<<60).Draw(t, "start")
	span(-1, trace.Root, from, from+rapid.Int64Range(0, 1e12).Draw(t, "duration"))
	for i := 0; i < len(tr.Spans) && len(tr.Spans) < 64; i++ {
		if k := tr.Spans[i].Kind; k != trace.Root && k != trace.Waiting {
			continue
		}
		at, end := tr.Spans[i].Start, tr.Spans[i].End
		for n := rapid.IntRange(0, 4).Draw(t, "children"); n > 0; n-- {
			to := end
			if n > 1 {
				to = rapid.Int64Range(at, end).Draw(t, "end")
			}
			span(i, trace.Kind(rapid.IntRange(1, int(trace.Kinds)-1).Draw(t, "kind")), at, to)
			at = to
		}
	}
	return tr
}
