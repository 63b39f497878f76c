package dashboard

import "github.com/rivo/tview"

type plotsTab struct {
	*tview.Box
	d *Dashboard
}

func newPlotsTab(d *Dashboard) tab { return &plotsTab{tview.NewBox(), d} }

func (t *plotsTab) name() string        { return "plots" }
func (t *plotsTab) refresh()            {}
func (t *plotsTab) bindings() []binding { return nil }
