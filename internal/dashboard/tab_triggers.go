package dashboard

import "github.com/rivo/tview"

type triggersTab struct {
	*tview.Box
	d *Dashboard
}

func newTriggersTab(d *Dashboard) tab { return &triggersTab{tview.NewBox(), d} }

func (t *triggersTab) name() string        { return "triggers" }
func (t *triggersTab) refresh()            {}
func (t *triggersTab) bindings() []binding { return nil }
