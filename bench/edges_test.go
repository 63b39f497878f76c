//go:build linux

package main

import (
	"testing"
	"time"

	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// Nearly all inferred senders are right, and most messages have one, on a busy machine too. The
// bounds are far below the figures in docs/reference/explain.md.
func TestEdges(t *testing.T) {
	const precision, recall, enough = 0.98, 0.7, 1000
	vmtest.NeedEBPF(t)
	for _, system := range chatters() {
		t.Run(system.name, func(t *testing.T) {
			c, err := system.listen(t.Context(), vmtest.Private(t), 2*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			a := c.accuracy()
			t.Logf("%+v: precision %.4f, recall %.4f; %d events, %d lost", a, a.precision(), a.recall(), c.events, c.lost)
			if a.messages < enough || a.precision() < precision || a.recall() < recall {
				t.Errorf("%+v: precision %.4f, recall %.4f; %d events, %d lost", a, a.precision(), a.recall(), c.events, c.lost)
			}
		})
	}
}
