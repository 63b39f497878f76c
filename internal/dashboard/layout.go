package dashboard

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/tview"

	"github.com/beamscope/beamscope/internal/figures"
	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/scope"
	"github.com/beamscope/beamscope/internal/tui"
)

// A tab is a page of the sidebar.
type tab interface {
	tview.Primitive

	// name is the title of the tab.
	name() string

	// refresh shows what is known now. It keeps what somebody is about to enter.
	refresh()

	// bindings are the keys of the tab, besides those of its fields.
	bindings() []binding
}

// An editor is a primitive, or a tab with one, in which keys are text at times, so that
// only few of them are commands.
type editor interface{ edits() bool }

// sidebarWidth is the width of the sidebar where there is room for plots beside it.
const sidebarWidth = 48

// wide is the least width of a screen that shows plots and sidebar side by side.
const wide = 110

// build makes everything that is on the screen.
func (d *Dashboard) build() {
	d.header, d.message, d.hintline = tui.Line(), tui.Line(), tui.Line()
	d.overview, d.grid = newOverview(d), newGrid(d)
	d.main = tui.NewPages()
	d.main.AddPage("overview", d.overview, true, d.opts.Overview).AddPage("plots", d.grid, true, !d.opts.Overview)
	d.tabs = newTabs(d)
	d.keys = d.table()
	d.body = tview.NewFlex()
	d.screenful = tview.NewFlex().SetDirection(tview.FlexRow).
		AddItem(d.header, 1, 0, false).
		AddItem(d.body, 0, 1, true).
		AddItem(d.message, 1, 0, false).
		AddItem(d.hintline, 1, 0, false)
	d.root = tui.NewPages()
	d.root.AddPage("main", d.screenful, true, true)
	d.app.SetRoot(d.root, true).SetInputCapture(d.press).SetBeforeDrawFunc(d.resize)
	d.width, _ = d.app.Screen.Size()
	d.layout()
	if d.opts.Intro != "" {
		d.say(plain, d.opts.Intro)
	}
	d.refresh()
}

// resize lays the screen out anew where its size has changed.
func (d *Dashboard) resize(screen tcell.Screen) bool {
	if width, height := screen.Size(); width != d.width || height != d.height {
		d.width, d.height = width, height
		d.arrange()
		for i := range d.overlays {
			d.overlays[i].fit()
		}
		d.showMessage()
		d.refresh()
	}
	return false
}

// layout arranges the screen, and has the keys act on what was opened last.
func (d *Dashboard) layout() {
	d.arrange()
	if d.open != nil {
		d.app.SetFocus(d.open)
		return
	}
	d.app.SetFocus(d.main)
}

// arrange puts the sidebar beside what is shown, or in its place on a narrow screen.
// It may be called while the screen is drawn, when the focus cannot be set.
func (d *Dashboard) arrange() {
	d.body.Clear()
	if d.open == nil || d.width >= wide {
		d.body.AddItem(d.main, 0, 1, d.open == nil)
	}
	if d.open != nil && d.width >= wide {
		d.body.AddItem(d.open, sidebarWidth, 0, true)
	} else if d.open != nil {
		d.body.AddItem(d.open, 0, 1, true)
	}
}

// toggle opens a tab in the sidebar, or closes it.
func (d *Dashboard) toggle(t tab) {
	if d.open == t {
		t = nil
	}
	d.forgetError()
	d.open = t
	d.layout()
	d.refresh()
}

// forgetError takes an error away from the message line: it is of where one was.
func (d *Dashboard) forgetError() {
	if d.saidAs == alert && !d.ended {
		d.put(plain, "")
	}
}

// swap moves the focus between the sidebar and what is beside it.
func (d *Dashboard) swap() {
	switch {
	case d.open == nil || d.width < wide:
	case d.open.HasFocus():
		d.app.SetFocus(d.main)
	default:
		d.app.SetFocus(d.open)
	}
	d.hints()
}

// show shows a page of the main part: "overview" or "plots".
func (d *Dashboard) show(page string) {
	d.forgetError()
	d.main.SwitchToPage(page)
	if d.open != nil && d.width < wide {
		d.open = nil
		d.layout()
	}
	d.refresh()
}

// chosen returns the probe of the selected plot, or of the row of the overview; "" where
// there is none.
func (d *Dashboard) chosen() string {
	if d.showing("overview") {
		key, _ := d.overview.selected()
		return key.name
	}
	if p := d.grid.current(); p != nil && len(p.probes) > 0 {
		return p.probes[0]
	}
	return ""
}

func (d *Dashboard) showing(page string) bool {
	front, _ := d.main.GetFrontPage()
	return front == page
}

// places returns where the keys act at the moment, the nearest first.
func (d *Dashboard) places() []place {
	at := []place{}
	switch {
	case d.open != nil && d.open.HasFocus():
		if x, ok := d.open.(editor); ok && x.edits() {
			return asText()
		}
		at = append(at, inSidebar)
	case d.showing("overview"):
		at = append(at, inOverview)
	default:
		at = append(at, inPlots)
	}
	return append(at, anywhere)
}

// press is given every key before anything else is.
func (d *Dashboard) press(e *tcell.EventKey) *tcell.EventKey {
	if e.Key() == tcell.KeyCtrlC {
		d.quit()
		return nil
	}
	if len(d.overlays) > 0 {
		return d.pressOverlay(e)
	}
	at := d.places()
	if d.writing() {
		at = asText()
	}
	do := d.tabBindings().find(e, at...)
	if do == nil {
		do = d.keys.find(e, at...)
	}
	if do != nil {
		do()
		d.refresh()
		return nil
	}
	return e
}

// writing tells whether keys are text at the moment. It is not called while the screen
// is drawn, when the focus cannot be asked for.
func (d *Dashboard) writing() bool {
	switch x := d.app.GetFocus().(type) {
	case editor:
		return x.edits()
	case *tview.InputField, *tview.TextArea:
		return true
	}
	return false
}

// tabBindings returns the keys of the tab on which they act, if they do on one.
func (d *Dashboard) tabBindings() keymap {
	if d.open == nil || !d.open.HasFocus() {
		return nil
	}
	return d.open.bindings()
}

// say shows the answer to something that was done.
func (d *Dashboard) say(n tone, text string) {
	d.answered, d.weighty, d.fitted = time.Now(), false, nil
	d.put(n, text)
}

// put shows a message until the next one.
func (d *Dashboard) put(n tone, text string) {
	d.said, d.saidAs = strings.ReplaceAll(text, "\n", "  "), n
	d.showMessage()
}

// showMessage shows as much of the message as there is room for, in some lines if need be.
func (d *Dashboard) showMessage() {
	lines := []string{d.said}
	if d.width > 0 {
		lines = tui.Lines(d.said, d.width, tui.MessageLines(d.height))
	}
	d.screenful.ResizeItem(d.message, len(lines), 0)
	d.message.SetText(d.theme.Tag(d.saidAs) + tview.Escape(strings.Join(lines, "\n")) + "[-:-:-]")
}

// fail shows what went wrong.
func (d *Dashboard) fail(err error) {
	if err != nil {
		d.say(alert, err.Error())
	}
}

// hints shows the keys that are of use at the moment, or what is under way.
func (d *Dashboard) hints() {
	if d.busy != "" {
		d.hintline.SetText(d.theme.Tag(doubtful) + tview.Escape(d.busy) + " …[-:-:-]")
		return
	}
	if len(d.overlays) > 0 {
		text := ""
		for pair := range slices.Chunk(d.overlays[len(d.overlays)-1].hints, 2) {
			text += "[::b]" + tview.Escape(pair[0]) + "[::-] " + pair[1] + "  "
		}
		d.hintline.SetText(text)
		return
	}
	width := d.width
	if width == 0 {
		width = 80 // before the first layout
	}
	at := d.places()
	text := d.tabBindings().hints(width, at...)
	if slices.Contains(at, inOverview) && d.overview.filter != "" {
		text = "[::b]Esc[::-] all names  "
	}
	if d.canGroup() && (slices.Contains(at, inOverview) || slices.Contains(at, inPlots)) {
		text += "[::b]g[::-] who  "
	}
	if d.canExplain() && (slices.Contains(at, inOverview) || slices.Contains(at, inPlots)) {
		text += "[::b]i[::-] why  "
	}
	first, rest := d.keys.essential(d.opts.Knobs)
	all := text + d.keys.hints(width-tview.TaggedStringWidth(text), at...)
	if important := first.hints(width, at...); tview.TaggedStringWidth(text)+tview.TaggedStringWidth(d.keys.hints(1<<16, at...)) > width {
		// Not all fit: the important ones come first, and others while there is room.
		width -= tview.TaggedStringWidth(important)
		if tview.TaggedStringWidth(text) > width {
			text = d.tabBindings().hints(width, at...)
		}
		all = important + text + rest.hints(width-tview.TaggedStringWidth(text), at...)
	}
	d.hintline.SetText(all)
}

// head shows what is looked at, when, and what it costs: what is most important comes
// first, as much of it as fits.
func (d *Dashboard) head() {
	f := d.frame()
	parts := []string{"[::b]beamscope[::-]", d.mode()}
	if f == nil {
		parts = append(parts, "waiting for the first window")
	} else {
		parts = append(parts, f.Time.Local().Format("15:04:05.0"), d.losses(f), cost(f), vms(f), "window "+f.Window.Duration().String())
	}
	text := parts[0]
	for _, p := range parts[1:] {
		if p == "" {
			continue
		}
		if d.width > 0 && tview.TaggedStringWidth(text)+3+tview.TaggedStringWidth(p) > d.width {
			break
		}
		text += " │ " + p
	}
	d.header.SetText(text)
}

// mode says what is looked at, and whether it moves.
func (d *Dashboard) mode() string {
	s := d.scene
	title := tview.Escape(s.title)
	first, last, ok := s.Range()
	switch {
	case !ok:
		return title
	case s.shot != nil:
		return d.theme.Tag(doubtful) + "❚❚[-:-:-] " + title + " │ [::b]" + s.shot.position(s.frame().Number) + "[::-]"
	case s.following && d.ended:
		return d.theme.Tag(bad) + "■[-:-:-] " + endedTitle(title)
	case s.following:
		if text := d.gone(); s == d.live && text != "" {
			return d.theme.Tag(bad) + "●[-:-:-] " + title + ", " + d.theme.Tag(bad) + text + "[-:-:-]"
		}
		if text := silenceOfAll(s.frame()); text != "" {
			return d.theme.Tag(doubtful) + "●[-:-:-] " + title + ", " + d.theme.Tag(doubtful) + text + "[-:-:-]"
		}
		return d.theme.Tag(good) + "●[-:-:-] " + title
	}
	f := s.frame()
	return fmt.Sprintf("%s❚❚[-:-:-] %s window %d of %d…%d", d.theme.Tag(doubtful), title, f.Number, max(first, s.oldest), last)
}

// gone says that all VMs have exited, or which of them are stopped: nothing happens in
// those, and that is no silence of the system. It is "" otherwise.
func (d *Dashboard) gone() string {
	a := d.attached()
	if a == nil {
		return ""
	}
	return tview.Escape(outcome.Gone(a.Status().VMs))
}

// Live is the title of what is observed as time goes by.
const Live = "live"

// endedTitle says that what has a title has ended.
func endedTitle(title string) string {
	if title == Live {
		return "ended"
	}
	return title + " ended"
}

// silenceOfAll says for how long no probe of a frame has had an instance, of a frame whose
// probes all had some before: "silent 17s". It is "" otherwise.
func silenceOfAll(f *scope.Frame) string {
	text, least := "", time.Duration(0)
	for i := range f.Probes {
		p := &f.Probes[i]
		said := silence(p)
		switch {
		case !p.Seen: // it may be yet to come
		case said == "":
			return ""
		case text == "" || p.Silent < least:
			text, least = said, p.Silent
		}
	}
	return text
}

// losses says what is missing in a frame.
func (d *Dashboard) losses(f *scope.Frame) string {
	var lost, unobserved uint64
	for i := range f.Probes {
		lost += f.Probes[i].Counts.Loss.Total()
		if f.Probes[i].Counts.Unobserved {
			unobserved++
		}
	}
	switch {
	case unobserved > 0:
		return fmt.Sprintf("%slost %d+[-:-:-]", d.theme.Tag(doubtful), lost)
	case lost > 0:
		return fmt.Sprintf("%slost %d[-:-:-]", d.theme.Tag(doubtful), lost)
	}
	return "lost 0"
}

// cost says what a window cost, in the VMs and here.
func cost(f *scope.Frame) string {
	window := f.Window.Duration()
	vm := "?"
	if f.Cost.PerEvent > 0 || f.Cost.Events == 0 {
		vm = figures.Percent(f.Cost.Share(window))
	}
	return fmt.Sprintf("cost VM %s + own %s of a core", vm, figures.Percent(float64(f.Cost.Collector)/float64(window)))
}

// vms names the VMs of a frame.
func vms(f *scope.Frame) string {
	var names []string
	seen := make(map[string]bool)
	for i := range f.Probes {
		vm := f.Probes[i].VM
		if name := vm.String(); vm.PID != 0 && !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	switch len(names) {
	case 0:
		return ""
	case 1:
		return tview.Escape(names[0])
	}
	return fmt.Sprintf("%d VMs", len(names))
}

// clockOf shows when an event was.
func (d *Dashboard) clockOf(e event) string {
	var t time.Time
	switch {
	case e.clock != 0:
		t = time.Unix(0, e.clock)
	case e.notice.Time != 0 && d.opts.Wall != nil:
		t = d.opts.Wall(e.notice.Time)
	default:
		return ""
	}
	return t.Local().Format("15:04:05")
}
