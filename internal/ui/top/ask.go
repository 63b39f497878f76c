package top

import (
	"github.com/gdamore/tcell/v2"
	"github.com/rivo/tview"
)

// ask lets the user enter a filter in the message line. The filter applies while it is typed.
func (v *View) ask() {
	v.field = tview.NewInputField().SetLabel("only rows with ").SetText(v.shown.Filter)
	v.field.SetFieldStyle(tcell.StyleDefault.Underline(true))
	v.field.SetChangedFunc(func(text string) { v.do(func(m *Model) { m.Filter(text) }) })
	v.field.SetDoneFunc(func(k tcell.Key) {
		if k == tcell.KeyEscape {
			v.unfilter()
		}
		v.whole.RemoveItem(v.field)
		v.whole.ResizeItem(v.message, 1, 0)
		v.field = nil
		v.app.SetFocus(v.table)
		v.refresh()
	})
	v.whole.ResizeItem(v.message, 0, 0)
	v.whole.RemoveItem(v.hints)
	v.whole.AddItem(v.field, 1, 0, true).AddItem(v.hints, 1, 0, false)
	v.app.SetFocus(v.field)
}

// showHelp covers the table with the help.
func (v *View) showHelp() {
	v.help(v.bindings(), "A figure with ~ is of starts and ends that were paired by their order. - is not known.\n"+
		"The mouse works too: a click on the head of a column sorts, one on a row selects it.")
}
