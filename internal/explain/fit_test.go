package explain

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/explain/trace"
)

// times returns the total length of the leaves of each kind.
func times(tr *trace.Trace) (sum [trace.Kinds]int64) {
	for _, s := range tr.Leaves() {
		sum[s.Kind] += s.Duration()
	}
	return sum
}

// Thousands of short garbage collections are not lost: the trace has the maximum number of spans,
// with the same time of each kind at about the same places.
func TestFitTurns(t *testing.T) {
	const turns = 5000
	var events strings.Builder
	events.WriteString("0 watch 1\n0 start 1 7\n")
	end := int64(0)
	var gcs []interval
	for i := range int64(turns) {
		gc := 3 + i%5
		fmt.Fprintf(&events, "%d gc+ 1\n%d gc- 1\n", end+10, end+10+gc)
		gcs = append(gcs, interval{end + 10, end + 10 + gc})
		end += 10 + gc
	}
	var l Log
	l.Add(script(t, events.String()), bpf.Loss{})
	i := Instance{VM: vmPID, ID: 7, Start: 0, End: end, Owner: 1}
	tr := l.Explain(i)
	checked(t, tr, i)
	if got := times(tr); got[trace.Running] != 10*turns || got[trace.GC] != end-10*turns || got[trace.Unexplained] != 0 {
		t.Errorf("times %v of %d", got, end)
	}
	parts := 0
	for _, s := range tr.Leaves() {
		parts += max(1, s.Parts)
	}
	if parts != 2*turns {
		t.Errorf("%d parts, want %d", parts, 2*turns)
	}
	for part := range int64(8) {
		from, to := part*end/8, (part+1)*end/8
		var want, got int64
		for _, gc := range gcs {
			want += gc.overlap(from, to)
		}
		for _, s := range tr.Leaves() {
			if s.Kind == trace.GC {
				got += interval{s.Start, s.End}.overlap(from, to)
			}
		}
		if off := got - want; off > end/64 || off < -end/64 {
			t.Errorf("from %d to %d: GC for %d, want about %d", from, to, got, want)
		}
	}
}

// However many turns there are, few are in memory at a time, and none is lost.
func TestFitWhileWalking(t *testing.T) {
	const turns = 100_000
	l, i := manyTurns(turns)
	w := &walk{log: l, vm: l.vms[vmPID], start: i.Start, end: i.End, episodes: make(map[*process]episode)}
	nodes := w.explain(w.vm.processes[1], i.Start, i.End, path{}.to(1, trace.Exact))
	if n := count(nodes); n > manyNodes {
		t.Errorf("%d nodes are held", n)
	}
	tr := l.Explain(i)
	checked(t, tr, i)
	if got := times(tr); got[trace.Running] != 10*turns || got[trace.GC] != i.End-10*turns {
		t.Errorf("times %v of %d", got, i.End)
	}
	parts := 0
	for _, s := range tr.Leaves() {
		parts += max(1, s.Parts)
	}
	if parts != 2*turns {
		t.Errorf("%d parts, want %d", parts, 2*turns)
	}
}

// manyTurns returns the log of an instance that alternately ran and collected garbage.
func manyTurns(turns int) (*Log, Instance) {
	l, end := new(Log), int64(0)
	l.Add([]bpf.Event{
		{VM: vmPID, Kind: bpf.EventWatch, Process: 1},
		{VM: vmPID, Kind: bpf.EventSpanStart, Process: 1, ID: 7},
	}, bpf.Loss{})
	for i := range int64(turns) {
		gc := 3 + i%5
		e := bpf.Event{VM: vmPID, Kind: bpf.EventGCStart, Process: 1, Thread: 1, Time: end + 10}
		end += 10 + gc
		back := e
		back.Kind, back.Time = bpf.EventGCEnd, end
		l.Add([]bpf.Event{e, back}, bpf.Loss{})
	}
	return l, Instance{VM: vmPID, ID: 7, Start: 0, End: end, Owner: 1}
}

// An instance may have the maximum number of events.
func BenchmarkExplainLong(b *testing.B) {
	l, i := manyTurns(1 << 19)
	b.ReportAllocs()
	for b.Loop() {
		l.Explain(i)
	}
}

// Many calls of one server become one wait, with the activities of the server.
func TestFitCalls(t *testing.T) {
	const calls = 1000
	var events strings.Builder
	events.WriteString("0 watch 1\n0 watch 2\n0 in 2\n0 out 2 wait\n0 start 1 7\n")
	at := int64(0)
	for range calls {
		for _, line := range []string{
			"%d send 1>2 9", "%d out 1 wait", "%d in 2", "%d queued 2 9 #1", "%d receive 2 9 #1", "%d gc+ 2", "%d gc- 2",
			"%[1]d send 2>1 alias\n%[1]d able 1", "%d out 2 wait", "%d in 1", "%d queued 1 4 #1", "%d receive 1 4 #1",
		} {
			at += 10_000
			fmt.Fprintf(&events, line+"\n", at)
		}
	}
	var l Log
	l.Add(script(t, events.String()), bpf.Loss{})
	i := Instance{VM: vmPID, ID: 7, Start: 0, End: at, Owner: 1}
	tr := l.Explain(i)
	checked(t, tr, i)
	got := times(tr)
	if want := int64(calls * 10_000); got[trace.GC] != want || got[trace.Running] != at-4*want+2*want-2*want || got[trace.Waiting] != 0 {
		t.Errorf("times %v of %d", got, at)
	}
}

// Any trace fits, and no kind gets additional time, except waiting if the awaited activities are
// left out.
func TestFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		root := span(0, 0, trace.Root, 1, trace.Exact)
		root.children, root.End = grown(t, 0, 0, trace.Exact)
		var before [trace.Kinds]int64
		leaves(&root, func(n *node) { before[n.Kind] += n.Duration() })
		tr := root.trace()
		checked(t, tr, Instance{End: root.End})
		for k, d := range times(tr) {
			if k := trace.Kind(k); d > before[k] && k != trace.Waiting {
				t.Fatalf("%s has %d, and had %d", kindNames[k], d, before[k])
			}
		}
	})
}

func leaves(n *node, visit func(*node)) {
	if n.isLeaf() && n.Kind != trace.Root {
		visit(n)
	}
	for i := range n.children {
		leaves(&n.children[i], visit)
	}
}

// grown returns siblings that start at a time, and the time of their end.
func grown(t *rapid.T, at int64, depth int, mark trace.Mark) ([]node, int64) {
	var nodes []node
	for range rapid.IntRange(1, 40).Draw(t, "siblings") {
		m := max(mark, trace.Mark(rapid.IntRange(0, 2).Draw(t, "mark")))
		n := span(at, at, trace.Kind(rapid.IntRange(1, int(trace.Kinds)-1).Draw(t, "kind")), trace.PID(rapid.IntRange(0, 5).Draw(t, "process")), m)
		if n.Kind == trace.Waiting && m != trace.Ambiguous && depth < 3 {
			n.children, n.End = grown(t, at, depth+1, m)
		} else {
			n.End += rapid.Int64Range(1, 1000).Draw(t, "duration")
			n.Reason = rapid.SampledFrom([]string{"", "x", "y", "z"}).Draw(t, "reason")
		}
		at = n.End
		nodes = append(nodes, n)
	}
	return nodes, at
}
