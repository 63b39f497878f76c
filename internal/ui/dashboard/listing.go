package dashboard

import (
	"slices"
	"strings"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/tview"

	"github.com/beamscope/beamscope/internal/ui/tui"
)

// A row is a line of a listing.
type row struct {
	key    string // identifies a row that can be selected; "" if it cannot be
	cells  []cell // beside each other
	detail string // details of the row, with the theme's tags
	open   func() // called by Enter and a double click; nil for nothing
}

// A cell is a piece of a row.
type cell struct {
	text  string
	width int // in columns; 0 means the rest of the line
	tone  tone
	right bool // aligned to the right
}

// A listing is a list of lines. Some can be selected, and the details of the selected one appear
// below the list.
type listing struct {
	*tview.Flex
	theme  *theme
	table  *tview.Table
	detail *tview.TextView
	rows   []row
	width  int // of a line
	lines  int // lines of details below the list

	moved func() // called when the user selects another row, unless it is nil
}

// leastDetail is the least number of lines below the list, so that the list does not move with
// every step.
const leastDetail = 5

func newListing(title string, t *theme) *listing {
	l := &listing{
		Flex:   tview.NewFlex().SetDirection(tview.FlexRow),
		theme:  t,
		table:  tview.NewTable().SetSelectable(true, false).SetSelectedStyle(t.Selected()),
		detail: tview.NewTextView().SetDynamicColors(true).SetWordWrap(true),
	}
	tui.Box(l.Box, " "+title+" ")
	l.AddItem(l.table, 0, 1, true).AddItem(l.detail, leastDetail, 0, false)
	l.table.SetSelectionChangedFunc(func(int, int) { l.describe() })
	l.table.SetMouseCapture(l.click)
	return l
}

// show shows rows in lines of a width. It keeps the selection while that row exists.
func (l *listing) show(rows []row, width int) {
	was := l.selected()
	at, _ := l.table.GetSelection()
	l.rows, l.width = rows, width
	l.table.SetOffset(l.table.GetOffset()) // otherwise the table would follow its end once all of it was visible
	l.table.Clear()
	// Without a selectable row, tview would search for one forever.
	l.table.SetSelectable(slices.ContainsFunc(rows, func(r row) bool { return r.key != "" }), false)
	for i := range rows {
		text := l.theme.line(&rows[i], width)
		l.table.SetCell(i, 0, tview.NewTableCell(text).SetSelectable(rows[i].key != "").SetExpansion(1))
	}
	if next := l.nearest(was, at); next != at {
		l.table.Select(next, 0)
	}
	l.describe()
}

// SetRect implements [tview.Primitive]. It keeps the selection visible if there is less space.
func (l *listing) SetRect(x, y, width, height int) {
	_, _, _, was := l.GetRect()
	l.Flex.SetRect(x, y, width, height)
	if height != was {
		l.share()
		l.table.Select(l.table.GetSelection())
	}
}

// share gives the details the space that they need, and the list the rest, at least two lines.
func (l *listing) share() {
	_, _, _, height := l.GetInnerRect()
	l.ResizeItem(l.detail, max(min(max(l.lines, leastDetail), height-2), 0), 0)
}

// line returns a row as tagged text of a width.
func (t *theme) line(r *row, width int) string {
	left := width - max(len(r.cells)-1, 0)
	for _, c := range r.cells {
		left -= c.width
	}
	var b strings.Builder
	for i, c := range r.cells {
		if i > 0 {
			b.WriteString(" ")
		}
		width := c.width
		if width == 0 {
			width = max(left, 0)
		}
		b.WriteString(t.Tag(c.tone) + tview.Escape(tui.Fit(c.text, width, c.right)) + "[-:-:-]")
	}
	return b.String()
}

// nearest returns the index of the row with a key. If there is none, it returns the selectable
// row nearest to at.
func (l *listing) nearest(key string, at int) int {
	best := 0
	for i, r := range l.rows {
		switch {
		case r.key == "":
		case r.key == key:
			return i
		case l.rows[best].key == "" || distance(i, at) < distance(best, at):
			best = i
		}
	}
	return best
}

func distance(a, b int) int { return max(a-b, b-a) }

// current returns the selected row, or nil.
func (l *listing) current() *row {
	at, _ := l.table.GetSelection()
	if at < 0 || at >= len(l.rows) || l.rows[at].key == "" {
		return nil
	}
	return &l.rows[at]
}

// selected returns the key of the selected row, or "".
func (l *listing) selected() string {
	if r := l.current(); r != nil {
		return r.key
	}
	return ""
}

// choose selects the row with a key.
func (l *listing) choose(key string) {
	if at := slices.IndexFunc(l.rows, func(r row) bool { return r.key == key }); at >= 0 {
		l.table.Select(at, 0)
	}
}

// open opens the selected row.
func (l *listing) open() {
	if r := l.current(); r != nil && r.open != nil {
		r.open()
	}
}

// top selects the first selectable row.
func (l *listing) top() { l.table.Select(l.nearest("", 0), 0) }

// describe shows the details of the selected row. If that is the first selectable one, it also
// scrolls to the rows above.
func (l *listing) describe() {
	if at, _ := l.table.GetSelection(); at <= l.nearest("", 0) {
		l.table.SetOffset(0, 0)
	}
	text := l.theme.Tag(dim) + strings.Repeat("─", max(l.width, 0)) + "[-:-:-]"
	if r := l.current(); r != nil {
		text += "\n" + r.detail
	}
	l.lines = 0
	for line := range strings.SplitSeq(text, "\n") {
		l.lines += max(len(tview.WordWrap(line, max(l.width, 1))), 1)
	}
	l.detail.SetText(text).ScrollToBeginning()
	l.share()
	if l.moved != nil && l.table.HasFocus() {
		l.moved()
	}
}

// click handles mouse clicks before the table does: headings cannot be selected, and a double
// click opens a row.
func (l *listing) click(action tview.MouseAction, e *tcell.EventMouse) (tview.MouseAction, *tcell.EventMouse) {
	if action != tview.MouseLeftClick && action != tview.MouseLeftDoubleClick {
		return action, e
	}
	at, _ := l.table.CellAt(e.Position())
	if at < 0 || at >= len(l.rows) || l.rows[at].key == "" {
		return action, nil
	}
	l.table.Select(at, 0)
	if action == tview.MouseLeftDoubleClick {
		l.open()
	}
	return action, nil
}

// heading returns a row with a title for the rows below it.
func heading(text string) row { return row{cells: []cell{{text: text, tone: strong}}} }

// blank returns an empty row.
func blank() row { return row{} }

// paragraph wraps a text into rows of a width.
func paragraph(n tone, text string, width int) []row {
	var rows []row
	for _, line := range tview.WordWrap(text, max(width, 1)) {
		rows = append(rows, row{cells: []cell{{text: line, tone: n}}})
	}
	return rows
}

// room returns the width of a line of a tab.
func (d *Dashboard) room() int {
	if d.width >= wide {
		return sidebarWidth - 2
	}
	return max(d.width-2, 0)
}
