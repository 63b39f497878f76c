package diagram

import (
	"fmt"
	"html"
	"strconv"
	"strings"
)

// The measures of an SVG drawing, in its units.
const (
	svgChar  = 8  // the width of a character
	svgNode  = 28 // the height of an outcome
	svgGap   = 36 // between consecutive elements
	svgSpace = 14 // between branches
)

// SVG draws each definition of a file below the other as a standalone SVG image:
// outcomes as ellipses, diagrams defined elsewhere as rectangles, operators as
// branches between two bars under their name.
func SVG(f *File) string {
	var body svgWriter
	y, width := svgSpace, 0
	for _, d := range f.Definitions {
		box := layout(d.Expr)
		head := svgChar*columns(d.Name) + 2*svgSpace
		base := y + box.base
		body.text(svgSpace, base-6, "start", "definition", d.Name)
		body.line(svgSpace, base, head+svgGap, base)
		body.place(box, head+svgGap, base)
		end := head + svgGap + box.width
		body.line(end, base, end+svgGap, base)
		width = max(width, end+svgGap+svgSpace)
		y += box.height + 2*svgSpace
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="monospace" font-size="13">
<style>ellipse,rect{fill:#fff;stroke:#333}line{stroke:#333}text{fill:#222}.operator{fill:#a33}.definition{fill:#36c}</style>
%s</svg>
`, width, y, width, y, body.String())
}

// A box is the space for an expression, and the height at which lines connect to it.
type box struct {
	expr          Expr
	parts         []box
	width, height int
	base          int // distance from the top
}

func layout(e Expr) box {
	b := box{expr: e}
	for _, p := range parts(e) {
		b.parts = append(b.parts, layout(p))
	}
	switch e := e.(type) {
	case *Outcome:
		b.leaf(e.Name)
	case *Reuse:
		b.leaf(e.Name)
	case *Sequence:
		b.inRow()
	case *Operator:
		b.inColumn(e)
	}
	return b
}

func (b *box) leaf(name string) {
	b.width, b.height, b.base = svgChar*columns(name)+2*svgSpace, svgNode, svgNode/2
}

func (b *box) inRow() {
	below := 0
	for i, p := range b.parts {
		if i > 0 {
			b.width += svgGap
		}
		b.width += p.width
		b.base = max(b.base, p.base)
		below = max(below, p.height-p.base)
	}
	b.height = b.base + below
}

func (b *box) inColumn(e *Operator) {
	for i, p := range b.parts {
		if i > 0 {
			b.height += svgSpace
		}
		b.width = max(b.width, p.width)
		b.height += p.height
	}
	b.width = max(b.width+2*svgGap, svgChar*columns(e.Label()))
	b.height += svgNode // space for the name
	b.base = b.height / 2
}

type svgWriter struct{ strings.Builder }

func (w *svgWriter) line(x1, y1, x2, y2 int) {
	fmt.Fprintf(w, `<line x1="%d" y1="%d" x2="%d" y2="%d"/>`+"\n", x1, y1, x2, y2)
}

func (w *svgWriter) text(x, y int, anchor, class, s string) {
	fmt.Fprintf(w, `<text x="%d" y="%d" text-anchor="%s" class="%s">%s</text>`+"\n", x, y, anchor, class, html.EscapeString(s))
}

// place draws a box. x is its left end and y its base.
func (w *svgWriter) place(b box, x, y int) {
	switch e := b.expr.(type) {
	case *Outcome:
		fmt.Fprintf(w, `<ellipse cx="%d" cy="%d" rx="%d" ry="%d"/>`+"\n", x+b.width/2, y, b.width/2, svgNode/2)
		w.text(x+b.width/2, y+4, "middle", "outcome", e.Name)
	case *Reuse:
		fmt.Fprintf(w, `<rect x="%d" y="%d" width="%d" height="%d"/>`+"\n", x, y-svgNode/2, b.width, svgNode)
		w.text(x+b.width/2, y+4, "middle", "reuse", e.Name)
	case *Sequence:
		for i, p := range b.parts {
			if i > 0 {
				w.line(x, y, x+svgGap, y)
				x += svgGap
			}
			w.place(p, x, y)
			x += p.width
		}
	case *Operator:
		w.operator(b, e, x, y)
	}
}

func (w *svgWriter) operator(b box, e *Operator, x, y int) {
	top := y - b.base
	w.text(x+b.width/2, top+svgNode/2, "middle", "operator", e.Label())
	at := top + svgNode
	first, last := y, y
	for i, p := range b.parts {
		base := at + p.base
		w.line(x, base, x+svgGap, base)
		if i < len(e.Weights) {
			w.text(x+svgGap/2, base-3, "middle", "weight", strconv.FormatFloat(e.Weights[i], 'g', 4, 64))
		}
		w.place(p, x+svgGap, base)
		w.line(x+svgGap+p.width, base, x+b.width, base)
		first, last = min(first, base), max(last, base)
		at += p.height + svgSpace
	}
	w.line(x, first, x, last)
	w.line(x+b.width, first, x+b.width, last)
}
