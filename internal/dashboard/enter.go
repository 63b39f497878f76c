package dashboard

import (
	"github.com/gdamore/tcell/v2"
	"github.com/rivo/tview"

	"github.com/beamscope/beamscope/internal/tui"
)

// enter asks for a line of text that may be wrong. Answer is given it, and how to say
// what came of it: with an error the text stays to be mended, with the error below
// it.
// All lines of text are asked for this way: what was typed is never lost to an error, and
// never goes to what is below.
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
			d.fail(err) // somebody has not waited for it
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
