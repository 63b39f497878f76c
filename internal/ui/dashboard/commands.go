package dashboard

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gdamore/tcell/v2"

	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/engine/seen"
	"github.com/beamscope/beamscope/internal/files/config"
)

// table returns all keys except those of the tabs.
func (d *Dashboard) table() keymap {
	var m keymap
	for _, k := range d.opts.Knobs {
		m = append(m, binding{anywhere, []press{char(k.Key)}, string(k.Key), k.Label, k.Label, func() { d.turn(k) }})
	}
	m = append(m, keymap{
		{anywhere, []press{char('?'), {key: tcell.KeyF1}}, "?", "help", "show all keys", d.help},
		{anywhere, []press{char('q')}, "q", "quit", "quit and restore the terminal", d.leave},
		{anywhere, []press{char('o')}, "o", "overview", "switch between the table of all outcomes and the plots", d.switchPage},
	}...)
	freeze := binding{anywhere, []press{char('f')}, "f", "freeze", "freeze this window, or follow the present again", d.freeze}
	if p, ok := d.control.(player); ok {
		freeze.short = "pause"
		m = append(m, freeze,
			binding{anywhere, []press{char('[')}, "[ ]", "speed", "play at half the speed, or at twice", func() { d.speed(p, 0.5) }},
			binding{anywhere, []press{char(']')}, "]", "", "", func() { d.speed(p, 2) }})
	}
	for i, t := range d.tabs {
		key := []rune(tabKeys)[i]
		short := t.name()
		if short == "plots" {
			short = "edit plots" // to distinguish the tab from the plots themselves
		}
		m = append(m, binding{anywhere, []press{char(key)}, string(key), short, "open or close the tab " + t.name(), func() { d.toggle(t) }})
	}
	m = append(m,
		binding{anywhere, []press{{key: tcell.KeyTab}, {key: tcell.KeyBacktab}}, "Tab", "", "move between the sidebar and the main part", d.swap},
		binding{anywhere, []press{{key: tcell.KeyEscape}}, "Esc", "", "back: from the sidebar, a snapshot, a plot alone, the plots", d.back})
	if _, ok := d.control.(player); !ok {
		m = append(m, freeze)
	}
	m = append(m,
		binding{anywhere, []press{char(',')}, ", .", "", "one window back or forward", func() { d.scene.step(-1) }},
		binding{anywhere, []press{char('.')}, ".", "", "", func() { d.scene.step(1) }},
		binding{anywhere, []press{char('<')}, "< >", "", "ten windows back or forward", func() { d.scene.step(-10) }},
		binding{anywhere, []press{char('>')}, ">", "", "", func() { d.scene.step(10) }},
		binding{anywhere, []press{char('i')}, "i", "", explainHelp, d.explain},
		binding{anywhere, []press{char('A')}, "A", "", addHelp, d.addOutcomes},
		binding{anywhere, []press{char('e')}, "e", "", "draw this window below all others, or stop doing so", d.toggleOverlay},
		binding{anywhere, []press{char('x')}, "x", "export", "write the plot, or all of the overview, to a file", d.export},
		binding{anywhere, []press{char('w')}, "w", "save", "save the configuration in force as a scope file", d.save},
	)
	return append(append(m, d.overview.bindings()...), d.grid.bindings()...)
}

func (d *Dashboard) quit() { d.app.Stop() }

// leave quits. It asks first if the user's changes would be lost.
func (d *Dashboard) leave() {
	what := d.loses()
	if what == "" {
		d.quit()
		return
	}
	d.confirm(what+": quit anyway?", d.quit, reply{'w', "save", d.save})
}

// loses describes the user's changes that quitting would lose, or returns "" if there are none.
// Changes in a demonstration, a recording or a snapshot do not count: they are only experiments.
func (d *Dashboard) loses() string {
	if _, ok := d.control.(player); ok || d.opts.Fixed || len(d.opts.Knobs) > 0 {
		return ""
	}
	for _, t := range d.tabs {
		if x, ok := t.(interface{ unapplied() bool }); ok && x.unapplied() {
			return "What was edited in the tab " + t.name() + " is not applied, and not saved"
		}
	}
	if d.unsaved {
		return "Triggers or other changes are not saved"
	}
	return ""
}

// A player is a Control that plays a recording.
type player interface {
	Pause(bool)
	Speed() float64
	SetSpeed(float64)
}

// freeze stops at a window, or follows the present again. A recording pauses while it is frozen.
func (d *Dashboard) freeze() {
	d.scene.freeze()
	if p, ok := d.control.(player); ok && d.scene == d.live {
		p.Pause(!d.scene.following)
	}
}

// Limits of the speed at which a recording is played.
const slowest, fastest = 1.0 / 16, 256

// speed changes the speed of a recording by a factor.
func (d *Dashboard) speed(p player, factor float64) {
	now := p.Speed()
	if now == 0 {
		now = 1
	}
	p.SetSpeed(min(max(now*factor, slowest), fastest))
	d.say(plain, fmt.Sprintf("speed %g", p.Speed()))
}

// switchPage changes between the overview and the plots.
func (d *Dashboard) switchPage() {
	if d.showing("overview") {
		d.show("plots")
		return
	}
	d.show("overview")
}

// back closes what was opened last.
func (d *Dashboard) back() {
	switch {
	case d.open != nil:
		d.toggle(d.open)
	case d.showing("overview") && d.overview.filter != "":
		d.overview.filter = ""
		d.say(plain, "all names again")
	case d.scene != d.live:
		d.scene = d.live
		d.say(plain, "back to what is "+d.live.title)
	case d.grid.zoomed:
		d.grid.zoomed = false
	case d.showing("plots"):
		d.show("overview")
	}
}

// toggleOverlay draws the current window below all others, or stops doing so.
func (d *Dashboard) toggleOverlay() {
	s := d.scene
	if s.hasOverlay {
		s.hasOverlay = false
		d.say(plain, "no earlier window is drawn any more")
		return
	}
	if f := s.frame(); f != nil {
		s.overlay, s.hasOverlay = f.Number, true
		d.say(plain, fmt.Sprintf("window %d of %s is drawn below the others: , and . choose what to compare with it, e ends it", f.Number, f.Time.Local().Format("15:04:05.0")))
	}
}

// turn turns a knob of the system that is observed.
func (d *Dashboard) turn(k Knob) {
	var said string
	d.background(k.Label, func(ctx context.Context) (err error) {
		said, err = k.Turn(ctx)
		return err
	}, func(err error) {
		if err != nil {
			d.fail(err)
			return
		}
		d.say(plain, said)
	})
}

// save asks for a path and saves the configuration there.
func (d *Dashboard) save() {
	if d.scene != d.live {
		d.fail(errSnapshot)
		return
	}
	c := d.control.Config().Clone()
	what := "save as"
	if marked := d.overview.markedNames(); len(marked) > 0 {
		what = fmt.Sprintf("save %d marked as", len(marked))
		if only(&c, marked) {
			what = fmt.Sprintf("save %d marked, without the diagram, as", len(marked))
		}
	}
	path := d.opts.Path
	if path == "" {
		path = "scope.yaml"
	}
	whole := len(d.overview.markedNames()) == 0
	d.enter(what, "the name of a scope file", path, func(path string, settled func(error)) { d.saveTo(c, path, whole, settled) })
}

// only removes all outcomes except these from a configuration. It also removes the diagram if
// that has other outcomes, and reports whether it did.
func only(c *config.Config, names map[string]bool) bool {
	for _, name := range outcomesOf(*c) {
		if names[name] {
			c.Entry(name) // so that an outcome with default settings has an entry too
		}
	}
	c.Outcomes = slices.DeleteFunc(c.Outcomes, func(o config.Outcome) bool { return !names[o.Name] })
	f, err := config.ParseDiagram("", c.Diagram)
	if err != nil || c.Diagram == "" || !slices.ContainsFunc(f.Outcomes(), func(name string) bool { return !names[name] }) {
		return false
	}
	c.Diagram, c.DiagramFile = "", ""
	return true
}

// outcomesOf returns the names of the outcomes of the configuration in force.
func outcomesOf(c config.Config) []string {
	system, err := c.System()
	if err != nil {
		return nil
	}
	return namesOf(system)
}

// namesOf returns the names of the outcomes of a system, or none if it is nil.
func namesOf(s *scope.System) []string {
	if s == nil {
		return nil
	}
	names := make([]string, len(s.Outcomes))
	for i := range s.Outcomes {
		names[i] = s.Outcomes[i].Spec.Name
	}
	return names
}

// saveTo saves a configuration. It asks before it replaces an existing file. It omits the process
// id, which is valid for one run of a VM only.
func (d *Dashboard) saveTo(c config.Config, path string, whole bool, settled func(error)) {
	target := ""
	if c.Target.PID != 0 {
		target = fmt.Sprintf(" --pid %d", c.Target.PID)
		c.Target.PID = 0
	}
	d.replace(path, "Comments in it are lost, except those in a diagram.", settled, func() {
		if err := c.SaveNoted(path, d.notes()); err != nil {
			settled(err)
			return
		}
		settled(nil)
		if whole {
			d.unsaved = false
		}
		d.opts.Path = path
		if _, ok := d.control.(player); ok {
			d.say(good, "saved: "+path)
		} else {
			d.say(good, fmt.Sprintf("saved: beamscope run -c %s%s goes on from here", path, target))
		}
		d.saveDiagramOf(c)
	})
}

// notes returns notes for a saved scope file: how the events of each outcome are seen, if that is
// known.
func (d *Dashboard) notes() map[string]string {
	observer, ok := d.control.(interface{ Seen() map[string]seen.Sight })
	if !ok {
		return nil
	}
	notes := make(map[string]string)
	for name, sight := range observer.Seen() {
		notes[name] = "seen: " + sight.String()
	}
	return notes
}

// saveDiagramOf saves the diagram of a configuration that keeps it in a separate file, if that
// file has a different diagram. It asks before it replaces the file.
func (d *Dashboard) saveDiagramOf(c config.Config) {
	if c.DiagramFile == "" {
		return
	}
	path := c.Path(c.DiagramFile)
	there, err := config.LoadDiagram(path)
	if err == nil && there == c.Diagram {
		return
	}
	d.replace(path, "The scope file refers to it, and the diagram in force is another.", d.fail, func() {
		if err := c.SaveDiagram(path); err != nil {
			d.fail(err)
			return
		}
		d.say(good, fmt.Sprintf("saved, and the diagram in %s", path))
	})
}

// replace writes a file, and asks first if the file exists. It passes settled what prevents
// writing.
func (d *Dashboard) replace(path, consequence string, settled func(error), write func()) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		write()
	case err != nil:
		settled(err)
	case !info.Mode().IsRegular():
		settled(errNoFile(path))
	default:
		settled(errThere(path))
		d.confirm(strings.TrimSpace(fmt.Sprintf("%s is there already. Replace it? %s", filepath.Base(path), consequence)), write)
	}
}
