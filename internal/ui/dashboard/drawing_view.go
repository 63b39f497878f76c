package dashboard

import (
	"slices"
	"strings"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/tview"

	"github.com/beamscope/beamscope/diagram"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/ui/tui"
)

// A drawingView shows an outcome diagram, and whether its parts meet their requirements. It
// scrolls.
type drawingView struct {
	*tview.Box
	theme       *theme
	lines       []spans
	row, column int // of the first cell shown
}

func newDrawingView(t *theme) *drawingView { return &drawingView{Box: tview.NewBox(), theme: t} }

// show shows the diagram of a system by a frame. Both may be nil.
func (v *drawingView) show(system *scope.System, f *scope.Frame) {
	v.lines = nil
	if system == nil {
		return
	}
	if system.Diagram == nil {
		v.add(dim, "no diagram: nothing is calculated")
	} else {
		v.draw(diagram.Draw(system.Diagram), f)
	}
	v.lines = append(v.lines, nil)
	v.list(system, f)
}

func (v *drawingView) add(n tone, text string) {
	v.lines = append(v.lines, spans{v.theme.span(n, text)})
}

// draw adds a drawing. The style of each name shows whether its outcome meets its requirement.
func (v *drawingView) draw(d diagram.Drawing, f *scope.Frame) {
	for y, row := range d.Rows {
		var line spans
		at := 0
		for _, l := range labelsOf(d, y) {
			line = append(line, v.theme.span(plain, row[at:l.Start]))
			at = l.End
			line = append(line, span{row[l.Start:at], v.look(f, l.Name)})
		}
		v.lines = append(v.lines, append(line, v.theme.span(plain, row[at:])))
	}
}

// labelsOf returns the labels of a row, from left to right.
func labelsOf(d diagram.Drawing, row int) []diagram.Label {
	var labels []diagram.Label
	for _, l := range d.Names {
		if l.Row == row {
			labels = append(labels, l)
		}
	}
	slices.SortFunc(labels, func(a, b diagram.Label) int { return a.Start - b.Start })
	return labels
}

// look returns the style of a name in the drawing. It never differs by colour alone.
func (v *drawingView) look(f *scope.Frame, name string) tcell.Style {
	if f == nil {
		return v.theme.Style(plain)
	}
	s, _ := worst(f, name)
	look := v.theme.Style(s.tone)
	switch s.tone {
	case good:
		return look.Bold(true)
	case bad:
		return look.Reverse(true)
	case doubtful:
		return look.Underline(true)
	}
	return look
}

// mostListed is the largest number of columns for a name in the list.
const mostListed = 40

// list adds a line for each outcome that has a requirement.
func (v *drawingView) list(system *scope.System, f *scope.Frame) {
	width := 0
	for _, p := range system.Outcomes {
		if p.QTA != nil {
			width = max(width, min(tui.Columns(p.Spec.Name), mostListed))
		}
	}
	if width == 0 {
		v.add(dim, "nothing is required of an outcome (m: parameters)")
		return
	}
	for _, p := range system.Outcomes {
		if p.QTA != nil {
			v.item(p.Spec.Name, width, f)
		}
	}
}

// item adds the state of an outcome.
func (v *drawingView) item(name string, width int, f *scope.Frame) {
	s := standing{tone: doubtful, text: "nothing to judge"}
	if f != nil {
		if found, ok := worst(f, name); ok {
			s = found
		}
	}
	v.lines = append(v.lines, spans{
		v.theme.span(s.tone, s.tone.Mark()),
		v.theme.span(plain, " "+tui.Fit(name, width, false)+"  "),
		v.theme.span(s.tone, s.text),
	})
	if s.note != "" {
		v.add(doubtful, strings.Repeat(" ", width+4)+s.note)
	}
}

// scroll moves the visible part, within the drawing.
func (v *drawingView) scroll(down, right int) {
	_, _, width, height := v.GetInnerRect()
	widest := 0
	for _, l := range v.lines {
		widest = max(widest, l.width())
	}
	v.row = max(0, min(v.row+down, len(v.lines)-height))
	v.column = max(0, min(v.column+right, widest-width))
}

// press scrolls according to a key.
func (v *drawingView) press(k tcell.Key) {
	_, _, _, height := v.GetInnerRect()
	switch k {
	case tcell.KeyUp:
		v.scroll(-1, 0)
	case tcell.KeyDown:
		v.scroll(1, 0)
	case tcell.KeyLeft:
		v.scroll(0, -sideways)
	case tcell.KeyRight:
		v.scroll(0, sideways)
	case tcell.KeyPgUp:
		v.scroll(-height, 0)
	case tcell.KeyPgDn:
		v.scroll(height, 0)
	}
}

// wheel scrolls with the mouse.
func (v *drawingView) wheel(action tview.MouseAction) {
	switch action {
	case tview.MouseScrollUp:
		v.scroll(-1, 0)
	case tview.MouseScrollDown:
		v.scroll(1, 0)
	case tview.MouseScrollLeft:
		v.scroll(0, -sideways)
	case tview.MouseScrollRight:
		v.scroll(0, sideways)
	}
}

// sideways is the number of columns to scroll at once.
const sideways = 4

// overflows reports whether the drawing is larger than its view.
func (v *drawingView) overflows() bool {
	_, _, width, height := v.GetInnerRect()
	return len(v.lines) > height || slices.ContainsFunc(v.lines, func(l spans) bool { return l.width() > width })
}

// Draw implements [tview.Primitive].
func (v *drawingView) Draw(screen tcell.Screen) {
	v.DrawForSubclass(screen, v)
	v.scroll(0, 0)
	x, y, width, height := v.GetInnerRect()
	for i := range min(height, len(v.lines)-v.row) {
		v.lines[v.row+i].draw(screen, x, y+i, v.column, width)
	}
}
