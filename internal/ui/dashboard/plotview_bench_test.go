package dashboard

import (
	"testing"
	"time"

	"github.com/gdamore/tcell/v2"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/ui/plot"
	"github.com/beamscope/beamscope/internal/ui/tui"
)

// Size of one of six plots on a terminal of 200 columns and 60 rows.
const (
	wideWidth, wideHeight = 66, 29
	manyBins              = 1000
)

// busy returns an outcome with the largest number of bins and everything that a plot can draw.
func busy(t testing.TB) plot.Series {
	t.Helper()
	g, err := dq.NewGrid(50*time.Microsecond, manyBins)
	if err != nil {
		t.Fatal(err)
	}
	counts := make([]uint64, manyBins)
	band := dq.Band{Mean: make([]float64, manyBins+1), Lo: make([]float64, manyBins+1), Hi: make([]float64, manyBins+1)}
	for i := range counts {
		counts[i] = uint64((manyBins - i) * (i%7 + 1))
		x := float64(i) / manyBins
		band.Mean[i+1], band.Lo[i+1], band.Hi[i+1] = x, x*0.9, x*1.05
	}
	o, err := dq.FromCounts(g, counts, 0, 90_000)
	if err != nil {
		t.Fatal(err)
	}
	d, err := o.DeltaQ()
	if err != nil {
		t.Fatal(err)
	}
	q, err := dq.Quartiles(2*time.Millisecond, 12*time.Millisecond, 17*time.Millisecond, 0.01)
	if err != nil {
		t.Fatal(err)
	}
	mean := scope.Mean{Width: 50 * time.Microsecond, Windows: 10, Band: band}
	p := &scope.Outcome{
		Name:       "busy",
		Spec:       outcome.Spec{BinWidth: 50 * time.Microsecond, Bins: manyBins},
		Counts:     outcome.Counts{Successes: o.Successes(), Timeouts: o.Timeouts(), Bins: counts},
		Observed:   o,
		Calculated: d, Mean: mean, CalculatedMean: mean,
	}
	return plot.Of(p, &q, p, "")
}

func BenchmarkPlotView(b *testing.B) {
	for _, bb := range []struct {
		name string
		do   func(*plotView)
	}{
		{"linear", func(*plotView) {}},
		{"log", func(v *plotView) { v.toggleLog() }},
		{"cursor", func(v *plotView) { v.cursorTo(0.5) }},
	} {
		b.Run(bb.name, func(b *testing.B) {
			v := newPlotView(&theme{tui.NewTheme(256)})
			v.SetRect(0, 0, wideWidth, wideHeight)
			series := []plot.Series{busy(b)}
			v.show("busy", series)
			bb.do(v)
			screen := tcell.NewSimulationScreen("UTF-8")
			if err := screen.Init(); err != nil {
				b.Fatal(err)
			}
			defer screen.Fini()
			screen.SetSize(wideWidth, wideHeight)
			b.ReportAllocs()
			for b.Loop() {
				v.show("busy", series)
				v.Draw(screen)
			}
		})
	}
}
