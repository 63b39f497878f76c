package dashboard

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/tview"

	"github.com/beamscope/beamscope/internal/engine/figures"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/explain/trace"
	"github.com/beamscope/beamscope/internal/files/export"
	"github.com/beamscope/beamscope/internal/ui/tui"
)

// explainHelp describes the key that lists explained instances.
const explainHelp = "explain: the worst recent instances, and their time"

// Bounds of the list of explained instances.
const (
	explainedWindows = 60 // up to and including the one that is shown
	maxExplained     = 200
)

// Reasons why there is nothing to explain.
var (
	errNothingChosen = errors.New("there is no outcome to explain: choose one in the overview (o)")
	errNotExplained  = errors.New("no instance of it is explained yet: turn \"explain\" on in the parameters (m), for the next ones")
	errNoTraces      = errors.New("it was recorded without explanations: record --explain has them recorded")
)

// canExplain reports whether the chosen outcome has explained instances.
func (d *Dashboard) canExplain() bool {
	p := d.chosenOutcome()
	return p != nil && wantsExplained(p)
}

// wantsExplained reports whether instances of an outcome are explained, if there are any.
func wantsExplained(p *scope.Outcome) bool { return p.Spec.Explain || p.Explained != nil }

// kindOfOutcome describes an outcome that is not made of spans in a VM.
func kindOfOutcome(p *scope.Outcome) string {
	if p.Spec.OfVM() {
		return "an outcome of the VM"
	}
	return "not of spans that beamscope observes in a VM"
}

// chosenVM returns the VM of the selected plot, or of the row of the overview. It returns the
// zero VM if all VMs are meant.
func (d *Dashboard) chosenVM() outcome.VM {
	if d.showing("overview") {
		key, _ := d.overview.selected()
		return d.overview.vmOf(key)
	}
	if p := d.grid.current(); p != nil {
		return p.vm
	}
	return outcome.VM{}
}

// An explainedInstance is an instance that has a trace, with its window.
type explainedInstance struct {
	outcome.Instance
	frame   *scope.Frame
	outcome *scope.Outcome
}

// start returns the wall time at which the instance began.
func (i *explainedInstance) start() time.Time {
	return i.frame.Time.Add(time.Duration(i.Start - i.frame.Window.To)).Local()
}

// explainedInstances returns the explained instances of an outcome in the last windows up to the one
// that is shown, the worst first.
func (d *Dashboard) explainedInstances(name string, vm outcome.VM) []explainedInstance {
	var all []explainedInstance
	shown := d.frame().Number
	for back := range min(uint64(explainedWindows), shown+1) {
		f := d.scene.Frame(shown - back)
		if f.Number != shown-back || f.Number < d.scene.oldest {
			break
		}
		for i := range f.Outcomes {
			p := &f.Outcomes[i]
			if p.Name != name || (vm != outcome.VM{} && p.VM != vm) {
				continue
			}
			for _, x := range p.Instances {
				if x.Trace != nil {
					all = append(all, explainedInstance{x, f, p})
				}
			}
		}
	}
	slices.SortStableFunc(all, func(a, b explainedInstance) int {
		return a.CompareFitted(&b.Instance, a.outcome.Fitted, b.outcome.Fitted)
	})
	return all[:min(len(all), maxExplained)]
}

// explain lists the explained instances of the chosen outcome.
func (d *Dashboard) explain() {
	p := d.chosenOutcome()
	_, recorded := d.control.(player)
	switch {
	case p == nil:
		d.fail(errNothingChosen)
		return
	case p.Spec.Span == "" && !wantsExplained(p):
		d.fail(fmt.Errorf("beamscope explains spans only, and %s is %s", p.Name, kindOfOutcome(p)))
		return
	}
	instances := d.explainedInstances(p.Name, d.chosenVM())
	switch {
	case len(instances) > 0:
		d.listExplained(p.Name, instances)
	case d.scene.Explains(p.Name):
		d.say(plain, fmt.Sprintf("none of %s was explained in the last %d windows", p.Name, explainedWindows))
	case recorded || d.scene != d.live:
		d.fail(errNoTraces)
	default:
		d.fail(errNotExplained)
	}
}

// listExplained lists instances. Selecting one shows where its time went.
func (d *Dashboard) listExplained(name string, instances []explainedInstance) {
	l := newListing("worst of "+d.called(name), d.theme)
	l.table.SetInputCapture(func(e *tcell.EventKey) *tcell.EventKey {
		if pressOf(e) == (press{key: tcell.KeyEnter}) {
			l.open()
			return nil
		}
		return e
	})
	d.cover("instances", l, []string{"Enter", "where its time went", "↑↓", "choose", "Esc", "closes"}, func() (int, int) {
		width := clamp(30, d.width-4, 110)
		vms := vmWidth(instances, width/4)
		rows := []row{instanceHead(vms)}
		for i := range instances {
			rows = append(rows, d.instanceRow(&instances[i], vms))
		}
		l.show(rows, width-2)
		return width, min(len(rows)+leastDetail+2, mostOfList(d.height))
	})
	l.top()
}

// mostOfList returns how many lines of a screen a list may cover. On a high screen some of what
// is below it stays visible.
func mostOfList(height int) int { return min(max(height*2/3, 16), max(height-2, 6)) }

// Widths of the columns of the list.
const (
	clockWidth  = len("15:04:05.000")
	idWidth     = 9
	statusWidth = len("success")
	delayWidth  = 7
)

// vmWidth returns the width of the column of VMs. A VM's name takes at most a few more than the
// given number of columns. vmWidth returns 0 if all instances belong to one VM.
func vmWidth(instances []explainedInstance, each int) int {
	width, several := 0, false
	for i := range instances {
		width = max(width, tui.Columns(vmName(instances[i].VM, each)))
		several = several || instances[i].VM != instances[0].VM
	}
	if !several {
		return 0
	}
	return width
}

// instanceHead returns the line above the instances. It has a column for VMs of this width, or
// none if the width is 0.
func instanceHead(vms int) row {
	r := row{cells: []cell{
		{text: "start", width: clockWidth, tone: dim}, {text: "id", width: idWidth, tone: dim, right: true},
		{text: "ended", width: statusWidth, tone: dim}, {text: "after", width: delayWidth, tone: dim, right: true},
	}}
	if vms > 0 {
		r.cells = append(r.cells, cell{text: "of VM", width: vms, tone: dim})
	}
	r.cells = append(r.cells, cell{text: "most of it", tone: dim})
	return r
}

// instanceRow returns the line of an instance, in the columns of [instanceHead].
func (d *Dashboard) instanceRow(i *explainedInstance, vms int) row {
	n := bad
	if i.Status == outcome.Success {
		n = plain
	}
	r := row{
		key:    fmt.Sprintf("instance %d of %v from %d on", i.ID, i.VM, i.Start),
		detail: tview.Escape(i.Trace.Sentence(i.Instance.Name())),
		open:   func() { d.showExplained(i) },
	}
	most := ""
	if shares := i.Trace.Shares(); len(shares) > 0 {
		s := shares[0]
		if s.Name != "" && !s.Own {
			s.Process = 0 // the name suffices in so little space
		}
		most = trace.Percent(s.Duration, i.Trace.Spans[0].Duration()) + " " + s.What()
	}
	r.cells = []cell{
		{text: i.start().Format("15:04:05.000"), width: clockWidth}, {text: fmt.Sprintf("#%d", i.ID), width: idWidth, right: true},
		{text: i.Status.String(), width: statusWidth, tone: n}, {text: figures.Delay(i.Elapsed()), width: delayWidth, right: true},
	}
	if vms > 0 {
		r.cells = append(r.cells, cell{text: vmName(i.VM, vms), width: vms, tone: dim})
	}
	r.cells = append(r.cells, cell{text: most})
	return r
}

// showExplained shows where the time of an instance and of its window went.
func (d *Dashboard) showExplained(i *explainedInstance) {
	view := tview.NewTextView().SetDynamicColors(true).SetWrap(false)
	tui.Box(view.Box, " "+i.Instance.Name()+" ")
	d.cover("timeline", view, []string{"↑↓←→", "scroll", "Esc", "back"}, func() (int, int) {
		width := max(d.width-2, 30)
		text := d.explanationOf(i, width-2)
		if text != view.GetText(false) {
			view.SetText(text)
		}
		return width, min(strings.Count(text, "\n")+3, max(d.height-2, 5))
	})
}

// explanationOf describes where the time of an instance and of its window went, as tagged text
// for a given width.
func (d *Dashboard) explanationOf(i *explainedInstance, width int) string {
	var b, tree strings.Builder
	_ = export.WriteTrace(&tree, &i.Instance, i.outcome.Fitted, i.start(), false) // a strings.Builder never fails
	for line := range strings.Lines(tree.String()) {
		line = strings.TrimSuffix(line, "\n")
		if strings.ContainsRune(line, '▕') {
			b.WriteString(tview.Escape(line) + "\n") // part of the tree, which scrolls sideways
			continue
		}
		d.writeWrapped(&b, plain, line, width)
	}
	heading := func(text string) { b.WriteString("\n" + d.theme.Tag(strong) + tview.Escape(text) + "[-:-:-]\n") }
	heading("the shares of its time")
	for _, s := range i.Trace.Shares() {
		line := fmt.Sprintf("%5s %8s  %s", trace.Percent(s.Duration, i.Trace.Spans[0].Duration()), figures.Delay(time.Duration(s.Duration)), s.Clause())
		b.WriteString(tview.Escape(line) + "\n")
	}
	if x := i.outcome.Explained; x != nil {
		heading("all that is explained in the window of " + i.frame.Time.Local().Format("15:04:05"))
		d.writeWindow(&b, x, width)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func (d *Dashboard) writeWrapped(b *strings.Builder, n tone, text string, width int) {
	for _, line := range tui.Wrap(text, max(width, 1)) {
		b.WriteString(d.theme.Tag(n) + tview.Escape(line) + "[-:-:-]\n")
	}
}

// barWidth is the number of columns that stand for the whole time.
const barWidth = 12

// writeWindow writes the shares of a window beside their usual values.
func (d *Dashboard) writeWindow(b *strings.Builder, x *scope.Explained, width int) {
	n := plain
	if x.Shift != nil {
		n = doubtful
	}
	d.writeWrapped(b, n, x.Sentence(), width)
	usually := fmt.Sprintf("usually, in %d quiet windows before", x.Quiet)
	if x.Quiet == 0 {
		usually = "no quiet windows before"
	}
	fmt.Fprintf(b, "%s%5s %-*s  %s[-:-:-]\n", d.theme.Tag(dim), "", barWidth, fmt.Sprintf("%d of them", x.Instances), usually)
	line := func(of, usual float64, what string) {
		before := ""
		if x.Quiet > 0 {
			before = fmt.Sprintf("%5s %s%s[-:-:-]  ", scope.Percent(usual), d.theme.Tag(dim), bar(usual))
		}
		fmt.Fprintf(b, "%5s %s  %s%s\n", scope.Percent(of), bar(of), before, tview.Escape(what))
	}
	for i := range x.Shares {
		s := &x.Shares[i]
		line(s.Of, s.Usual, s.String())
	}
	if x.Others > 0 {
		line(float64(x.Others)/float64(x.Total), x.UsualOthers(), fmt.Sprintf("%d others", x.Causes))
	}
}

// bar draws a share as a bar.
func bar(share float64) string {
	const parts = 8
	eighths := min(max(int(share*barWidth*parts+0.5), 0), barWidth*parts)
	text := strings.Repeat("█", eighths/parts)
	if rest := eighths % parts; rest > 0 {
		text += string([]rune("▏▎▍▌▋▊▉")[rest-1])
	}
	return fmt.Sprintf("%-*s", barWidth, text)
}

// explainedLine describes in one line where the time of an outcome's instances went. It returns
// false for an outcome that is not explained.
func (d *Dashboard) explainedLine(p *scope.Outcome) (row, bool) {
	if p == nil || !wantsExplained(p) {
		return row{}, false
	}
	text, n := "nothing to explain in this window", dim
	if x := p.Explained; x != nil {
		text, n = x.Sentence(), plain
		if x.Shift != nil {
			n = doubtful
		}
	}
	name := d.called(p.Name) + ":"
	return row{cells: []cell{{text: name, width: tui.Columns(name), tone: strong}, {text: text, tone: n}}}, true
}
