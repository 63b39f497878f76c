package top

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/tview"

	"github.com/beamscope/beamscope/internal/engine/figures"
	"github.com/beamscope/beamscope/internal/ui/tui"
)

// A place is the position of a column in the lines of the table.
type place struct {
	column Column
	width  int
}

// Widths of columns that take the available space.
const (
	leastProcess, mostProcess = 24, 48
	leastTrend                = 10
	vmWidth, narrowVM         = 24, 10
)

// wide is the least width of a screen that shows full names of VMs.
const wide = 120

// leastFirst returns the columns in the order in which they disappear on narrow screens, the
// least informative first.
func leastFirst() []Column {
	return []Column{ByOver, ByWords, ByGCs, ByP50, BySlices, ByDirty, ByReductions, ByFunction, ByMemory, ByGC, ByP99, ByMessages, ByCPU, ByOldest, ByWaiting, ByVM}
}

// places returns the columns that fit, in order. They always include the one by which the table
// is sorted.
func (v *View) places() []place {
	var all []place
	room := v.width - leastProcess - 1 - leastTrend
	for c := range columns {
		p := place{c, c.info().width}
		switch {
		case c == ByVM && len(v.shown.VMs) < 2:
			continue
		case c == ByVM && v.width < wide:
			p.width = narrowVM
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
	for _, c := range leastFirst() {
		at := slices.IndexFunc(all, func(p place) bool { return p.column == c })
		if room < 0 && at > 0 && c != v.shown.Sort {
			room += all[at].width + 1
			all = slices.Delete(all, at, at+1)
		}
	}
	all[0].width = min(leastProcess+max(room, 0), mostProcess)
	return all
}

// fill fills the table with its head, the total, the instances without room, and the rows.
func (v *View) fill() {
	t := v.shown
	c := &content{v: v, places: v.places()}
	c.trend = v.trendWidth(c.places)
	c.names = shortNames(t.Rows, c.places[0].width)
	if t.Windows == 0 {
		c.fixed = []string{"", "  The first window is on its way."}
	} else {
		c.fixed = []string{
			v.toned(tui.Dim, v.headLine(c.places)),
			v.toned(tui.Strong, v.line(c.places, "everything", "", &t.Total, figures.Sparkline(t.TotalTrend(c.trend)))),
		}
		if t.hasOthers() {
			c.fixed = append(c.fixed, v.toned(tui.Doubtful, v.line(c.places, t.othersName(), "", &t.Others, "")))
		}
	}
	v.fixed = len(c.fixed)
	v.table.SetContent(c).SetFixed(v.fixed, 0)
	v.table.SetSelectable(len(t.Rows) > 0, false) // without rows, tview would search for one forever
	v.table.SetOffset(v.table.GetOffset())        // otherwise the table would follow its end once all of it was visible
	chosen := v.chosen                            // Select changes it
	v.table.Select(v.fixed+v.selected(), 0)
	v.chosen = chosen
}

func (v *View) toned(n tui.Tone, text string) string { return v.app.Theme.Tag(n) + text + tui.End }

// A content is the content of the table. It makes only the visible rows.
type content struct {
	tview.TableContentReadOnly
	v      *View
	places []place
	trend  int
	fixed  []string
	names  []string // names of the rows, shortened as far as the table requires
}

// shortNames returns the names of rows with at most width columns. It keeps the beginnings of
// long names, and also what distinguishes names that would look the same.
func shortNames(rows []Row, width int) []string {
	names := make([]string, len(rows))
	for i := range rows {
		names[i] = rows[i].process()
	}
	of := make(map[string]string, len(rows))
	for _, name := range names {
		short := tui.Fit(name, width, false)
		if other, ok := of[short]; ok && other != name {
			return figures.Shortened(names, width)
		}
		of[short] = name
	}
	return names
}

// GetRowCount implements [tview.TableContent].
func (c *content) GetRowCount() int { return len(c.fixed) + len(c.v.shown.Rows) }

// GetColumnCount implements [tview.TableContent].
func (*content) GetColumnCount() int { return 1 }

// GetCell implements [tview.TableContent].
func (c *content) GetCell(row, _ int) *tview.TableCell {
	if row < 0 || row >= c.GetRowCount() {
		return nil
	}
	if row < len(c.fixed) {
		return tview.NewTableCell(c.fixed[row]).SetSelectable(false).SetExpansion(1)
	}
	t := c.v.shown
	r := &t.Rows[row-len(c.fixed)]
	vm := r.machine()
	if c.v.width < wide {
		vm = fmt.Sprint(r.VM.PID)
	}
	return tview.NewTableCell(c.v.line(c.places, c.names[row-len(c.fixed)], vm, &r.Cells, figures.Sparkline(t.Trend(r, c.trend)))).SetExpansion(1)
}

// trendWidth returns the width that is left for the trend.
func (v *View) trendWidth(places []place) int {
	room := v.width
	for _, p := range places {
		room -= p.width + 1
	}
	return min(max(room, 0), maxWindows)
}

// headLine returns the line with the heads of the columns.
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

// line returns a line of the table.
func (v *View) line(places []place, process, vm string, f *Cells, trend string) string {
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

// click handles mouse clicks before the table does: a click on the head of a column sorts by it.
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
