package dashboard

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/tview"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/engine/figures"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/files/export"
	"github.com/beamscope/beamscope/internal/ui/tui"
)

// An overview is the table of all outcomes with their rates, delays and verdicts. If there is room,
// the plot of the selected outcome is below it.
type overview struct {
	*tview.Table
	d       *Dashboard
	preview *plotView
	rows    []outcomeKey // of the table, without its head
	marked  map[string]bool
	filter  string
	order   order
	drawn   int               // lines of the table, with its head
	room    int               // columns for the name of an outcome, including that of its spans
	names   map[string]string // shortened names of the outcomes
	windows int               // number of windows in the histories of the table

	at    int  // the row that was last selected automatically
	moved bool // the user has chosen a row
}

// An order is a sort order of the overview.
type order uint8

const (
	asConfigured order = iota
	byRate
	byDelay
	byFailure
	orders
)

func (o order) String() string {
	return [...]string{"as configured", "by rate", "by p99", "by failures"}[o]
}

func newOverview(d *Dashboard) *overview {
	o := &overview{Table: tview.NewTable(), d: d, preview: newPlotView(d.theme), marked: make(map[string]bool), windows: trailWidth}
	o.SetSelectable(true, false).SetFixed(1, 0).SetSelectedStyle(d.theme.Selected())
	o.SetSelectedFunc(func(int, int) { o.plot() })
	o.SetSelectionChangedFunc(func(int, int) { d.hints() }) // because the hints depend on the selected outcome
	return o
}

func (o *overview) bindings() []binding {
	return []binding{
		{inOverview, []press{{key: tcell.KeyEnter}}, "Enter", "plot", "plot the outcome", o.plot},
		{inOverview, []press{char(' ')}, "Space", "mark", "mark the outcome; w then saves only marked outcomes", o.mark},
		{inOverview, []press{char('a')}, "a", "add to plot", "draw the outcome in the selected plot as well", o.add},
		{inOverview, []press{char('r')}, "r", "sort", "sort by the next column", o.sort},
		{inOverview, []press{char('/')}, "/", "filter", "show only outcomes whose names contain a text", o.ask},
		{inOverview, []press{char('g')}, "g", "", groupHelp, o.d.group},
	}
}

// selected returns the outcome on which the keys act. It returns false if there is none.
func (o *overview) selected() (outcomeKey, bool) {
	row, _ := o.GetSelection()
	if row < 1 || row > len(o.rows) {
		return outcomeKey{}, false
	}
	return o.rows[row-1], true
}

func (o *overview) plot() {
	if key, ok := o.selected(); ok {
		o.d.grid.only(key.name, o.vmOf(key))
		o.d.show("plots")
	}
}

func (o *overview) add() {
	if key, ok := o.selected(); ok {
		o.d.fail(o.d.grid.add(key.name))
	}
}

// vmOf returns the VM to plot for a row. It returns the zero VM, which means all, if there is
// only one.
func (o *overview) vmOf(key outcomeKey) outcome.VM {
	if o.severalVMs() {
		return key.vm
	}
	return outcome.VM{}
}

// Least heights of the preview and of the table above it.
const (
	leastPreview = 10
	leastTable   = 6
)

// Draw implements [tview.Primitive].
func (o *overview) Draw(screen tcell.Screen) {
	x, y, width, height := o.GetRect()
	table := min(len(o.rows)+2, max(height/2, leastTable))
	key, ok := o.selected()
	line, said := o.remark(outcomeOf(o.d.frame(), key), width)
	if said && height > leastTable {
		height--
		if height-table < leastPreview {
			table = min(table, max(height-leastPreview, len(o.rows)+1)) // without the empty line
		}
		tview.Print(screen, o.d.theme.line(&line, width), x, y+height, width, tview.AlignLeft, tcell.ColorDefault)
	}
	if !ok || height-table < leastPreview {
		o.drawTable(screen, height)
		return
	}
	o.drawTable(screen, table)
	p := &panel{outcomes: []string{key.name}, vm: o.vmOf(key), view: o.preview}
	p.view.show(o.d.title(p), o.d.grid.series(p, o.d.scene.systemShown(), o.d.frame()))
	p.view.SetRect(x, y+table, width, height-table)
	o.d.grid.draw(screen, p)
}

// remark returns the line below the table: that the selected outcome exceeded a limit that
// beamscope chose, or why the outcome was slow, or how to add spans.
func (o *overview) remark(p *scope.Outcome, width int) (row, bool) {
	if p != nil && p.Slower() > 0 && p.Explained == nil {
		return o.slower(p, width), true
	}
	if line, said := o.d.explainedLine(p); said {
		return line, true
	}
	return o.d.noSpansLine()
}

// slower returns the line of an outcome that exceeded a limit that beamscope chose. On a narrow
// screen it shortens the text first, and then the name.
func (o *overview) slower(p *scope.Outcome, width int) row {
	name := o.d.called(p.Name)
	text, brief := export.Slower(p)
	room := func(text string) int { return width - tui.Columns(text) - tui.Columns(": ") }
	if tui.Columns(name) > room(text) {
		text = brief
	}
	name = figures.Middle(name, max(room(text), leastBrief)) + ":"
	return row{cells: []cell{{text: name, width: tui.Columns(name), tone: strong}, {text: text, tone: doubtful}}}
}

// leastBrief is the least number of columns for a name on a narrow screen.
const leastBrief = 8

// drawTable draws only the table, in the given number of lines.
func (o *overview) drawTable(screen tcell.Screen, lines int) {
	x, y, width, height := o.GetRect()
	o.drawn = lines
	o.SetRect(x, y, width, lines)
	o.Table.Draw(screen)
	o.SetRect(x, y, width, height)
}

// MouseHandler implements [tview.Primitive]: a click selects a row, and a double click is
// Enter.
func (o *overview) MouseHandler() func(tview.MouseAction, *tcell.EventMouse, func(tview.Primitive)) (bool, tview.Primitive) {
	return func(action tview.MouseAction, e *tcell.EventMouse, focus func(tview.Primitive)) (bool, tview.Primitive) {
		if !o.InRect(e.Position()) {
			return false, nil
		}
		if action != tview.MouseLeftClick && action != tview.MouseLeftDoubleClick {
			return o.Table.MouseHandler()(action, e, focus)
		}
		_, y := e.Position()
		_, top, _, _ := o.GetInnerRect()
		row, _ := o.CellAt(e.Position())
		if row < 1 || row > len(o.rows) || y-top > o.drawn {
			return true, nil
		}
		o.Select(row, 0)
		if action == tview.MouseLeftDoubleClick {
			o.plot()
		}
		o.d.refresh()
		return true, nil
	}
}

func (o *overview) mark() {
	if key, ok := o.selected(); ok {
		if o.marked[key.name] {
			delete(o.marked, key.name)
		} else {
			o.marked[key.name] = true
		}
	}
}

func (o *overview) markedNames() map[string]bool { return o.marked }

func (o *overview) sort() {
	o.order = (o.order + 1) % orders
	o.d.say(plain, "sorted "+o.order.String())
}

func (o *overview) ask() {
	o.d.enter("show only names with", "nothing, or Esc in the overview: all of them", o.filter, func(text string, settled func(error)) {
		o.filter = strings.TrimSpace(text)
		settled(nil)
		if o.filter != "" {
			o.d.say(plain, fmt.Sprintf("only names with %q: Esc shows all again", o.filter))
		}
	})
}

// A column is a column of the overview.
type column struct {
	name  string
	least int // least width of a screen that shows it
	left  bool
	cell  func(p *scope.Outcome) (text string, n tone)
	more  func(p *scope.Outcome) string // dim text after the cell; nil for none
	trail string                        // the figure of a sparkline column; "" for other columns
}

func (o *overview) columns() []column {
	several := o.severalVMs()
	columns := []column{
		{"outcome", 0, true, func(p *scope.Outcome) (string, tone) { return o.names[p.Name], strong }, o.span, ""},
	}
	if o.filter != "" {
		columns[0].name += " /" + o.filter
	}
	if several {
		columns = append(columns, column{"VM", 25, true, func(p *scope.Outcome) (string, tone) { return vmName(p.VM, min(o.d.width/4, mostName)), dim }, nil, ""})
	}
	quantile := func(q float64, least int) column {
		return column{fmt.Sprintf("p%g", q*100), least, false, func(p *scope.Outcome) (string, tone) { return delayWithin(p, q) }, nil, ""}
	}
	apartName := "apart, windows"
	if o.d.width < 140 {
		apartName = "apart /n" // a short form for narrow screens
	}
	columns = append(columns,
		column{"per s", 50, false, rate, nil, ""},
		column{"ok", 0, false, successes, nil, ""},
		quantile(0.25, 130), quantile(0.5, 60), quantile(0.75, 130), quantile(0.99, 30),
		column{o.trailName("rate"), 70, true, func(p *scope.Outcome) (string, tone) {
			return o.trail(p, func(x point) float64 { return x.rate }), plain
		}, nil, "rate"},
		column{o.trailName("p99"), 120, true, func(p *scope.Outcome) (string, tone) {
			return o.trail(p, func(x point) float64 { return x.p99 }), plain
		}, nil, "p99"},
		column{"QTA", 40, true, verdict, nil, ""},
		column{apartName, 100, false, apart, nil, ""},
		column{"calculated p99", 160, false, calculated, nil, ""},
		column{"lost", 90, false, lost, nil, ""},
		column{"caveat", 160, true, func(p *scope.Outcome) (string, tone) { return p.Insufficient, doubtful }, nil, ""},
	)
	for i := range columns {
		if mark, ok := o.order.mark(columns[i].name); ok {
			columns[i].name += mark
		}
	}
	return columns
}

// mark returns the mark after the head of the column that determines the order.
func (o order) mark(name string) (string, bool) {
	switch {
	case o == byRate && name == "per s", o == byDelay && name == "p99":
		return "▼", true
	case o == byFailure && name == "ok": // the lowest comes first
		return "▲", true
	}
	return "", false
}

// nameRoom returns the largest width for the name of an outcome, including that of its spans.
func (o *overview) nameRoom() int {
	if o.d.width == 0 {
		return mostName
	}
	return min(max(o.d.width*2/5, leastName), mostName)
}

// shorten shortens the names of the outcomes to this width, so that all differ.
func (o *overview) shorten(outcomes []*scope.Outcome, columns int) {
	names := make([]string, len(outcomes))
	for i, p := range outcomes {
		names[i] = p.Name
	}
	o.room, o.names = columns, make(map[string]string, len(outcomes))
	for i, text := range figures.Shortened(names, columns) {
		o.names[names[i]] = text
	}
}

// span returns the name of the spans of an outcome if it differs from the outcome's.
func (o *overview) span(p *scope.Outcome) string {
	name := p.Spec.Alias()
	room := o.room - tui.Columns(p.Name) - tui.Columns(" «»")
	if name == "" || room < 4 && tui.Columns(name) > room {
		return ""
	}
	return " «" + figures.Middle(name, room) + "»"
}

func (o *overview) severalVMs() bool {
	f := o.d.frame()
	return f != nil && len(vmsOf(o.d.scene.outcomes(f))) > 1
}

// refresh shows the frame of the scene.
func (o *overview) refresh() {
	key, had := o.selected()
	if row, _ := o.GetSelection(); had && row != o.at {
		o.moved = true
	}
	had = had && o.moved // outcomes that arrive later may be selected first
	o.Clear()
	f := o.d.frame()
	if f == nil || len(f.Outcomes) == 0 || f.Attaching {
		o.empty(f)
		o.SetSelectable(false, false)
		return
	}
	outcomes := o.sorted(f)
	columns := o.fitting(outcomes)
	o.head(columns)
	o.rows = o.rows[:0]
	for _, p := range outcomes {
		o.rows = append(o.rows, keyOf(p))
		o.row(len(o.rows), p, columns)
	}
	o.SetSelectable(len(o.rows) > 0, false) // without a selectable row, tview would search for one forever
	if !had {
		key.name = o.first()
	}
	row := slices.IndexFunc(o.rows, func(k outcomeKey) bool { return k == key || !had && k.name == key.name })
	o.at = max(row+1, 1)
	o.Select(o.at, 0)
}

// first returns the outcome to select first: the whole system, if there is a diagram.
func (o *overview) first() string {
	if s := o.d.scene.System(); s != nil && s.Diagram != nil && len(s.Outcomes) > 0 {
		return interesting(s)[0]
	}
	return ""
}

// fitting returns the columns that fit, and shortens the names of the outcomes. Names are shortened
// first, down to a fifth of the screen. Then whole columns disappear, beginning with those that
// need the widest screen. A history becomes shorter before it disappears. No cell is cut.
func (o *overview) fitting(outcomes []*scope.Outcome) []column {
	o.windows = trailWidth
	o.shorten(outcomes, o.nameRoom())
	columns := o.columns()
	if o.d.width == 0 {
		return columns
	}
	columns = slices.DeleteFunc(columns, func(c column) bool { return c.least > o.d.width })
	widths := make([]int, len(columns))
	others := 1 // width of all columns except names, with the mark of the selected row
	for i, c := range columns {
		widths[i] = c.width(outcomes) + 2
		others += widths[i]
	}
	name := widths[0]
	others -= name - 2
	least := max(min(name-2, max(leastName, o.d.width/5)), tui.Columns(columns[0].name))
	for others+least > o.d.width {
		last := slices.IndexFunc(columns, func(c column) bool { return c.least == widest(columns) })
		if columns[last].least == 0 {
			break
		}
		if columns[last].trail != "" {
			if less := o.shortenTrails(columns, widths, others+least-o.d.width); less > 0 {
				others -= less
				continue
			}
		}
		others -= widths[last]
		columns, widths = slices.Delete(columns, last, last+1), slices.Delete(widths, last, last+1)
	}
	if room := max(o.d.width-others, least); room < name-2 {
		o.shorten(outcomes, room)
	}
	return columns
}

// shortenTrails shortens the histories so that the table becomes at least excess columns
// narrower. It returns by how much, or 0 if they cannot be shortened enough.
func (o *overview) shortenTrails(columns []column, widths []int, excess int) int {
	trails := 0
	for _, c := range columns {
		if c.trail != "" {
			trails++
		}
	}
	if trails == 0 {
		return 0
	}
	less := (excess + trails - 1) / trails
	if o.windows-less < leastTrail {
		return 0
	}
	o.windows -= less
	for i := range columns {
		if c := &columns[i]; c.trail != "" {
			c.name = o.trailName(c.trail)
			widths[i] -= less
		}
	}
	return less * trails
}

// widest returns the largest screen width that a column needs.
func widest(columns []column) int {
	most := 0
	for _, c := range columns {
		most = max(most, c.least)
	}
	return most
}

// mostName is the largest width of a cell of the overview. leastName is the width that a name may
// use on any screen.
const mostName, leastName = figures.MaxName, 16

// width returns the width of the column.
func (c column) width(outcomes []*scope.Outcome) int {
	width := tui.Columns(c.name)
	for _, p := range outcomes {
		text, _ := c.cell(p)
		if c.more != nil {
			text += c.more(p)
		}
		width = max(width, min(tui.Columns(text), mostName))
	}
	return width
}

// vmName shortens the name of a VM to this width: a long name keeps its beginning and the pid.
func vmName(vm outcome.VM, width int) string {
	name := vm.String()
	pid := fmt.Sprintf(" (pid %d)", vm.PID)
	if tui.Columns(name) <= max(width, 20) || vm.Node == "" {
		return name
	}
	return tui.Shorten(vm.Node, max(width, 20)-tui.Columns(pid)) + pid
}

// empty explains why the table is empty and what to do.
func (o *overview) empty(f *scope.Frame) {
	o.rows = nil
	text := []string{"", "  The first window is on its way."}
	switch s := o.d.scene.System(); {
	case f == nil:
	case f.Attaching:
		text = []string{"", "  " + nothingWholeText(f)}
	case s != nil && len(s.Outcomes) > 0 || o.discovered():
		text = []string{"", "  Spans are on their way: what was discovered is observed from the next window on."}
	default:
		text = []string{"", "  No spans have been seen yet.", "",
			"  beamscope shows spans that the application starts with the Erlang application",
			"  beamscope: beamscope:with_span(<<\"name\">>, Fun), see docs/reference/erlang.md.",
			"  They appear here as soon as one starts. A adds outcomes of the VM, which need none."}
	}
	for i, line := range text {
		o.SetCell(i, 0, tview.NewTableCell(tview.Escape(line)).SetSelectable(false))
	}
}

// nothingWholeText describes the state before the first whole window.
func nothingWholeText(f *scope.Frame) string {
	text := "Nothing is known yet"
	if names := vmsNamed(f); names != "" {
		text = "Nothing is known yet of " + names
	}
	return text + ": c has the notices."
}

// noSpansLine explains how to add spans, if they are discovered automatically and none has been
// seen.
func (d *Dashboard) noSpansLine() (row, bool) {
	f := d.frame()
	if !d.opts.Discovers || d.scene != d.live || f == nil || slices.ContainsFunc(f.Outcomes, func(p scope.Outcome) bool { return p.Spec.Span != "" }) || d.overview.discovered() {
		return row{}, false
	}
	return row{cells: []cell{
		{text: "no spans yet:", width: 13, tone: strong},
		{text: "beamscope:with_span(<<\"name\">>, Fun) marks them; A adds outcomes. docs/reference/erlang.md says more", tone: dim},
	}}, true
}

// discovered reports whether spans were discovered.
func (o *overview) discovered() bool {
	return slices.ContainsFunc(o.d.scene.Events(), func(e event) bool { return e.notice.Kind == outcome.DiscoveredNotice })
}

func (o *overview) head(columns []column) {
	o.SetCell(0, 0, o.heading(" ", true))
	for i, c := range columns {
		o.SetCell(0, i+1, o.heading(c.name, c.left))
	}
}

func (o *overview) heading(name string, left bool) *tview.TableCell {
	c := tview.NewTableCell(name).SetSelectable(false).SetStyle(o.d.theme.Style(dim))
	if !left {
		c.SetAlign(tview.AlignRight)
	}
	return c
}

func (o *overview) row(at int, p *scope.Outcome, columns []column) {
	mark := " "
	if o.marked[p.Name] {
		mark = "✓"
	}
	o.SetCell(at, 0, tview.NewTableCell(mark).SetStyle(o.d.theme.Style(good)))
	for i, c := range columns {
		text, n := c.cell(p)
		text = " " + tview.Escape(text)
		if c.more != nil {
			if more := c.more(p); more != "" {
				text += o.d.theme.Tag(dim) + tview.Escape(more) + "[-:-:-]"
			}
		}
		cell := tview.NewTableCell(text).SetStyle(o.d.theme.Style(n)).SetMaxWidth(mostName + 1) // with the space before it
		if !c.left {
			cell.SetAlign(tview.AlignRight)
		}
		o.SetCell(at, i+1, cell)
	}
}

// sorted returns the outcomes to show in the chosen order.
func (o *overview) sorted(f *scope.Frame) []*scope.Outcome {
	var ps []*scope.Outcome
	for _, p := range o.d.scene.outcomes(f) {
		if strings.Contains(p.Name, o.filter) || strings.Contains(p.Spec.Alias(), o.filter) {
			ps = append(ps, p)
		}
	}
	by := func(figure func(*scope.Outcome) float64) func(a, b *scope.Outcome) int {
		return func(a, b *scope.Outcome) int { return cmp.Compare(figure(b), figure(a)) }
	}
	switch o.order {
	case byRate:
		slices.SortStableFunc(ps, by((*scope.Outcome).Rate))
	case byDelay:
		slices.SortStableFunc(ps, by(slowness))
	case byFailure:
		slices.SortStableFunc(ps, by(func(p *scope.Outcome) float64 { f, _ := p.Observed.IntangibleMass(); return f }))
	}
	return ps
}

// slowness orders outcomes by p99. Outcomes whose p99 lies in the intangible mass come first, and
// those without instances last.
func slowness(p *scope.Outcome) float64 {
	if x := seconds(p, 0.99); !math.IsNaN(x) {
		return x
	}
	return -1
}

func rate(p *scope.Outcome) (string, tone) {
	if p.Counts.Unobserved {
		return "?", doubtful
	}
	text := perSecond(p.Rate())
	if p.Inferred() {
		text = "~" + text
	}
	if silence(p) != "" {
		return text, doubtful
	}
	return text, plain
}

// perSecond formats a rate.
func perSecond(r float64) string {
	if r != 0 && r < 10 {
		return fmt.Sprintf("%.1f", r)
	}
	return fmt.Sprintf("%.0f", r)
}

func successes(p *scope.Outcome) (string, tone) {
	if least, isLeast, ok := p.LeastSuccess(); ok && isLeast {
		return figures.AtLeast(least), doubtful
	}
	s, ok := p.Observed.Success()
	switch {
	case !ok && onlyCalculated(p):
		b, _ := p.Calculated.Success()
		if b.Lo == 1 {
			return "(100%)", dim
		}
		return "(" + figures.Probability(b) + ")", dim
	case !ok:
		return "-", dim
	case s == 1:
		return "100%", plain
	}
	return figures.Percent(s), bad
}

func delayWithin(p *scope.Outcome, q float64) (string, tone) {
	if onlyCalculated(p) {
		text, _ := calculatedWithin(p, q)
		return "(" + text + ")", dim
	}
	d, ok := p.Observed.QuantileFigure(q)
	switch {
	case p.Observed.Empty():
		return "-", dim
	case !ok && p.QuantileSlower(q):
		return export.SlowerThan(p), doubtful
	case !ok:
		return "∞", bad
	case p.QuantileMayBeLonger(q):
		return figures.Unsure(d), doubtful
	}
	return figures.AtMost(d), plain
}

// onlyCalculated reports whether the data of an outcome are calculated only.
func onlyCalculated(p *scope.Outcome) bool { return p.Observed.Empty() && !p.Calculated.Empty() }

func calculated(p *scope.Outcome) (string, tone) { return calculatedWithin(p, 0.99) }

func calculatedWithin(p *scope.Outcome, q float64) (string, tone) {
	if p.Calculated.Empty() {
		return "-", dim
	}
	v, ok := p.Calculated.Quantile(q)
	if !ok || !v.Finite() {
		return "∞", bad
	}
	return figures.AtMost(v.Hi), plain
}

// apart returns the distance between the observed and the calculated ΔQ that is certain, and the
// number of windows it covers. A mark means that chance does not explain the distance. A question
// mark means that the bins are too wide for a result.
func apart(p *scope.Outcome) (string, tone) {
	d := p.Divergence
	switch {
	case d == nil:
		return "", dim
	case d.Chance <= dq.RunChance:
		return fmt.Sprintf("%s! /%d", figures.Down(d.Distance.Lo, 2), p.DivergenceWindows), doubtful
	case d.Distance.Lo == 0 && d.Distance.Hi >= hiddenDistance:
		return fmt.Sprintf("? /%d", p.DivergenceWindows), dim
	}
	return fmt.Sprintf("%s /%d", figures.Down(d.Distance.Lo, 2), p.DivergenceWindows), plain
}

// hiddenDistance is the least distance that matters and that wide bins may hide.
const hiddenDistance = 0.1

// verdict describes in a word whether an outcome meets its QTA. It also reports silence.
func verdict(p *scope.Outcome) (string, tone) {
	j, insufficient, calculated := judgementOf(p)
	if text := silence(p); text != "" && p.Judgement == nil {
		return text, doubtful
	}
	by := ""
	if calculated {
		by = "calculated: "
	}
	switch {
	case j == nil:
		return "", dim
	case insufficient != "":
		return by + "too few", doubtful
	case j.Met == dq.Yes:
		return by + "met", good
	case j.Met == dq.No:
		return by + "VIOLATED", bad
	}
	return by + "open", doubtful
}

func lost(p *scope.Outcome) (string, tone) {
	n := p.Counts.Loss.Total()
	switch {
	case p.Counts.Unobserved:
		return fmt.Sprintf("%d+", n), doubtful
	case n > 0:
		return fmt.Sprint(n), doubtful
	}
	return "0", dim
}

// trailWidth is the usual number of windows in a sparkline, and leastTrail the least number.
const trailWidth, leastTrail = 22, 10

// trailName returns the head of a sparkline column.
func (o *overview) trailName(figure string) string {
	if o.windows < trailWidth {
		return figure + " trend"
	}
	return figure + ", window by window"
}

// trail draws the course of a figure up to the shown window. The scale goes from 0 to the largest
// value shown. Unknown values are gaps.
func (o *overview) trail(p *scope.Outcome, figure func(point) float64) string {
	f := o.d.frame()
	trail := o.d.scene.Trail(keyOf(p), f.Number)
	values := make([]float64, o.windows)
	for i := range values {
		values[i] = math.NaN()
	}
	for _, x := range trail {
		if back := int(f.Number - x.number); back < o.windows {
			values[o.windows-1-back] = figure(x)
		}
	}
	return figures.Sparkline(values)
}
