package bpf_test

import (
	"testing"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/vmtest"
)

// The cost of a hit is measured on a probe of our own, which is then off again.
func TestMeasureTrap(t *testing.T) {
	vmtest.NeedEBPF(t)
	for range 2 {
		cost, err := bpf.MeasureTrap()
		if err != nil {
			t.Fatal(err)
		}
		if cost <= 0 {
			t.Errorf("a hit costs %v", cost)
		}
	}
}
