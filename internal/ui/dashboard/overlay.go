package dashboard

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/tview"

	"github.com/beamscope/beamscope/internal/ui/tui"
)

// An overlay covers the middle of the screen.
type overlay struct {
	name  string
	frame *tview.Grid
	hints []string                   // alternating keys and their effects
	size  func() (width, height int) // for the current screen size
}

// fit sets the size of the overlay.
func (o *overlay) fit() {
	width, height := o.size()
	o.frame.SetColumns(0, width, 0).SetRows(0, height, 0)
}

// cover shows a primitive in the middle above everything else. The hints alternate keys and their
// effects.
func (d *Dashboard) cover(name string, p tview.Primitive, hints []string, size func() (width, height int)) {
	frame := tview.NewGrid().AddItem(p, 1, 1, 1, 1, 0, 0, true)
	frame.SetMouseCapture(func(action tview.MouseAction, e *tcell.EventMouse) (tview.MouseAction, *tcell.EventMouse) {
		if box, ok := p.(interface{ InRect(x, y int) bool }); ok && !box.InRect(e.Position()) {
			return tview.MouseConsumed, nil // covered primitives get no events
		}
		return action, e
	})
	o := overlay{name, frame, hints, size}
	o.fit()
	d.overlays = append(d.overlays, o)
	d.root.AddPage(name, frame, true, true)
	d.app.SetFocus(p)
	d.hints()
}

// clamp limits n to the range from least to most.
func clamp(least, n, most int) int { return min(max(n, least), most) }

// uncover removes the uppermost overlay.
func (d *Dashboard) uncover() {
	last := len(d.overlays) - 1
	d.root.RemovePage(d.overlays[last].name)
	d.overlays = d.overlays[:last]
	if last == 0 {
		d.layout()
	}
	d.refresh()
}

// pressOverlay handles keys while an overlay is open.
func (d *Dashboard) pressOverlay(e *tcell.EventKey) *tcell.EventKey {
	if e.Key() == tcell.KeyEscape {
		d.uncover()
		return nil
	}
	if d.overlays[len(d.overlays)-1].name == "help" && e.Key() == tcell.KeyRune && (e.Rune() == '?' || e.Rune() == 'q') {
		d.uncover()
		return nil
	}
	return e
}

// A reply is an answer to a question in addition to yes and no.
type reply struct {
	key  rune
	word string
	do   func()
}

// confirm asks a question and calls yes if the user agrees.
func (d *Dashboard) confirm(question string, yes func(), others ...reply) {
	words, hints := "y yes   n no", []string{"y", "yes", "n", "no"}
	for _, o := range others {
		words += fmt.Sprintf("   %c %s", o.key, o.word)
		hints = append(hints, string(o.key), o.word)
	}
	text := tview.NewTextView().SetText(question + "\n\n" + words).SetWordWrap(true)
	tui.Box(text.Box, " sure? ")
	text.SetInputCapture(func(e *tcell.EventKey) *tcell.EventKey {
		switch e.Rune() {
		case 'y', 'Y':
			d.uncover()
			yes()
		case 'n', 'N', 'q':
			d.uncover()
		default:
			if at := slices.IndexFunc(others, func(o reply) bool { return e.Key() == tcell.KeyRune && o.key == e.Rune() }); at >= 0 {
				d.uncover()
				others[at].do()
			}
		}
		return nil
	})
	d.cover("confirm", text, hints, func() (int, int) {
		width := clamp(30, d.width-10, 64)
		return width, len(tview.WordWrap(tview.Escape(question), width-2)) + 4
	})
}

// explainText shows a longer text with the theme's tags. text returns it for a given width.
func (d *Dashboard) explainText(name, title string, text func(width int) string) {
	view := tview.NewTextView().SetDynamicColors(true).SetWordWrap(true)
	tui.Box(view.Box, " "+title+" ")
	d.cover(name, view, []string{"Esc", "closes", "↑↓", "scroll"}, func() (int, int) {
		width := clamp(30, d.width-4, 88)
		said := text(width - 2)
		if said != view.GetText(false) {
			view.SetText(said)
		}
		return width, min(strings.Count(said, "\n")+3, max(d.height-2, 5))
	})
}

// A chapter is the part of the help about the keys in one place.
type chapter struct {
	title string
	keys  keymap
}

// chapters returns all keys: those of the table, and those of each tab.
func (d *Dashboard) chapters() []chapter {
	var all []chapter
	for _, at := range d.keys.places() {
		all = append(all, chapter{string(at), d.keys.at(at).forHelp()})
	}
	for _, t := range d.tabs {
		m := keymap(t.bindings())
		for _, at := range m.places() {
			title := string(at)
			if at == inSidebar {
				title = "in the tab " + t.name()
			}
			all = append(all, chapter{title, m.at(at).forHelp()})
		}
	}
	return all
}

// here returns all chapters. Those of the places where the user is come first.
func (d *Dashboard) here() []chapter {
	at := d.places()
	near := func(c chapter) int {
		for i, where := range at {
			if c.keys[0].where == where && (where != inSidebar || d.open != nil && c.title == "in the tab "+d.open.name()) {
				return i
			}
		}
		return len(at)
	}
	all := d.chapters()
	slices.SortStableFunc(all, func(a, b chapter) int { return cmp.Compare(near(a), near(b)) })
	return all
}

// help shows all keys of the table.
func (d *Dashboard) help() {
	const keys = 15 // columns for the keys
	chapters := d.here()
	d.explainText("help", "keys (Esc closes, ↑↓ scroll)", func(width int) string {
		var b strings.Builder
		for _, c := range chapters {
			fmt.Fprintf(&b, "[::b]%s[::-]\n", c.title)
			for i := range c.keys {
				name := fmt.Sprintf("  %-12s ", c.keys[i].keys())
				for j, line := range tui.Wrap(c.keys[i].help, max(width-max(keys, tui.Columns(name)), 10)) {
					if j > 0 {
						name = strings.Repeat(" ", keys)
					}
					b.WriteString(tview.Escape(name+line) + "\n")
				}
			}
			b.WriteString("\n")
		}
		b.WriteString("~ before a figure: starts and ends were paired by their order, so that delays are inferred.\n\n")
		b.WriteString("The mouse works too: click a plot, a row, a tab; a double click is Enter; the wheel zooms; drag to move along.")
		return b.String()
	})
}
