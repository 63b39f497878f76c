package dashboard

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/tview"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/engine/figures"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/ui/plot"
)

// maxPlots is the largest number of plots, and firstPlots the largest number to begin with.
const (
	maxPlots   = 9
	firstPlots = 6
)

// A panel is a plot and the outcomes in it.
type panel struct {
	outcomes []string   // names
	vm       outcome.VM // the VM of the outcomes; the zero VM means every VM that has them
	view     *plotView
}

// title names the outcomes in a plot.
func (d *Dashboard) title(p *panel) string {
	names := make([]string, len(p.outcomes))
	for i, name := range p.outcomes {
		names[i] = d.called(name)
	}
	title := strings.Join(names, ", ")
	if p.vm == (outcome.VM{}) {
		return title
	}
	return title + " of " + p.vm.String()
}

// called returns the displayed name of an outcome. It includes the name of its spans if that
// differs.
func (d *Dashboard) called(name string) string {
	for _, s := range []*scope.System{d.scene.systemShown(), d.live.System()} {
		if s == nil {
			continue
		}
		if at := slices.IndexFunc(s.Outcomes, func(p scope.OutcomeSystem) bool { return p.Spec.Name == name }); at >= 0 {
			return figures.Called(name, s.Outcomes[at].Spec.Alias())
		}
	}
	return figures.ShortName(name)
}

// A grid shows plots beside and below each other.
type grid struct {
	*tview.Box
	d        *Dashboard
	panels   []*panel
	selected int
	zoomed   bool   // only the selected plot is shown
	held     *panel // gets the mouse events until the button is released
	begun    bool   // the first plots have been chosen
}

func newGrid(d *Dashboard) *grid { return &grid{Box: tview.NewBox(), d: d} }

// begin chooses the first plots: calculated outcomes first, then the others.
func (g *grid) begin(s *scope.System) {
	if g.begun || s == nil || len(s.Outcomes) == 0 || g.d.opts.Overview {
		return
	}
	g.begun = true
	for _, name := range interesting(s) {
		if len(g.panels) < firstPlots {
			g.panels = append(g.panels, g.panel(name))
		}
	}
}

// interesting returns the names of outcomes. It begins with those that the diagram defines, last
// definition first because that is the whole system. The others follow.
func interesting(s *scope.System) []string {
	var names []string
	if s.Diagram != nil {
		for _, d := range slices.Backward(s.Diagram.Definitions) {
			names = append(names, d.Name)
		}
	}
	for _, p := range s.Outcomes {
		if !slices.Contains(names, p.Spec.Name) {
			names = append(names, p.Spec.Name)
		}
	}
	return names
}

func (g *grid) panel(names ...string) *panel {
	return &panel{outcomes: names, view: newPlotView(g.d.theme)}
}

// errFull means that no more plots fit.
var errFull = fmt.Errorf("there are %d plots: as many as there can be", maxPlots)

// errNoPlot means that the command needs a plot and there is none.
var errNoPlot = errors.New("there is no plot: choose an outcome in the overview (o) or the tab plots (p)")

// only shows the plot of an outcome alone, for one VM or for all. It adds the plot if none exists,
// and replaces the last one if there are too many.
func (g *grid) only(name string, vm outcome.VM) {
	g.begun = true
	at := slices.IndexFunc(g.panels, func(p *panel) bool { return len(p.outcomes) == 1 && p.outcomes[0] == name && p.vm == vm })
	if at < 0 {
		if len(g.panels) == maxPlots {
			g.panels = g.panels[:maxPlots-1]
		}
		p := g.panel(name)
		p.vm = vm
		g.panels = append(g.panels, p)
		at = len(g.panels) - 1
	}
	g.selected, g.zoomed = at, true
}

// insert adds a plot of the named outcomes.
func (g *grid) insert(names ...string) error {
	if len(g.panels) == maxPlots {
		return errFull
	}
	g.begun = true
	g.panels = append(g.panels, g.panel(names...))
	g.selected = len(g.panels) - 1
	return nil
}

// add draws another outcome in the selected plot.
func (g *grid) add(name string) error {
	p := g.current()
	if p == nil {
		return g.insert(name)
	}
	if !slices.Contains(p.outcomes, name) {
		p.outcomes = append(p.outcomes, name)
	}
	g.d.say(plain, "plot "+fmt.Sprint(g.selected+1)+" shows "+strings.Join(p.outcomes, ", "))
	return nil
}

// close removes a plot.
func (g *grid) close(p *panel) {
	g.panels = slices.DeleteFunc(g.panels, func(q *panel) bool { return q == p })
	g.selected = max(min(g.selected, len(g.panels)-1), 0)
	g.zoomed = false
}

// move swaps a plot with the one that is by places further on, or back if by is negative.
func (g *grid) move(p *panel, by int) {
	at := slices.Index(g.panels, p)
	to := min(max(at+by, 0), len(g.panels)-1)
	g.panels[at], g.panels[to] = g.panels[to], g.panels[at]
	g.selected = to
}

// current returns the selected plot, or nil.
func (g *grid) current() *panel {
	if g.selected >= len(g.panels) {
		return nil
	}
	return g.panels[g.selected]
}

// refresh passes new data to the plots.
func (g *grid) refresh() {
	g.begin(g.d.scene.System())
	if !g.d.showing("plots") {
		return
	}
	system, f := g.d.scene.systemShown(), g.d.frame()
	for i, p := range g.panels {
		p.view.show(fmt.Sprintf("%d %s", i+1, g.d.title(p)), g.series(p, system, f))
	}
}

// series returns the series to draw in a plot.
func (g *grid) series(p *panel, system *scope.System, f *scope.Frame) []plot.Series {
	if f == nil || system == nil {
		return nil
	}
	earlier, label := g.d.scene.earlier(), ""
	if earlier != nil {
		label = fmt.Sprintf("window %d, %s", earlier.Number, earlier.Time.Local().Format("15:04:05"))
	}
	outcomes := g.d.scene.outcomes(f)
	if p.vm != (outcome.VM{}) { // the user chose the VM
		outcomes = nil
		for i := range f.Outcomes {
			outcomes = append(outcomes, &f.Outcomes[i])
		}
	}
	var series []plot.Series
	for _, name := range p.outcomes {
		for _, x := range outcomes {
			if x.Name == name && (p.vm == outcome.VM{} || p.vm == x.VM) {
				series = append(series, plot.Of(x, requirement(system, name), outcomeOf(earlier, keyOf(x)), label))
			}
		}
	}
	return series
}

// requirement returns the QTA of an outcome, or nil.
func requirement(s *scope.System, name string) *dq.QTA {
	for i := range s.Outcomes {
		if s.Outcomes[i].Spec.Name == name {
			return s.Outcomes[i].QTA
		}
	}
	return nil
}

// shape returns the number of columns and rows in which n plots fit best into a space. A plot
// should look about twice as wide as it is high, which means four times as many columns as rows of
// cells.
func shape(n, width, height int) (columns, rows int) {
	best := 0.0
	for c := 1; c <= n; c++ {
		r := (n + c - 1) / c
		w, h := float64(width)/float64(c), float64(height)/float64(r)
		if size := min(w, h*3.5) * float64(n) / float64(c*r); size > best {
			best, columns, rows = size, c, r
		}
	}
	return columns, rows
}

// Draw implements [tview.Primitive].
func (g *grid) Draw(screen tcell.Screen) {
	x, y, width, height := g.GetRect()
	if text := g.instead(); text != "" {
		tview.Print(screen, tview.Escape(text), x, y+height/2, width, tview.AlignCenter, tcell.ColorDefault)
		return
	}
	if g.zoomed {
		g.place(screen, g.selected, x, y, width, height)
		return
	}
	columns, rows := shape(len(g.panels), width, height+max(g.d.saidIn-1, 0)) // computed for a message of one line, so that a longer one does not rearrange the plots
	for i := range g.panels {
		c, r := i%columns, i/columns
		beside := min(columns, len(g.panels)-r*columns) // the last row may have fewer plots, which are wider
		left, top := c*width/beside, r*height/rows
		g.place(screen, i, x+left, y+top, (c+1)*width/beside-left, (r+1)*height/rows-top)
	}
}

// instead returns the text to show instead of plots, or "" if there are plots.
func (g *grid) instead() string {
	switch f := g.d.frame(); {
	case f != nil && f.Attaching:
		return nothingWholeText(f)
	case len(g.panels) > 0:
		return ""
	case f == nil:
		return "The first window is on its way."
	}
	return "No plots: choose an outcome in the overview (o), or in the tab plots (p)."
}

func (g *grid) place(screen tcell.Screen, i, x, y, width, height int) {
	v := g.panels[i].view
	v.selected = i == g.selected
	v.SetRect(x, y, width, height)
	g.draw(screen, g.panels[i])
}

// draw draws a plot, or the groups instead of it if the window has some.
func (g *grid) draw(screen tcell.Screen, p *panel) {
	outcome := g.d.grouped(p)
	if outcome != nil && len(outcome.Counts.Groups) > 0 {
		drawGroups(screen, p.view, outcome)
		return
	}
	p.view.ungrouped = outcome != nil && outcome.Counts.Instances() > 0
	p.view.Draw(screen)
}

// visible returns the plots on the screen.
func (g *grid) visible() []*panel {
	if g.zoomed && g.current() != nil {
		return []*panel{g.current()}
	}
	return g.panels
}

// MouseHandler implements [tview.Primitive]: a click selects a plot, and the plot handles the
// event.
func (g *grid) MouseHandler() func(tview.MouseAction, *tcell.EventMouse, func(tview.Primitive)) (bool, tview.Primitive) {
	return func(action tview.MouseAction, e *tcell.EventMouse, focus func(tview.Primitive)) (bool, tview.Primitive) {
		if g.held != nil {
			return g.relay(g.held, action, e)
		}
		if !g.InRect(e.Position()) {
			return false, nil
		}
		for _, p := range g.visible() {
			if !p.view.InRect(e.Position()) {
				continue
			}
			if action == tview.MouseLeftDown {
				focus(g)
				g.selected = slices.Index(g.panels, p)
			}
			if action == tview.MouseLeftDoubleClick {
				g.zoomed = !g.zoomed
				g.d.refresh()
				return true, nil
			}
			return g.relay(p, action, e)
		}
		return false, nil
	}
}

// relay passes mouse events to a plot. Events that the plot captures until the button is released
// arrive through the grid, because tview sends a double click to whatever captured the button.
func (g *grid) relay(p *panel, action tview.MouseAction, e *tcell.EventMouse) (bool, tview.Primitive) {
	consumed, holds := p.view.MouseHandler()(action, e, func(tview.Primitive) {})
	if holds == nil {
		g.held = nil
		return consumed, nil
	}
	g.held = p
	return consumed, g
}

func (g *grid) bindings() []binding {
	key := func(k tcell.Key) []press { return []press{{key: k}} }
	shifted := func(k tcell.Key) []press { return []press{{key: k, shift: true}} }
	m := []binding{
		{inPlots, []press{{key: tcell.KeyEnter}, char('z')}, "Enter", "alone", "show the selected plot alone, or all again", func() { g.zoomed = !g.zoomed && g.current() != nil }},
		{inPlots, key(tcell.KeyLeft), "←→ ↑↓", "cursor", "move the cursor along the delays, or by quantiles", g.view(func(v *plotView) { v.cursorBy(-1) })},
		{inPlots, key(tcell.KeyRight), "→", "", "", g.view(func(v *plotView) { v.cursorBy(1) })},
		{inPlots, key(tcell.KeyUp), "↑", "", "", g.view(func(v *plotView) { v.cursorQuantile(1) })},
		{inPlots, key(tcell.KeyDown), "↓", "", "", g.view(func(v *plotView) { v.cursorQuantile(-1) })},
		{inPlots, []press{{key: tcell.KeyBackspace}, {key: tcell.KeyBackspace2}}, "⌫", "", "remove the cursor", g.view((*plotView).cursorOff)},
		{inPlots, []press{char('+'), char('=')}, "+ -", "zoom", "zoom in and out, around the cursor", g.view(func(v *plotView) { v.zoom(1.5) })},
		{inPlots, []press{char('-')}, "-", "", "", g.view(func(v *plotView) { v.zoom(1 / 1.5) })},
		{inPlots, shifted(tcell.KeyLeft), "Shift-←→", "", "move along to shorter delays, or longer ones", g.view(func(v *plotView) { v.pan(-0.1) })},
		{inPlots, shifted(tcell.KeyRight), "Shift-→", "", "", g.view(func(v *plotView) { v.pan(0.1) })},
		{inPlots, key(tcell.KeyPgUp), "PgUp PgDn", "", "zoom into the probabilities, and out of them", g.view(func(v *plotView) { v.zoomProbability(1.5) })},
		{inPlots, key(tcell.KeyPgDn), "PgDn", "", "", g.view(func(v *plotView) { v.zoomProbability(1 / 1.5) })},
		{inPlots, []press{char('0')}, "0", "", "show all delays and probabilities", g.view((*plotView).reset)},
		{inPlots, []press{char('l')}, "l", "log", "a logarithmic scale of delays, or a linear one", g.view((*plotView).toggleLog)},
		{inPlots, []press{char('v')}, "v", "curves", "hide the means, then all but observed curves, or none", g.view((*plotView).nextCurves)},
		{inPlots, []press{char('d')}, "d", "", "remove the selected plot", func() { g.with(g.close) }},
		{inPlots, []press{char('g')}, "g", "", groupHelp, g.d.group},
	}
	help := "select that plot"
	for i := range maxPlots {
		m = append(m, binding{inPlots, []press{char(rune('1' + i))}, fmt.Sprint(i + 1), "", help, func() { g.choose(i) }})
		help = "" // the first binding describes all of them
	}
	return m
}

// view returns a command for the view of the selected plot.
func (g *grid) view(do func(*plotView)) func() {
	return func() { g.with(func(p *panel) { do(p.view) }) }
}

// with calls do with the selected plot.
func (g *grid) with(do func(*panel)) {
	p := g.current()
	if p == nil {
		g.d.fail(errNoPlot)
		return
	}
	do(p)
}

// choose selects a plot.
func (g *grid) choose(i int) {
	if i < len(g.panels) {
		g.selected = i
	}
}
