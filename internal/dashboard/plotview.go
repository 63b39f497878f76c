package dashboard

import (
	"github.com/rivo/tview"

	"github.com/beamscope/beamscope/internal/plot"
)

// A plotView draws the ΔQ of probes.
type plotView struct{ *tview.Box }

func newPlotView(*theme) *plotView { return &plotView{Box: tview.NewBox()} }

func (v *plotView) show(title string, _ []plot.Series) { v.SetBorder(true).SetTitle(title) }
