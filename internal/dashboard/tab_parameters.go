package dashboard

import "github.com/rivo/tview"

type parametersTab struct {
	*tview.Box
	d *Dashboard
}

func newParametersTab(d *Dashboard) tab { return &parametersTab{tview.NewBox(), d} }

func (t *parametersTab) name() string        { return "parameters" }
func (t *parametersTab) refresh()            {}
func (t *parametersTab) bindings() []binding { return nil }
