package main

import (
	"context"
	"strings"
	"testing"

	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/scope"
)

// A run that ends before it has a window of the spans that it discovered does not say that
// none started.
func TestSayNoSpans(t *testing.T) {
	system := func(spec outcome.Spec) *scope.System {
		return &scope.System{Probes: []scope.ProbeSystem{{Spec: spec}}}
	}
	for _, test := range []struct {
		system     *scope.System
		discovered bool
		want       string
	}{
		{system(outcome.Spec{Name: "gc"}), false, "no span started"},
		{system(outcome.Spec{Name: "gc"}), true, "it ended before the first window of the spans that were discovered"},
		{system(outcome.Spec{Name: "buy", Span: "buy"}), true, ""},
		{nil, true, ""},
	} {
		var log strings.Builder
		f := &framePrinter{log: &log, system: test.system}
		f.sayNoSpans(test.discovered)
		if got := log.String(); !strings.HasPrefix(got, test.want) || test.want == "" && got != "" {
			t.Errorf("discovered %v: %q, want %q", test.discovered, got, test.want)
		}
	}
}

// What is observed only later is named at the beginning.
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
