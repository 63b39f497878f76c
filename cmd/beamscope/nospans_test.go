package main

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
)

// A run may end before it has a window of the discovered spans, or two whole windows without any.
// Such a run does not report that no span started.
func TestSayNoSpans(t *testing.T) {
	system := func(spec outcome.Spec) *scope.System {
		return &scope.System{Outcomes: []scope.OutcomeSystem{{Spec: spec}}}
	}
	gc := outcome.Spec{Name: "gc"}
	for _, test := range []struct {
		system     *scope.System
		whole      int
		discovered bool
		missed     int
		unread     string
		want       string
	}{
		{system(gc), 2, false, 0, "", "no span started"},
		{system(gc), 8, false, 3, "", "no span was seen, but 3 of 11 windows were not observed as a whole"},
		{system(gc), 8, false, 0, "the spans of pid 7 are not read: it broke", "it is not known whether a span started: the spans of pid 7 are not read: it broke\n"},
		{system(gc), 1, false, 0, "", "the observation ended before two whole windows were over: let it run for some seconds"},
		{system(gc), 0, false, 0, "", "the observation ended before two whole windows were over: let it run for some seconds"},
		{system(gc), 9, true, 0, "", "the observation ended before the first window of the discovered spans"},
		{system(outcome.Spec{Name: "buy", Span: "buy"}), 9, true, 0, "", ""},
		{nil, 9, true, 0, "", ""},
	} {
		var log strings.Builder
		f := &framePrinter{log: &log, system: test.system, whole: test.whole, missed: test.missed, frames: test.whole + test.missed}
		f.sayNoSpans(test.discovered, test.unread)
		if got := log.String(); !strings.HasPrefix(got, test.want) || test.want == "" && got != "" {
			t.Errorf("discovered %v: %q, want %q", test.discovered, got, test.want)
		}
	}
}

// The same holds with a scope file: outcomes that were not observed for two whole windows are not
// reported as missing.
func TestSayUnseen(t *testing.T) {
	const file = "outcomes:\n  buy: {span: buy}\n  sell: {span: sell}\n"
	for whole, want := range []string{"the observation ended before two whole windows were over: let it run for some seconds\n", "", "outcome buy: no span named"} {
		var log strings.Builder
		f := newFramePrinter(silent{&log}, &log)
		f.system, f.seen["sell"] = &scope.System{Source: []byte(file), Outcomes: []scope.OutcomeSystem{
			{Spec: outcome.Spec{Name: "buy", Span: "buy"}}, {Spec: outcome.Spec{Name: "sell", Span: "sell"}}}}, true
		f.whole = whole
		if err := f.sayUnseen(nil); err != nil {
			t.Fatal(err)
		}
		if whole == 1 { // the same as for none
			want = "the observation ended before"
		}
		if got := log.String(); !strings.HasPrefix(got, want) || strings.Count(got, "\n") != 1 {
			t.Errorf("after %d whole windows: %q, want %q", whole, got, want)
		}
	}
}

// An outcome whose windows are not observed is not reported as missing, however many windows there were.
func TestSayUnobserved(t *testing.T) {
	var log strings.Builder
	f := newFramePrinter(silent{&log}, &log)
	f.system = &scope.System{Source: []byte("outcomes:\n  buy: {span: buy}\n"), Outcomes: []scope.OutcomeSystem{{Spec: outcome.Spec{Name: "buy", Span: "buy"}}}}
	for range 5 {
		if err := f.Framed(nil, &scope.Frame{Outcomes: []scope.Outcome{{Name: "buy", Counts: outcome.Counts{Unobserved: true}}}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.sayUnseen(nil); err != nil {
		t.Fatal(err)
	}
	if got, want := log.String(), "outcome buy: it is not known whether it had instances: its last window was not observed\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// An outcome that cannot be observed here was reported at the beginning. It neither keeps windows
// from being whole, nor is it reported as missing.
func TestSayLacking(t *testing.T) {
	var log strings.Builder
	f := newFramePrinter(silent{&log}, &log)
	gc, buy := outcome.Spec{Name: "gc", VM: outcome.Events{Builtin: "gc"}}, outcome.Spec{Name: "buy", Span: "buy"}
	f.lacks = func(s outcome.Spec) bool { return s == gc }
	f.system = &scope.System{Source: []byte("outcomes:\n  gc: {vm: gc}\n  buy: {span: buy}\n"), Outcomes: []scope.OutcomeSystem{{Spec: gc}, {Spec: buy}}}
	for range 3 {
		if err := f.Framed(nil, &scope.Frame{Outcomes: []scope.Outcome{{Name: "gc", Spec: gc, Counts: outcome.Counts{Unobserved: true}}, {Name: "buy", Spec: buy}}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.sayUnseen(nil); err != nil {
		t.Fatal(err)
	}
	if got, want := log.String(), "outcome buy: no span named"; f.whole != 3 || !strings.HasPrefix(got, want) || strings.Count(got, "\n") != 1 {
		t.Errorf("%d whole windows, %q, want one line with %q", f.whole, got, want)
	}
}

// Completely observed windows count as whole. The first window without any outcome does not,
// because it cannot show whether it was complete.
func TestWholeWindows(t *testing.T) {
	f := newFramePrinter(silent{io.Discard}, io.Discard)
	frame := func(unobserved ...bool) {
		t.Helper()
		var frame scope.Frame
		for _, u := range unobserved {
			frame.Outcomes = append(frame.Outcomes, scope.Outcome{Counts: outcome.Counts{Unobserved: u}})
		}
		if err := f.Framed(nil, &frame); err != nil {
			t.Fatal(err)
		}
	}
	defer func() {
		if f.missed != 2 {
			t.Errorf("%d windows were not observed, want 2", f.missed)
		}
	}()
	for i, test := range []struct {
		unobserved []bool
		want       int
	}{{nil, 0}, {nil, 1}, {[]bool{true}, 1}, {[]bool{false, true}, 1}, {[]bool{false, false}, 2}} {
		if frame(test.unobserved...); f.whole != test.want {
			t.Errorf("after frame %d: %d whole windows, want %d", i, f.whole, test.want)
		}
	}
}

// At the beginning the log names the outcomes that are observed only later.
func TestSayLater(t *testing.T) {
	var log strings.Builder
	sayLater(&log, laterLook())
	if got, want := log.String(), "observed later, one after the other, while no spans are seen and this costs little: run, message\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	log.Reset()
	if sayLater(&log, nil); log.Len() > 0 {
		t.Errorf("%q without any outcome", log.String())
	}
}

// An interrupted doctor makes no statement about the machine.
func TestDoctorInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out strings.Builder
	if err := (doctorFlags{}).examine(ctx, &out, io.Discard); err == nil || strings.Contains(err.Error(), "cannot work") || out.Len() > 0 {
		t.Errorf("error %v, output %q", err, out.String())
	}
}
