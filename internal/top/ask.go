package top

import (
	"fmt"
	"strings"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/tview"

	"github.com/beamscope/beamscope/internal/tui"
)

// ask has a filter entered in the line of the messages. It holds while it is typed.
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

// helpPage is what the page with the help is called.
const helpPage = "help"

// showHelp covers the table with what the keys do.
func (v *View) showHelp() {
	text := tview.NewTextView().SetDynamicColors(true).SetWordWrap(true)
	tui.Box(text.Box, " keys (Esc closes, ↑↓ scroll) ")
	var b strings.Builder
	for _, k := range v.bindings() {
		if k.help == "" {
			continue
		}
		fmt.Fprintf(&b, "%-9s%s\n", tview.Escape(k.show), tview.Escape(k.help))
	}
	b.WriteString("\nA figure with ~ is of starts and ends that were paired by their order. - is not known.\n")
	b.WriteString("The mouse works too: a click on the head of a column sorts, one on a row selects it.")
	v.root.AddPage(helpPage, text.SetText(b.String()), true, true)
	v.app.SetFocus(text)
	v.helping = true
}

// pressHelp is given the keys while the help is shown.
func (v *View) pressHelp(e *tcell.EventKey) *tcell.EventKey {
	closes := e.Key() == tcell.KeyEscape || e.Key() == tcell.KeyRune && strings.ContainsRune("?hq", e.Rune())
	if !closes && e.Key() != tcell.KeyCtrlC {
		return e
	}
	v.helping = false
	v.root.RemovePage(helpPage)
	v.app.SetFocus(v.table)
	if !closes {
		v.app.Stop()
	}
	return nil
}
