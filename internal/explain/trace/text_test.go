package trace_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/beamscope/beamscope/internal/explain/trace"
	"github.com/beamscope/beamscope/internal/explain/trace/tracetest"
)

var update = flag.Bool("update", false, "write the golden files")

// golden compares a text with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s: %s", name, diff)
	}
}

func text(t interface{ Fatal(...any) }, tr *trace.Trace, all bool) string {
	var b strings.Builder
	if err := tr.WriteText(&b, "probe #4711", all); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestText(t *testing.T) { golden(t, "call.txt", text(t, call(), false)) }

// many returns an instance with small parts of every kind.
func many() *trace.Trace {
	tr := &trace.Trace{Spans: []trace.Span{{Parent: -1, Start: 7, End: 7 + 1000*ms, Process: pid(10)}}}
	at := int64(7)
	add := func(d int64, s trace.Span) {
		s.Start, s.End = at, at+d
		tr.Spans = append(tr.Spans, s)
		at += d
	}
	for range 5 {
		add(ms/4, trace.Span{Kind: trace.Running, Process: pid(10)})
		add(ms/4, trace.Span{Kind: trace.GC, Process: pid(10)})
	}
	add(0, trace.Span{Kind: trace.Unexplained, Process: pid(10)})
	add(100*ms, trace.Span{Kind: trace.NIF, Process: pid(10), Detail: "prim_file:read_nif/2"})
	add(300*ms, trace.Span{Kind: trace.Port, Process: pid(10), Detail: "#Port<0.7>"})
	add(50*ms, trace.Span{Kind: trace.OSWait, Process: pid(10)})
	add(60*ms, trace.Span{Kind: trace.Waiting, Process: pid(77), Name: strings.Repeat("holder", 30), Mark: trace.Ambiguous, Reason: "two messages"})
	add(12*ms, trace.Span{Kind: trace.Ready, Process: pid(10), Other: pid(99), OtherName: "neighbour"})
	add(1000*ms-(at-7), trace.Span{Kind: trace.Unexplained, Process: pid(10), Reason: "woken by a timer"})
	return tr
}

func TestTextOfManyParts(t *testing.T) {
	golden(t, "many.txt", text(t, many(), false))
	golden(t, "many-all.txt", text(t, many(), true))
}

// An instance without a duration is a line.
func TestTextOfNothing(t *testing.T) {
	tr := &trace.Trace{Spans: []trace.Span{{Parent: -1}}}
	want := "        0.00µs ▕" + strings.Repeat(" ", 40) + "▏ probe #4711\n"
	if got := text(t, tr, false); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// With all set, there is a line for each span.
func TestTextHasEverySpan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr := tracetest.Draw(t)
		if got := strings.Count(text(t, tr, true), "▕"); got != len(tr.Spans) {
			t.Fatalf("%d lines for %d spans", got, len(tr.Spans))
		}
	})
}
