package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/explain/trace"
	"github.com/beamscope/beamscope/internal/files/config"
	"github.com/beamscope/beamscope/internal/files/recording"
	"github.com/beamscope/beamscope/internal/files/snapshot"
)

// explainedSnapshot makes a snapshot of one window with one explained instance, and returns its
// path. Two triggers fired.
func explainedSnapshot(t *testing.T, explanation string) string {
	t.Helper()
	const scopeFile = "outcomes:\n  order: {span: order, dmax: 100ms, bins: 1, explain: true, triggers: {load: 1}}\n"
	c, err := config.Parse("scope.yaml", []byte(scopeFile))
	if err != nil {
		t.Fatal(err)
	}
	system, err := c.System()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	k, err := snapshot.New(snapshot.Options{Dir: dir, MaxFiles: 1, MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	vm := outcome.VM{PID: 1801}
	collected := trace.Trace{Spans: []trace.Span{
		{Parent: -1, Start: 0, End: 100e6, Process: 85},
		{Parent: 0, Kind: trace.GC, Start: 0, End: 91e6, Process: 85},
		{Parent: 0, Kind: trace.Running, Start: 91e6, End: 100e6, Process: 85},
	}}
	instance := outcome.Instance{Outcome: "order", VM: vm, End: 100e6, ID: 4711, Process: 85, Trace: &collected}
	cause := recording.Cause{Time: 1e9, Trigger: "load", Setting: "1", Outcome: "order", VM: vm, Text: "2 instances in a window, more than 1", Explanation: explanation}
	also := cause
	also.Trigger = "qta"
	for _, err := range []error{
		k.Config(&recording.Config{Files: []recording.File{{Name: "scope.yaml", Text: []byte(scopeFile)}}, Plan: system.Plan(0)}),
		k.Batch(&outcome.Batch{
			Window: outcome.Window{To: 1e9}, Time: time.Date(2026, 11, 21, 12, 3, 7, 0, time.UTC),
			Counts:    []outcome.Counts{{Outcome: "order", VM: vm, Successes: 2, Bins: []uint64{2}}},
			Instances: []outcome.Instance{instance},
		}),
		k.Fire(&cause, ""),
		k.Fire(&also, ""),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	k.Close()
	files, err := filepath.Glob(filepath.Join(dir, "*.bsr"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%q, error %v", files, err)
	}
	return files[0]
}

// Below its title a snapshot first shows where the time went, once, and then what fired.
func TestShowExplainedSnapshot(t *testing.T) {
	const explanation = "91 % of order #4711 was garbage collection of its own process"
	out, err := command(t, "snapshots", "show", explainedSnapshot(t, explanation), "--headless")
	if err != nil {
		t.Fatal(err)
	}
	const title = "20261121T120307.000Z-order-load.bsr: load of order, "
	first, rest, _ := strings.Cut(out, "\n")
	if !strings.HasPrefix(first, title) || !strings.HasPrefix(rest, explanation+"\nload: order of pid 1801: 2 instances") {
		t.Errorf("it begins differently:\n%s", out)
	}
	if n := strings.Count(out, explanation+"\n"); n != 1 {
		t.Errorf("%d lines contain the explanation", n)
	}
	if want := "order: 91 % of the time of 1 instance was garbage collection of its own process\n▶ load: order of pid 1801: " + explanation + " (2 instances"; !strings.Contains(out, want) {
		t.Errorf("no %q in\n%s", want, out)
	}
	out, err = command(t, "snapshots", "show", explainedSnapshot(t, ""), "--headless")
	if first, rest, _ = strings.Cut(out, "\n"); err != nil || !strings.HasPrefix(first, title) || !strings.HasPrefix(rest, "load: order of pid 1801") {
		t.Errorf("without an explanation: error %v\n%s", err, out)
	}
}
