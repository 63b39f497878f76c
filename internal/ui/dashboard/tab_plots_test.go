package dashboard

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/rivo/tview"
)

// plots returns the names of the outcomes of each plot.
func (h *harness) plots() [][]string {
	var all [][]string
	h.do(func() {
		for _, p := range h.d.grid.panels {
			all = append(all, slices.Clone(p.outcomes))
		}
	})
	return all
}

func (h *harness) wantPlots(want ...[]string) {
	h.t.Helper()
	if diff := cmp.Diff(want, h.plots()); diff != "" {
		h.t.Errorf("plots, -want +got:\n%s", diff)
	}
}

// Plots are moved, removed, edited and added.
func TestPlots(t *testing.T) {
	h := start(t, "mm1k", 20, 120, 40, 256)
	h.keys("p")
	h.shows("plots                                   3 of 9", "║1 probe ", "║2 worker_1 ", "║3 worker_2 ")
	h.hides("in no plot")
	h.key(tcell.KeyDown)
	h.keys("]")
	h.wantPlots([]string{"worker_1"}, []string{"probe"}, []string{"worker_2"})
	h.keys("]]]")
	h.wantPlots([]string{"worker_1"}, []string{"worker_2"}, []string{"probe"})
	h.keys("[")
	h.wantPlots([]string{"worker_1"}, []string{"probe"}, []string{"worker_2"})
	h.keys("d")
	h.wantPlots([]string{"worker_1"}, []string{"worker_2"})
	h.shows("in no plot", "║  probe ")

	h.key(tcell.KeyUp, tcell.KeyUp) // the first plot
	h.selectRow("outcome probe")
	h.key(tcell.KeyEnter)
	h.wantPlots([]string{"worker_1"}, []string{"worker_2"}, []string{"probe"})
	h.hides("in no plot")

	h.key(tcell.KeyEnter) // of the new plot, which is selected
	h.shows("plot 3 shows", "✓ probe", "Space ticks")
	h.key(tcell.KeyDown, tcell.KeyDown)
	h.keys(" ")
	h.key(tcell.KeyEnter)
	h.wantPlots([]string{"worker_1"}, []string{"worker_2"}, []string{"probe", "worker_2"})

	h.key(tcell.KeyEnter)
	h.keys(" ") // removes the outcome
	h.key(tcell.KeyEscape)
	h.wantPlots([]string{"worker_1"}, []string{"worker_2"}, []string{"probe", "worker_2"})
	h.key(tcell.KeyEnter)
	h.keys(" ")
	h.key(tcell.KeyDown, tcell.KeyDown)
	h.keys(" ")
	h.key(tcell.KeyEnter)
	h.wantPlots([]string{"worker_1"}, []string{"worker_2"})
}

// There are at most nine plots, and possibly none.
func TestMostAndFewestPlots(t *testing.T) {
	h := start(t, "mm1k", 20, 80, 24, 256)
	h.keys("p")
	for range maxPlots - 3 {
		h.keys("a")
		h.key(tcell.KeyEnter)
		h.shows("tick one at least: Space does so")
		h.keys(" ")
		h.key(tcell.KeyEnter)
	}
	if n := len(h.plots()); n != maxPlots {
		t.Fatalf("%d plots", n)
	}
	h.shows("9 of 9")
	h.keys("a")
	h.shows("there are 9 plots: as many as there can be")
	for n := maxPlots; n > 0; n-- {
		h.keys("d")
		h.shows(fmt.Sprintf("%d of 9", n-1))
	}
	h.wantPlots()
	h.shows("There is none: a adds one.", "in no plot")
	h.keys("d")
	h.shows("select a plot first")
}

// The plot that is selected in the tab is the one on which keys beside it act.
func TestSelectedPlotGetsKeys(t *testing.T) {
	h := start(t, "mm1k", 20, 120, 40, 256)
	h.keys("p")
	h.mouse("║2 worker_1", tview.MouseLeftDown)
	x, y := h.find("║2 worker_1")
	h.mouseAt(x+2, y, tview.MouseLeftClick)
	if h.d.grid.selected != 1 {
		t.Errorf("plot %d is selected", h.d.grid.selected+1)
	}
	h.mouseAt(x+2, y, tview.MouseLeftDoubleClick)
	h.shows("plot 2 shows", "✓ worker_1")
	h.mouse("✓ worker_1", tview.MouseLeftClick)
	h.hides("✓ worker_1")
}

// The polling window changes in steps, or to an entered value.
func TestPolling(t *testing.T) {
	h := start(t, "mm1k", 20, 120, 40, 256)
	h.keys("p+")
	if w := h.last(0).Window; w != 2*time.Second {
		t.Errorf("window %v", w)
	}
	h.shows("polling window 2s", "the polling window is 2s: w saves it")
	h.key(tcell.KeyEnter)
	h.key(tcell.KeyBackspace2, tcell.KeyBackspace2)
	h.keys("11s")
	h.key(tcell.KeyEnter)
	h.shows(`"11s": write a number and a unit`, "║11s")
	h.key(tcell.KeyBackspace2, tcell.KeyBackspace2, tcell.KeyBackspace2)
	h.keys("750ms")
	h.key(tcell.KeyEnter)
	if w := h.last(1).Window; w != 750*time.Millisecond {
		t.Errorf("window %v", w)
	}
	h.keys("-")
	if w := h.last(2).Window; w != 500*time.Millisecond {
		t.Errorf("window %v", w)
	}
}

func TestStepFrom(t *testing.T) {
	for _, test := range []struct {
		from string
		by   int
		want string
	}{
		{"100ms", -1, "100ms"}, {"100ms", 1, "200ms"}, {"150ms", 1, "200ms"}, {"150ms", -1, "100ms"},
		{"500ms", -1, "200ms"}, {"1s", 1, "2s"}, {"7s", 1, "10s"}, {"7s", -1, "5s"}, {"10s", 1, "10s"},
	} {
		from, _ := time.ParseDuration(test.from)
		want, _ := time.ParseDuration(test.want)
		if got := stepFrom(from, test.by); got != want {
			t.Errorf("%v, %+d: %v, want %v", from, test.by, got, want)
		}
	}
}
