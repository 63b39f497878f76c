package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/internal/export"
	"github.com/beamscope/beamscope/internal/monotonic"
	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/scope"
)

// bundledTotals are what the run printed in which the bundled recording was made.
const bundledTotals = `totals
    probe        VM  starts    ends      ok  failed timeout    lost  orphan    late
 worker_1 pid 29736   17298   17297   12139    4684     474       0       0     474
 worker_2 pid 29736   12619   12619   11376     883     360       0       0     360
    probe pid 29736   17298   17297   11652    5567      78       0       0      78
`

// The bundled recording gives the frames of the run that it was made of.
func TestBundledRecording(t *testing.T) {
	source, err := newPlayback(bytes.NewReader(demoRecording))
	if err != nil {
		t.Fatal(err)
	}
	windows := outcome.Plan{From: monotonic.Now(), Window: time.Millisecond}
	s, err := scope.New(source, windows, source.plan.Specs)
	if err != nil {
		t.Fatal(err)
	}
	var out, log bytes.Buffer
	if err := printFrames(t.Context(), s, 0, export.NewText(&out), &log); err != nil {
		t.Fatal(err)
	}
	frames, totals, _ := strings.Cut(out.String(), "totals\n")
	if diff := cmp.Diff(bundledTotals, "totals\n"+totals); diff != "" {
		t.Error(diff)
	}
	if n := strings.Count(frames, "window "); n != 30 {
		t.Errorf("%d frames, want 30", n)
	}
}

// Where eBPF cannot be used the demonstration shows the recording, at its pace.
func TestShowRecording(t *testing.T) {
	var out, log bytes.Buffer
	if err := showRecording(t.Context(), time.Second, &out, &log); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "window 0, 1s\n") || strings.Contains(out.String(), "window 1, 1s\n") {
		t.Errorf("not the first frame alone:\n%s", out.String())
	}
	if !strings.Contains(log.String(), "recorded 2026-") {
		t.Errorf("does not say that it is a recording:\n%s", log.String())
	}
}
