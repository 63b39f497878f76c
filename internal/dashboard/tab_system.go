package dashboard

import "github.com/rivo/tview"

type systemTab struct {
	*tview.Box
	d *Dashboard
}

func newSystemTab(d *Dashboard) tab { return &systemTab{tview.NewBox(), d} }

func (t *systemTab) name() string        { return "system" }
func (t *systemTab) refresh()            {}
func (t *systemTab) bindings() []binding { return nil }
