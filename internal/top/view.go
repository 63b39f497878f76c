package top

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/tview"

	"github.com/beamscope/beamscope/internal/figures"
	"github.com/beamscope/beamscope/internal/modname"
	"github.com/beamscope/beamscope/internal/monotonic"
	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/safetext"
	"github.com/beamscope/beamscope/internal/tui"
)

// A View shows a [Top] in a terminal.
type View struct {
	screen tcell.Screen // nil: the terminal
	app    *tui.App
	top    *Top

	root    tui.Pages
	whole   *tview.Flex
	header  *tview.TextView
	state   *tview.TextView
	without *tview.TextView // what is not observed
	table   *tview.Table
	detail  *tview.TextView
	message *tview.TextView
	hints   *tview.TextView
	field   *tview.InputField // of the filter, while it is entered

	width, height int // of the screen at the last layout
	shown         *Table
	fixed         int // lines of the table above its rows
	chosen        *ID // the row that was selected by somebody, nil: the first one
	average       int
	detailed      bool
	helping       bool
	ended         bool
	said          string
	saidAs        tui.Tone

	mu      sync.Mutex
	noticed []outcome.Notice // that are yet to be shown
}

// liveAverage is how many windows the figures are of at first: single ones are restless.
const liveAverage = 5

// NewView returns a view on a screen, nil for that of the terminal.
func NewView(screen tcell.Screen) *View { return &View{screen: screen, average: liveAverage} }

// Notify shows a notice. It may be called from any goroutine.
func (v *View) Notify(n outcome.Notice) {
	v.mu.Lock()
	v.noticed = append(v.noticed, n)
	v.mu.Unlock()
}

// Run shows what a Top observes, until somebody quits or the context is done. When there
// is nothing more to observe, what was seen is still shown. The error is that of
// observing, or of the terminal.
func (v *View) Run(ctx context.Context, t *Top) error {
	app, err := tui.NewApp(ctx, v.screen)
	if err != nil {
		return err
	}
	defer tui.Restore(app.Screen)
	v.app, v.top = app, t
	t.Do(func(m *Model) { m.Average(v.average) })
	v.build()
	return app.Run(tui.Show{
		Work:    func(ctx context.Context) error { return t.Run(ctx, 0) },
		Changed: t.changed,
		Refresh: v.refresh,
		Ended:   v.end,
	})
}

// build makes everything that is on the screen.
func (v *View) build() {
	v.header, v.state, v.without, v.detail, v.message, v.hints = tui.Line(), tui.Line(), tui.Line(), tui.Line(), tui.Line(), tui.Line()
	v.table = tview.NewTable().SetSelectedStyle(v.app.Theme.Selected())
	v.table.SetSelectionChangedFunc(func(row, _ int) { v.choose(row) })
	v.table.SetMouseCapture(v.click)
	v.whole = tview.NewFlex().SetDirection(tview.FlexRow).
		AddItem(v.header, 1, 0, false).
		AddItem(v.state, 1, 0, false).
		AddItem(v.without, 0, 0, false).
		AddItem(v.table, 0, 1, true).
		AddItem(v.detail, 0, 0, false).
		AddItem(v.message, 1, 0, false).
		AddItem(v.hints, 1, 0, false)
	v.root = tui.NewPages()
	v.root.AddPage("main", v.whole, true, true)
	v.app.SetRoot(v.root, true).SetInputCapture(v.press).SetBeforeDrawFunc(v.resize)
	v.width, v.height = v.app.Screen.Size()
	v.refresh()
}

// resize lays everything out anew where the screen has another size.
func (v *View) resize(screen tcell.Screen) bool {
	if width, height := screen.Size(); width != v.width || height != v.height {
		v.width, v.height = width, height
		v.refresh()
	}
	return false
}

// do does something with the model, and shows what comes of it.
func (v *View) do(what func(*Model)) {
	v.top.Do(what)
	v.refresh()
}

// say shows a message until the next one.
func (v *View) say(text string) { v.put(tui.Plain, text) }

func (v *View) put(n tui.Tone, text string) {
	v.said, v.saidAs = strings.ReplaceAll(text, "\n", "  "), n
}

// end shows that there is nothing more to observe.
func (v *View) end(err error) {
	v.ended = true
	v.tell()
	why := "the end"
	if err != nil {
		why = "ended: " + err.Error()
	} else if v.said != "" {
		why = "the end: " + v.said
	}
	v.put(tui.Alert, why+". q quits")
	v.refresh()
}

// tell shows the last of what was noticed.
func (v *View) tell() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, n := range v.noticed {
		v.put(tui.Doubtful, strings.TrimSpace(clock(n)+" "+n.Text))
	}
	v.noticed = nil
}

// clock is when a notice came, "" for one that has no time.
func clock(n outcome.Notice) string {
	if n.Time == 0 {
		return ""
	}
	return monotonic.Wall(n.Time).Local().Format(time.TimeOnly)
}

// refresh shows what is known now.
func (v *View) refresh() {
	v.shown = v.top.Table()
	v.tell()
	v.header.SetText(v.fitting(v.headParts()))
	v.state.SetText(v.fitting(v.stateParts()))
	v.showWithout()
	v.showMessage()
	v.hints.SetText(v.hintText())
	v.showDetail()
	v.fill()
}

// showMessage shows as much of the message as there is room for, in some lines if need be. While
// a filter is entered it has none.
func (v *View) showMessage() {
	lines := tui.Lines(v.said, v.width, tui.MessageLines(v.height))
	if v.field == nil {
		v.whole.ResizeItem(v.message, len(lines), 0)
	}
	v.message.SetText(v.tagged(v.saidAs, strings.Join(lines, "\n")))
}

func (v *View) tagged(n tui.Tone, text string) string {
	return v.app.Theme.Tag(n) + tview.Escape(text) + tui.End
}

// short returns as much of a text as a line has room for.
func (v *View) short(text string) string {
	if tui.Columns(text) > v.width {
		return tui.Shorten(text, v.width)
	}
	return text
}

// fitting joins parts, of which the first are the most important, as many as fit.
func (v *View) fitting(parts []string) string {
	text := ""
	for _, p := range parts {
		if p == "" {
			continue
		}
		if text != "" {
			p = " │ " + p
		}
		if tview.TaggedStringWidth(text)+tview.TaggedStringWidth(p) > v.width {
			break
		}
		text += p
	}
	return text
}

// headParts say of what the table is.
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

// span says of what time the figures are.
func (t *Table) span() string {
	if t.Windows > 1 {
		return fmt.Sprintf("avg %v", time.Duration(t.Windows)*t.Duration)
	}
	return fmt.Sprintf("last %v", t.Duration)
}

// mode says whether the table moves.
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

// stateParts say what the table lacks, and what it costs.
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

// showWithout says what is not observed, where that is something.
func (v *View) showWithout() {
	text, why := v.shown.givenUpText()
	lines := 0
	if text != "" && v.shown.Windows > 0 {
		lines = 1
		if v.shown.Level < v.shown.Most {
			text += " (r: again)"
		}
		v.without.SetText(v.tagged(tui.Bad, v.short(strings.TrimSuffix(text+": "+why, ": "))))
	}
	v.whole.ResizeItem(v.without, lines, 0)
}

// hintText shows keys, as many as there is room for.
func (v *View) hintText() string {
	if v.field != nil {
		return "[::b]Enter[::-] keeps the filter  [::b]Esc[::-] shows all rows"
	}
	text := ""
	for _, b := range v.bindings() {
		if b.short == "" {
			continue
		}
		hint := "[::b]" + tview.Escape(b.show) + "[::-] " + b.short + "  "
		if tview.TaggedStringWidth(text+hint) > v.width {
			break
		}
		text += hint
	}
	return text
}

// choose notes which row somebody has selected.
func (v *View) choose(row int) {
	if at := row - v.fixed; at >= 0 && at < len(v.shown.Rows) {
		v.chosen = &v.shown.Rows[at].ID
		v.showDetail()
	}
}

// selected returns the index of the row that is selected: that which was chosen, also
// where it has moved, or the first one.
func (v *View) selected() int {
	if v.chosen == nil {
		return 0
	}
	at := slices.IndexFunc(v.shown.Rows, func(r Row) bool { return r.ID == *v.chosen })
	return max(at, 0)
}

// showDetail shows all figures of the selected row, where that is wanted.
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

// A fact is what there is to tell of one kind of a row's figures.
type fact struct{ name, text string }

// detail returns all that there is to tell of a row.
func (t *Table) detail(r *Row) []fact {
	var facts []fact
	for _, k := range []Kind{Run, GC, Mailbox} {
		facts = append(facts, fact{k.String(), t.sentence(k, &r.Kinds[k])})
	}
	return append(facts, fact{"memory", r.Seen.sentence()})
}

// The columns that the name of a fact takes, and how many lines its text may take.
const (
	factName  = 10
	factLines = 4
)

// lines returns the fact in lines of a width, with the name before the first one.
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

// functionText names the function as its language writes it.
func (s *Seen) functionText() string { return cmp.Or(safetext.Line(modname.Function(s.Function)), "-") }

// sentence tells what the VM's memory says.
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

// sentence tells the figures of a kind.
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
