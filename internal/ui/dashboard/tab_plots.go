package dashboard

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/tview"

	"github.com/beamscope/beamscope/internal/files/config"
	"github.com/beamscope/beamscope/internal/ui/plot"
)

// A plotsTab shows which plots there are, their outcomes and visible curves, and the polling
// window.
type plotsTab struct {
	*listing
	d *Dashboard
}

func newPlotsTab(d *Dashboard) tab {
	t := &plotsTab{newListing("plots", d.theme), d}
	t.moved = t.follow
	return t
}

func (t *plotsTab) name() string { return "plots" }

func (t *plotsTab) bindings() []binding {
	return []binding{
		{inSidebar, []press{{key: tcell.KeyEnter}}, "Enter", "choose", "choose or plot outcomes, enter the window", t.open},
		{inSidebar, []press{char('a')}, "a", "add", "add a plot", t.add},
		{inSidebar, []press{char('d'), {key: tcell.KeyDelete}}, "d", "remove", "remove a plot", func() { t.with(t.d.grid.close) }},
		{inSidebar, []press{char('[')}, "[ ]", "move", "move a plot up", func() { t.with(func(p *panel) { t.d.grid.move(p, -1) }) }},
		{inSidebar, []press{char(']')}, "]", "", "move a plot down", func() { t.with(func(p *panel) { t.d.grid.move(p, 1) }) }},
		{inSidebar, []press{char('v')}, "v", "curves", "choose the curves of a plot", func() { t.with(t.curves) }},
		{inSidebar, []press{char('-')}, "- +", "polling", "a shorter polling window", func() { t.poll(-1) }},
		{inSidebar, []press{char('+'), char('=')}, "+", "", "a longer polling window", func() { t.poll(1) }},
	}
}

func (t *plotsTab) refresh() {
	g := t.d.grid
	rows := []row{t.window(), blank(), {cells: []cell{
		{text: "plots", tone: strong}, {text: fmt.Sprintf("%d of %d", len(g.panels), maxPlots), width: 8, tone: dim, right: true}}}}
	for i, p := range g.panels {
		rows = append(rows, t.plot(i, p))
	}
	if len(g.panels) == 0 {
		rows = append(rows, paragraph(dim, "There is none: a adds one.", t.d.room())...)
	}
	if rest := t.rest(); len(rest) > 0 {
		rows = append(rows, blank(), heading("in no plot"))
		for _, name := range rest {
			rows = append(rows, row{
				key:    "outcome " + name,
				cells:  []cell{{width: 1}, {text: t.d.called(name)}},
				detail: tview.Escape(name) + " is in no plot. Enter makes one of it.",
				open:   func() { t.insert(name) },
			})
		}
	}
	t.show(rows, t.d.room())
}

// window returns the row of the polling window.
func (t *plotsTab) window() row {
	return row{
		key: "window",
		cells: []cell{{text: "polling window", width: 14, tone: strong}, {text: t.d.control.Config().Window.String()},
			{text: "- shorter  + longer", width: 19, tone: dim, right: true}},
		detail: "The time that a plot is about, and how often there is a new one: 100ms to 10s. Enter: any, as in 750ms.",
		open:   t.enterWindow,
	}
}

// plot returns the row of a plot.
func (t *plotsTab) plot(i int, p *panel) row {
	r := row{
		key:    plotKey(p),
		cells:  []cell{{text: fmt.Sprint(i + 1), width: 1, tone: dim}, {text: t.d.title(p)}},
		detail: fmt.Sprintf("Plot %d shows %s. Enter chooses its outcomes, v its curves.", i+1, tview.Escape(strings.Join(p.outcomes, ", "))),
		open:   func() { t.edit(p) },
	}
	if hidden := hidden(p); len(hidden) > 0 {
		r.detail += "\nNot drawn: " + strings.Join(hidden, ", ") + "."
	}
	if missing := t.missing(p); len(missing) > 0 {
		r.detail += "\n" + t.d.theme.Tag(doubtful) + "Not observed: " + tview.Escape(strings.Join(missing, ", ")) + ".[-:-:-]"
	}
	return r
}

func plotKey(p *panel) string { return fmt.Sprintf("plot %p", p) }

// names returns the names of the outcomes that can be plotted.
func (t *plotsTab) names() []string {
	if s := t.d.scene.System(); s != nil {
		return interesting(s)
	}
	return nil
}

// rest returns the names of the outcomes that no plot shows.
func (t *plotsTab) rest() []string {
	return slices.DeleteFunc(t.names(), func(name string) bool {
		return slices.ContainsFunc(t.d.grid.panels, func(p *panel) bool { return slices.Contains(p.outcomes, name) })
	})
}

// missing returns the names of the outcomes of a plot that do not exist.
func (t *plotsTab) missing(p *panel) []string {
	names := t.names()
	return slices.DeleteFunc(slices.Clone(p.outcomes), func(name string) bool { return slices.Contains(names, name) })
}

// selection returns the selected plot, or nil.
func (t *plotsTab) selection() *panel {
	at := slices.IndexFunc(t.d.grid.panels, func(p *panel) bool { return plotKey(p) == t.selected() })
	if at < 0 {
		return nil
	}
	return t.d.grid.panels[at]
}

// follow selects the same plot beside the sidebar as in this tab.
func (t *plotsTab) follow() {
	if at := slices.Index(t.d.grid.panels, t.selection()); at >= 0 {
		t.d.grid.selected = at
	}
}

// errSelect means that no plot is selected.
var errSelect = errors.New("select a plot first")

// with calls do with the selected plot.
func (t *plotsTab) with(do func(*panel)) {
	p := t.selection()
	if p == nil {
		t.d.fail(errSelect)
		return
	}
	do(p)
}

// insert adds a plot, and selects it.
func (t *plotsTab) insert(names ...string) error {
	g := t.d.grid
	if err := g.insert(names...); err != nil {
		t.d.fail(err)
		return err
	}
	if t.d.width >= wide {
		t.d.main.SwitchToPage("plots")
	}
	t.d.refresh()
	t.choose(plotKey(g.current()))
	return nil
}

// errTick means that a plot needs at least one outcome.
var errTick = errors.New("tick one at least: Space does so")

// add asks for the outcomes of a new plot.
func (t *plotsTab) add() {
	names := t.names()
	switch {
	case len(t.d.grid.panels) == maxPlots:
		t.d.fail(errFull)
		return
	case len(names) == 0:
		t.d.fail(errors.New("no outcomes yet"))
		return
	}
	var ticked []string
	if name, ok := strings.CutPrefix(t.selected(), "probe "); ok {
		ticked = []string{name}
	}
	t.d.pick("new plot of", names, ticked, func(chosen []string) error {
		if len(chosen) == 0 {
			return errTick
		}
		return t.insert(chosen...)
	})
}

// edit asks for the outcomes of a plot.
func (t *plotsTab) edit(p *panel) {
	all := t.names()
	all = append(all, t.missing(p)...)
	t.d.pick(fmt.Sprintf("plot %d shows", slices.Index(t.d.grid.panels, p)+1), all, p.outcomes, func(chosen []string) error {
		if len(chosen) == 0 {
			t.d.grid.close(p)
			return nil
		}
		p.outcomes = inOrder(p.outcomes, chosen)
		return nil
	})
}

// inOrder returns the chosen names: the previous ones in their order, then the rest.
func inOrder(before, chosen []string) []string {
	names := slices.DeleteFunc(slices.Clone(before), func(name string) bool { return !slices.Contains(chosen, name) })
	for _, name := range chosen {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// hidden names the hidden curves of a plot.
func hidden(p *panel) []string {
	var names []string
	for _, r := range p.view.hiddenRoles() {
		names = append(names, r.String())
	}
	return names
}

// curves asks which curves a plot shows.
func (t *plotsTab) curves(p *panel) {
	v := p.view
	var all, ticked []string
	for _, r := range slices.Backward(plot.Roles()) { // the most important first
		all = append(all, r.String())
		if v.visible(r) {
			ticked = append(ticked, r.String())
		}
	}
	t.d.pick("drawn is the ΔQ", all, ticked, func(chosen []string) error {
		for _, r := range plot.Roles() {
			if slices.Contains(chosen, r.String()) != v.visible(r) {
				v.toggle(r)
			}
		}
		return nil
	})
}

// steps returns the polling windows among which the keys step.
func steps() []time.Duration {
	ms := time.Millisecond
	return []time.Duration{config.MinWindow, 200 * ms, 500 * ms, time.Second, 2 * time.Second, 5 * time.Second, config.MaxWindow}
}

// poll changes to the next longer polling window, or to the next shorter one.
func (t *plotsTab) poll(by int) {
	t.d.change("setting the polling window", func(c *config.Config) error {
		c.Window = stepFrom(c.Window, by)
		return nil
	}, t.polled(t.d.fail))
}

// stepFrom returns the next longer step after a window, or the next shorter one.
func stepFrom(window time.Duration, by int) time.Duration {
	all := steps()
	at, there := slices.BinarySearch(all, window)
	if by > 0 && !there {
		at-- // the window lies between two steps
	}
	return all[min(max(at+by, 0), len(all)-1)]
}

// enterWindow asks for a polling window.
func (t *plotsTab) enterWindow() {
	now := t.d.control.Config().Window.String()
	t.d.enter("polling window", "a number and a unit, as in 500ms, from 100ms to 10s", now, func(text string, settled func(error)) {
		t.d.change("setting the polling window", func(c *config.Config) error {
			window, err := time.ParseDuration(delayOf(text))
			if err != nil || window < config.MinWindow || window > config.MaxWindow {
				return fmt.Errorf("%q: write a number and a unit, as in 500ms, from 100ms to 10s", text)
			}
			c.Window = window
			return nil
		}, t.polled(settled))
	})
}

// polled reports the new polling window if it could be set.
func (t *plotsTab) polled(settled func(error)) func(error) {
	return func(err error) {
		settled(err)
		if err == nil {
			t.d.say(good, fmt.Sprintf("the polling window is %v: w saves it", t.d.control.Config().Window))
		}
	}
}
