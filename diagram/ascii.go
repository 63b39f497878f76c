package diagram

import (
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
	for i, d := range f.Definitions {
		if i > 0 {
			b.WriteByte('\n')
		}
		head := d.Name + " = -->"
		drawing := drawExpr(d.Expr)
		for y, row := range drawing.rows {
			line := strings.Repeat(" ", len(head)) + row
			if y == drawing.base {
				line = head + row + "--"
			}
			b.WriteString(strings.TrimRight(line, " ") + "\n")
		}
	}
	return b.String()
}

// A drawing is a rectangle of characters, with the row that is joined to what
// comes before and after.
type drawing struct {
	rows []string // all of the same length
	base int
}

func (d drawing) width() int { return len(d.rows[0]) }

func drawExpr(e Expr) drawing {
	switch e := e.(type) {
	case *Outcome:
		return drawing{rows: []string{"(" + e.Name + ")"}}
	case *Reuse:
		return drawing{rows: []string{"[" + e.Name + "]"}}
	case *Sequence:
		var out drawing
		for i, p := range e.Parts {
			if i == 0 {
				out = drawExpr(p)
				continue
			}
			out = beside(out, beside(drawing{rows: []string{"-->"}}, drawExpr(p)))
		}
		return out
	case *Operator:
		return drawOperator(e)
	}
	return drawing{rows: []string{"?"}}
}

// beside joins two drawings at their bases.
func beside(a, b drawing) drawing {
	base := max(a.base, b.base)
	height := base + max(len(a.rows)-a.base, len(b.rows)-b.base)
	rows := make([]string, height)
	for y := range rows {
		rows[y] = a.row(y-base+a.base) + b.row(y-base+b.base)
	}
	return drawing{rows, base}
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
		branches[i] = beside(drawing{rows: []string{arrow(e, i)}}, drawExpr(p))
		width = max(width, branches[i].width())
	}
	var inner []string
	var joints []int // rows at which a branch leaves the bars
	for i, b := range branches {
		if i > 0 {
			inner = append(inner, strings.Repeat(" ", width+2))
		}
		joints = append(joints, len(inner)+b.base)
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
	label := drawing{rows: []string{string(e.Kind) + ":" + e.Name + "--"}}
	return beside(label, drawing{inner, first})
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
