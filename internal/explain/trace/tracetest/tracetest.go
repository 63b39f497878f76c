// Package tracetest draws traces for tests.
package tracetest

import (
	"pgregory.net/rapid"

	"github.com/beamscope/beamscope/internal/explain/trace"
)

// Draw draws a trace that holds: [trace.Trace.Check].
func Draw(t *rapid.T) *trace.Trace {
	from := rapid.Int64Range(0, 1<<60).Draw(t, "start")
	root := anySpan(t, from, from+rapid.Int64Range(1, 1e12).Draw(t, "duration"))
	root.Parent, root.Kind, root.Mark = -1, trace.Root, trace.Exact
	tr := &trace.Trace{Spans: []trace.Span{root}}
	divide(t, tr, 0, 4)
	return tr
}

// divide gives a span children, down to a depth.
func divide(t *rapid.T, tr *trace.Trace, parent, depth int) {
	p := tr.Spans[parent]
	at := p.Start
	least := 0
	if parent == 0 {
		least = 1
	}
	for n := rapid.IntRange(least, 4).Draw(t, "children"); n > 0 && at < p.End; n-- {
		to := p.End
		if n > 1 {
			to = rapid.Int64Range(at+1, p.End).Draw(t, "end")
		}
		s := anySpan(t, at, to)
		s.Parent, s.Mark = parent, max(s.Mark, p.Mark)
		tr.Spans = append(tr.Spans, s)
		if s.Kind == trace.Waiting && s.Mark != trace.Ambiguous && depth > 1 && len(tr.Spans) < trace.MaxSpans/4 {
			divide(t, tr, len(tr.Spans)-1, depth-1)
		}
		at = to
	}
}

// anySpan draws a span from one time to another.
func anySpan(t *rapid.T, from, to int64) trace.Span {
	process := rapid.Custom(func(t *rapid.T) trace.PID { return trace.PID(rapid.Uint64Range(0, 5).Draw(t, "process")) })
	name := rapid.SampledFrom([]string{"", "queue_2", "file:read/2", "woken by a timer"})
	mark := rapid.Custom(func(t *rapid.T) trace.Mark { return trace.Mark(rapid.IntRange(0, int(trace.Marks)-1).Draw(t, "mark")) })
	s := trace.Span{
		Kind:  trace.Kind(rapid.IntRange(1, int(trace.Kinds)-1).Draw(t, "kind")),
		Start: from, End: to,
		Process: process.Draw(t, "process"), Name: name.Draw(t, "name"),
		Other: process.Draw(t, "other"), OtherName: name.Draw(t, "other name"),
		Mark:   mark.Draw(t, "mark"),
		Behind: rapid.IntRange(0, 1000).Draw(t, "behind"), Overtaken: rapid.IntRange(0, 3).Draw(t, "overtaken"), Parts: rapid.IntRange(0, 3).Draw(t, "parts"),
		Detail: name.Draw(t, "detail"), Reason: name.Draw(t, "reason"),
	}
	if rapid.Bool().Draw(t, "linked") {
		s.Link = trace.Link{
			From: process.Draw(t, "from"), To: process.Draw(t, "to"), Mark: mark.Draw(t, "mark"),
			Sent: rapid.Int64().Draw(t, "sent"), Received: rapid.Int64().Draw(t, "received"),
		}
	}
	return s
}
