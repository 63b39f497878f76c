package dashboard

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/tview"

	"github.com/beamscope/beamscope/diagram"
)

// A diagramEditor edits the text of an outcome diagram. It numbers the lines, and underlines
// errors.
type diagramEditor struct {
	*tview.TextArea
	theme *theme
	lines []string
	errs  diagram.Errors
}

// newDiagramEditor returns an editor that calls changed when its text has changed.
func newDiagramEditor(t *theme, changed func()) *diagramEditor {
	e := &diagramEditor{TextArea: tview.NewTextArea(), theme: t}
	e.SetWrap(false).SetSelectedStyle(t.Selected()).SetPlaceholderStyle(t.Style(dim))
	e.SetPlaceholder("for example: whole = part_1 -> part_2;")
	e.SetChangedFunc(func() {
		e.number()
		changed()
	})
	e.number()
	return e
}

// edits implements [editor].
func (e *diagramEditor) edits() bool { return true }

// number makes room for the line numbers.
func (e *diagramEditor) number() {
	e.lines = strings.Split(e.GetText(), "\n")
	e.SetBorderPadding(0, 0, e.digits()+2, 0)
}

// digits returns the number of digits of the last line number.
func (e *diagramEditor) digits() int { return len(fmt.Sprint(len(e.lines))) }

// cursor returns the place of the cursor in the text.
func (e *diagramEditor) cursor() diagram.Pos {
	_, _, at := e.GetSelection()
	before := e.GetText()[:at]
	line := strings.LastIndexByte(before, '\n') + 1
	return diagram.Pos{Line: strings.Count(before, "\n") + 1, Column: utf8.RuneCountInString(before[line:]) + 1}
}

// jump moves the cursor to a place.
func (e *diagramEditor) jump(to diagram.Pos) {
	at := 0
	for _, line := range e.lines[:min(to.Line-1, len(e.lines))] {
		at += len(line) + 1
	}
	at += len(e.before(to))
	e.Select(at, at)
	e.reveal(to)
}

// reveal scrolls so that a place becomes visible.
func (e *diagramEditor) reveal(at diagram.Pos) {
	_, _, width, height := e.GetInnerRect()
	row, column := e.GetOffset()
	if y := at.Line - 1; y < row || y >= row+height {
		row = max(0, y-height/2)
	}
	if x := cells(e.before(at)); x < column || x >= column+width {
		column = max(0, x-width/2)
	}
	e.SetOffset(row, column)
}

// before returns the part of a line before a place.
func (e *diagramEditor) before(at diagram.Pos) string {
	if at.Line < 1 || at.Line > len(e.lines) {
		return ""
	}
	line := []rune(e.lines[at.Line-1])
	return string(line[:max(0, min(at.Column-1, len(line)))])
}

// cells returns how many cells a text takes in the editor.
func cells(text string) int {
	return tview.TaggedStringWidth(tview.Escape(strings.ReplaceAll(text, "\t", strings.Repeat(" ", tview.TabSize))))
}

// next returns the first error after the cursor, or else the first one. It returns nil if there
// is no error.
func (e *diagramEditor) next() *diagram.Error {
	at := e.cursor()
	for _, x := range e.errs {
		if x.Pos.Line > at.Line || x.Pos.Line == at.Line && x.Pos.Column > at.Column {
			return x
		}
	}
	if len(e.errs) > 0 {
		return e.errs[0]
	}
	return nil
}

// nearest returns the index of the error to show: the last one up to the cursor on its line, or
// else the first.
func (e *diagramEditor) nearest() int {
	at, found := e.cursor(), 0
	for i, x := range e.errs {
		if x.Pos.Line == at.Line && (x.Pos.Column <= at.Column || e.errs[found].Pos.Line != at.Line) {
			found = i
		}
	}
	return found
}

// Draw implements [tview.Primitive].
func (e *diagramEditor) Draw(screen tcell.Screen) {
	e.TextArea.Draw(screen)
	x, y, _, height := e.GetRect()
	row, _ := e.GetOffset()
	for i := row; i < min(row+height, len(e.lines)); i++ {
		e.gutter(i).draw(screen, x, y+i-row, 0, e.digits()+1)
	}
	for _, err := range e.errs {
		e.underline(screen, err)
	}
}

// gutter returns the text before a line: its number, and a mark if the line has an error.
func (e *diagramEditor) gutter(i int) spans {
	number := fmt.Sprintf("%*d", e.digits(), i+1)
	for _, err := range e.errs {
		if err.Pos.Line == i+1 {
			return spans{e.theme.span(bad, number+bad.Mark())}
		}
	}
	return spans{e.theme.span(dim, number+"│")}
}

// underline underlines an error in the text.
func (e *diagramEditor) underline(screen tcell.Screen, err *diagram.Error) {
	x, y, width, height := e.GetInnerRect()
	row, column := e.GetOffset()
	line := err.Pos.Line - 1 - row
	if line < 0 || line >= height {
		return
	}
	before := e.before(err.Pos)
	upTo := e.before(diagram.Pos{Line: err.Pos.Line, Column: err.Pos.Column + err.Length})
	from := cells(before) - column
	to := max(cells(upTo)-column, from+1)
	for i := max(from, 0); i < min(to, width); i++ {
		text, _, _ := screen.Get(x+i, y+line)
		screen.Put(x+i, y+line, text, e.theme.Style(bad).Underline(true))
	}
}
