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
	"github.com/beamscope/beamscope/internal/export"
	"github.com/beamscope/beamscope/internal/figures"
	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/scope"
	"github.com/beamscope/beamscope/internal/tui"
)

// An overview is the table of all probes: how often, how long, and whether all is
// well; and below it, where there is room, the plot of the one that is selected.
type overview struct {
	*tview.Table
	d       *Dashboard
	preview *plotView
	rows    []probeKey // of the table, below its head
	marked  map[string]bool
	filter  string
	order   order
	drawn   int // lines of the table, with its head

	at    int  // row that was selected by itself last
	moved bool // somebody has chosen a row
}

// An order is what the overview is sorted by.
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
	o := &overview{Table: tview.NewTable(), d: d, preview: newPlotView(d.theme), marked: make(map[string]bool)}
	o.SetSelectable(true, false).SetFixed(1, 0).SetSelectedStyle(d.theme.Selected())
	o.SetSelectedFunc(func(int, int) { o.plot() })
	o.SetSelectionChangedFunc(func(int, int) { d.hints() }) // which are those of the selected probe
	return o
}

func (o *overview) bindings() []binding {
	return []binding{
		{inOverview, []press{{key: tcell.KeyEnter}}, "Enter", "plot", "plot the probe", o.plot},
		{inOverview, []press{char(' ')}, "Space", "mark", "mark the probe: w saves those that are marked", o.mark},
		{inOverview, []press{char('a')}, "a", "add to plot", "draw the probe in the selected plot as well", o.add},
		{inOverview, []press{char('r')}, "r", "sort", "sort by something else", o.sort},
		{inOverview, []press{char('/')}, "/", "filter", "show only probes with this in their name", o.ask},
		{inOverview, []press{char('g')}, "g", "", groupHelp, o.d.group},
	}
}

// selected returns the probe on which the keys act; false where there is none.
func (o *overview) selected() (probeKey, bool) {
	row, _ := o.GetSelection()
	if row < 1 || row > len(o.rows) {
		return probeKey{}, false
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

// vmOf returns the VM to plot of a row: none, which is all of them, where there is but
// one.
func (o *overview) vmOf(key probeKey) outcome.VM {
	if o.severalVMs() {
		return key.vm
	}
	return outcome.VM{}
}

// Heights of what is below each other.
const (
	leastPreview = 12
	leastTable   = 6
)

// Draw implements [tview.Primitive].
func (o *overview) Draw(screen tcell.Screen) {
	x, y, width, height := o.GetRect()
	table := min(len(o.rows)+2, max(height/2, leastTable))
	key, ok := o.selected()
	line, said := o.remark(probeOf(o.d.frame(), key))
	if said && height > leastTable {
		height--
		tview.Print(screen, o.d.theme.line(&line, width), x, y+height, width, tview.AlignLeft, tcell.ColorDefault)
	}
	if !ok || height-table < leastPreview {
		o.drawTable(screen, height)
		return
	}
	o.drawTable(screen, table)
	p := &panel{probes: []string{key.name}, vm: o.vmOf(key), view: o.preview}
	p.view.show(o.d.title(p), o.d.grid.series(p, o.d.scene.systemShown(), o.d.frame()))
	p.view.SetRect(x, y+table, width, height-table)
	o.d.grid.draw(screen, p)
}

// remark is the line below the table: why the selected probe was slow, or else that it was
// slower than a limit that nobody set, or else how to add spans.
func (o *overview) remark(p *scope.Probe) (row, bool) {
	if p != nil && p.Slower() > 0 && p.Explained == nil {
		name := o.d.called(p.Name) + ":"
		return row{cells: []cell{{text: name, width: tui.Columns(name), tone: strong}, {text: export.Slower(p), tone: doubtful}}}, true
	}
	if line, said := o.d.explainedLine(p); said {
		return line, true
	}
	return o.d.noSpansLine()
}

// drawTable draws the table alone, in so many lines.
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

// A column of the overview.
type column struct {
	name  string
	least int // width of the screen from which on it is shown
	left  bool
	cell  func(p *scope.Probe) (text string, n tone)
	more  func(p *scope.Probe) string // behind it, dim; nil for nothing
}

func (o *overview) columns() []column {
	several := o.severalVMs()
	columns := []column{
		{"probe", 0, true, func(p *scope.Probe) (string, tone) { return figures.Middle(p.Name, o.nameRoom()), strong }, o.span},
	}
	if o.filter != "" {
		columns[0].name += " /" + o.filter
	}
	if several {
		columns = append(columns, column{"VM", 0, true, func(p *scope.Probe) (string, tone) { return vmName(p.VM, o.d.width/4), dim }, nil})
	}
	quantile := func(q float64, least int) column {
		return column{fmt.Sprintf("p%g", q*100), least, false, func(p *scope.Probe) (string, tone) { return delayWithin(p, q) }, nil}
	}
	apartName := "apart, windows"
	if o.d.width < 140 {
		apartName = "apart /n" // there is little room
	}
	columns = append(columns,
		column{"per s", 0, false, rate, nil},
		column{"ok", 0, false, successes, nil},
		quantile(0.25, 130), quantile(0.5, 0), quantile(0.75, 130), quantile(0.99, 0),
		column{"rate, window by window", 70, true, func(p *scope.Probe) (string, tone) {
			return o.trail(p, func(x point) float64 { return x.rate }), plain
		}, nil},
		column{"p99, window by window", 120, true, func(p *scope.Probe) (string, tone) {
			return o.trail(p, func(x point) float64 { return x.p99 }), plain
		}, nil},
		column{"QTA", 0, true, verdict, nil},
		column{apartName, 100, false, apart, nil},
		column{"calculated p99", 160, false, calculated, nil},
		column{"lost", 90, false, lost, nil},
		column{"caveat", 160, true, func(p *scope.Probe) (string, tone) { return p.Insufficient, doubtful }, nil},
	)
	for i := range columns {
		if mark, ok := o.order.mark(columns[i].name); ok {
			columns[i].name += mark
		}
	}
	return columns
}

// mark returns what stands behind the head of a column by which is sorted.
func (o order) mark(name string) (string, bool) {
	switch {
	case o == byRate && name == "per s", o == byDelay && name == "p99":
		return "▼", true
	case o == byFailure && name == "ok": // the least comes first
		return "▲", true
	}
	return "", false
}

// nameRoom is how many columns the name of a probe takes at most, with that of its spans.
func (o *overview) nameRoom() int {
	if o.d.width == 0 {
		return mostName
	}
	return min(max(o.d.width*2/5, leastName), mostName)
}

// span returns the name of the spans of a probe where it is another one.
func (o *overview) span(p *scope.Probe) string {
	name := p.Spec.Alias()
	room := o.nameRoom() - tui.Columns(p.Name) - tui.Columns(" «»")
	if name == "" || room < 4 && tui.Columns(name) > room {
		return ""
	}
	return " «" + figures.Middle(name, room) + "»"
}

func (o *overview) severalVMs() bool {
	f := o.d.frame()
	return f != nil && len(vmsOf(o.d.scene.probes(f))) > 1
}

// refresh shows the frame of the scene.
func (o *overview) refresh() {
	key, had := o.selected()
	if row, _ := o.GetSelection(); had && row != o.at {
		o.moved = true
	}
	had = had && o.moved // what comes meanwhile may go first
	o.Clear()
	f := o.d.frame()
	if f == nil || len(f.Probes) == 0 {
		o.empty(f)
		o.SetSelectable(false, false)
		return
	}
	probes := o.sorted(f)
	columns := o.fitting(probes)
	o.head(columns)
	o.rows = o.rows[:0]
	for _, p := range probes {
		o.rows = append(o.rows, keyOf(p))
		o.row(len(o.rows), p, columns)
	}
	o.SetSelectable(len(o.rows) > 0, false) // keys would look for a row that can be selected without end
	if !had {
		key.name = o.first()
	}
	row := slices.IndexFunc(o.rows, func(k probeKey) bool { return k == key || !had && k.name == key.name })
	o.at = max(row+1, 1)
	o.Select(o.at, 0)
}

// first returns the probe that is selected first: the whole, where there is a diagram.
func (o *overview) first() string {
	if s := o.d.scene.System(); s != nil && s.Diagram != nil && len(s.Probes) > 0 {
		return interesting(s)[0]
	}
	return ""
}

// fitting returns the columns for which there is room: those that want the widest
// screen go first.
func (o *overview) fitting(probes []*scope.Probe) []column {
	columns := o.columns()
	if o.d.width == 0 {
		return columns
	}
	columns = slices.DeleteFunc(columns, func(c column) bool { return c.least > o.d.width })
	widths := make([]int, len(columns))
	used := 1 // with the mark
	for i, c := range columns {
		widths[i] = c.width(probes) + 2
		used += widths[i]
	}
	for used > o.d.width {
		last := slices.IndexFunc(columns, func(c column) bool { return c.least == widest(columns) })
		if columns[last].least == 0 {
			break
		}
		used -= widths[last]
		columns, widths = slices.Delete(columns, last, last+1), slices.Delete(widths, last, last+1)
	}
	return columns
}

// widest returns the width of the widest screen that a column wants.
func widest(columns []column) int {
	most := 0
	for _, c := range columns {
		most = max(most, c.least)
	}
	return most
}

// mostName is how many columns a cell of the overview has at most, and leastName what a
// name may take however narrow the screen is.
const mostName, leastName = figures.MaxName, 16

// width is how many columns the column takes.
func (c column) width(probes []*scope.Probe) int {
	width := tui.Columns(c.name)
	for _, p := range probes {
		text, _ := c.cell(p)
		if c.more != nil {
			text += c.more(p)
		}
		width = max(width, min(tui.Columns(text), mostName))
	}
	return width
}

// vmName names a VM in so many columns: of a long name the beginning, and the pid.
func vmName(vm outcome.VM, width int) string {
	name := vm.String()
	pid := fmt.Sprintf(" (pid %d)", vm.PID)
	if tui.Columns(name) <= max(width, 20) || vm.Node == "" {
		return name
	}
	return tui.Shorten(vm.Node, max(width, 20)-tui.Columns(pid)) + pid
}

// empty says what there is to do where there is nothing to show.
func (o *overview) empty(f *scope.Frame) {
	o.rows = nil
	text := []string{"", "  The first window is on its way."}
	switch s := o.d.scene.System(); {
	case f == nil:
	case s != nil && len(s.Probes) > 0 || o.discovered():
		text = []string{"", "  Spans are on their way: what was discovered is observed from the next window on."}
	default:
		text = []string{"", "  No spans have been seen yet.", "",
			"  beamscope shows spans that the application starts with the Erlang application",
			"  beamscope: beamscope:with_span(<<\"name\">>, Fun), see docs/erlang.md.",
			"  They appear here as soon as one starts. A adds outcomes of the VM, which need none."}
	}
	for i, line := range text {
		o.SetCell(i, 0, tview.NewTableCell(line).SetSelectable(false))
	}
}

// noSpansLine says how to add spans, where they are discovered and none has been.
func (d *Dashboard) noSpansLine() (row, bool) {
	f := d.frame()
	if !d.opts.Discovers || d.scene != d.live || f == nil || slices.ContainsFunc(f.Probes, func(p scope.Probe) bool { return p.Spec.Span != "" }) || d.overview.discovered() {
		return row{}, false
	}
	return row{cells: []cell{
		{text: "no spans yet:", width: 13, tone: strong},
		{text: "beamscope:with_span(<<\"name\">>, Fun) marks them; A adds outcomes. docs/erlang.md says more", tone: dim},
	}}, true
}

// discovered tells whether spans were discovered.
func (o *overview) discovered() bool {
	return slices.ContainsFunc(o.d.scene.Events(), func(e event) bool { return strings.HasPrefix(e.notice.Text, discovered) })
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

func (o *overview) row(at int, p *scope.Probe, columns []column) {
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
		cell := tview.NewTableCell(text).SetStyle(o.d.theme.Style(n)).SetMaxWidth(mostName)
		if !c.left {
			cell.SetAlign(tview.AlignRight)
		}
		o.SetCell(at, i+1, cell)
	}
}

// sorted returns the probes to show, in their order.
func (o *overview) sorted(f *scope.Frame) []*scope.Probe {
	var ps []*scope.Probe
	for _, p := range o.d.scene.probes(f) {
		if strings.Contains(p.Name, o.filter) || strings.Contains(p.Spec.Alias(), o.filter) {
			ps = append(ps, p)
		}
	}
	by := func(figure func(*scope.Probe) float64) func(a, b *scope.Probe) int {
		return func(a, b *scope.Probe) int { return cmp.Compare(figure(b), figure(a)) }
	}
	switch o.order {
	case byRate:
		slices.SortStableFunc(ps, by((*scope.Probe).Rate))
	case byDelay:
		slices.SortStableFunc(ps, by(slowness))
	case byFailure:
		slices.SortStableFunc(ps, by(func(p *scope.Probe) float64 { f, _ := p.Observed.IntangibleMass(); return f }))
	}
	return ps
}

// slowness orders probes by their p99: those in the intangible mass first, those without
// instances last.
func slowness(p *scope.Probe) float64 {
	if x := seconds(p, 0.99); !math.IsNaN(x) {
		return x
	}
	return -1
}

func rate(p *scope.Probe) (string, tone) {
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

// perSecond shows a rate.
func perSecond(r float64) string {
	if r != 0 && r < 10 {
		return fmt.Sprintf("%.1f", r)
	}
	return fmt.Sprintf("%.0f", r)
}

func successes(p *scope.Probe) (string, tone) {
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
		if text := figures.Percent(b.Lo); text != figures.Percent(b.Hi) {
			return "(≥" + text + ")", dim
		}
		return "(" + figures.Percent(b.Lo) + ")", dim
	case !ok:
		return "-", dim
	case s == 1:
		return "100%", plain
	}
	return figures.Percent(s), bad
}

func delayWithin(p *scope.Probe, q float64) (string, tone) {
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
	}
	return figures.AtMost(d), plain
}

// onlyCalculated tells whether all that is known of a probe is what was calculated.
func onlyCalculated(p *scope.Probe) bool { return p.Observed.Empty() && !p.Calculated.Empty() }

func calculated(p *scope.Probe) (string, tone) { return calculatedWithin(p, 0.99) }

func calculatedWithin(p *scope.Probe, q float64) (string, tone) {
	if p.Calculated.Empty() {
		return "-", dim
	}
	v, ok := p.Calculated.Quantile(q)
	if !ok || !v.Finite() {
		return "∞", bad
	}
	return figures.AtMost(v.Hi), plain
}

// apart says how far the observed ΔQ is from the calculated one for sure, with a mark
// where chance does not explain it, and over how many windows. Where the bins are too
// wide to tell anything it says so.
func apart(p *scope.Probe) (string, tone) {
	d := p.Divergence
	switch {
	case d == nil:
		return "", dim
	case d.Chance <= dq.RunChance:
		return fmt.Sprintf("%.2f! /%d", d.Distance.Lo, p.DivergenceWindows), doubtful
	case d.Distance.Lo == 0 && d.Distance.Hi >= hiddenDistance:
		return fmt.Sprintf("? /%d", p.DivergenceWindows), dim
	}
	return fmt.Sprintf("%.2f /%d", d.Distance.Lo, p.DivergenceWindows), plain
}

// hiddenDistance is from which on bins hide a distance that would matter.
const hiddenDistance = 0.1

// verdict says in a word how a probe stands against its QTA, and of any probe that it
// has fallen silent.
func verdict(p *scope.Probe) (string, tone) {
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

func lost(p *scope.Probe) (string, tone) {
	n := p.Counts.Loss.Total()
	switch {
	case p.Counts.Unobserved:
		return fmt.Sprintf("%d+", n), doubtful
	case n > 0:
		return fmt.Sprint(n), doubtful
	}
	return "0", dim
}

// trailWidth is how many windows a sparkline shows.
const trailWidth = 22

// trail draws the course of a figure, up to the window that is shown: from 0 to the
// largest of what is shown, and a gap where it is not known.
func (o *overview) trail(p *scope.Probe, figure func(point) float64) string {
	f := o.d.frame()
	trail := o.d.scene.Trail(keyOf(p), f.Number)
	values := make([]float64, trailWidth)
	for i := range values {
		values[i] = math.NaN()
	}
	for _, x := range trail {
		if back := f.Number - x.number; back < trailWidth {
			values[trailWidth-1-back] = figure(x)
		}
	}
	return figures.Sparkline(values)
}
