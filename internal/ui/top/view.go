package top

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/tview"

	"github.com/beamscope/beamscope/internal/beam/modname"
	"github.com/beamscope/beamscope/internal/engine/figures"
	"github.com/beamscope/beamscope/internal/host/safetext"
	"github.com/beamscope/beamscope/internal/ui/tui"
)

// A View shows a [Top] in a terminal.
type View struct {
	console
	top *Top

	without *tview.TextView // events that are not observed
	detail  *tview.TextView
	field   *tview.InputField // of the filter, while the user enters it

	shown    *Table
	fixed    int // number of table lines above the rows
	chosen   *ID // the row that the user selected; nil: the first one
	detailed bool
}

// liveAverage is the initial number of windows of an average. Figures of single windows change
// too fast to read.
const liveAverage = 5

// NewView returns a view on a screen; nil means the terminal.
func NewView(screen tcell.Screen) *View {
	v := &View{console: console{screen: screen, average: liveAverage}}
	v.redraw = v.refresh
	return v
}

// Run shows what a Top observes until the user quits or the context is done. If there is nothing
// more to observe, the view still shows its data. The error comes from observing or from the
// terminal.
func (v *View) Run(ctx context.Context, t *Top) error {
	v.top = t
	t.Do(func(m *Model) { m.Average(v.average) })
	return v.run(ctx, v.build, func(ctx context.Context) error { return t.Run(ctx, 0) }, t.changed)
}

// build creates everything on the screen.
func (v *View) build() {
	v.without, v.detail = tui.Line(), tui.Line()
	v.layout(v.without, v.detail)
	v.table.SetSelectionChangedFunc(func(row, _ int) { v.choose(row) })
	v.table.SetMouseCapture(v.click)
	v.app.SetInputCapture(v.press)
	v.refresh()
}

// do calls a function with the model, and shows the result.
func (v *View) do(what func(*Model)) {
	v.top.Do(what)
	v.refresh()
}

// refresh shows the latest data.
func (v *View) refresh() {
	v.shown = v.top.Table()
	v.showNotice()
	v.header.SetText(v.fitting(v.headParts()))
	v.state.SetText(v.fitting(v.stateParts()))
	v.showWithout()
	v.showMessage()
	v.hints.SetText(v.hintLine())
	v.showDetail()
	v.fill()
}

// showMessage shows as much of the message as fits, on several lines if necessary. While the user
// enters a filter, there is no room for a message.
func (v *View) showMessage() {
	lines := v.messageLines()
	if v.field == nil {
		v.whole.ResizeItem(v.message, len(lines), 0)
	}
	v.message.SetText(v.tagged(v.saidAs, strings.Join(lines, "\n")))
}

// short returns the part of a text that fits on a line.
func (v *View) short(text string) string {
	if tui.Columns(text) > v.width {
		return tui.Shorten(text, v.width)
	}
	return text
}

// headParts describe the table.
func (v *View) headParts() []string {
	t := v.shown
	parts := []string{v.tagged(tui.Strong, "beamscope top"), v.mode()}
	if t.Windows == 0 {
		return append(parts, "waiting for the first window")
	}
	rows, filtered := fmt.Sprintf("%d rows", t.All), ""
	if t.Filter != "" {
		rows, filtered = "", v.tagged(tui.Strong, fmt.Sprintf("%d of %d rows with %q", len(t.Rows), t.All, t.Filter))
	}
	return append(parts, t.Time.Local().Format(time.TimeOnly), filtered, t.span(), t.Used.text(), "by "+t.By, rows, tview.Escape(t.vmsText()))
}

// span returns the time that the figures cover.
func (t *Table) span() string {
	if t.Windows > 1 {
		return fmt.Sprintf("avg %v", time.Duration(t.Windows)*t.Duration)
	}
	return fmt.Sprintf("last %v", t.Duration)
}

// mode returns whether the table is live or frozen.
func (v *View) mode() string {
	switch {
	case v.shown.Frozen:
		return v.tagged(tui.Doubtful, fmt.Sprintf("❚❚ frozen, %d since", v.shown.Since))
	case v.ended:
		return v.tagged(tui.Bad, "■") + " ended"
	}
	if text := v.top.gone(); text != "" {
		return v.tagged(tui.Bad, "●") + " live, " + v.tagged(tui.Bad, text)
	}
	return v.tagged(tui.Good, "●") + " live"
}

// stateParts describe what the table lacks, and what it costs.
func (v *View) stateParts() []string {
	t := v.shown
	if t.Windows == 0 {
		return nil
	}
	var parts []string
	if t.Stale > 0 {
		parts = append(parts, v.tagged(tui.Doubtful, "memory read "+figures.Delay(t.Stale)+" ago"))
	}
	if t.Partial {
		parts = append(parts, v.tagged(tui.Doubtful, "not observed for all of the time"))
	}
	if text := t.lossText(); text != "" {
		parts = append(parts, v.tagged(tui.Doubtful, text))
	} else {
		parts = append(parts, "lost 0")
	}
	return append(parts, tview.Escape(t.costText()), "observing "+t.observing())
}

// showWithout shows what is not observed, if anything.
func (v *View) showWithout() {
	var lines []string
	add := func(text string) { lines = append(lines, v.tagged(tui.Bad, v.short(text))) }
	if text, why := v.shown.givenUpText(); text != "" && v.shown.Windows > 0 {
		if v.shown.Level < v.shown.Most {
			text += " (r: again)"
		}
		add(strings.TrimSuffix(text+": "+why, ": "))
	}
	if text := v.shown.unseenText(); text != "" && v.shown.Windows > 0 {
		add(text)
	}
	v.without.SetText(strings.Join(lines, "\n"))
	v.whole.ResizeItem(v.without, len(lines), 0)
}

// hintLine returns the hints about keys.
func (v *View) hintLine() string {
	if v.field != nil {
		return "[::b]Enter[::-] keeps the filter  [::b]Esc[::-] shows all rows"
	}
	return v.hintText(v.bindings())
}

// choose records the row that the user selected.
func (v *View) choose(row int) {
	if at := row - v.fixed; at >= 0 && at < len(v.shown.Rows) {
		v.chosen = &v.shown.Rows[at].ID
		v.showDetail()
	}
}

// selected returns the index of the selected row: the one that the user chose, even if it has
// moved, or else the first one.
func (v *View) selected() int {
	if v.chosen == nil {
		return 0
	}
	at := slices.IndexFunc(v.shown.Rows, func(r Row) bool { return r.ID == *v.chosen })
	return max(at, 0)
}

// showDetail shows all figures of the selected row, if the user wants them.
func (v *View) showDetail() {
	at := v.selected()
	if !v.detailed || at >= len(v.shown.Rows) {
		v.whole.ResizeItem(v.detail, 0, 0)
		return
	}
	r := &v.shown.Rows[at]
	lines := []string{v.short(r.process() + " of " + r.machine())}
	for _, f := range v.shown.detail(r) {
		lines = append(lines, f.lines(v.width)...)
	}
	v.whole.ResizeItem(v.detail, len(lines), 0)
	v.detail.SetText(tview.Escape(strings.Join(lines, "\n")))
}

// A fact is the text about one kind of a row's figures.
type fact struct{ name, text string }

// detail returns all facts about a row.
func (t *Table) detail(r *Row) []fact {
	var facts []fact
	for _, k := range []Kind{Run, GC, Mailbox} {
		facts = append(facts, fact{k.String(), t.sentence(k, &r.Kinds[k])})
	}
	return append(facts, fact{"memory", r.Seen.sentence()})
}

// Width of the name of a fact, and the largest number of lines of its text.
const (
	factName  = 10
	factLines = 4
)

// lines returns the fact in lines of a width. The first one begins with the name.
func (f fact) lines(width int) []string {
	lines := tui.Lines(f.text, max(width-factName, 1), factLines)
	for i, l := range lines {
		name := ""
		if i == 0 {
			name = f.name
		}
		lines[i] = fmt.Sprintf("%*s  %s", factName-2, name, l)
	}
	return lines
}

// functionText returns the name of the function in the syntax of its language.
func (s *Seen) functionText() string { return cmp.Or(safetext.Line(modname.Function(s.Function)), "-") }

// sentence describes the data from the VM's memory.
func (s *Seen) sentence() string {
	if !s.Known {
		return "not known"
	}
	text := ""
	if s.Stale {
		text = "before this window: "
	}
	text += fmt.Sprintf("%s waiting, %d not fetched, the oldest for %s", s.waitingText(float64(s.Waiting)), s.Unfetched, s.oldestText())
	if s.Before && s.Aged {
		text += " (it was there before the observation)"
	}
	return text + fmt.Sprintf("; heaps %sB; %s reductions/s; in %s", figures.Count(s.bytes()), figures.Count(s.rate()), s.functionText())
}

// sentence describes the figures of a kind.
func (t *Table) sentence(k Kind, f *Figures) string {
	if !f.Known {
		return "not known"
	}
	text := fmt.Sprintf("%d, %s/s; ", f.Instances, figures.Count(f.PerSecond))
	if k == Mailbox {
		text += figures.Count(f.Share) + " waiting on average"
	} else {
		text += figures.Share(f.Share) + "% of the time"
	}
	if k == Run {
		text += fmt.Sprintf(", %s%% on a processor, %s%% on dirty schedulers", figures.Share(f.Processor), figures.Share(f.Dirty))
	}
	text += fmt.Sprintf("; p50 %s, p99 %s, %d ≥%s", delay(f.P50, t.DMax[k], f.Inferred), delay(f.P99, t.DMax[k], f.Inferred), f.Timeouts, figures.ExactDelay(t.DMax[k]))
	if k == GC {
		text += fmt.Sprintf("; %s words/s", figures.Count(f.Amount))
	}
	return text
}
