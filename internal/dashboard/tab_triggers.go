package dashboard

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/tview"

	"github.com/beamscope/beamscope/diagram"
	"github.com/beamscope/beamscope/internal/config"
	"github.com/beamscope/beamscope/internal/scope"
	"github.com/beamscope/beamscope/internal/tui"
)

// A triggersTab sets the triggers of a probe, and lists what fired. While a snapshot is
// shown, it says why that was made, and which instances were the worst.
type triggersTab struct {
	*listing
	d        *Dashboard
	shelf    *shelf
	shown    *scene // what the rows are about
	probe    string // whose triggers are set
	followed string // that was chosen elsewhere last

	off map[string]string // settings of triggers that were turned off, by probe and kind

	system     *scope.System   // of which
	calculated map[string]bool // are these
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
		{inSidebar, []press{{key: tcell.KeyEnter}}, "Enter", "set, open", "set a trigger, open a snapshot, look at a window", t.open},
		{inSidebar, []press{char(' ')}, "Space", "on/off", "turn a trigger on or off", t.turn},
		{inSidebar, []press{{key: tcell.KeyLeft}}, "←→", "probe", "choose the probe whose triggers are set", func() { t.step(-1) }},
		{inSidebar, []press{{key: tcell.KeyRight}}, "→", "", "choose the probe whose triggers are set", func() { t.step(1) }},
	}
}

func (t *triggersTab) refresh() {
	t.shelf.look()
	if name := t.d.chosen(); name != t.followed && slices.Contains(t.names(), name) {
		t.followed, t.probe = name, name
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

// names returns the names of the probes.
func (t *triggersTab) names() []string { return namesOf(t.d.live.System()) }

// step chooses a probe.
func (t *triggersTab) step(n int) {
	names := t.names()
	if at := slices.Index(names, t.probe); at >= 0 && t.d.scene == t.d.live {
		t.probe = names[(at+n+len(names))%len(names)]
	}
}

// settings returns the rows of the triggers of the probe.
func (t *triggersTab) settings() []row {
	names := t.names()
	if len(names) == 0 {
		return paragraph(dim, "No probes yet: triggers are set for one.", t.d.room())
	}
	if !slices.Contains(names, t.probe) {
		t.probe = names[0]
	}
	rows := []row{t.probeRow(names)}
	c := t.d.control.Config()
	for _, kind := range scope.TriggerKinds() {
		rows = append(rows, t.trigger(c.Entry(t.probe), kind))
	}
	return rows
}

func (t *triggersTab) probeRow(names []string) row {
	return row{
		key: "probe",
		cells: []cell{
			{text: "probe", width: 5, tone: dim},
			{text: t.d.called(t.probe), tone: strong},
			{text: fmt.Sprintf("← %d of %d →", slices.Index(names, t.probe)+1, len(names)), width: 16, right: true, tone: dim},
		},
		detail: "←→ choose the probe whose triggers are set here. Enter finds one by its name.",
		open:   t.find,
	}
}

// find asks for a probe by its name.
func (t *triggersTab) find() {
	t.d.enter("probe", "its name, or a part of it", "", func(text string, settled func(error)) {
		names := t.names()
		at := slices.Index(names, text)
		if at < 0 {
			at = slices.IndexFunc(names, func(name string) bool { return strings.Contains(name, text) })
		}
		if at < 0 {
			settled(fmt.Errorf("no probe has %q in its name", text))
			return
		}
		t.probe = names[at]
		settled(nil)
	})
}

// trigger returns the row of a kind of triggers.
func (t *triggersTab) trigger(o *config.Outcome, kind string) row {
	short, long := meaning(kind)
	setting, on := o.Trigger(kind)
	mark, n := "○", dim
	why := t.impossible(kind)
	switch {
	case on && t.active(kind):
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
		key:    "trigger " + kind,
		cells:  []cell{{text: mark, width: 1, tone: n}, {text: kind, width: 10, tone: n}, {text: setting, width: width, tone: n}, {text: short, tone: dim}},
		detail: tview.Escape(fmt.Sprintf("%s: %s.", kind, long)),
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

// active reports whether an incident of the probe is going on.
func (t *triggersTab) active(kind string) bool {
	f := t.d.live.Last()
	return f != nil && slices.ContainsFunc(f.Probes, func(p scope.Probe) bool {
		return p.Name == t.probe && slices.Contains(p.Active, kind)
	})
}

// meaning says what a trigger is for, in few words and in more, and what it is set
// to.
func meaning(kind string) (short, long string) {
	switch kind {
	case "condition":
		return "an expression", "an expression over the figures of a window holds, as in p99 > 20*ms && n > 100"
	case "divergence":
		return "off the calculated", "observed and calculated ΔQ are apart by more than bins and chance explain, three windows in a row. True is 0.05, or say how far in probability"
	case "failure":
		return "fewer succeed", "a larger share of the instances fails or times out, as in 0.05 or 5%"
	case "hazard":
		return "QTA nearly missed", "the observed or the calculated ΔQ violates the QTA, or has less slack in probability, twice in a row. True is no slack, or a share, as in 0.1"
	case "load":
		return "more instances end", "more instances end in a window, as in 5000"
	case "loss":
		return "something is lost", "more is lost in a window, or it is not observed as a whole. True is nothing at all, or how many, as in 10"
	case "qta":
		return "QTA is violated", "the observed ΔQ violates the QTA for sure. It is true or false"
	case "rate":
		return "fewer instances end", "fewer instances end a second, three windows in a row, as in < 50"
	case "silence":
		return "nothing ends", "no instance has ended for so long. True is three windows, or a time, as in 10s"
	}
	return "", ""
}

// impossible says why a kind of triggers cannot be set at the probe, whatever its
// setting; nil where it can.
func (t *triggersTab) impossible(kind string) error {
	trigger, err := scope.ParseTrigger(kind, "true")
	if err != nil || trigger == nil || kind == "condition" {
		return nil // it depends on the setting
	}
	return t.possible(trigger)
}

// possible says why a trigger makes no sense at the probe; nil where it does.
func (t *triggersTab) possible(trigger scope.Trigger) error {
	s := t.d.live.System()
	if s != t.system {
		t.system, t.calculated = s, calculatedNames(s.Diagram)
	}
	at := slices.IndexFunc(s.Probes, func(p scope.ProbeSystem) bool { return p.Spec.Name == t.probe })
	if at < 0 {
		return nil
	}
	return trigger.Possible(&s.Probes[at], t.calculated[t.probe])
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

// kind returns the kind of triggers that is selected, "" where something else is.
func (t *triggersTab) kind() string {
	kind, ok := strings.CutPrefix(t.selected(), "trigger ")
	if !ok {
		return ""
	}
	return kind
}

// turn turns the selected trigger on or off.
func (t *triggersTab) turn() {
	kind := t.kind()
	if kind == "" {
		return
	}
	c := t.d.control.Config()
	setting, on := c.Entry(t.probe).Trigger(kind)
	if on {
		t.off[t.probe+" "+kind] = setting
		t.apply(kind, "false", t.d.fail)
		return
	}
	setting = t.off[t.probe+" "+kind]
	if setting == "" {
		setting = "true"
	}
	if _, err := scope.ParseTrigger(kind, setting); err != nil || kind == "condition" && setting == "true" {
		t.set(kind)
		return
	}
	t.apply(kind, setting, t.d.fail)
}

// set asks for the setting of a trigger.
func (t *triggersTab) set(kind string) {
	if why := t.impossible(kind); why != nil {
		t.d.fail(why)
		return
	}
	c := t.d.control.Config()
	setting, on := c.Entry(t.probe).Trigger(kind)
	if !on {
		setting = t.off[t.probe+" "+kind]
	}
	_, long := meaning(kind)
	t.d.enter(kind+" of "+t.probe, long+"; false turns it off.", setting, func(text string, settled func(error)) {
		t.apply(kind, text, settled)
	})
}

// apply goes on with a trigger of the probe set, or off.
func (t *triggersTab) apply(kind, setting string, settled func(error)) {
	probe := t.probe
	switch kind {
	case "failure", "hazard", "divergence":
		share, err := shareOf(setting)
		if err != nil {
			settled(err)
			return
		}
		setting = share
	}
	t.d.change("setting "+kind+" of "+probe, func(c *config.Config) error {
		o := c.Entry(probe)
		if err := o.SetTrigger(kind, setting); err != nil {
			return err
		}
		if setting, on := o.Trigger(kind); on {
			trigger, err := scope.ParseTrigger(kind, setting)
			if err != nil {
				return err
			}
			return t.possible(trigger)
		}
		return nil
	}, func(err error) {
		settled(err)
		if err == nil {
			t.d.say(good, done(kind, probe, setting))
		}
	})
}

// done says what was set.
func done(kind, probe, setting string) string {
	if strings.TrimSpace(setting) == "false" {
		return fmt.Sprintf("%s of %s is off", kind, probe)
	}
	return fmt.Sprintf("%s of %s is %s: w saves it", kind, probe, strings.TrimSpace(setting))
}
