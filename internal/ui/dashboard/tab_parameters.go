package dashboard

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/tview"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/files/config"
	"github.com/beamscope/beamscope/internal/ui/tui"
)

// A parametersTab changes how outcomes are observed, what is required of them, and the settings of
// the whole system. It keeps the edits of every outcome until they are applied or undone.
type parametersTab struct {
	*tview.Box
	d      *Dashboard
	config config.Config // the configuration in force when the forms were loaded
	names  []string      // names of the outcomes
	forms  map[string]*paramForm
	system *paramForm

	outcome  string     // the shown outcome
	followed string     // the outcome last selected elsewhere
	selected *parameter // nil for the choice of the outcome
	top      int        // first line shown
	rows     []paramRow // rows as last drawn

	input   *tview.InputField
	editing bool
	before  string // the text before editing
	refused error
}

func newParametersTab(d *Dashboard) tab {
	t := &parametersTab{Box: tview.NewBox(), d: d, forms: make(map[string]*paramForm), system: newSystemForm()}
	t.input = tview.NewInputField().SetFieldStyle(tcell.StyleDefault.Underline(true))
	t.input.SetChangedFunc(t.enter)
	tui.Box(t.Box, " parameters ")
	t.load()
	return t
}

func (t *parametersTab) name() string { return "parameters" }

// edits implements [editor].
func (t *parametersTab) edits() bool { return t.editing }

func (t *parametersTab) bindings() []binding {
	key := func(k tcell.Key) []press { return []press{{key: k}} }
	return []binding{
		{inSidebar, key(tcell.KeyEnter), "Enter", "edit", "edit the field", t.edit},
		{inSidebar, key(tcell.KeyUp), "↑↓", "choose", "choose a field", func() { t.step(-1) }},
		{inSidebar, key(tcell.KeyDown), "↓", "", "the next field", func() { t.step(1) }},
		{inSidebar, key(tcell.KeyLeft), "←→", "change", "a smaller value, or the previous choice", func() { t.move(-1) }},
		{inSidebar, key(tcell.KeyRight), "→", "", "a larger value, or the next choice", func() { t.move(1) }},
		{inSidebar, []press{char('a'), {key: tcell.KeyCtrlS}}, "a", "apply", "apply all edits", t.apply},
		{inSidebar, key(tcell.KeyEscape), "Esc", "undo", "undo unapplied edits, or close the sidebar", t.undo},
		{inField, []press{{key: tcell.KeyEnter}}, "Enter", "done", "end editing; a applies", t.leave},
		{inField, []press{{key: tcell.KeyUp}, {key: tcell.KeyBacktab}}, "↑↓", "", "end editing, and go to another field", func() { t.leave(); t.step(-1) }},
		{inField, []press{{key: tcell.KeyDown}, {key: tcell.KeyTab}}, "↓", "", "end editing, and go to the next field", func() { t.leave(); t.step(1) }},
		{inField, key(tcell.KeyEscape), "Esc", "as before", "end editing and restore the previous text", t.abandon},
		{inField, key(tcell.KeyCtrlS), "Ctrl-S", "apply", "apply all edits", func() { t.leave(); t.apply() }},
	}
}

// refresh takes over the configuration in force. It then shows the outcome that was selected
// elsewhere, unless the user is editing something.
func (t *parametersTab) refresh() {
	if !reflect.DeepEqual(t.d.control.Config(), t.config) {
		t.load()
	}
	if name := t.d.chosen(); name != t.followed && !t.editing && slices.Contains(t.names, name) {
		t.followed, t.outcome = name, name
		t.selectIn(t.form())
	}
}

// load takes over the configuration in force.
func (t *parametersTab) load() {
	t.config = t.d.control.Config()
	t.names = outcomesOf(t.config)
	if !slices.Contains(t.names, t.outcome) {
		t.outcome = ""
		if len(t.names) > 0 {
			t.outcome = t.names[0]
		}
	}
	for _, f := range t.all() {
		f.load(t.config)
		f.check(t.config)
	}
	if !t.editing {
		t.selectIn(t.form())
	}
}

// form returns the form of the shown outcome, or nil.
func (t *parametersTab) form() *paramForm {
	if t.outcome == "" {
		return nil
	}
	f, ok := t.forms[t.outcome]
	if !ok {
		f = newOutcomeForm(t.outcome)
		f.load(t.config)
		f.check(t.config)
		t.forms[t.outcome] = f
	}
	return f
}

// all returns all forms: those of the outcomes in order, and that of the system.
func (t *parametersTab) all() []*paramForm {
	var forms []*paramForm
	for _, name := range t.names {
		if f, ok := t.forms[name]; ok {
			forms = append(forms, f)
		}
	}
	return append(forms, t.system)
}

func (t *parametersTab) edited() []*paramForm {
	return slices.DeleteFunc(t.all(), func(f *paramForm) bool { return !f.edited() })
}

// unapplied reports whether there are edits that would be lost.
func (t *parametersTab) unapplied() bool { return len(t.edited()) > 0 }

// selectIn keeps the same parameter selected when another outcome is shown.
func (t *parametersTab) selectIn(f *paramForm) {
	if t.selected == nil || slices.Contains(t.system.params, t.selected) {
		return
	}
	key := t.selected.key
	t.selected = nil
	if f != nil && f.shows(f.param(key)) {
		t.selected = f.param(key)
	}
}

// choices returns the parameters that can be selected, in the order shown. The first one is nil
// and stands for the choice of the outcome.
func (t *parametersTab) choices() []*parameter {
	all := []*parameter{nil}
	for _, f := range []*paramForm{t.form(), t.system} {
		if f == nil {
			continue
		}
		for _, p := range f.params {
			if f.shows(p) {
				all = append(all, p)
			}
		}
	}
	return all
}

// step selects another parameter.
func (t *parametersTab) step(by int) {
	all := t.choices()
	t.selected = all[max(0, min(slices.Index(all, t.selected)+by, len(all)-1))]
}

// of returns the form of the selected parameter.
func (t *parametersTab) of() *paramForm {
	for _, f := range t.forms {
		if slices.Contains(f.params, t.selected) {
			return f
		}
	}
	return t.system
}

// move changes the selected value to the left or right.
func (t *parametersTab) move(by int) {
	if t.selected == nil {
		if at := slices.Index(t.names, t.outcome); at >= 0 {
			t.outcome = t.names[(at+by+len(t.names))%len(t.names)]
		}
		return
	}
	if t.selected.key == keyScale {
		t.of().follow(t.config)
	}
	t.selected.move(by)
	t.changed()
}

// changed updates everything that depends on the entered values.
func (t *parametersTab) changed() {
	t.refused = nil
	t.of().check(t.config)
}

// edit directs the keys into the selected field.
func (t *parametersTab) edit() {
	if t.selected == nil || t.selected.choices != nil {
		t.move(1)
		return
	}
	t.before = t.selected.text
	t.input.SetText(t.before)
	t.editing = true
	t.d.app.SetFocus(t)
}

// enter handles a change of the text in the edited field.
func (t *parametersTab) enter(text string) {
	if !t.editing {
		return
	}
	t.selected.text = text
	if f := t.of(); strings.HasPrefix(t.selected.key, "qta.") && strings.TrimSpace(text) != "" {
		f.param(keyRequired).text = on
	}
	t.changed()
}

// leave ends editing.
func (t *parametersTab) leave() {
	t.editing = false
	t.d.app.SetFocus(t)
}

// abandon ends editing and restores the previous text.
func (t *parametersTab) abandon() {
	t.selected.text = t.before
	t.changed()
	t.leave()
}

// undo restores the values in force, or closes the sidebar if nothing was edited.
func (t *parametersTab) undo() {
	edited := t.edited()
	if len(edited) == 0 {
		t.d.back()
		return
	}
	for _, f := range edited {
		f.undo()
		f.check(t.config)
	}
	t.refused = nil
	t.d.say(plain, "undone: all is as it is in force")
}

// apply applies all edits.
func (t *parametersTab) apply() {
	edited := t.edited()
	if len(edited) == 0 {
		t.d.say(plain, "nothing was edited")
		return
	}
	var edits []config.Edit
	for _, f := range edited {
		more, _, err := f.edits()
		if f.wrong || err != nil {
			t.d.say(alert, "not applied: something is wrong with "+f.name())
			return
		}
		edits = append(edits, more...)
		f.send()
	}
	said := applying(t.config, edited)
	t.d.change("applying parameters", func(c *config.Config) (err error) {
		*c, err = c.Edited(edits...)
		return err
	}, func(err error) {
		if t.refused = err; err != nil {
			t.d.say(alert, "not applied: everything goes on as it was")
			return
		}
		for _, f := range edited {
			f.settle(t.d.control.Config())
		}
		t.load()
		t.d.say(good, said)
	})
}

// applying describes the effect of applying forms.
func applying(c config.Config, edited []*paramForm) string {
	said := "from the next window on the new parameters hold"
	for _, f := range edited {
		if f.anew(c) {
			said += "; " + f.name() + ": a new history begins"
		}
	}
	return said + ". w saves them"
}

// anew reports whether applying the form starts a new history.
func (f *paramForm) anew(c config.Config) bool {
	if f.outcome == "" {
		return f.param("window").edited() || f.param("history").edited()
	}
	g, ok := gridOf(f.system, f.outcome)
	before, err := c.Outcome(f.outcome).Scale.Grid(c.Base)
	return ok && err == nil && g != before
}

// shows reports whether a parameter is shown. It hides those of the other way to set the scale.
func (f *paramForm) shows(p *parameter) bool {
	return f.active(p) || strings.HasPrefix(p.key, "qta.")
}

// open estimates an upper limit on the number of instances that are open at a time. It derives it
// from the observed delays.
func open(f *scope.Frame, of func(*scope.Outcome) bool) uint64 {
	var total float64
	for i := range f.Outcomes {
		p := &f.Outcomes[i]
		if !of(p) || p.Observed.Empty() {
			continue
		}
		g := p.Observed.Grid()
		spent := float64(p.Observed.Failures()+p.Observed.Timeouts()) * float64(g.DMax())
		for bin := range g.Bins() {
			spent += float64(p.Observed.Count(bin)) * float64(g.Edge(bin+1))
		}
		total += spent / float64(p.Window.Duration())
	}
	return uint64(math.Ceil(total))
}

// preview judges the shown frame by the entered requirement. It returns "" if there is nothing to
// report.
func (t *parametersTab) preview(f *paramForm) (string, tone) {
	frame := t.d.frame()
	q := (*dq.QTA)(nil)
	if f.system != nil {
		q = requirement(f.system, f.outcome)
	}
	if frame == nil || q == nil {
		return "", plain
	}
	s, ok := worstBy(frame, f.outcome, func(p *scope.Outcome) (standing, bool) { return standingBefore(p, *q) })
	if !ok {
		return fmt.Sprintf("window %d: nothing to judge", frame.Number), doubtful
	}
	verdict := map[tone]string{good: "met", bad: "violated", doubtful: "cannot tell"}[s.tone]
	if f.requiresOther() {
		verdict = map[tone]string{good: "would be met", bad: "would be violated", doubtful: "cannot tell"}[s.tone]
	}
	text := fmt.Sprintf("%s window %d: %s, %s", s.tone.Mark(), frame.Number, verdict, s.text)
	if s.note != "" {
		text += " (" + s.note + ")"
	}
	return text, s.tone
}

// requiresOther reports whether a different QTA was entered.
func (f *paramForm) requiresOther() bool {
	return slices.ContainsFunc(f.params, func(p *parameter) bool {
		return strings.HasPrefix(p.key, keyRequired) && f.active(p) && p.edited()
	})
}

// result describes the resulting scale of a form.
func result(f *paramForm, base time.Duration) string {
	g, ok := gridOf(f.system, f.outcome)
	if !ok {
		return ""
	}
	width, dMax := config.FormatDuration(g.Width()), config.FormatDuration(g.DMax())
	if f.param(keyScale).text == byExponent {
		return fmt.Sprintf("%s·2^%s = %s a bin, dMax %s", config.FormatDuration(base), strings.TrimSpace(f.param("exponent").text), width, dMax)
	}
	return fmt.Sprintf("%s a bin, dMax %s", width, dMax)
}
