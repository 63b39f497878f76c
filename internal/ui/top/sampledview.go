package top

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/tview"

	"github.com/beamscope/beamscope/internal/engine/figures"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/ui/tui"
)

// A SampledView shows a [Sampled] in a terminal.
type SampledView struct {
	console
	sampled *Sampled

	head  *tview.TextView
	shown *SampledTable
}

// NewSampledView returns a view on a screen; nil means the terminal.
func NewSampledView(screen tcell.Screen) *SampledView {
	v := &SampledView{console: console{screen: screen, average: liveAverage}}
	v.redraw = v.refresh
	return v
}

// Run shows the samples of a Sampled until the user quits or the context is done. If there is
// nothing more to sample, the view still shows its data. The error comes from sampling or from
// the terminal.
func (v *SampledView) Run(ctx context.Context, s *Sampled) error {
	v.sampled = s
	s.Do(func(m *SampledModel) { m.Average(v.average) })
	return v.run(ctx, v.build, func(ctx context.Context) error { return s.Run(ctx, 0) }, s.changed)
}

// build creates everything on the screen.
func (v *SampledView) build() {
	v.head = tui.Line()
	v.layout(v.head)
	v.app.SetInputCapture(v.press)
	v.refresh()
}

// refresh shows the latest data.
func (v *SampledView) refresh() {
	v.shown = v.sampled.Table()
	v.showNotice()
	v.header.SetText(v.fitting(v.headParts()))
	v.state.SetText(v.fitting(v.stateParts()))
	lines := v.messageLines()
	v.whole.ResizeItem(v.message, len(lines), 0)
	v.message.SetText(v.tagged(v.saidAs, strings.Join(lines, "\n")))
	v.hints.SetText(v.hintText(v.bindings()))
	v.fill()
}

// headParts describe the table.
func (v *SampledView) headParts() []string {
	t := v.shown
	mode := v.tagged(tui.Good, "●") + " live"
	switch {
	case t.Frozen:
		mode = v.tagged(tui.Doubtful, "❚❚ frozen")
	case v.ended:
		mode = v.tagged(tui.Bad, "■") + " ended"
	}
	parts := []string{v.tagged(tui.Strong, "beamscope top"), mode, "sampled by " + t.By}
	if t.Windows == 0 {
		return append(parts, "waiting for the first window")
	}
	span := fmt.Sprintf("last %v", t.Duration)
	if t.Windows > 1 {
		span = fmt.Sprintf("avg %v", time.Duration(t.Windows)*t.Duration)
	}
	return append(parts, t.Time.Local().Format(time.TimeOnly), span, t.Used.text(), fmt.Sprintf("%d rows", t.All), tview.Escape(vmsText(t.VMs)))
}

// stateParts describe the samples and their cost.
func (v *SampledView) stateParts() []string {
	t := v.shown
	if t.Windows == 0 {
		return nil
	}
	var parts []string
	if t.Stale {
		parts = append(parts, v.tagged(tui.Doubtful, "some windows were read too late"))
	}
	missing := fmt.Sprintf("%d idle or lost", t.Missing)
	return append(parts, missing, tview.Escape(t.costText()), fmt.Sprintf("%d Hz on %d processors", t.Rate, t.Processors))
}

// Widths of the columns of figures.
const (
	shareWidth  = 8
	numberWidth = 7
)

// fill fills the table with its head, the total, and the rows.
func (v *SampledView) fill() {
	t := v.shown
	v.table.Clear()
	if t.Windows == 0 {
		v.head.SetText("")
		v.table.SetSelectable(false, false)
		v.table.SetCell(0, 0, tview.NewTableCell("  The first window is on its way."))
		return
	}
	rows, parts := t.heads()
	line := func(share, least, most, n, name, mostly string) string {
		room := max(v.width-3*(shareWidth+1)-numberWidth-1, 20)
		text := tui.Fit(share, shareWidth, true) + " " + tui.Fit(least, shareWidth, true) + " " + tui.Fit(most, shareWidth, true) + " " + tui.Fit(n, numberWidth, true) + " "
		half := room / 2
		return tview.Escape(text + tui.Fit(name, half, false) + " " + tui.Fit(mostly, room-half-1, false))
	}
	figuresOf := func(r *SampledRow, name, mostly string) string {
		return line(figures.Share(r.Share), figures.ShareDown(r.AtLeast), figures.ShareUp(r.AtMost), fmt.Sprint(r.N), name, mostly)
	}
	v.head.SetText(v.app.Theme.Tag(tui.Dim) + line("cpu%▼", "at least", "at most", "n", rows, parts) + tui.End)
	row, _ := v.table.GetSelection()
	v.table.SetSelectable(len(t.Rows) > 0, false)
	v.table.SetCell(0, 0, tview.NewTableCell(v.app.Theme.Tag(tui.Strong)+figuresOf(&t.Total, "everything", "")+tui.End).SetSelectable(false).SetExpansion(1))
	for i := range t.Rows {
		r := &t.Rows[i]
		v.table.SetCell(i+1, 0, tview.NewTableCell(figuresOf(r, t.nameOf(r), t.mostly(r))).SetExpansion(1))
	}
	v.table.SetFixed(1, 0)
	v.table.Select(min(max(row, 1), max(len(t.Rows), 1)), 0)
}

// bindings returns all bindings except those that move in the table.
func (v *SampledView) bindings() []binding {
	return []binding{
		{"?h", []tcell.Key{tcell.KeyF1}, "?", "help", "show all keys", v.showHelp},
		{"q", []tcell.Key{tcell.KeyCtrlC}, "q", "quit", "quit and restore the terminal", v.app.Stop},
		{"f ", nil, "f Space", "freeze", "freeze this window, or follow again; counting continues", v.freeze},
		{"g", nil, "g", "pid/mfa", "rows by process, or by the function that ran", v.regroup},
		{"a", nil, "a", "average", "figures of the last window, or of the last 5 or 30 together", v.averaging},
	}
}

// press handles every key first.
func (v *SampledView) press(e *tcell.EventKey) *tcell.EventKey {
	if v.helping {
		return v.pressHelp(e)
	}
	return v.pressBound(e, v.bindings())
}

func (v *SampledView) freeze() {
	frozen := !v.shown.Frozen
	v.sampled.Do(func(m *SampledModel) { m.Freeze(frozen) })
}

// regroup changes the kind of the rows.
func (v *SampledView) regroup() {
	by := outcome.GroupMFA
	if v.shown.By == by {
		by = outcome.GroupPID
	}
	v.sampled.Do(func(m *SampledModel) { m.GroupBy(by) })
}

// averaging changes the number of windows of an average.
func (v *SampledView) averaging() {
	n := v.nextAverage()
	v.sampled.Do(func(m *SampledModel) { m.Average(n) })
}

// showHelp covers the table with the help.
func (v *SampledView) showHelp() {
	v.help(v.bindings(), "cpu% is the share of samples, 100 is a processor. It is between at least and at most in 95 of 100 cases.")
}
