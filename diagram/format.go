package diagram

import (
	"strconv"
	"strings"
)

// Format writes a file in its one form: a definition a line, comments before the
// definition they belong to or after it on its line, and every definition ended
// with a semicolon. What Format writes, Parse reads as the same file, and Format
// writes again the same.
func Format(f *File) string {
	var b strings.Builder
	for _, d := range f.Definitions {
		writeComments(&b, d.Comments)
		b.WriteString(d.Name + " = " + formatExpr(d.Expr) + ";")
		for _, c := range d.Trailing {
			b.WriteString(" " + c.Text)
		}
		b.WriteByte('\n')
	}
	writeComments(&b, f.Comments)
	return b.String()
}

func writeComments(b *strings.Builder, comments []Comment) {
	for _, c := range comments {
		b.WriteString(c.Text + "\n")
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
		return string(e.Kind) + ":" + e.Name + formatWeights(e.Weights) + "(" + join(e.Parts, ", ") + ")"
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
