package diagram

import (
	"math"
	"strconv"
	"strings"
)

// Format writes a file in its one form: a definition a line, comments before the
// definition they belong to or after it on its line, every definition ended with a
// semicolon, and a blank line where there were some. What Format writes, Parse reads
// as the same file, and Format writes again the same.
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

// A formatter knows the line of the source that it has come to.
type formatter struct {
	strings.Builder
	line int
}

// blank writes a blank line before what has one, unless it is the first.
func (w *formatter) blank(pos Pos) {
	if w.line > 0 && pos.Line > w.line+1 {
		w.WriteByte('\n')
	}
}

// comments writes comments, those first that were before a definition.
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
