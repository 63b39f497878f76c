package dashboard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rivo/tview"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/internal/engine/figures"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/session"
	"github.com/beamscope/beamscope/internal/sources/wrapper"
	"github.com/beamscope/beamscope/internal/ui/tui"
)

// A connectionTab shows what is observed and how, what that costs, and what was lost.
type connectionTab struct {
	*tview.TextView
	d *Dashboard
}

func newConnectionTab(d *Dashboard) tab {
	t := &connectionTab{tview.NewTextView().SetDynamicColors(true).SetWrap(false), d}
	tui.Box(t.Box, " connection ")
	return t
}

func (t *connectionTab) name() string { return "connection" }

func (t *connectionTab) bindings() []binding {
	start, stop := "start wrappers", "stop wrappers"
	if a := t.d.attached(); t.d.scene != t.d.live || a == nil || a.Status().Wrappers == nil {
		start, stop = "", ""
	}
	return []binding{
		{inSidebar, []press{char('r')}, "r", start, "tell the wrappers to send instances", func() { t.command(true) }},
		{inSidebar, []press{char('h')}, "h", stop, "tell the wrappers to stop sending", func() { t.command(false) }},
	}
}

// errNoWrappers means that the session does not listen for wrappers.
var errNoWrappers = errors.New("no wrappers are waited for: there is none to start or stop")

// command starts or stops the wrappers.
func (t *connectionTab) command(send bool) {
	a := t.d.attached()
	if t.d.scene != t.d.live || a == nil || a.Status().Wrappers == nil {
		t.d.fail(errNoWrappers)
		return
	}
	t.d.background("telling the wrappers", func(context.Context) error {
		if send {
			a.StartWrappers()
		} else {
			a.StopWrappers()
		}
		return nil
	}, func(err error) {
		switch {
		case err != nil:
			t.d.fail(err)
		case send:
			t.d.say(good, "beamscope asked the wrappers to send instances")
		default:
			t.d.say(doubtful, "beamscope asked the wrappers to stop: their outcomes stay empty until r starts them again")
		}
	})
}

func (t *connectionTab) refresh() {
	width := t.d.room()
	rows := t.connection(width)
	rows = append(rows, t.figures(width)...)
	rows = append(rows, t.notices(width)...)
	lines := make([]string, len(rows))
	for i := range rows {
		lines[i] = t.d.theme.line(&rows[i], width)
	}
	t.SetText(strings.Join(lines, "\n"))
}

// connection lists what is observed.
func (t *connectionTab) connection(width int) []row {
	a := t.d.attached()
	switch {
	case t.d.scene != t.d.live:
		return append(paragraph(dim, "This is a snapshot: nothing is connected to it.", width), blank())
	case a == nil:
		return append(paragraph(dim, "This is a recording: nothing is connected.", width), blank())
	}
	s := a.Status()
	rows := append([]row{heading("VMs")}, t.vms(s.VMs, width)...)
	rows = append(rows, blank(), heading("wrappers"))
	rows = append(rows, t.wrappers(s.Wrappers, width)...)
	if len(s.Beyond) > 0 {
		rows = append(rows, blank(), heading(fmt.Sprintf("%d spans without an outcome", len(s.Beyond))))
		for _, name := range s.Beyond {
			rows = append(rows, indented([]row{{cells: []cell{{text: figures.Middle(name, width-2)}}}})...)
		}
	}
	return append(rows, blank())
}

func (t *connectionTab) vms(vms []outcome.VMStatus, width int) []row {
	if len(vms) == 0 {
		return paragraph(dim, "None is observed.", width)
	}
	var rows []row
	for _, v := range vms {
		state, n := t.vmState(v)
		rows = append(rows, row{cells: []cell{{text: v.VM.String()}, {text: state, width: tui.Columns(state), tone: n, right: true}}})
		if v.Exe != "" {
			rows = append(rows, row{cells: []cell{{width: 1}, {text: ending(v.Exe, width-2), tone: dim}}})
		}
		if v.Refused != "" {
			rows = append(rows, indented(paragraph(doubtful, v.Refused, width-2))...)
		}
		rows = append(rows, t.probes(v.Probes, width)...)
	}
	return rows
}

// vmState returns the state of a VM in a few words.
func (t *connectionTab) vmState(v outcome.VMStatus) (string, tone) {
	switch {
	case v.Refused != "":
		return "refused", doubtful
	case v.Ended:
		return "ended", dim
	case v.Since != 0 && t.d.opts.Wall != nil:
		return "since " + t.d.opts.Wall(v.Since).Local().Format("15:04:05"), good
	}
	return "observed", good
}

func (t *connectionTab) probes(probes []outcome.ProbeStatus, width int) []row {
	const name, sites = 16, 9
	var rows []row
	for _, p := range probes {
		many := fmt.Sprintf("%d sites", p.Sites)
		if p.Sites == 1 {
			many = "1 site"
		}
		first := []cell{{width: 1}, {text: p.Name, width: name}, {text: many, width: sites, right: true, tone: dim}}
		for _, line := range paragraph(plain, t.purpose(p), width-name-sites-4) {
			rows = append(rows, row{cells: append(first, line.cells...)})
			first = []cell{{width: 1}, {width: name}, {width: sites}}
		}
	}
	return rows
}

// purpose describes what a VM probe is used for, and what replaces it.
func (t *connectionTab) purpose(p outcome.ProbeStatus) string {
	var words []string
	for _, name := range p.Outcomes {
		words = append(words, t.d.called(name))
	}
	if p.Discover {
		words = append(words, "discovery")
	}
	text := strings.Join(words, ", ")
	if probe, ok := dtrace.Lookup(dtrace.Underscored(p.Name)); ok && probe.Function != nil {
		text += ", at " + probe.Function.Symbol
		if probe.Function.Return {
			text += "'s return"
		}
	}
	return text
}

func (t *connectionTab) wrappers(s *session.WrapperStatus, width int) []row {
	if s == nil {
		return paragraph(dim, "None are waited for.", width)
	}
	rows := paragraph(plain, "listening at "+s.Listen, width)
	if s.Started {
		rows = append(rows, paragraph(good, "asked to send instances; h stops them", width)...)
	} else {
		rows = append(rows, paragraph(doubtful, "asked to send none; r starts them", width)...)
	}
	if len(s.Peers) == 0 {
		rows = append(rows, paragraph(dim, "No wrapper has connected yet.", width)...)
	}
	for _, p := range s.Peers {
		rows = append(rows, peerRows(p, width)...)
	}
	return rows
}

// peerRows lists what is known about a wrapper.
func peerRows(p wrapper.Peer, width int) []row {
	state, n := "connected", good
	if !p.Connected {
		state, n = "not connected", doubtful
	}
	rows := []row{{cells: []cell{{text: p.Address}, {text: state, width: len(state), tone: n, right: true}}}}
	text := "VM not known"
	if p.VM != (outcome.VM{}) {
		text = p.VM.String()
	}
	if p.Direction == wrapper.Outbound {
		text += "; takes commands"
	}
	switch {
	case p.Connected && p.Active:
		text += "; asked to send"
	case p.Connected:
		text += "; asked to send none"
	}
	rows = append(rows, indented(paragraph(dim, text, width-2))...)
	if p.Direction == wrapper.Outbound {
		return rows
	}
	n = dim
	if p.Rejected+p.Unwanted > 0 {
		n = doubtful
	}
	return append(rows, indented(paragraph(n, fmt.Sprintf("%d lines, %d rejected, %d of no outcome", p.Lines, p.Rejected, p.Unwanted), width-2))...)
}

// indented indents rows.
func indented(rows []row) []row {
	for i := range rows {
		rows[i].cells = append([]cell{{width: 1}}, rows[i].cells...)
	}
	return rows
}

// ending returns the end of a path that is too long. The end is more useful than the beginning.
func ending(path string, width int) string {
	runes := []rune(path)
	if len(runes) <= width || width < 1 {
		return path
	}
	return "…" + string(runes[len(runes)-width+1:])
}

// figures lists the cost and the losses, of the shown window and of all windows.
func (t *connectionTab) figures(width int) []row {
	f := t.d.frame()
	if f == nil {
		return paragraph(dim, "No window yet.", width)
	}
	one, all := tallyOf(f), t.d.scene.Sum()
	since := "since " + all.from.Local().Format("15:04:05")
	if t.d.scene.shot != nil {
		since = "all of it"
	}
	rows := []row{t.line("", "this window", since, strong), heading("cost")}
	for _, x := range []struct {
		name   string
		figure func(*tally) string
	}{
		{"events a second", func(t *tally) string { return fmt.Sprintf("%.0f", float64(t.events)/t.time.Seconds()) }},
		{"price of an event", (*tally).price},
		{"of a core, in VMs", (*tally).inVMs},
		{"of a core, here", func(t *tally) string { return figures.Percent(float64(t.collector) / float64(t.time)) }},
	} {
		rows = append(rows, t.line(x.name, x.figure(&one), x.figure(&all), plain))
	}
	rows = append(rows, heading("counts"))
	count := func(name, words string, one, all uint64) {
		rows = append(rows, t.count(name, words, one, all, width)...)
	}
	rows = append(rows, t.line("instances", fmt.Sprint(one.counts.Instances()), fmt.Sprint(all.counts.Instances()), plain))
	count("orphans", "ends whose start was not seen", one.counts.Orphans, all.counts.Orphans)
	count("late", "ends of what had ended before", one.counts.Lates, all.counts.Lates)
	count("not observed", "windows, as a whole", one.unobserved, all.unobserved)
	count("rejected", "lines that were not understood", one.rejected, all.rejected)
	if all.last != "" {
		at := all.lastTime.Local().Format("15:04:05")
		rows = append(rows, indented(paragraph(doubtful, "the last, "+at+": "+all.last, width-2))...)
	}
	rows = append(rows, heading("lost"))
	for _, r := range outcome.LossReasons() {
		count(r.Name, r.Words, *r.Of(&one.counts.Loss), *r.Of(&all.counts.Loss))
	}
	count("in all", "", one.counts.Loss.Total(), all.counts.Loss.Total())
	return append(rows, blank())
}

// line returns the row of a figure, of the window and of all windows.
func (t *connectionTab) line(name, one, all string, n tone) row {
	return row{cells: []cell{{text: name, tone: n}, {text: one, width: 11, right: true, tone: n}, {text: all, width: 14, right: true, tone: n}}}
}

// count returns the row of a counter of undesirable events, with an explanation. The explanation
// is beside the name if there is room, and below it otherwise.
func (t *connectionTab) count(name, words string, one, all uint64, width int) []row {
	n := dim
	if all > 0 {
		n = doubtful
	}
	if width > 60 && words != "" {
		name = tui.Fit(name, 14, false) + words
	}
	rows := []row{t.line(name, fmt.Sprint(one), fmt.Sprint(all), n)}
	if width <= 60 && all > 0 && words != "" {
		rows = append(rows, indented(paragraph(dim, words, width-2))...)
	}
	return rows
}

// shownNotices is the largest number of notices in the list.
const shownNotices = 100

// notices lists the notices, the newest last.
func (t *connectionTab) notices(width int) []row {
	said := slices.DeleteFunc(t.d.scene.Events(), func(e event) bool { return e.notice.Text == "" })
	rows := []row{heading("notices")}
	if len(said) == 0 {
		return append(rows, paragraph(dim, "There was none.", width)...)
	}
	if n := len(said) - shownNotices; n > 0 {
		said = said[n:]
		rows = append(rows, paragraph(dim, fmt.Sprintf("and %d before these", n), width)...)
	}
	for _, e := range said {
		clock := t.d.clockOf(e)
		for i, line := range paragraph(plain, e.notice.Text, width-9) {
			if i > 0 {
				clock = ""
			}
			line.cells = append([]cell{{text: clock, width: 8, tone: dim}}, line.cells...)
			rows = append(rows, line)
		}
	}
	return rows
}
