package dashboard

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/tview"

	"github.com/beamscope/beamscope/internal/config"
	"github.com/beamscope/beamscope/internal/figures"
	"github.com/beamscope/beamscope/internal/modname"
	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/scope"
)

// groupHelp says what the key does that groups a probe.
const groupHelp = "who: groups by process, then by function, then the plot"

// Why a probe is not grouped.
var (
	errNoProbe     = errors.New("there is no probe to group: choose one in the overview (o)")
	errSeveral     = errors.New("there are several probes in this plot: choose one in the overview (o)")
	errNoProcesses = errors.New("this is not grouped: nobody tells whose instances they are")
	errNoGroups    = errors.New("its instances are of threads, and not of processes: there is nothing to group by")
	errNotGrouped  = errors.New("it was recorded without groups: a scope file with group: pid has them recorded")
)

// chosenProbe returns the probe that is chosen, in the frame that is shown; nil where
// there is none.
func (d *Dashboard) chosenProbe() *scope.Probe {
	f := d.frame()
	if f == nil {
		return nil
	}
	name := d.chosen()
	at := slices.IndexFunc(f.Probes, func(p scope.Probe) bool { return p.Name == name })
	if at < 0 {
		return nil
	}
	return &f.Probes[at]
}

// canGroup tells whether the probe that is chosen is observed at probes of a VM, and may
// have groups.
func (d *Dashboard) canGroup() bool {
	p := d.chosenProbe()
	return p != nil && p.Spec.OfVM()
}

// group shows the groups of the probe that is chosen: what it is grouped by, then by
// what else it can be, and then its plot again. What was recorded stays in its groups.
func (d *Dashboard) group() {
	p := d.chosenProbe()
	_, recorded := d.control.(player)
	switch {
	case p == nil:
		d.fail(errNoProbe)
	case d.showing("plots") && len(d.grid.current().probes) > 1:
		d.fail(errSeveral)
	case !p.Spec.OfVM():
		d.fail(errNoProcesses)
	case recorded || d.scene != d.live:
		d.showRecorded(p)
	default:
		d.groupNext(p.Name)
	}
}

// showRecorded shows the groups that were recorded, or the plot again.
func (d *Dashboard) showRecorded(p *scope.Probe) {
	if p.Spec.Group == "" {
		d.fail(errNotGrouped)
		return
	}
	d.byGroup[p.Name] = !d.byGroup[p.Name]
}

// groupNext has a probe grouped by the next of what it can be grouped by.
func (d *Dashboard) groupNext(name string) {
	o := d.control.Config().Outcome(name)
	all := o.Groupings()
	if len(all) == 0 {
		d.fail(errNoGroups)
		return
	}
	if o.Group != "" && !d.byGroup[name] { // it is by its scope file
		d.byGroup[name] = true
		return
	}
	next := ""
	if at := slices.Index(all, o.Group) + 1; at < len(all) {
		next = all[at]
	}
	saved := !d.unsaved // looking at something is nothing to save
	d.change("grouping "+name, func(c *config.Config) error {
		c.Entry(name).Group = next
		return nil
	}, func(err error) {
		if err != nil {
			d.fail(err)
			return
		}
		d.unsaved = d.unsaved && !saved
		if d.byGroup[name] = next != ""; next == "" {
			d.say(plain, name+" is not grouped any more")
			return
		}
		d.say(good, fmt.Sprintf("%s is grouped by %s from the next window on", name, groupWord(next)))
	})
}

// groupWord names what instances are grouped by for people.
func groupWord(by string) string {
	switch by {
	case outcome.GroupPID:
		return "process"
	case outcome.GroupMFA:
		return "function"
	}
	return by
}

// grouped returns the probe whose groups are shown in the place of a plot, nil for none.
func (d *Dashboard) grouped(p *panel) *scope.Probe {
	f := d.frame()
	if f == nil || len(p.probes) != 1 || !d.byGroup[p.probes[0]] {
		return nil
	}
	for _, x := range d.scene.probes(f) {
		if x.Name == p.probes[0] && (p.vm == outcome.VM{} || p.vm == x.VM) {
			return x
		}
	}
	return nil
}

// A groupColumn is a column of the groups. least is the width of all of them from which
// on it is shown.
type groupColumn struct {
	name         string
	width, least int
	cell         func(g *outcome.Group) string
}

// groupColumns returns the columns for the groups of a probe, behind their names.
func groupColumns(p *scope.Probe, width int) []groupColumn {
	mark := ""
	if p.Inferred() {
		mark = "~"
	}
	var all time.Duration
	for i := range p.Counts.Groups {
		all += p.Counts.Groups[i].Total
	}
	quantile := func(q float64, least int) groupColumn {
		return groupColumn{fmt.Sprintf("p%g", q*100), 13, least, func(g *outcome.Group) string { return groupQuantile(g, q, p.Spec.DMax()) }}
	}
	columns := []groupColumn{
		{"n", 7, 0, func(g *outcome.Group) string { return mark + fmt.Sprint(g.Instances()) }},
		{"per s", 7, 90, func(g *outcome.Group) string {
			return perSecond(float64(g.Instances()) / p.Window.Duration().Seconds())
		}},
		{"in all", 7, 0, func(g *outcome.Group) string { return figures.Delay(g.Total) }},
		{"share", 7, 60, func(g *outcome.Group) string { return groupShare(g, all) }},
		quantile(0.5, 100),
		quantile(0.99, 45),
		{"failure", 7, 110, func(g *outcome.Group) string { return fmt.Sprint(g.Failures) }},
		{"timeout", 7, 70, func(g *outcome.Group) string { return fmt.Sprint(g.Timeouts) }},
	}
	if p.Counts.Amount > 0 {
		columns = append(columns, groupColumn{"amount", 10, 75, func(g *outcome.Group) string { return fmt.Sprint(g.Amount) }})
	}
	return slices.DeleteFunc(columns, func(c groupColumn) bool { return c.least > width })
}

// groupShare shows the share of a group in the time of all.
func groupShare(g *outcome.Group, all time.Duration) string {
	if all == 0 {
		return "-"
	}
	return figures.Percent(float64(g.Total) / float64(all))
}

// groupQuantile shows what a quantile lies between.
func groupQuantile(g *outcome.Group, q float64, dMax time.Duration) string {
	within, ok := scope.GroupQuantile(g, q, dMax)
	switch {
	case ok:
		return figures.Between(within)
	case g.Instances() == 0:
		return "-"
	}
	return "∞"
}

// groupRows returns the rows of a probe's groups that fit into a space. There is at least one
// group.
func groupRows(p *scope.Probe, width, height int) []row {
	columns := groupColumns(p, width)
	head := row{cells: []cell{{text: "by " + groupWord(p.Spec.Group), tone: dim}}}
	for _, c := range columns {
		head.cells = append(head.cells, cell{text: c.name, width: c.width, tone: dim, right: true})
	}
	rows := []row{head}
	add := func(name string, n tone, g *outcome.Group) {
		r := row{cells: []cell{{text: name, tone: n}}}
		for _, c := range columns {
			r.cells = append(r.cells, cell{text: c.cell(g), width: c.width, right: true})
		}
		rows = append(rows, r)
	}
	top, rest, others := scope.TopGroups(p.Counts.Groups, max(height-2, 1)) // with the head and the others
	for i := range top {
		add(groupName(&top[i]), plain, &top[i])
	}
	if others > 0 {
		add("others", dim, &rest)
	}
	return rows
}

// groupName names a group.
func groupName(g *outcome.Group) string {
	if g.Name == "" || g.Name == g.Key {
		return modname.Readable(g.Key)
	}
	return modname.Readable(g.Key + " " + g.Name)
}

// drawGroups draws the groups of a probe in the box of a plot.
func drawGroups(screen tcell.Screen, v *plotView, p *scope.Probe) {
	v.drawBox(screen)
	v.drawTitle(screen, v.facts)
	x, y, width, height := v.GetRect()
	x, y, width, height = x+1, y+1, width-2, height-2
	if width < 1 || height < 1 {
		return
	}
	for i, r := range groupRows(p, width, height) {
		if i < height {
			tview.Print(screen, v.theme.line(&r, width), x, y+i, width, tview.AlignLeft, tcell.ColorDefault)
		}
	}
}
