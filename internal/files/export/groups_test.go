package export_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/files/export"
)

// ofVM prints two windows of outcomes of the VM: collections in many groups, and messages that
// were paired by order.
func ofVM(t *testing.T, print func(*scope.Frame) error) {
	t.Helper()
	vm := outcome.VM{PID: 41, Node: "shop@db1"}
	e, err := scope.NewEngine(&scope.System{Window: time.Second, History: 30, Bounds: scope.MeanBounds{StandardErrors: dq.Z95}, Samples: 5, Outcomes: []scope.OutcomeSystem{
		{Spec: outcome.Spec{Name: "gc", VM: outcome.Events{Builtin: "gc"}, Group: outcome.GroupPID, BinWidth: time.Millisecond, Bins: 4}},
		{Spec: outcome.Spec{Name: "hop", VM: outcome.Events{Builtin: "hop"}, BinWidth: time.Millisecond, Bins: 4}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	delays := func(at ...time.Duration) outcome.Delays {
		d := make(outcome.Delays, outcome.DelayBuckets)
		for _, t := range at {
			d[outcome.Bucket(t)]++
		}
		return d
	}
	gc := counts("gc", vm, 4, 20, 1, 0)
	gc.Timeouts, gc.Amount = 1, 123_456
	gc.Loss.Unpaired = 2
	gc.Groups = []outcome.Group{
		{
			Key: "<0.9.0>", Process: 9, Name: "code_server:init/1", Successes: 3, Timeouts: 1, Total: 2700 * time.Microsecond, Amount: 100_000,
			Delays: delays(700*time.Microsecond, time.Millisecond, time.Millisecond),
		},
		{Key: "<0.10.0>", Process: 10, Name: "'Elixir.MyApp.Worker':init/1"},
	}
	for i := range 10 {
		gc.Groups = append(gc.Groups, outcome.Group{
			Key: fmt.Sprintf("<0.%d.0>", 20+i), Process: outcome.PID(20 + i), Successes: 2, Total: time.Millisecond, Delays: delays(300*time.Microsecond, 700*time.Microsecond),
		})
	}
	gc.Groups = append(gc.Groups, outcome.Group{Successes: 2, Total: time.Millisecond, Delays: delays(500*time.Microsecond, 500*time.Microsecond)})
	hop := counts("hop", vm, 100, 0, 0, 0)
	hop.Inferred, hop.Dropped = 99, 1000
	for i, b := range []outcome.Batch{
		{Counts: []outcome.Counts{gc, hop}},
		{Counts: []outcome.Counts{{Outcome: "gc", VM: vm}, counts("hop", vm, 7, 0, 0, 0)}},
	} {
		from := int64(i) * int64(time.Second)
		b.Window = outcome.Window{From: from, To: from + int64(time.Second)}
		b.Time = time.Date(2024, 2, 29, 23, 59, 56+i, 0, time.UTC)
		f, err := e.Step(&b)
		if err != nil {
			t.Fatal(err)
		}
		if err := print(f); err != nil {
			t.Fatal(err)
		}
	}
}

// The groups with the longest time are below their outcome, and inferred figures are marked.
func TestGroupsText(t *testing.T) {
	var out bytes.Buffer
	ofVM(t, export.NewText(&out).Frame)
	checkGolden(t, "groups.txt", out.Bytes())
}

// The line of an outcome of the VM has fields that spans do not have.
func TestGroupsJSON(t *testing.T) {
	var out bytes.Buffer
	ofVM(t, export.NewJSON(&out).Frame)
	checkGolden(t, "groups.json", out.Bytes())
}
