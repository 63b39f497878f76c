package export_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/explain/trace"
	"github.com/beamscope/beamscope/internal/files/export"
)

// served returns an instance of 100 ms that waited for the given time in the mailbox of queue_2.
// The rest of its time went to one of many processes.
func served(wait time.Duration) outcome.Instance {
	const client, queue = 10, 20
	t := &trace.Trace{Spans: []trace.Span{{Parent: -1, End: 100e6, Process: client}, {Kind: trace.Mailbox, End: int64(wait), Process: queue, Name: "queue_2", Behind: 812, Mark: trace.Inferred}}}
	for at := int64(wait); at < 100e6; at += 1e6 {
		t.Spans = append(t.Spans, trace.Span{Kind: trace.Running, Start: at, End: at + 1e6, Process: 30 + trace.PID(at/4e6)})
	}
	return outcome.Instance{Outcome: "probe", VM: outcome.VM{PID: 41, Node: "shop@db1"}, ID: 4711, End: 100e6, Process: client, Trace: t}
}

// JSON contains the complete explanation of a window, and text has one line about it. The line of
// a trigger that fired begins with it.
func TestExplained(t *testing.T) {
	var text, objects bytes.Buffer
	printers := []printer{export.NewText(&text), export.NewJSON(&objects)}
	e, err := scope.NewEngine(system(t))
	if err != nil {
		t.Fatal(err)
	}
	vm := outcome.VM{PID: 41, Node: "shop@db1"}
	const slow, settled = 10, 14 // the first window in which the share has grown, and the first that shows it
	for i := range settled + 1 {
		wait, bin := 20*time.Millisecond, 0
		if i >= slow {
			wait, bin = 77*time.Millisecond, 7
		}
		bins := make([]uint64, 8)
		bins[bin] = 9
		from := int64(i) * int64(time.Second)
		b := outcome.Batch{
			Window:    outcome.Window{From: from, To: from + int64(time.Second)},
			Time:      time.Date(2026, 11, 21, 12, 2, 57+i, 0, time.UTC),
			Counts:    []outcome.Counts{counts("probe", vm, bins...)},
			Instances: []outcome.Instance{served(wait)},
		}
		f, err := e.Step(&b)
		if err != nil {
			t.Fatal(err)
		}
		if i < slow-1 || i > slow && i < settled { // as in the other windows
			continue
		}
		for _, p := range printers {
			if err := p.Frame(f); err != nil {
				t.Fatal(err)
			}
		}
	}
	checkGolden(t, "explained.txt", text.Bytes())
	for line := range bytes.Lines(objects.Bytes()) {
		if !json.Valid(line) {
			t.Errorf("not JSON: %s", line)
		}
	}
	checkGolden(t, "explained.json", objects.Bytes())
}
