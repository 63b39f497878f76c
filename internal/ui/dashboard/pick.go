package dashboard

import (
	"slices"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/tview"

	"github.com/beamscope/beamscope/internal/ui/tui"
)

// pick shows a list from which the user ticks items. It passes answer the ticked items in the
// order of the list. If answer returns an error, the list stays open with the error below.
func (d *Dashboard) pick(title string, all, ticked []string, answer func([]string) error) {
	p := &picking{d: d, all: all, ticked: make(map[string]bool), answer: answer}
	for _, name := range ticked {
		p.ticked[name] = true
	}
	p.table = tview.NewTable().SetSelectable(true, false).SetSelectedStyle(d.theme.Selected())
	p.below = tview.NewTextView().SetDynamicColors(true).SetWordWrap(true)
	p.say(dim, "Space ticks, Enter: done, Esc: as it was")
	p.table.SetInputCapture(p.press)
	p.table.SetMouseCapture(p.click)
	p.refresh()
	whole := tview.NewFlex().SetDirection(tview.FlexRow).AddItem(p.table, 0, 1, true).AddItem(p.below, 2, 0, false)
	tui.Box(whole.Box, " "+title+" ")
	width := 42
	for _, name := range all {
		width = max(width, tui.Columns(name)+6)
	}
	d.cover("pick", whole, []string{"Space", "ticks", "Enter", "done", "Esc", "as it was"}, func() (int, int) { return min(width, max(d.width-4, 30)), min(len(all)+4, max(d.height-2, 6)) })
}

// picking is a list with ticks.
type picking struct {
	d      *Dashboard
	all    []string
	ticked map[string]bool
	answer func([]string) error
	table  *tview.Table
	below  *tview.TextView
}

func (p *picking) say(n tone, text string) {
	p.below.SetText(p.d.theme.Tag(n) + tview.Escape(text) + "[-:-:-]")
}

func (p *picking) refresh() {
	for i, name := range p.all {
		mark := "  "
		if p.ticked[name] {
			mark = "✓ "
		}
		p.table.SetCell(i, 0, tview.NewTableCell(" "+mark+tview.Escape(name)).SetExpansion(1))
	}
}

func (p *picking) press(e *tcell.EventKey) *tcell.EventKey {
	switch pressOf(e) {
	case char(' '):
		at, _ := p.table.GetSelection()
		p.tick(at)
		return nil
	case press{key: tcell.KeyEnter}:
		p.done()
		return nil
	}
	return e
}

// tick changes whether a line is ticked.
func (p *picking) tick(at int) {
	if at >= 0 && at < len(p.all) {
		p.ticked[p.all[at]] = !p.ticked[p.all[at]]
		p.refresh()
	}
}

func (p *picking) done() {
	chosen := slices.DeleteFunc(slices.Clone(p.all), func(name string) bool { return !p.ticked[name] })
	if err := p.answer(chosen); err != nil {
		p.say(alert, err.Error())
		return
	}
	p.d.uncover()
}

// click ticks the line under the mouse.
func (p *picking) click(action tview.MouseAction, e *tcell.EventMouse) (tview.MouseAction, *tcell.EventMouse) {
	if action != tview.MouseLeftClick && action != tview.MouseLeftDoubleClick {
		return action, e
	}
	if at, _ := p.table.CellAt(e.Position()); at >= 0 {
		p.table.Select(at, 0)
		p.tick(at)
	}
	return action, nil
}
