package dashboard

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/beamscope/beamscope/internal/ui/braille"
	"github.com/beamscope/beamscope/internal/ui/plot"
	"github.com/beamscope/beamscope/internal/ui/tui"
	"github.com/beamscope/beamscope/internal/ui/tui/tuitest"
)

// The legend covers no part of a QTA. No line of a QTA ends directly beside it, as if it belonged
// to the legend.
func TestLegendLeavesQTA(t *testing.T) {
	r := replay(t, "mm1k")
	rapid.Check(t, func(rt *rapid.T) {
		frame := rapid.IntRange(0, len(r.frames)-1).Draw(rt, "window")
		name := rapid.SampledFrom([]string{"probe", "worker_1", "worker_2"}).Draw(rt, "probe")
		s := r.series(t, frame, -1, name)
		if len(s.Curves) == 0 {
			return
		}
		s.Judged, s.MinSuccess = true, rapid.Float64Range(0, 1).Draw(rt, "in the end")
		for n := range s.Required {
			s.Required[n].P = rapid.Float64Range(0, 1).Draw(rt, "share")
		}
		v := newPlotView(&theme{tui.NewTheme(256)})
		width, height := rapid.IntRange(20, 120).Draw(rt, "width"), rapid.IntRange(6, 40).Draw(rt, "height")
		v.SetRect(0, 0, width, height)
		v.show("probe", []plot.Series{s})
		if rapid.Bool().Draw(rt, "log") {
			v.toggleLog()
		}
		screen := newScreen(t, width, height)
		v.Draw(screen)
		if v.legendAt == (area{}) {
			return
		}
		g := v.layout()
		var canvas braille.Canvas
		canvas.Resize(g.width, g.height)
		v.drawStairs(chart{&canvas, xScale{v.axis(), g.width}, yScale{v.low, v.high, g.height}, &edgeDots{}}, s.Requirement())
		a := v.legendAt
		for y := a.y; y < a.y+a.height; y++ {
			for x := a.x - 1; x < a.x+a.width+1; x++ {
				if !canvas.Blank(x, y) {
					rt.Fatalf("the QTA runs into the legend at (%d, %d) of the curves:\n%s", x, y, tuitest.Text(screen))
				}
			}
		}
	})
}
