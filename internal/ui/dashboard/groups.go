package dashboard

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/tview"

	"github.com/beamscope/beamscope/internal/beam/modname"
	"github.com/beamscope/beamscope/internal/engine/figures"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/files/config"
	"github.com/beamscope/beamscope/internal/files/export"
	"github.com/beamscope/beamscope/internal/ui/plot"
)

// groupHelp describes the key that groups an outcome.
const groupHelp = "group: by process, then by function, then the plot"

// Reasons why an outcome is not grouped.
var (
	errNoProbe     = errors.New("there is no outcome to group: choose one in the overview (o)")
	errSeveral     = errors.New("there are several outcomes in this plot: choose one in the overview (o)")
	errNoProcesses = errors.New("this cannot be grouped: its events do not name a process")
	errNoGroups    = errors.New("its instances are of threads, and not of processes: there is nothing to group by")
	errNotGrouped  = errors.New("it was recorded without groups: a scope file with group: pid has them recorded")
)

// chosenOutcome returns the chosen outcome in the shown frame, or nil.
func (d *Dashboard) chosenOutcome() *scope.Outcome {
	f := d.frame()
	if f == nil {
		return nil
	}
	name := d.chosen()
	at := slices.IndexFunc(f.Outcomes, func(p scope.Outcome) bool { return p.Name == name })
	if at < 0 {
		return nil
	}
	return &f.Outcomes[at]
}

// canGroup reports whether the chosen outcome is observed in VMs, so that it may have
// groups.
func (d *Dashboard) canGroup() bool {
	p := d.chosenOutcome()
	return p != nil && p.Spec.OfVM()
}

// group shows the groups of the chosen outcome: first by its current grouping, then by the other
// possible ones, and then its plot again. A recording only has the groups that were recorded.
func (d *Dashboard) group() {
	p := d.chosenOutcome()
	_, recorded := d.control.(player)
	switch {
	case p == nil:
		d.fail(errNoProbe)
	case d.showing("plots") && len(d.grid.current().outcomes) > 1:
		d.fail(errSeveral)
	case !p.Spec.OfVM():
		d.fail(errNoProcesses)
	case recorded || d.scene != d.live:
		d.showRecorded(p)
	default:
		d.groupNext(p.Name)
	}
}

// showRecorded switches between the recorded groups and the plot.
func (d *Dashboard) showRecorded(p *scope.Outcome) {
	if p.Spec.Group == "" {
		d.fail(errNotGrouped)
		return
	}
	d.byGroup[p.Name] = !d.byGroup[p.Name]
}

// groupNext changes to the outcome's next possible grouping.
func (d *Dashboard) groupNext(name string) {
	o := d.control.Config().Outcome(name)
	all := o.Groupings()
	if len(all) == 0 {
		d.fail(errNoGroups)
		return
	}
	if o.Group != "" && !d.byGroup[name] { // the scope file groups it
		d.byGroup[name] = true
		return
	}
	next := ""
	if at := slices.Index(all, o.Group) + 1; at < len(all) {
		next = all[at]
	}
	saved := !d.unsaved // a change of grouping alone needs no saving
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

// groupWord returns the displayed name of a grouping.
func groupWord(by string) string {
	switch by {
	case outcome.GroupPID:
		return "process"
	case outcome.GroupMFA:
		return "function"
	}
	return by
}

// grouped returns the outcome whose groups replace a plot, or nil.
func (d *Dashboard) grouped(p *panel) *scope.Outcome {
	f := d.frame()
	if f == nil || len(p.outcomes) != 1 || !d.byGroup[p.outcomes[0]] {
		return nil
	}
	for _, x := range d.scene.outcomes(f) {
		if x.Name == p.outcomes[0] && (p.vm == outcome.VM{} || p.vm == x.VM) {
			return x
		}
	}
	return nil
}

// A groupColumn is a column of the groups. It is shown if all columns together have at least the
// width least.
type groupColumn struct {
	name         string
	width, least int
	cell         func(g *outcome.Group) string
}

// groupColumns returns the columns that follow the names of groups.
func groupColumns(p *scope.Outcome, width int) []groupColumn {
	mark := ""
	if p.Inferred() {
		mark = "~"
	}
	var all time.Duration
	for i := range p.Counts.Groups {
		all += p.Counts.Groups[i].Total
	}
	quantile := func(q float64, least int) groupColumn {
		return groupColumn{fmt.Sprintf("p%g", q*100), 13, least, func(g *outcome.Group) string { return groupQuantile(p, g, q) }}
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
		{"failure", 7, 110, func(g *outcome.Group) string { return export.Failures(p, g.Failures, g.Timeouts) }},
		{plot.Late(p.Fitted), 7, 70, func(g *outcome.Group) string { return fmt.Sprint(g.Timeouts) }},
	}
	if p.Counts.Amount > 0 {
		columns = append(columns, groupColumn{"amount", 10, 75, func(g *outcome.Group) string { return fmt.Sprint(g.Amount) }})
	}
	return slices.DeleteFunc(columns, func(c groupColumn) bool { return c.least > width })
}

// groupShare formats the share of a group in the time of all groups.
func groupShare(g *outcome.Group, all time.Duration) string {
	if all == 0 {
		return "-"
	}
	return figures.Percent(float64(g.Total) / float64(all))
}

// groupQuantile formats the bounds of a quantile.
func groupQuantile(p *scope.Outcome, g *outcome.Group, q float64) string {
	within, ok := scope.GroupQuantile(g, q, p.Spec.DMax())
	switch {
	case ok:
		return figures.Between(within)
	case g.Instances() == 0:
		return "-"
	case p.GroupQuantileSlower(g, q):
		return export.SlowerThan(p)
	}
	return "∞"
}

// groupRows returns the rows of an outcome's groups that fit into a space. There must be at least
// one group.
func groupRows(p *scope.Outcome, width, height int) []row {
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
	top, rest, others := scope.TopGroups(p.Counts.Groups, max(height-2, 1)) // leaves room for the head and the row of others
	for i := range top {
		add(groupName(&top[i]), plain, &top[i])
	}
	if others > 0 {
		add("others", dim, &rest)
	}
	return rows
}

// groupName returns the displayed name of a group.
func groupName(g *outcome.Group) string {
	if g.Name == "" || g.Name == g.Key {
		return modname.Readable(g.Key)
	}
	return modname.Readable(g.Key + " " + g.Name)
}

// drawGroups draws the groups of an outcome in the box of its plot.
func drawGroups(screen tcell.Screen, v *plotView, p *scope.Outcome) {
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
