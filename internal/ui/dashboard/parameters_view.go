package dashboard

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/tview"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/files/config"
)

// A paramRow is one displayed line of the parameters.
type paramRow struct {
	line  spans
	field bool       // it can be edited:
	param *parameter // nil for the choice of the outcome
}

// valueColumn is the column where values begin.
const valueColumn = 12

// label returns the text before a parameter.
func (p *parameter) label() string {
	switch p.key {
	case keyScale:
		return "dMax by"
	case "dmax":
		return " dMax"
	case keyRequired:
		return "QTA"
	case keyPoints:
		return " further"
	case "exponent", "bins":
		return " " + p.key
	}
	if key, ok := strings.CutPrefix(p.key, "qta."); ok {
		return " " + key
	}
	return p.key
}

// lay returns the rows for a given width.
func (t *parametersTab) lay(width int) []paramRow {
	rows := []paramRow{{line: t.row("outcome", t.choice(t.outcome, t.selected == nil, fmt.Sprintf("%d of %d", slices.Index(t.names, t.outcome)+1, len(t.names))), t.selected == nil), field: true}}
	if f := t.form(); f != nil {
		if o := t.config.Outcome(f.outcome); o.Span != "" && o.Span != f.outcome {
			rows = append(rows, t.below(dim, "of the spans «"+o.Span+"»", width)...)
		}
		for _, text := range eventsOf(t.config.Outcome(f.outcome)) {
			rows = append(rows, t.below(dim, text, width)...)
		}
		for _, p := range f.params {
			rows = append(rows, t.rowsOf(f, p, width)...)
			switch p.key {
			case "bins":
				rows = append(rows, t.consequences(f, width)...)
			case keyExplain:
				rows = append(rows, t.costOfExplaining(p, width)...)
			case keyPoints:
				text, n := t.preview(f)
				rows = append(rows, t.below(n, text, width)...)
			}
		}
		rows = append(rows, t.mistake(f, width)...)
	}
	rule := "── system " + strings.Repeat("─", max(0, width-len("── system ")+4))
	rows = append(rows, paramRow{line: spans{t.d.theme.span(dim, rule)}})
	for _, p := range t.system.params {
		rows = append(rows, t.rowsOf(t.system, p, width)...)
		if p.key == "history" && t.system.anew(t.config) { // concerns the window above as well
			rows = append(rows, t.below(doubtful, "! every history begins anew", width)...)
		}
	}
	return append(rows, t.mistake(t.system, width)...)
}

// eventsOf describes the instances of an outcome of the VM. It returns nothing for spans.
func eventsOf(o config.Outcome) []string {
	var texts []string
	say := func(key, value string) {
		if value != "" {
			texts = append(texts, key+" "+value)
		}
	}
	say("vm", o.VM.Builtin)
	say("start", o.VM.Start)
	say("end", o.VM.End)
	if o.VM.StartKey == o.VM.EndKey {
		say("key", o.VM.StartKey)
	} else {
		say("key", o.VM.StartKey+" = "+o.VM.EndKey)
	}
	if o.VM.Start != "" {
		say("pair", o.VM.Pairing.String())
	}
	say("group", o.Group)
	return texts
}

// mistake returns the error of a form as a whole.
func (t *parametersTab) mistake(f *paramForm, width int) []paramRow {
	if f.err == nil {
		return nil
	}
	return t.below(bad, bad.Mark()+" "+f.err.Error(), width)
}

// below returns rows of text below a field, or none for "".
func (t *parametersTab) below(n tone, text string, width int) []paramRow {
	if text == "" {
		return nil
	}
	var rows []paramRow
	for _, line := range t.d.theme.wrapped(n, text, width-2, 2) {
		rows = append(rows, paramRow{line: append(spans{t.d.theme.span(plain, "  ")}, line...)})
	}
	return rows
}

// consequences describes the resulting scale, and what a change of it interrupts.
func (t *parametersTab) consequences(f *paramForm, width int) []paramRow {
	rows := t.below(plain, result(f, t.config.Base), width)
	if !f.anew(t.config) {
		return rows
	}
	text := "! a new history begins"
	if frame := t.d.frame(); frame != nil {
		switch n := open(frame, func(p *scope.Outcome) bool { return p.Name == f.outcome }); n {
		case 0:
		case 1:
			text += "; about one open span is cut"
		default:
			text += fmt.Sprintf("; about %d open spans are cut", n)
		}
	}
	return append(rows, t.below(doubtful, text, width)...)
}

// costOfExplaining describes the cost of explaining slow instances, and what the first explained
// outcome interrupts.
func (t *parametersTab) costOfExplaining(p *parameter, width int) []paramRow {
	if p.text != on || !p.edited() {
		return nil
	}
	rows := t.below(doubtful, "! the VM pays for every switch, message and collection of the processes in open spans; the first line says how much", width)
	if _, recorded := t.d.control.(player); recorded || t.d.live.Explaining() {
		return rows
	}
	text := "! the first to be explained takes another collector: what is open then is cut, of all outcomes"
	if frame := t.d.frame(); frame != nil {
		switch n := open(frame, func(p *scope.Outcome) bool { return p.Spec.OfVM() }); n {
		case 0:
		case 1:
			text += ": about one instance"
		default:
			text += fmt.Sprintf(": about %d instances", n)
		}
	}
	return append(rows, t.below(doubtful, text, width)...)
}

// rowsOf returns the row of a parameter, with its error below.
func (t *parametersTab) rowsOf(f *paramForm, p *parameter, width int) []paramRow {
	if !f.shows(p) {
		return nil
	}
	selected := t.selected == p
	var value spans
	switch {
	case p.choices != nil:
		value = t.choice(p.text, selected, "")
	case p.key == "exponent" && t.onScale(p) && !(selected && t.editing):
		value = t.slider(p, selected)
	default:
		value = t.value(f, p, selected)
	}
	if note := f.note(p); note != "" {
		if valueColumn+value.width()+len(note) > width {
			note = " *"
		}
		value = append(value, t.d.theme.span(doubtful, note))
	}
	rows := []paramRow{{line: t.row(p.label(), value, selected), field: true, param: p}}
	if p.wrong != "" {
		rows = append(rows, t.below(bad, bad.Mark()+" "+p.wrong, width)...)
	}
	return rows
}

// note returns the value in force if the entered value differs, and "" otherwise.
func (f *paramForm) note(p *parameter) string {
	otherScale := (p.key == "exponent" || p.key == "dmax") && f.param(keyScale).edited()
	switch {
	case !f.active(p) || !p.edited() || otherScale:
		return ""
	case p.base == "":
		return " * not in force"
	}
	return " * in force " + p.base
}

// row returns a line with a label, and a mark if it is selected.
func (t *parametersTab) row(label string, value spans, selected bool) spans {
	mark := " "
	if selected {
		mark = "▸"
	}
	return append(spans{t.d.theme.span(strong, fmt.Sprintf("%s%-*s", mark, valueColumn-1, label))}, value...)
}

// look returns the style of a value.
func (t *parametersTab) look(selected bool) tcell.Style {
	if selected && t.HasFocus() {
		return t.d.theme.Selected()
	}
	return t.d.theme.Style(plain)
}

func (t *parametersTab) choice(text string, selected bool, note string) spans {
	if text == "" {
		text = "none"
	}
	return spans{t.d.theme.span(dim, "◂ "), {text, t.look(selected)}, t.d.theme.span(dim, " ▸  "+note)}
}

func (t *parametersTab) value(f *paramForm, p *parameter, selected bool) spans {
	text := p.text
	if text == "" {
		text = "-"
	}
	if !f.active(p) {
		return spans{{text, t.d.theme.Style(dim)}}
	}
	return spans{{text, t.look(selected)}}
}

// onScale reports whether the slider can show a parameter.
func (t *parametersTab) onScale(p *parameter) bool {
	n, err := strconv.Atoi(strings.TrimSpace(p.text))
	return err == nil && p.low <= n && n <= p.high
}

// slider draws the exponent between its bounds.
func (t *parametersTab) slider(p *parameter, selected bool) spans {
	n, _ := strconv.Atoi(strings.TrimSpace(p.text)) // onScale
	left, right := strings.Repeat("─", n-p.low), strings.Repeat("─", p.high-n)
	return spans{t.d.theme.span(dim, "├"+left), {"●", t.look(selected)}, t.d.theme.span(dim, right+"┤ "), {strconv.Itoa(n), t.look(selected)}}
}

// foot lists unapplied changes, in lines of a width.
func (t *parametersTab) foot(width int) []spans {
	th := t.d.theme
	if t.refused != nil {
		return th.wrapped(bad, bad.Mark()+" refused: "+t.refused.Error(), width, 2)
	}
	edited := t.edited()
	if len(edited) == 0 {
		return th.wrapped(dim, "All of this is in force.", width, 0)
	}
	var names []string
	for _, f := range edited {
		names = append(names, f.name())
	}
	return th.wrapped(doubtful, fmt.Sprintf("edited: %s. a applies, Esc undoes", strings.Join(names, ", ")), width, 2)
}

// Draw implements [tview.Primitive].
func (t *parametersTab) Draw(screen tcell.Screen) {
	t.DrawForSubclass(screen, t)
	x, y, width, height := t.GetInnerRect()
	foot := t.foot(width)
	foot = foot[:min(len(foot), max(height/3, 1))]
	height -= len(foot)
	for i, line := range foot {
		line.draw(screen, x, y+height+i, 0, width)
	}
	t.rows = t.lay(width)
	t.reveal(height)
	for i := t.top; i < min(t.top+height, len(t.rows)); i++ {
		t.rows[i].line.draw(screen, x, y+i-t.top, 0, width)
		if t.editing && t.rows[i].field && t.rows[i].param == t.selected {
			t.input.SetRect(x+valueColumn, y+i-t.top, max(width-valueColumn, 1), 1)
			t.input.Draw(screen)
		}
	}
}

// reveal scrolls to the selected field and the text about it.
func (t *parametersTab) reveal(height int) {
	from := slices.IndexFunc(t.rows, func(r paramRow) bool { return r.field && r.param == t.selected })
	to := from + 1
	for to < len(t.rows) && !t.rows[to].field {
		to++
	}
	t.top = max(min(t.top, from, len(t.rows)-height), to-height, 0)
	t.top = min(t.top, max(from, 0))
}

// Focus implements [tview.Primitive].
func (t *parametersTab) Focus(delegate func(tview.Primitive)) {
	if t.editing {
		delegate(t.input)
		return
	}
	t.Box.Focus(delegate)
}

// HasFocus implements [tview.Primitive].
func (t *parametersTab) HasFocus() bool { return t.Box.HasFocus() || t.input.HasFocus() }

// InputHandler implements [tview.Primitive].
func (t *parametersTab) InputHandler() func(*tcell.EventKey, func(tview.Primitive)) {
	return func(e *tcell.EventKey, focus func(tview.Primitive)) {
		if t.input.HasFocus() {
			t.input.InputHandler()(e, focus)
		}
	}
}

// PasteHandler implements [tview.Primitive].
func (t *parametersTab) PasteHandler() func(string, func(tview.Primitive)) {
	return func(text string, focus func(tview.Primitive)) {
		if t.input.HasFocus() {
			t.input.PasteHandler()(text, focus)
		}
	}
}

// MouseHandler implements [tview.Primitive]: a click selects a field and edits it, or
// sets the slider; the wheel goes through the fields.
func (t *parametersTab) MouseHandler() func(tview.MouseAction, *tcell.EventMouse, func(tview.Primitive)) (bool, tview.Primitive) {
	return func(action tview.MouseAction, e *tcell.EventMouse, focus func(tview.Primitive)) (bool, tview.Primitive) {
		x, y := e.Position()
		switch {
		case !t.InRect(x, y):
			return false, nil
		case t.editing && t.input.InRect(x, y):
			return t.input.MouseHandler()(action, e, focus)
		}
		switch action {
		case tview.MouseLeftDown:
			t.leave()
			t.click(x, y)
		case tview.MouseScrollUp, tview.MouseScrollDown:
			if !t.editing {
				t.step(map[tview.MouseAction]int{tview.MouseScrollUp: -1, tview.MouseScrollDown: 1}[action])
			}
		}
		return true, nil
	}
}

// click handles a click at a position of the screen.
func (t *parametersTab) click(x, y int) {
	left, top, _, _ := t.GetInnerRect()
	i := y - top + t.top
	if i < 0 || i >= len(t.rows) || !t.rows[i].field {
		return
	}
	t.selected = t.rows[i].param
	at := x - left - valueColumn
	switch p := t.selected; {
	case at < 0:
	case p == nil || p.choices != nil:
		by := 1
		if at < 2 { // on the left arrow
			by = -1
		}
		t.move(by)
	case p.key == "exponent" && t.onScale(p) && at <= 2*dq.MaxExponent+2:
		p.text = strconv.Itoa(max(p.low, min(at-1+p.low, p.high)))
		t.changed()
	default:
		t.edit()
	}
}
