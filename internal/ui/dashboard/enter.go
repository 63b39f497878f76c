package dashboard

import (
	"github.com/gdamore/tcell/v2"
	"github.com/rivo/tview"

	"github.com/beamscope/beamscope/internal/ui/tui"
)

// enter asks for a line of text that may be invalid. It passes answer the text and a function
// that reports the result. After an error the text stays for correction, with the error below it.
// All text input uses enter: an error never discards what the user typed, and the keys never
// reach what is below.
func (d *Dashboard) enter(question, hint, text string, answer func(text string, settled func(error))) {
	field := tview.NewInputField().SetText(text)
	field.SetFieldStyle(tcell.StyleDefault.Underline(true))
	below := tview.NewTextView().SetDynamicColors(true).SetWordWrap(true).SetText(d.theme.Tag(dim) + tview.Escape(hint) + "[-:-:-]")
	waiting := false
	settled := func(err error) {
		waiting = false
		switch {
		case err != nil && field.HasFocus():
			below.SetText(d.theme.Tag(alert) + tview.Escape(err.Error()) + "[-:-:-]")
		case err != nil:
			d.fail(err) // the user has left the input line meanwhile
		case field.HasFocus():
			d.uncover()
		}
	}
	field.SetDoneFunc(func(k tcell.Key) {
		if k == tcell.KeyEnter && !waiting {
			waiting = true
			answer(field.GetText(), settled)
		}
	})
	whole := tview.NewFlex().SetDirection(tview.FlexRow).AddItem(field, 1, 0, true).AddItem(below, 0, 1, false)
	tui.Box(whole.Box, " "+question+" (Enter, or Esc) ")
	d.cover("enter", whole, []string{"Enter", "answers", "Esc", "leaves it"}, func() (int, int) { return clamp(30, d.width-10, 76), 8 })
}
