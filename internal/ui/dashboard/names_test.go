package dashboard

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gdamore/tcell/v2"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/files/config"
)

// Discovered spans can be distinguished on every screen, and long names leave room for the
// figures.
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
	frame.Fired = []scope.Firing{{Trigger: "load", Outcome: "a_b_2", VM: batch.Counts[0].VM, Cause: "much"}}
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
	shows("triggers", "outcome a_b_3 «a b»")
	h.keys("tm")
	shows("parameters", "of the spans «a b»")
	h.keys("mp")
	shows("plots", "a_b_3 «a b»")
}

// No cell of the overview is cut, however long the names and however narrow the screen. Names are
// shortened first, then whole columns disappear, and no two names look the same.
func TestLongNamesLeaveRoom(t *testing.T) {
	h := dark(t, "mm1k", 20, 256)
	names := []string{"pay_with_card_", "payment_by_credit_card_of_a_customer_in_town", "payment_by_credit_note_of_a_customer_in_town"}
	vms := []outcome.VM{{PID: 123456, Node: "shop@a-host-with-a-long-name.example"}, {PID: 7, Node: "db@host"}}
	edited(t, h, func(f *scope.Frame) {
		probes := f.Outcomes
		f.Outcomes = nil
		for i, p := range probes {
			p.Name, p.Spec.Name, p.Spec.Span, p.Counts.Loss.Missed = names[i], names[i], names[i], 153
			if i == 0 {
				p.Spec.Span = "pay with(card)"
			}
			for _, p.VM = range vms {
				f.Outcomes = append(f.Outcomes, p)
			}
		}
	})
	h.screen.SetSize(80, 24)
	h.run(80, 24)
	h.keys("o")
	for width := 40; width <= 200; width += 8 {
		h.resize(width, 24)
		var cells []string
		h.do(func() {
			o := h.d.overview
			probes := o.sorted(o.d.frame())
			seen := make(map[string]string)
			for _, c := range o.fitting(probes) {
				cells = append(cells, c.name)
				for _, p := range probes {
					text, _ := c.cell(p)
					if c.more != nil {
						text += c.more(p)
					}
					if cells = append(cells, text); c.name == "outcome" {
						if other, ok := seen[text]; ok && other != p.Name {
							t.Errorf("%d columns: %s and %s are both %q", width, other, p.Name, text)
						}
						seen[text] = p.Name
					}
				}
			}
		})
		now := h.text()
		packed := strings.ReplaceAll(now, " ", "") // the screen has a space after wide characters
		for _, text := range cells {
			if !strings.Contains(packed, strings.ReplaceAll(text, " ", "")) {
				t.Errorf("%d columns: %q is cut:\n%s", width, text, now)
			}
		}
		if width >= 80 {
			h.shows("per s", "ok", "p50", "p99", "QTA")
		}
	}
}
