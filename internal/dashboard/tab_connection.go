package dashboard

import "github.com/rivo/tview"

type connectionTab struct {
	*tview.Box
	d *Dashboard
}

func newConnectionTab(d *Dashboard) tab { return &connectionTab{tview.NewBox(), d} }

func (t *connectionTab) name() string        { return "connection" }
func (t *connectionTab) refresh()            {}
func (t *connectionTab) bindings() []binding { return nil }
