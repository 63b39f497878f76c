package diagram

import (
	"slices"
	"strconv"
	"strings"
)

// ASCII draws each definition of a file with plain characters, left to right:
// outcomes in parentheses, diagrams defined elsewhere in brackets, and operators
// as branches between two bars.
//
//	front = -->(parse)-->f:lookup--+-->(cache)---------------+--
//	                               |                         |
//	                               +-->(backend)-->(decode)--+
func ASCII(f *File) string {
	var b strings.Builder
	for _, row := range Draw(f).Rows {
		b.WriteString(row + "\n")
	}
	return b.String()
}

// A Drawing is what [ASCII] draws, with the places of the names in it.
type Drawing struct {
	Rows  []string // of ASCII, without spaces at their ends
	Names []Label
}

// A Label is a name in a drawing, with what goes with it: the parentheses of an
// outcome, the brackets of a diagram defined elsewhere, the letter of an operator.
type Label struct {
	Name                string
	Row, Column, Length int // from 0, in characters
}

// Draw draws a file as [ASCII] does.
func Draw(f *File) Drawing {
	var d Drawing
	for i, definition := range f.Definitions {
		if i > 0 {
			d.Rows = append(d.Rows, "")
		}
		whole := drawDefinition(definition)
		for _, l := range whole.names {
			l.Row += len(d.Rows)
			d.Names = append(d.Names, l)
		}
		for _, row := range whole.rows {
			d.Rows = append(d.Rows, strings.TrimRight(row, " "))
		}
	}
	return d
}

func drawDefinition(d *Definition) drawing {
	head := beside(labelled(d.Name, d.Name), plain(" = -->"))
	return beside(beside(head, drawExpr(d.Expr)), plain("--"))
}

// A drawing is a rectangle of characters, with the row that is joined to what
// comes before and after.
type drawing struct {
	rows  []string // all of the same length
	base  int
	names []Label
}

func plain(text string) drawing { return drawing{rows: []string{text}} }

func labelled(text, name string) drawing {
	return drawing{rows: []string{text}, names: []Label{{Name: name, Length: len(text)}}}
}

func (d drawing) width() int { return len(d.rows[0]) }

// moved returns the labels of a drawing that is drawn somewhere else.
func (d drawing) moved(down, right int) []Label {
	names := slices.Clone(d.names)
	for i := range names {
		names[i].Row += down
		names[i].Column += right
	}
	return names
}

func drawExpr(e Expr) drawing {
	switch e := e.(type) {
	case *Outcome:
		return labelled("("+e.Name+")", e.Name)
	case *Reuse:
		return labelled("["+e.Name+"]", e.Name)
	case *Sequence:
		var out drawing
		for i, p := range e.Parts {
			if i == 0 {
				out = drawExpr(p)
				continue
			}
			out = beside(out, beside(plain("-->"), drawExpr(p)))
		}
		return out
	case *Operator:
		return drawOperator(e)
	}
	return plain("?")
}

// beside joins two drawings at their bases.
func beside(a, b drawing) drawing {
	base := max(a.base, b.base)
	height := base + max(len(a.rows)-a.base, len(b.rows)-b.base)
	rows := make([]string, height)
	for y := range rows {
		rows[y] = a.row(y-base+a.base) + b.row(y-base+b.base)
	}
	names := append(a.moved(base-a.base, 0), b.moved(base-b.base, a.width())...)
	return drawing{rows, base, names}
}

// row is one row, or blanks where there is none.
func (d drawing) row(y int) string {
	if y < 0 || y >= len(d.rows) {
		return strings.Repeat(" ", d.width())
	}
	return d.rows[y]
}

func drawOperator(e *Operator) drawing {
	branches, width := make([]drawing, len(e.Parts)), 0
	for i, p := range e.Parts {
		branches[i] = beside(plain(arrow(e, i)), drawExpr(p))
		width = max(width, branches[i].width())
	}
	var inner []string
	var joints []int // rows at which a branch leaves the bars
	var names []Label
	for i, b := range branches {
		if i > 0 {
			inner = append(inner, strings.Repeat(" ", width+2))
		}
		joints = append(joints, len(inner)+b.base)
		names = append(names, b.moved(len(inner), len("+"))...)
		for y, row := range b.rows {
			fill := " "
			if y == b.base {
				fill = "-"
			}
			inner = append(inner, row+strings.Repeat(fill, width+2-len(row)))
		}
	}
	first, last := joints[0], joints[len(joints)-1]
	for y, row := range inner {
		bar := barAt(y, first, last, joints)
		inner[y] = bar + row + bar
	}
	label := beside(labelled(string(e.Kind)+":"+e.Name, e.Name), plain("--"))
	return beside(label, drawing{inner, first, names})
}

// arrow leads to a branch; that of a choice carries its probability.
func arrow(e *Operator, i int) string {
	if i < len(e.Weights) {
		return "-" + strconv.FormatFloat(e.Weights[i], 'g', 4, 64) + "->"
	}
	return "-->"
}

func barAt(y, first, last int, joints []int) string {
	for _, j := range joints {
		if j == y {
			return "+"
		}
	}
	if first < y && y < last {
		return "|"
	}
	return " "
}
