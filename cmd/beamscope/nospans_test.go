package main

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/scope"
)

// A run that ends before it has a window of the spans that it discovered, or two whole
// windows without any, does not say that none started.
func TestSayNoSpans(t *testing.T) {
	system := func(spec outcome.Spec) *scope.System {
		return &scope.System{Probes: []scope.ProbeSystem{{Spec: spec}}}
	}
	gc := outcome.Spec{Name: "gc"}
	for _, test := range []struct {
		system     *scope.System
		whole      int
		discovered bool
		want       string
	}{
		{system(gc), 2, false, "no span started"},
		{system(gc), 1, false, "it ended before two whole windows were observed: let it run for some seconds"},
		{system(gc), 0, false, "it ended before two whole windows were observed: let it run for some seconds"},
		{system(gc), 9, true, "it ended before the first window of the spans that were discovered"},
		{system(outcome.Spec{Name: "buy", Span: "buy"}), 9, true, ""},
		{nil, 9, true, ""},
	} {
		var log strings.Builder
		f := &framePrinter{log: &log, system: test.system, whole: test.whole}
		f.sayNoSpans(test.discovered)
		if got := log.String(); !strings.HasPrefix(got, test.want) || test.want == "" && got != "" {
			t.Errorf("discovered %v: %q, want %q", test.discovered, got, test.want)
		}
	}
}

// With a scope file it is the same: what was not observed for two whole windows is not said
// to be missing.
func TestSayUnseen(t *testing.T) {
	const file = "outcomes:\n  buy: {span: buy}\n  sell: {span: sell}\n"
	for whole, want := range []string{"it ended before two whole windows were observed: let it run for some seconds\n", "", "outcome buy: no span named"} {
		var log strings.Builder
		f := newFramePrinter(silent{&log}, &log)
		f.system, f.seen["sell"] = &scope.System{Source: []byte(file), Probes: []scope.ProbeSystem{
			{Spec: outcome.Spec{Name: "buy", Span: "buy"}}, {Spec: outcome.Spec{Name: "sell", Span: "sell"}}}}, true
		f.whole = whole
		if err := f.sayUnseen(nil); err != nil {
			t.Fatal(err)
		}
		if whole == 1 { // as with none
			want = "it ended before"
		}
		if got := log.String(); !strings.HasPrefix(got, want) || strings.Count(got, "\n") != 1 {
			t.Errorf("after %d whole windows: %q, want %q", whole, got, want)
		}
	}
}

// Windows count as whole that were observed as a whole; the first one without any outcome
// cannot say so of itself.
func TestWholeWindows(t *testing.T) {
	f := newFramePrinter(silent{io.Discard}, io.Discard)
	frame := func(unobserved ...bool) {
		t.Helper()
		var frame scope.Frame
		for _, u := range unobserved {
			frame.Probes = append(frame.Probes, scope.Probe{Counts: outcome.Counts{Unobserved: u}})
		}
		if err := f.Framed(nil, &frame); err != nil {
			t.Fatal(err)
		}
	}
	for i, test := range []struct {
		unobserved []bool
		want       int
	}{{nil, 0}, {nil, 1}, {[]bool{true}, 1}, {[]bool{false, true}, 1}, {[]bool{false, false}, 2}} {
		if frame(test.unobserved...); f.whole != test.want {
			t.Errorf("after frame %d: %d whole windows, want %d", i, f.whole, test.want)
		}
	}
}

// The log names at the beginning the outcomes that are observed only later.
func TestSayLater(t *testing.T) {
	var log strings.Builder
	sayLater(&log, laterLook())
	if got, want := log.String(), "observed later, one after the other, while no spans are seen and this costs little: run, message\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	log.Reset()
	if sayLater(&log, nil); log.Len() > 0 {
		t.Errorf("%q where there is nothing", log.String())
	}
}

// A doctor that is interrupted makes no statement about the machine.
func TestDoctorInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out strings.Builder
	if err := (doctorFlags{}).examine(ctx, &out); err == nil || strings.Contains(err.Error(), "cannot work") || out.Len() > 0 {
		t.Errorf("error %v, output %q", err, out.String())
	}
}
