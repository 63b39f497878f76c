package dashboard

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/tview"

	"github.com/beamscope/beamscope/internal/engine/figures"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/ui/tui"
)

// A tab is a page of the sidebar.
type tab interface {
	tview.Primitive

	// name is the title of the tab.
	name() string

	// refresh shows the latest data. It keeps input that is not applied yet.
	refresh()

	// bindings returns the keys of the tab, in addition to those of its fields.
	bindings() []binding
}

// An editor is a primitive, or a tab with one, that sometimes takes keys as text. Then only few
// keys are commands.
type editor interface{ edits() bool }

// sidebarWidth is the width of the sidebar if there is room for plots beside it.
const sidebarWidth = 48

// wide is the smallest width of a screen that shows plots and sidebar side by side.
const wide = 110

// build creates everything on the screen.
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

// resize lays out the screen again if its size has changed.
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

// layout arranges the screen, and moves the focus to what was opened last.
func (d *Dashboard) layout() {
	d.arrange()
	if d.open != nil {
		d.app.SetFocus(d.open)
		return
	}
	d.app.SetFocus(d.main)
}

// arrange puts the sidebar beside the main part, or in its place on a narrow screen. It may be
// called while the screen is drawn, when the focus cannot be changed.
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

// forgetError removes an error from the message line when the user moves elsewhere.
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

// chosen returns the name of the outcome of the selected plot or row of the overview, or "".
func (d *Dashboard) chosen() string {
	if d.showing("overview") {
		key, _ := d.overview.selected()
		return key.name
	}
	if p := d.grid.current(); p != nil && len(p.outcomes) > 0 {
		return p.outcomes[0]
	}
	return ""
}

func (d *Dashboard) showing(page string) bool {
	front, _ := d.main.GetFrontPage()
	return front == page
}

// places returns the places whose keys are active, the innermost first.
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

// press handles every key first.
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

// writing reports whether keys enter text at the moment. It must not be called while the screen
// is drawn, because the focus cannot be read then.
func (d *Dashboard) writing() bool {
	switch x := d.app.GetFocus().(type) {
	case editor:
		return x.edits()
	case *tview.InputField, *tview.TextArea:
		return true
	}
	return false
}

// tabBindings returns the keys of the open tab if it has the focus.
func (d *Dashboard) tabBindings() keymap {
	if d.open == nil || !d.open.HasFocus() {
		return nil
	}
	return d.open.bindings()
}

// say shows the answer to a command.
func (d *Dashboard) say(n tone, text string) {
	d.answered, d.weighty, d.fitted = time.Now(), false, nil
	d.put(n, text)
}

// put shows a message until the next one.
func (d *Dashboard) put(n tone, text string) {
	d.said, d.saidAs = strings.ReplaceAll(text, "\n", "  "), n
	d.showMessage()
}

// showMessage shows as much of the message as fits, on several lines if necessary.
func (d *Dashboard) showMessage() {
	lines := []string{d.said}
	if d.width > 0 {
		lines = tui.Lines(d.said, d.width, tui.MessageLines(d.height))
	}
	d.saidIn = len(lines)
	d.screenful.ResizeItem(d.message, len(lines), 0)
	d.message.SetText(d.theme.Tag(d.saidAs) + tview.Escape(strings.Join(lines, "\n")) + "[-:-:-]")
}

// fail shows an error.
func (d *Dashboard) fail(err error) {
	if err != nil {
		d.say(alert, err.Error())
	}
}

// hints shows the currently useful keys, or the change in progress.
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
		text += "[::b]g[::-] group  "
	}
	if d.canExplain() && (slices.Contains(at, inOverview) || slices.Contains(at, inPlots)) {
		text += "[::b]i[::-] why  "
	}
	first, rest := d.keys.essential(d.opts.Knobs)
	all := text + d.keys.hints(width-tview.TaggedStringWidth(text), at...)
	if important := first.hints(width, at...); tview.TaggedStringWidth(text)+tview.TaggedStringWidth(d.keys.hints(1<<16, at...)) > width {
		// Important hints come first, and others follow while there is room.
		width -= tview.TaggedStringWidth(important)
		if tview.TaggedStringWidth(text) > width {
			text = d.tabBindings().hints(width, at...)
		}
		all = important + text + rest.hints(width-tview.TaggedStringWidth(text), at...)
	}
	d.hintline.SetText(all)
}

// head shows the mode, the time and the cost. It begins with the most important parts and shows
// as many as fit.
func (d *Dashboard) head() {
	f := d.frame()
	parts := [][]string{{d.mode()}} // each in full, and then in short
	switch {
	case f == nil:
		parts = append(parts, []string{"waiting for the first window"})
	case f.Attaching:
		parts = append(parts, []string{d.theme.Tag(doubtful) + "not observed yet[-:-:-]"}, []string{f.Time.Local().Format("15:04:05.0")}, []string{vms(f)})
	default:
		parts = append(parts, []string{f.Time.Local().Format("15:04:05.0")}, []string{d.losses(f)}, costs(f), []string{vms(f)}, []string{"window " + f.Window.Duration().String()})
	}
	text := "[::b]beamscope[::-]"
	for _, forms := range parts {
		if forms[0] == "" {
			continue
		}
		fits := func(form string) bool {
			return d.width == 0 || tview.TaggedStringWidth(text)+3+tview.TaggedStringWidth(form) <= d.width
		}
		at := slices.IndexFunc(forms, fits)
		if at < 0 {
			break
		}
		text += " │ " + forms[at]
	}
	d.header.SetText(text)
}

// mode returns the title of the scene, and whether it follows the present.
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

// gone reports that all VMs have exited, or which VMs are stopped. Nothing can happen in those,
// so the system is not merely silent. Otherwise it returns "".
func (d *Dashboard) gone() string {
	a := d.attached()
	if a == nil {
		return ""
	}
	return tview.Escape(outcome.Gone(a.Status().VMs))
}

// Live is the title of a live observation.
const Live = "live"

// endedTitle returns the title of an observation that has ended.
func endedTitle(title string) string {
	if title == Live {
		return "ended"
	}
	return title + " ended"
}

// silenceOfAll returns for how long all outcomes of a frame have been silent, such as "silent 17s".
// It ignores outcomes that never had an instance, and returns "" if any other outcome is not silent.
func silenceOfAll(f *scope.Frame) string {
	text, least := "", time.Duration(0)
	for i := range f.Outcomes {
		p := &f.Outcomes[i]
		said := silence(p)
		switch {
		case !p.Seen: // its first instance may be yet to come
		case said == "":
			return ""
		case text == "" || p.Silent < least:
			text, least = said, p.Silent
		}
	}
	return text
}

// losses reports what a frame has lost.
func (d *Dashboard) losses(f *scope.Frame) string {
	var lost, unobserved uint64
	for i := range f.Outcomes {
		lost += f.Outcomes[i].Counts.Loss.Total()
		if f.Outcomes[i].Counts.Unobserved {
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

// costs returns the cost of a window in the VMs and in beamscope, in full and in shorter forms.
func costs(f *scope.Frame) []string {
	window := f.Window.Duration()
	vm := "?"
	if !f.Unpriced() && (f.Cost.PerEvent > 0 || f.Cost.Events == 0) {
		vm = figures.Percent(f.Cost.Share(window))
	}
	own := figures.Percent(float64(f.Cost.Collector) / float64(window))
	text := fmt.Sprintf("cost VM %s + own %s", vm, own)
	return []string{text + " of a core", text, fmt.Sprintf("cost %s+%s", vm, own)}
}

// vms returns the names of the VMs of a frame, escaped for tview.
func vms(f *scope.Frame) string { return tview.Escape(vmsNamed(f)) }

// vmsNamed returns the name of a frame's VM, or the number of VMs.
func vmsNamed(f *scope.Frame) string {
	var names []string
	seen := make(map[string]bool)
	for i := range f.Outcomes {
		vm := f.Outcomes[i].VM
		if name := vm.String(); vm.PID != 0 && !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	switch len(names) {
	case 0:
		return ""
	case 1:
		return names[0]
	}
	return fmt.Sprintf("%d VMs", len(names))
}

// clockOf formats the time of an event.
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
