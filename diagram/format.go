package diagram

import (
	"math"
	"strconv"
	"strings"
)

// Format returns a file in its canonical form. Each definition is on one line and ends with a
// semicolon. Comments are before their definition or at the end of its line. Blank lines of the
// source remain, one at a time. Parse reads the result as the same file, and Format does not
// change it again.
func Format(f *File) string {
	var w formatter
	for _, d := range f.Definitions {
		w.comments(d.Comments, d.Pos)
		w.blank(d.Pos)
		w.WriteString(d.Name + " = " + formatExpr(d.Expr) + ";")
		w.line = d.End.Line
		for _, c := range d.Trailing {
			w.WriteString(" " + c.Text)
			w.line = c.lastLine()
		}
		w.WriteByte('\n')
	}
	w.comments(f.Comments, Pos{Line: math.MaxInt})
	return w.String()
}

// A formatter writes the canonical form. line is the source line that it has reached.
type formatter struct {
	strings.Builder
	line int
}

// blank writes a blank line if the source has one before pos, except at the start of the output.
func (w *formatter) blank(pos Pos) {
	if w.line > 0 && pos.Line > w.line+1 {
		w.WriteByte('\n')
	}
}

// comments writes comments. It keeps the blank lines before those that precede the definition in
// the source.
func (w *formatter) comments(comments []Comment, definition Pos) {
	for _, c := range comments {
		if c.Pos.before(definition) {
			w.blank(c.Pos)
			w.line = c.lastLine()
		}
		w.WriteString(c.Text + "\n")
	}
}

func formatExpr(e Expr) string {
	switch e := e.(type) {
	case *Outcome:
		return e.Name
	case *Reuse:
		return "s:" + e.Name
	case *Sequence:
		return join(e.Parts, " -> ")
	case *Operator:
		return e.Label() + formatWeights(e.Weights) + "(" + join(e.Parts, ", ") + ")"
	}
	return ""
}

func join(parts []Expr, separator string) string {
	words := make([]string, len(parts))
	for i, p := range parts {
		words[i] = formatExpr(p)
	}
	return strings.Join(words, separator)
}

func formatWeights(weights []float64) string {
	if len(weights) == 0 {
		return ""
	}
	words := make([]string, len(weights))
	for i, w := range weights {
		words[i] = strconv.FormatFloat(w, 'g', -1, 64)
	}
	return "[" + strings.Join(words, ", ") + "]"
}
