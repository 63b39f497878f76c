package diagram

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/rivo/uniseg"
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
	Rows  []string // the rows of the ASCII drawing, without trailing blanks
	Names []Label
}

// A Label is a name in a drawing, including its decoration: the parentheses of an outcome, the
// brackets of a diagram defined elsewhere, the letter of an operator.
type Label struct {
	Name string
	Row  int // from 0

	// Start and End are byte offsets in the row: the label occupies the bytes from Start to just
	// before End.
	Start, End int

	column, columns int // in terminal columns
}

// Draw draws a file as [ASCII] does.
func Draw(f *File) Drawing {
	var d Drawing
	for i, definition := range f.Definitions {
		if i > 0 {
			d.Rows = append(d.Rows, "")
		}
		whole := drawDefinition(definition)
		locate(whole.names, whole.rows)
		for _, l := range whole.names {
			l.Row += len(d.Rows)
			d.Names = append(d.Names, l)
		}
		d.Rows = append(d.Rows, whole.rows...)
	}
	return d
}

// locate sets the byte offsets of the labels. It scans each row only once.
func locate(labels []Label, rows []string) {
	order := make([]int, len(labels))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		return cmp.Or(cmp.Compare(labels[i].Row, labels[j].Row), cmp.Compare(labels[i].column, labels[j].column))
	})
	row, at, column := -1, 0, 0
	past := func(to int) int {
		for column < to && at < len(rows[row]) {
			cluster, _, width, _ := uniseg.FirstGraphemeClusterInString(rows[row][at:], -1)
			at, column = at+len(cluster), column+width
		}
		return at
	}
	for _, i := range order {
		l := &labels[i]
		if l.Row != row {
			row, at, column = l.Row, 0, 0
		}
		l.Start = past(l.column)
		l.End = past(l.column + l.columns)
	}
}

// columns returns the number of terminal columns that a text occupies.
func columns(text string) int {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' {
			return uniseg.StringWidth(text)
		}
	}
	return len(text)
}

func drawDefinition(d *Definition) drawing {
	return beside(labelled(d.Name, d.Name), plain(" = -->"), drawExpr(d.Expr), plain("--"))
}

// A drawing is a rectangle of characters. Its first row connects to the drawings on its left and
// right.
type drawing struct {
	rows  []string // without trailing blanks
	width int      // at least the width of the widest row, in terminal columns
	names []Label
}

func plain(text string) drawing { return drawing{rows: []string{text}, width: columns(text)} }

func labelled(text, name string) drawing {
	d := plain(text)
	d.names = []Label{{Name: name, columns: d.width}}
	return d
}

// moved returns the labels of d, moved down and right.
func (d drawing) moved(down, right int) []Label {
	names := slices.Clone(d.names)
	for i := range names {
		names[i].Row += down
		names[i].column += right
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
		var all []drawing
		for i, p := range e.Parts {
			if i > 0 {
				all = append(all, plain("-->"))
			}
			all = append(all, drawExpr(p))
		}
		return beside(all...)
	case *Operator:
		return drawOperator(e)
	}
	return plain("?")
}

// beside places drawings next to each other, from left to right, with their first rows aligned.
func beside(all ...drawing) drawing {
	height := 0
	for _, d := range all {
		height = max(height, len(d.rows))
	}
	out := drawing{rows: make([]string, height)}
	for y := range out.rows {
		var row []byte
		has, right := 0, 0 // columns
		for _, d := range all {
			if text := d.row(y); text != "" {
				row = append(pad(row, right-has), text...)
				has = right + columns(text)
			}
			right += d.width
		}
		out.rows[y] = string(row)
	}
	for _, d := range all {
		out.names = append(out.names, d.moved(0, out.width)...)
		out.width += d.width
	}
	return out
}

// pad appends the given number of blanks to a row.
func pad(row []byte, blanks int) []byte {
	return append(row, strings.Repeat(" ", blanks)...)
}

// row returns row y of the drawing, or "" if the drawing has fewer rows.
func (d drawing) row(y int) string {
	if y >= len(d.rows) {
		return ""
	}
	return d.rows[y]
}

func drawOperator(e *Operator) drawing {
	branches, width := make([]drawing, len(e.Parts)), 0
	for i, p := range e.Parts {
		branches[i] = beside(plain(arrow(e, i)), drawExpr(p))
		width = max(width, branches[i].width)
	}
	var inner []string
	var joints []int // rows in which a branch leaves the bars
	var names []Label
	for i, b := range branches {
		if i > 0 {
			inner = append(inner, "")
		}
		joints = append(joints, len(inner))
		names = append(names, b.moved(len(inner), len("+"))...)
		for y, row := range b.rows {
			if y == 0 {
				row += strings.Repeat("-", width+2-columns(row))
			}
			inner = append(inner, row)
		}
	}
	last := joints[len(joints)-1]
	for y, row := range inner {
		for len(joints) > 0 && joints[0] < y {
			joints = joints[1:]
		}
		if bar := barAt(y, last, joints); bar != " " {
			inner[y] = string(pad([]byte(bar+row), width+2-columns(row))) + bar
		} else if row != "" {
			inner[y] = bar + row
		}
	}
	label := beside(labelled(e.Label(), e.Name), plain("--"))
	return beside(label, drawing{inner, width + 2 + len("++"), names})
}

// arrow returns the arrow to branch i. If the operator is a choice, the arrow shows the
// probability of the branch.
func arrow(e *Operator, i int) string {
	if i < len(e.Weights) {
		return "-" + strconv.FormatFloat(e.Weights[i], 'g', 4, 64) + "->"
	}
	return "-->"
}

// barAt returns the character of an operator's bars in row y. last is the row of the last joint.
// joints contains no joints above row y.
func barAt(y, last int, joints []int) string {
	switch {
	case len(joints) > 0 && joints[0] == y:
		return "+"
	case y < last:
		return "|"
	}
	return " "
}
