package dashboard

import (
	"strings"

	"github.com/gdamore/tcell/v2"

	"github.com/beamscope/beamscope/internal/ui/tui"
)

// A span is a piece of a line in one style. Its characters are one cell wide.
type span struct {
	text  string
	style tcell.Style
}

// Spans are a line.
type spans []span

func (t *theme) span(n tone, text string) span { return span{text, t.Style(n)} }

// width returns the number of cells of a line.
func (s spans) width() int {
	n := 0
	for _, p := range s {
		n += len([]rune(p.text))
	}
	return n
}

// draw draws the part of a line that begins at a column and has a width.
func (s spans) draw(screen tcell.Screen, x, y, from, width int) {
	column := -from
	for _, p := range s {
		for _, r := range p.text {
			if column >= 0 && column < width {
				screen.SetContent(x+column, y, r, nil, p.style)
			}
			column++
		}
	}
}

// wrapped wraps a text into lines of a width, in the style of a tone. It indents all lines except
// the first.
func (t *theme) wrapped(n tone, text string, width, indent int) []spans {
	var lines []spans
	width = max(width-indent, 1)
	for i, line := range tui.Wrap(text, width) {
		if i > 0 {
			line = strings.Repeat(" ", indent) + line
		}
		lines = append(lines, spans{t.span(n, line)})
	}
	return lines
}
