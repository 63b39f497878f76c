package scope

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/trace"
)

// However many causes there are, a tally keeps few: the large ones are exact, and all add
// up to the time of all.
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
