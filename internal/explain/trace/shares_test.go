package trace_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/beamscope/beamscope/internal/explain/trace"
	"github.com/beamscope/beamscope/internal/explain/trace/tracetest"
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
	bare := &trace.Trace{Spans: []trace.Span{{Parent: -1, Start: 5, End: 5, Process: pid(1)}}}
	if got := bare.Shares(); len(got) != 0 {
		t.Errorf("an instance without a duration has the shares %v", got)
	}
}

// TestSharesAddUp draws trees whose children divide their parents.
func TestSharesAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr := tracetest.Draw(t)
		if err := tr.Check(); err != nil {
			t.Fatal(err)
		}
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
