package dashboard

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/tview"

	"github.com/beamscope/beamscope/internal/files/config"
	"github.com/beamscope/beamscope/internal/ui/tui"
)

// A systemTab shows the outcome diagram in force, and edits it.
type systemTab struct {
	*tview.Box
	d       *Dashboard
	editor  *diagramEditor
	drawing *drawingView

	taken     string // the diagram in force from which the text was made
	elsewhere bool   // the diagram in force has changed since
	problem   error  // of the text, in addition to the editor's errors
	refused   error  // why the session refused it
	fresh     []string

	writes bool // keys go to the editor
	alone  bool // only the drawing is shown
}

func newSystemTab(d *Dashboard) tab {
	t := &systemTab{Box: tview.NewBox(), d: d, drawing: newDrawingView(d.theme)}
	t.editor = newDiagramEditor(d.theme, t.check)
	t.taken = d.control.Config().Diagram
	t.editor.SetText(t.taken, false)
	return t
}

func (t *systemTab) name() string { return "system" }

func (t *systemTab) bindings() []binding {
	return []binding{
		{inSidebar, []press{{key: tcell.KeyEnter}}, "Enter", "edit", "edit the outcome diagram", t.write},
		{inSidebar, []press{{key: tcell.KeyCtrlS}}, "Ctrl-S", "apply", "apply the edited diagram", t.apply},
		{inSidebar, []press{char('v')}, "v", "view", "show the drawing alone, or below the text", t.toggle},
		{inSidebar, []press{char('l')}, "l", "load .dq", "load a diagram into the editor", t.askLoad},
		{inSidebar, []press{char('W')}, "W", "save .dq", "save the text in the editor as a diagram", t.askSave},
		{inSidebar, []press{char('y'), {key: tcell.KeyCtrlG}}, "y", "language", "show a summary of the diagram syntax", t.language},
		{inSidebar, []press{{key: tcell.KeyCtrlR}}, "Ctrl-R", "", "discard edits: back to the diagram in force", t.revert},
		{inSidebar, nil, "↑↓←→", "", "scroll the drawing, as page up and down do", nil},
		{inEditor, []press{{key: tcell.KeyCtrlS}}, "Ctrl-S", "apply", "apply the edited diagram", t.apply},
		{inEditor, []press{{key: tcell.KeyCtrlN}}, "Ctrl-N", "next error", "go to the next error", t.jump},
		{inEditor, []press{{key: tcell.KeyEscape}}, "Esc", "done", "leave the editor; the text stays", t.leave},
		{inEditor, []press{{key: tcell.KeyCtrlG}}, "Ctrl-G", "language", "show a summary of the diagram syntax", t.language},
		{inEditor, []press{{key: tcell.KeyCtrlO}}, "Ctrl-O", "load .dq", "load a diagram into the editor", t.askLoad},
		{inEditor, []press{{key: tcell.KeyCtrlR}}, "Ctrl-R", "as in force", "discard edits: back to the diagram in force", t.revert},
		{inEditor, []press{{key: tcell.KeyTab}}, "Tab", "", "move to the main part", t.d.swap},
		{inEditor, nil, "Ctrl-Z", "", "undo; Ctrl-Y: redo", nil},
	}
}

// edits implements [editor].
func (t *systemTab) edits() bool { return t.editor.HasFocus() }

// text returns the edited diagram, or "" if it is blank.
func (t *systemTab) text() string {
	text := t.editor.GetText()
	if strings.TrimSpace(text) == "" {
		return ""
	}
	return text
}

// edited reports whether the text differs from the diagram in force.
func (t *systemTab) edited() bool { return t.text() != t.taken }

// unapplied reports whether there are edits that would be lost.
func (t *systemTab) unapplied() bool { return t.edited() }

// refresh shows the diagram in force, but keeps edits.
func (t *systemTab) refresh() {
	inForce := t.d.control.Config().Diagram
	switch {
	case inForce == t.taken:
		t.elsewhere = false
	case !t.edited():
		t.take(inForce)
	case t.text() == inForce:
		t.taken, t.elsewhere = inForce, false
	default:
		t.elsewhere = true
	}
	t.drawing.show(t.d.scene.System(), t.d.frame())
}

// take puts the diagram in force into the editor.
func (t *systemTab) take(inForce string) {
	t.taken, t.elsewhere = inForce, false
	t.editor.Replace(0, t.editor.GetTextLength(), inForce)
	t.editor.Select(0, 0)
}

// put writes the text into a configuration. A configuration without a diagram has no diagram file
// either.
func (t *systemTab) put(c *config.Config) {
	c.Diagram = t.text()
	if c.Diagram == "" {
		c.DiagramFile = ""
	}
}

// check looks for errors in the text.
func (t *systemTab) check() {
	t.editor.errs, t.problem, t.refused, t.fresh = nil, nil, nil, nil
	if !t.edited() {
		return
	}
	_, err := config.ParseDiagram("diagram", t.text())
	var wrong *config.DiagramError
	if errors.As(err, &wrong) {
		t.editor.errs = wrong.Errs
		return
	}
	c := t.d.control.Config().Clone()
	t.put(&c)
	t.fresh, t.problem = byDefault(c)
}

// byDefault returns the outcomes of a configuration that have no entry.
func byDefault(c config.Config) ([]string, error) {
	system, err := c.System()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, p := range system.Outcomes {
		if !slices.ContainsFunc(c.Outcomes, func(o config.Outcome) bool { return o.Name == p.Spec.Name }) {
			names = append(names, p.Spec.Name)
		}
	}
	return names, nil
}

// write directs the keys to the editor.
func (t *systemTab) write() {
	t.writes, t.alone = true, false
	t.d.app.SetFocus(t)
}

// leave directs the keys to the tab.
func (t *systemTab) leave() {
	t.writes = false
	t.d.app.SetFocus(t)
}

func (t *systemTab) toggle() { t.alone = !t.alone }

// apply applies the text. If the diagram in force has changed meanwhile, it asks first.
func (t *systemTab) apply() {
	t.check() // against the configuration in force
	switch {
	case !t.edited():
		t.d.say(plain, "nothing was edited: the diagram is in force")
	case len(t.editor.errs) > 0:
		t.jumpTo(0)
		t.d.say(alert, "not applied: the diagram is wrong. Everything goes on as it was")
	case t.problem != nil:
		t.d.say(alert, "not applied: this diagram does not go with the rest. Everything goes on as it was")
	case t.elsewhere:
		t.d.confirm("The diagram in force was changed while this one was edited. Replace it?", t.commit)
	default:
		t.commit()
	}
}

func (t *systemTab) commit() {
	text, fresh := t.text(), t.fresh
	t.d.change("applying the diagram", func(c *config.Config) error {
		t.put(c)
		return nil
	}, func(err error) {
		if t.refused = err; err != nil {
			t.d.say(alert, "not applied: everything goes on as it was")
			return
		}
		t.taken = text
		t.d.say(good, applied(text, fresh))
	})
}

// applied describes the effect of a new diagram.
func applied(text string, fresh []string) string {
	if text == "" {
		return "from the next window on nothing is calculated: there is no diagram"
	}
	said := "the diagram holds from the next window on; what is calculated has a new history"
	if len(fresh) > 0 {
		said += "; by default: " + strings.Join(fresh, ", ")
	}
	return said
}

// revert puts the diagram in force into the editor, where Ctrl-Z restores the text.
func (t *systemTab) revert() {
	if !t.edited() {
		return
	}
	t.take(t.d.control.Config().Diagram)
	t.check()
	t.d.say(plain, "the diagram in force; in the editor Ctrl-Z gets back what you wrote")
}

// jump moves the cursor to the next error.
func (t *systemTab) jump() {
	if next := t.editor.next(); next != nil {
		t.editor.jump(next.Pos)
		return
	}
	t.d.say(plain, "no error")
}

func (t *systemTab) jumpTo(i int) {
	t.editor.jump(t.editor.errs[i].Pos)
	t.write()
}

// path returns the path of the diagram in force, or a suggested one.
func (t *systemTab) path() string {
	c := t.d.control.Config()
	if c.DiagramFile != "" {
		return c.Path(c.DiagramFile)
	}
	return filepath.Join(filepath.Dir(t.d.opts.Path), "system.dq")
}

func (t *systemTab) askLoad() { t.d.enter("load diagram", fileOfDiagram, t.path(), t.load) }
func (t *systemTab) askSave() { t.d.enter("save diagram as", fileOfDiagram, t.path(), t.save) }

const fileOfDiagram = "the name of a file, as in system.dq"

// load puts the contents of a file into the editor.
func (t *systemTab) load(path string, settled func(error)) {
	source, err := config.LoadDiagram(path)
	if err != nil {
		settled(err)
		return
	}
	settled(nil)
	t.editor.Replace(0, t.editor.GetTextLength(), source)
	t.editor.Select(0, 0)
	t.write()
	next := "Ctrl-S applies it"
	switch {
	case !t.edited():
		next = "it is in force already"
	case len(t.editor.errs) > 0:
		next = "Ctrl-N goes to what is wrong with it"
	}
	t.d.say(plain, fmt.Sprintf("%s is in the editor: %s", filepath.Base(path), next))
}

// save writes the text to a file, and asks before it replaces one.
func (t *systemTab) save(path string, settled func(error)) {
	c := t.d.control.Config().Clone()
	c.Diagram = t.editor.GetText()
	if there, err := config.LoadDiagram(path); err == nil && there == c.Diagram {
		settled(nil)
		t.d.say(plain, fmt.Sprintf("%s has this diagram already", path))
		return
	}
	if _, err := config.ParseDiagram(path, c.Diagram); err != nil {
		first, _, _ := strings.Cut(err.Error(), "\n")
		settled(errors.New("not saved: " + first))
		return
	}
	t.d.replace(path, "", settled, func() {
		if err := c.SaveDiagram(path); err != nil {
			settled(err)
			return
		}
		settled(nil)
		t.d.say(good, fmt.Sprintf("saved: beamscope draw %s shows it", path))
	})
}

// language shows a summary of the syntax of diagrams.
func (t *systemTab) language() {
	t.d.explainText("language", "outcome diagrams (Esc closes, docs/reference/diagrams.md has more)", func(int) string { return tview.Escape(languageText) })
}

const languageText = `whole = part_1 -> part_2;     part_2 is caused by part_1
both  = a:name(x, y);         all to finish: the slowest counts
first = f:name(x, y);         first to finish: the fastest counts
one   = p:name[0.9, 0.1](x, y);
                              one of them, with that probability
all   = s:both -> s:first;    diagrams that are defined elsewhere
# …  // …  /* … */            comments

x and y are names of outcomes, or expressions themselves. A name is
letters, digits and _. Every definition and every operator is an outcome:
its ΔQ is calculated, and observed where there are spans of its name.
system, where there is one, is the whole, and comes last.`

// message returns the messages about the text, in lines of a width.
func (t *systemTab) message(width int) []spans {
	th := t.d.theme
	if n := len(t.editor.errs); n > 0 {
		i := t.editor.nearest()
		err := t.editor.errs[i]
		text := fmt.Sprintf("%s %d:%d %s", bad.Mark(), err.Pos.Line, err.Pos.Column, err.Message)
		if n > 1 {
			text += fmt.Sprintf(" (error %d of %d: Ctrl-N goes on)", i+1, n)
		}
		return th.wrapped(bad, text, width, 2)
	}
	var lines []spans
	if t.elsewhere {
		lines = th.wrapped(doubtful, "! The diagram in force was changed meanwhile. Ctrl-S replaces it, Ctrl-R takes it.", width, 2)
	}
	switch {
	case t.refused != nil:
		return append(lines, th.wrapped(bad, bad.Mark()+" refused: "+t.refused.Error(), width, 2)...)
	case t.problem != nil:
		return append(lines, th.wrapped(bad, bad.Mark()+" "+t.problem.Error(), width, 2)...)
	case !t.edited() && t.text() == "":
		return append(lines, th.wrapped(dim, "There is no diagram. Enter begins one; y: the language.", width, 0)...)
	case !t.edited():
		return append(lines, th.wrapped(dim, "This is in force. Enter edits it; y: the language.", width, 0)...)
	}
	text := good.Mark() + " no error: Ctrl-S applies, Ctrl-Z undoes."
	if t.text() == "" {
		text = good.Mark() + " Ctrl-S takes the diagram away, Ctrl-Z undoes."
	}
	lines = append(lines, th.wrapped(good, text, width, 2)...)
	if len(t.fresh) > 0 {
		text := fmt.Sprintf("  Observed by default, as they have no entry: %s.", strings.Join(t.fresh, ", "))
		lines = append(lines, th.wrapped(plain, text, width, 2)...)
	}
	return lines
}

// Draw implements [tview.Primitive].
func (t *systemTab) Draw(screen tcell.Screen) {
	title := " system "
	if t.edited() {
		title = " system · edited, not applied "
	}
	tui.Box(t.Box, title)
	t.DrawForSubclass(screen, t)
	x, y, width, height := t.GetInnerRect()
	if !t.alone {
		message := t.message(width)
		message = message[:min(len(message), max(height/3, 1))]
		rows := max(min(len(t.editor.lines)+1, (height-len(message))/2), 2)
		t.editor.SetRect(x, y, width, rows)
		t.editor.Draw(screen)
		for i, line := range message {
			line.draw(screen, x, y+rows+i, 0, width)
		}
		y, height = y+rows+len(message), height-rows-len(message)
	}
	t.drawing.SetRect(x, y+1, width, max(height-1, 0))
	spans{t.d.theme.span(dim, t.heading(width))}.draw(screen, x, y, 0, width)
	t.drawing.Draw(screen)
}

// heading describes the drawing.
func (t *systemTab) heading(width int) string {
	text := "── in force "
	if f := t.d.frame(); f != nil {
		text = fmt.Sprintf("── in force, window %d ", f.Number)
	}
	if t.drawing.overflows() {
		text += "── ↑↓←→ "
	}
	return text + strings.Repeat("─", max(0, width-len([]rune(text))))
}

// Focus implements [tview.Primitive].
func (t *systemTab) Focus(delegate func(tview.Primitive)) {
	if t.writes {
		delegate(t.editor)
		return
	}
	t.Box.Focus(delegate)
}

// HasFocus implements [tview.Primitive].
func (t *systemTab) HasFocus() bool { return t.Box.HasFocus() || t.editor.HasFocus() }

// InputHandler implements [tview.Primitive].
func (t *systemTab) InputHandler() func(*tcell.EventKey, func(tview.Primitive)) {
	return func(e *tcell.EventKey, focus func(tview.Primitive)) {
		if t.editor.HasFocus() {
			t.editor.InputHandler()(e, focus)
			return
		}
		t.drawing.press(e.Key())
	}
}

// PasteHandler implements [tview.Primitive].
func (t *systemTab) PasteHandler() func(string, func(tview.Primitive)) {
	return func(text string, focus func(tview.Primitive)) {
		if t.editor.HasFocus() {
			t.editor.PasteHandler()(text, focus)
		}
	}
}

// MouseHandler implements [tview.Primitive]: a click into the text edits it, one
// elsewhere leaves it, and the wheel scrolls.
func (t *systemTab) MouseHandler() func(tview.MouseAction, *tcell.EventMouse, func(tview.Primitive)) (bool, tview.Primitive) {
	return func(action tview.MouseAction, e *tcell.EventMouse, focus func(tview.Primitive)) (bool, tview.Primitive) {
		switch {
		case !t.InRect(e.Position()):
			return false, nil
		case !t.alone && t.editor.InRect(e.Position()):
			if action == tview.MouseLeftDown {
				t.writes = true
			}
			return t.editor.MouseHandler()(action, e, focus)
		}
		if action == tview.MouseLeftDown {
			t.writes = false
			focus(t)
		}
		t.drawing.wheel(action)
		return true, nil
	}
}
