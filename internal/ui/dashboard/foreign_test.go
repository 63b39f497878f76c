package dashboard

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gdamore/tcell/v2"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/files/config"
)

// foreign looks like a tag, contains the escape sequence for a terminal's title, and has a line
// break.
const foreign = "a[red]b\x1b]0;title\x07\nc"

// The dashboard shows foreign names literally, and leaves out what a terminal would interpret.
func TestForeignNames(t *testing.T) {
	c := config.Default()
	c.Outcomes = []config.Outcome{{Name: "work", Span: "work", Scale: config.Scale{Bins: 50}}}
	system, err := c.System()
	if err != nil {
		t.Fatal(err)
	}
	engine, err := scope.NewEngine(system)
	if err != nil {
		t.Fatal(err)
	}
	batch := batchOf(system, rand.New(rand.NewPCG(1, 2)), 0)
	batch.Counts = append(batch.Counts, batch.Counts[0])
	batch.Counts[0].VM.Node, batch.Counts[1].VM = foreign, outcome.VM{PID: 2, Node: foreign}
	frame, err := engine.Step(batch)
	if err != nil {
		t.Fatal(err)
	}
	frame.Fired = []scope.Firing{{Trigger: "load", Outcome: "work", VM: batch.Counts[1].VM, Cause: foreign, Explanation: foreign}}
	screen := tcell.NewSimulationScreen("UTF-8")
	h := &harness{t: t, screen: screen, control: &control{config: c}, d: New(Options{Title: foreign, Screen: screen})}
	if err := h.d.Configured(system, system.Plan(0)); err != nil {
		t.Fatal(err)
	}
	if err := h.d.Framed(batch, frame); err != nil {
		t.Fatal(err)
	}
	if err := h.d.Noticed(outcome.Notice{Text: foreign}); err != nil {
		t.Fatal(err)
	}
	screen.SetSize(200, 60)
	h.run(200, 60)
	shows := func(where string, least int) {
		t.Helper()
		if cells, _, _ := screen.GetContents(); slices.ContainsFunc(cells, func(c tcell.SimCell) bool { return slices.ContainsFunc(c.Bytes, func(b byte) bool { return b < ' ' }) }) {
			t.Errorf("%s: a control character is on the screen", where)
		}
		if n := strings.Count(h.text(), "a[red]b"); n < least {
			t.Errorf("%s: the name is shown %d times, want %d at least:\n%s", where, n, least, h.text())
		}
	}
	const header, legend, rows = 1, 2, 2
	shows("plots", header+legend)
	h.keys("o")
	shows("overview", header+rows)
	h.keys("t")
	shows("what fired", header+rows+1)
	h.keys("tc")
	shows("notices", header+rows+1)
}
