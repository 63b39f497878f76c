package session_test

import (
	"testing"

	"github.com/beamscope/beamscope/internal/engine/session"
)

// A run reports timeouts that are due to a default dMax.
func TestDefaultDMaxIsReported(t *testing.T) {
	const scopeFile = "window: 200ms\ndiagram: p = worker_1 -> worker_2;\noutcomes: {worker_2: {dmax: 1ms, bins: 10}}\n"
	r := start(t, []string{"mm1k", "rate=20", "loops=0", "delay=300"}, scopeFile, session.Options{})
	r.await(t, "a notice of the default dMax", func() bool { return r.noticed("took longer than 50ms, which is the default of dmax") })
	if r.noticed("worker_2: ") {
		t.Error("the dMax of worker_2 was set")
	}
}
