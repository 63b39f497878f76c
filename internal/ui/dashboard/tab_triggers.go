package dashboard

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/tview"

	"github.com/beamscope/beamscope/diagram"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/files/config"
	"github.com/beamscope/beamscope/internal/ui/tui"
)

// A triggersTab sets the triggers of an outcome, and lists what fired. While a snapshot is shown, it
// explains why that was made, and lists its worst instances.
type triggersTab struct {
	*listing
	d        *Dashboard
	shelf    *shelf
	shown    *scene // the scene of the rows
	outcome  string // the outcome whose triggers are shown
	followed string // the outcome that was last chosen elsewhere

	off map[string]string // settings of triggers that were turned off, by outcome and kind

	system     *scope.System   // the system
	calculated map[string]bool // whose calculated names these are
}

func newTriggersTab(d *Dashboard) tab {
	t := &triggersTab{listing: newListing("triggers", d.theme), d: d, shelf: &shelf{d: d}, off: make(map[string]string)}
	return t
}

func (t *triggersTab) name() string { return "triggers" }

func (t *triggersTab) bindings() []binding {
	if s := t.d.scene; s.shot != nil {
		return []binding{
			{inSidebar, []press{{key: tcell.KeyEnter}}, "Enter", "", "where the time of an instance went, if that is known", t.open},
			{inSidebar, []press{char(',')}, ",", "before", "one window back", func() { s.step(-1) }},
			{inSidebar, []press{char('.')}, ".", "after", "one window on", func() { s.step(1) }},
		}
	}
	return []binding{
		{inSidebar, []press{{key: tcell.KeyEnter}}, "Enter", "set, open", "set a trigger, open a snapshot, show a window", t.open},
		{inSidebar, []press{char(' ')}, "Space", "on/off", "turn a trigger on or off", t.turn},
		{inSidebar, []press{{key: tcell.KeyLeft}}, "←→", "outcome", "choose the outcome for these triggers", func() { t.step(-1) }},
		{inSidebar, []press{{key: tcell.KeyRight}}, "→", "", "choose the outcome for these triggers", func() { t.step(1) }},
	}
}

func (t *triggersTab) refresh() {
	t.shelf.look()
	if name := t.d.chosen(); name != t.followed && slices.Contains(t.names(), name) {
		t.followed, t.outcome = name, name
	}
	if t.d.scene != t.d.live {
		t.show(t.d.worstRows(t.d.room()), t.d.room())
	} else {
		rows := append(t.settings(), blank())
		t.show(append(rows, t.shelf.rows(t.d.room())...), t.d.room())
	}
	if t.shown != t.d.scene {
		t.shown = t.d.scene
		t.top()
	}
}

// names returns the names of the outcomes.
func (t *triggersTab) names() []string { return namesOf(t.d.live.System()) }

// step chooses an outcome.
func (t *triggersTab) step(n int) {
	names := t.names()
	if at := slices.Index(names, t.outcome); at >= 0 && t.d.scene == t.d.live {
		t.outcome = names[(at+n+len(names))%len(names)]
	}
}

// settings returns the rows of the triggers of the outcome.
func (t *triggersTab) settings() []row {
	names := t.names()
	if len(names) == 0 {
		return paragraph(dim, "No outcomes yet: triggers are set for one.", t.d.room())
	}
	if !slices.Contains(names, t.outcome) {
		t.outcome = names[0]
	}
	rows := []row{t.outcomeRow(names)}
	c := t.d.control.Config()
	for _, kind := range scope.TriggerKinds() {
		rows = append(rows, t.trigger(c.Entry(t.outcome), kind))
	}
	return rows
}

func (t *triggersTab) outcomeRow(names []string) row {
	return row{
		key: "outcome",
		cells: []cell{
			{text: "outcome", width: 7, tone: dim},
			{text: t.d.called(t.outcome), tone: strong},
			{text: fmt.Sprintf("← %d of %d →", slices.Index(names, t.outcome)+1, len(names)), width: 16, right: true, tone: dim},
		},
		detail: "←→ choose the outcome for these triggers here. Enter finds one by its name.",
		open:   t.find,
	}
}

// find asks for an outcome by its name.
func (t *triggersTab) find() {
	t.d.enter("outcome", "its name, or a part of it", "", func(text string, settled func(error)) {
		names := t.names()
		at := slices.Index(names, text)
		if at < 0 {
			at = slices.IndexFunc(names, func(name string) bool { return strings.Contains(name, text) })
		}
		if at < 0 {
			settled(fmt.Errorf("no outcome has %q in its name", text))
			return
		}
		t.outcome = names[at]
		settled(nil)
	})
}

// trigger returns the row of one kind of triggers.
func (t *triggersTab) trigger(o *config.Outcome, kind scope.TriggerKind) row {
	setting, on := o.Trigger(kind.Name)
	mark, n, short := "○", dim, kind.Short
	why := t.impossible(kind)
	switch {
	case on && t.active(kind.Name):
		mark, n = "▶", bad
	case on:
		mark, n = "●", plain
	case why != nil:
		mark, setting, short = "×", "", "not possible here"
	}
	width := 13
	if t.d.room() > 60 {
		width = 22
	}
	r := row{
		key:    "trigger " + kind.Name,
		cells:  []cell{{text: mark, width: 1, tone: n}, {text: kind.Name, width: 10, tone: n}, {text: setting, width: width, tone: n}, {text: short, tone: dim}},
		detail: tview.Escape(fmt.Sprintf("%s: %s.", kind.Name, kind.Help)),
		open:   func() { t.set(kind) },
	}
	if tui.Columns(setting) > width {
		r.detail += "\nIt is: " + tview.Escape(setting)
	}
	if mark == "▶" {
		r.detail += "\n" + t.d.theme.Tag(bad) + "It has fired, and is still going on.[-:-:-]"
	}
	if why != nil {
		r.detail += "\n" + t.d.theme.Tag(doubtful) + tview.Escape(why.Error()) + "[-:-:-]"
	}
	return r
}

// active reports whether an incident of the outcome is in progress.
func (t *triggersTab) active(kind string) bool {
	f := t.d.live.Last()
	return f != nil && slices.ContainsFunc(f.Outcomes, func(p scope.Outcome) bool {
		return p.Name == t.outcome && slices.Contains(p.Active, kind)
	})
}

// impossible returns why a kind of triggers cannot be set for the outcome, whatever its setting, or
// nil.
func (t *triggersTab) impossible(kind scope.TriggerKind) error {
	if kind.Default == "" {
		return nil // depends on the setting
	}
	trigger, err := kind.Parse(kind.Default)
	if err != nil {
		return err
	}
	return t.possible(trigger)
}

// possible returns why a trigger makes no sense for the outcome, or nil.
func (t *triggersTab) possible(trigger scope.Trigger) error {
	s := t.d.live.System()
	if s != t.system {
		t.system, t.calculated = s, calculatedNames(s.Diagram)
	}
	at := slices.IndexFunc(s.Outcomes, func(p scope.OutcomeSystem) bool { return p.Spec.Name == t.outcome })
	if at < 0 {
		return nil
	}
	return trigger.Possible(&s.Outcomes[at], t.calculated[t.outcome])
}

// calculatedNames returns the names that a diagram calculates.
func calculatedNames(file *diagram.File) map[string]bool {
	names := make(map[string]bool)
	if file == nil {
		return names
	}
	program, err := diagram.Compile(file)
	if err != nil {
		return names
	}
	for _, name := range program.Names() {
		names[name] = true
	}
	return names
}

// kind returns the selected kind of triggers. ok is false if there is none.
func (t *triggersTab) kind() (kind scope.TriggerKind, ok bool) {
	name, found := strings.CutPrefix(t.selected(), "trigger ")
	if !found {
		return scope.TriggerKind{}, false
	}
	kind, err := scope.LookupTriggerKind(name)
	return kind, err == nil
}

// turn turns the selected trigger on or off.
func (t *triggersTab) turn() {
	kind, ok := t.kind()
	if !ok {
		return
	}
	c := t.d.control.Config()
	setting, on := c.Entry(t.outcome).Trigger(kind.Name)
	if on {
		t.off[t.outcome+" "+kind.Name] = setting
		t.apply(kind, "false", t.d.fail)
		return
	}
	setting = cmp.Or(t.off[t.outcome+" "+kind.Name], kind.Default)
	if setting == "" {
		t.set(kind)
		return
	}
	t.apply(kind, setting, t.d.fail)
}

// set asks for the setting of a trigger.
func (t *triggersTab) set(kind scope.TriggerKind) {
	if why := t.impossible(kind); why != nil {
		t.d.fail(why)
		return
	}
	c := t.d.control.Config()
	setting, on := c.Entry(t.outcome).Trigger(kind.Name)
	if !on {
		setting = t.off[t.outcome+" "+kind.Name]
	}
	t.d.enter(kind.Name+" of "+t.outcome, kind.Help+"; false turns it off.", setting, func(text string, settled func(error)) {
		t.apply(kind, text, settled)
	})
}

// apply sets a trigger of the outcome, or turns it off.
func (t *triggersTab) apply(kind scope.TriggerKind, setting string, settled func(error)) {
	outcome := t.outcome
	if kind.Share {
		share, err := shareOf(setting)
		if err != nil {
			settled(err)
			return
		}
		setting = share
	}
	t.d.change("setting "+kind.Name+" of "+outcome, func(c *config.Config) error {
		o := c.Entry(outcome)
		if err := o.SetTrigger(kind.Name, setting); err != nil {
			return err
		}
		if setting, on := o.Trigger(kind.Name); on {
			trigger, err := kind.Parse(setting)
			if err != nil {
				return err
			}
			return t.possible(trigger)
		}
		return nil
	}, func(err error) {
		settled(err)
		if err == nil {
			t.d.say(good, done(kind.Name, outcome, setting))
		}
	})
}

// done describes what was set.
func done(kind, outcome, setting string) string {
	if strings.TrimSpace(setting) == "false" {
		return fmt.Sprintf("%s of %s is off", kind, outcome)
	}
	return fmt.Sprintf("%s of %s is %s: w saves it", kind, outcome, strings.TrimSpace(setting))
}
