package dashboard

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gdamore/tcell/v2"

	"github.com/beamscope/beamscope/internal/config"
	"github.com/beamscope/beamscope/internal/scope"
)

// Discovered spans can be told apart on every screen, and a long name leaves room for
// the figures.
func TestDiscoveredNames(t *testing.T) {
	c := config.Default()
	long := strings.Repeat("x", 250)
	for _, span := range []string{"日本語", "ключ", "a/b", "a-b", "a b", long + "_head", long + "_tail"} {
		var err error
		if c, err = c.WithSpan(span, config.Scale{Bins: 50}); err != nil {
			t.Fatal(err)
		}
	}
	system, err := c.System()
	if err != nil {
		t.Fatal(err)
	}
	engine, err := scope.NewEngine(system)
	if err != nil {
		t.Fatal(err)
	}
	batch := batchOf(system, rand.New(rand.NewPCG(1, 2)), 0)
	frame, err := engine.Step(batch)
	if err != nil {
		t.Fatal(err)
	}
	frame.Fired = []scope.Firing{{Trigger: "load", Probe: "a_b_2", VM: batch.Counts[0].VM, Cause: "much"}}
	screen := tcell.NewSimulationScreen("UTF-8")
	h := &harness{t: t, screen: screen, control: &control{config: c}, d: New(Options{Title: "live", Overview: true, Screen: screen})}
	if err := h.d.Configured(system, system.Plan(0)); err != nil {
		t.Fatal(err)
	}
	if err := h.d.Framed(batch, frame); err != nil {
		t.Fatal(err)
	}
	screen.SetSize(80, 30)
	h.run(80, 30)
	shows := func(where string, texts ...string) {
		t.Helper()
		now := h.text()
		for _, text := range texts {
			if !strings.Contains(now, text) {
				t.Errorf("%s: no %q:\n%s", where, text, now)
			}
		}
	}
	shows("overview", "日本語 ", "ключ", "a_b «a/b»", "a_b_2 «a-b»", "a_b_3 «a b»", "xx…xx", "_head", "_tail", "per s", "p50", "p99", "QTA",
		"load of a_b_2 «a-b»")
	h.key(tcell.KeyDown, tcell.KeyDown, tcell.KeyDown)
	shows("preview", "─ a_b_2 «a-b» · n=")
	h.key(tcell.KeyDown, tcell.KeyDown)
	shows("preview of a long name", "…xxxxx", "_head · n=")
	h.key(tcell.KeyEnter)
	shows("plot", "═ 1 xxxx", "_head · n=")
	h.keys("o")
	h.key(tcell.KeyUp)
	h.keys("a")
	shows("plot of two", "a_b_3 «a b»")
	h.keys("t")
	shows("triggers", "probe a_b_3 «a b»")
	h.keys("tm")
	shows("parameters", "of the spans «a b»")
	h.keys("mp")
	shows("plots", "a_b_3 «a b»")
}
