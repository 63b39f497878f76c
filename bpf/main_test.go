package bpf_test

import (
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/beamscope/beamscope/bpf"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// load returns the outcome for the spans of span_load, with this dMax.
func load(dMax time.Duration) bpf.Outcome { return named("load", dMax) }

func named(name string, dMax time.Duration) bpf.Outcome {
	const bins = 100
	return bpf.Outcome{Name: name, DMax: int64(dMax), BinWidth: int64(dMax) / bins, Bins: bins}
}

func streamed(o bpf.Outcome) bpf.Outcome {
	o.Stream = bpf.StreamAll
	return o
}

func exitFails(o bpf.Outcome) bpf.Outcome {
	o.ExitFails = true
	return o
}

// endless is a dMax that no span of a test reaches.
const endless = time.Hour

// spans are the arguments of a function of span_load.
func spans(procs, spans int) string {
	return fmt.Sprintf("[#{procs => %d, spans => %d}]", procs, spans)
}
