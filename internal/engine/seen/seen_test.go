package seen_test

import (
	"testing"

	"github.com/beamscope/beamscope/internal/engine/seen"
)

func TestString(t *testing.T) {
	for want, s := range map[string]seen.Sight{
		"probe":                seen.By(seen.Probe),
		"stand-in, ring":       seen.By(seen.Ring).With(seen.StandIn).With(seen.Ring),
		"probe, ring":          seen.Not("no VM").With(seen.Probe).With(seen.Ring),
		"not at all: no eBPF":  seen.Not("no eBPF"),
		"probe, kernel":        seen.By(seen.Kernel).With(seen.Probe),
		"stand-in, ring, tcp":  seen.By(seen.TCP).With(seen.Ring).With(seen.StandIn),
		"probe, ring, script":  seen.By(seen.Script).With(seen.Ring).With(seen.Probe),
		"not at all: it ended": {Why: "it ended"},
	} {
		if got := s.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// With changes no other sight.
func TestWith(t *testing.T) {
	first := seen.By(seen.Ring)
	_ = first.With(seen.Probe)
	if got := first.String(); got != "ring" {
		t.Errorf("it became %q", got)
	}
}
