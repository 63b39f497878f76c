package top

import (
	"strings"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/tview"

	"github.com/beamscope/beamscope/internal/figures"
	"github.com/beamscope/beamscope/internal/tui"
)

// A place is where a column is in the lines of the table.
type place struct {
	column Column
	width  int
}

// The widths of what has as much as there is room for.
const (
	leastProcess, mostProcess = 16, 48
	leastTrend                = 10
	vmWidth                   = 20
)

// places returns the columns for which there is room, in their order, always with the
// one by which is sorted.
func (v *View) places() []place {
	var all []place
	room := v.width - leastProcess - 1 - leastTrend
	for c := range columns {
		p := place{c, c.info().width}
		switch {
		case c == ByVM && len(v.shown.VMs) < 2:
			continue
		case c == ByVM:
			p.width = vmWidth
		case c != v.shown.Sort && v.width < c.info().least:
			continue
		}
		all = append(all, p)
		if c != ByProcess {
			room -= p.width + 1
		}
	}
	for at := len(all) - 1; room < 0 && at > 0; at-- { // the last ones go first
		if c := all[at].column; c != v.shown.Sort {
			room += all[at].width + 1
			all = append(all[:at], all[at+1:]...)
		}
	}
	all[0].width = min(leastProcess+max(room, 0), mostProcess)
	return all
}

// fill makes the table: its head, the total, what found no room, and the rows.
func (v *View) fill() {
	t, places := v.shown, v.places()
	v.table.Clear()
	v.fixed = 0
	fixed := func(n tui.Tone, text string) {
		v.table.SetCell(v.fixed, 0, tview.NewTableCell(v.app.Theme.Tag(n)+text+tui.End).SetSelectable(false).SetExpansion(1))
		v.fixed++
	}
	if t.Windows == 0 {
		v.table.SetSelectable(false, false)
		fixed(tui.Plain, "")
		fixed(tui.Plain, "  The first window is on its way.")
		return
	}
	fixed(tui.Dim, v.headLine(places))
	fixed(tui.Strong, v.line(places, "everything", "", &t.Total, ""))
	if t.hasOthers() {
		fixed(tui.Doubtful, v.line(places, "no room", "", &t.Others, ""))
	}
	v.table.SetFixed(v.fixed, 0).SetSelectable(len(t.Rows) > 0, false)
	trend := v.trendWidth(places)
	for i := range t.Rows {
		r := &t.Rows[i]
		line := v.line(places, r.process(), r.VM.String(), &r.Kinds, figures.Sparkline(t.Trend(r, trend)))
		v.table.SetCell(v.fixed+i, 0, tview.NewTableCell(line).SetExpansion(1))
	}
	chosen := v.chosen // which selecting sets
	v.table.Select(v.fixed+v.selected(), 0)
	v.chosen = chosen
}

// trendWidth is how many columns are left for the trend.
func (v *View) trendWidth(places []place) int {
	room := v.width
	for _, p := range places {
		room -= p.width + 1
	}
	return min(max(room, 0), maxWindows)
}

// headLine is the line with the heads of the columns.
func (v *View) headLine(places []place) string {
	var b strings.Builder
	for _, p := range places {
		text := tui.Fit(v.shown.head(p.column), p.width, !p.column.isText())
		if p.column == v.shown.Sort {
			text = tui.End + v.app.Theme.Tag(tui.Strong) + tview.Escape(text) + tui.End + v.app.Theme.Tag(tui.Dim)
		} else {
			text = tview.Escape(text)
		}
		b.WriteString(text + " ")
	}
	return b.String() + tview.Escape(tui.Fit("trend", v.trendWidth(places), false))
}

// line is a line of the table.
func (v *View) line(places []place, process, vm string, f *[kinds]Figures, trend string) string {
	var b strings.Builder
	for _, p := range places {
		text := ""
		switch p.column {
		case ByProcess:
			text = process
		case ByVM:
			text = vm
		default:
			text = p.column.cell(f, &v.shown.DMax)
		}
		b.WriteString(tview.Escape(tui.Fit(text, p.width, !p.column.isText())) + " ")
	}
	return b.String() + trend
}

// click is given what the mouse does in the table before it is: a click on the head of a
// column sorts by it.
func (v *View) click(action tview.MouseAction, e *tcell.EventMouse) (tview.MouseAction, *tcell.EventMouse) {
	if action != tview.MouseLeftClick && action != tview.MouseLeftDoubleClick {
		return action, e
	}
	x, y := e.Position()
	left, top, _, _ := v.table.GetInnerRect()
	if y == top {
		v.clickHead(x - left)
		return action, nil
	}
	row, _ := v.table.CellAt(x, y)
	if row < v.fixed || row-v.fixed >= len(v.shown.Rows) {
		return action, nil
	}
	return action, e
}

func (v *View) clickHead(x int) {
	for _, p := range v.places() {
		if x <= p.width {
			if p.column == v.shown.Sort {
				v.do((*Model).Reverse)
			} else {
				v.sortBy(p.column)
			}
			return
		}
		x -= p.width + 1
	}
}
