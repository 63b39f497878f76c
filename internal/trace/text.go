package trace

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/beamscope/beamscope/internal/figures"
)

const (
	barCells    = 40    // width of the line of time
	maxName     = 40    // characters of a name
	maxLabel    = 160   // characters of what is said of a span
	smallest    = 0.01  // share of the root below which spans are folded
	inferredTag = "~ "  // before what is inferred
	unclearTag  = "?? " // before what is ambiguous
)

// WriteText draws the tree: for each span its share of the instance's time and its
// duration, where on the line of time it lies, and what it was. The first line is the
// instance itself, which is called as the caller says. Spans of less than 1 % of the
// instance are folded into one line for each parent, unless all are wanted.
func (t *Trace) WriteText(w io.Writer, instance string, all bool) error {
	d := drawing{t: t, children: t.children(), all: all}
	d.row(0, "", instance)
	d.below(0, "")
	if d.marked[Inferred] {
		fmt.Fprintf(&d.Builder, "%sinferred from the order of messages\n", inferredTag)
	}
	if d.marked[Ambiguous] {
		fmt.Fprintf(&d.Builder, "%sambiguous: more than one message may be the one\n", unclearTag)
	}
	_, err := io.WriteString(w, d.String())
	return err
}

// children returns the indexes of the children of each span, in their order.
func (t *Trace) children() [][]int {
	children := make([][]int, len(t.Spans))
	for i := range t.Spans {
		if p := t.Spans[i].Parent; p >= 0 {
			children[p] = append(children[p], i)
		}
	}
	return children
}

// A drawing of a tree under way.
type drawing struct {
	strings.Builder
	t        *Trace
	children [][]int
	all      bool
	marked   [Marks]bool // marks that occur
}

// below draws what is below a span, whose line is indented so.
func (d *drawing) below(i int, indent string) {
	var shown []int
	folded, together := 0, int64(0)
	for _, c := range d.children[i] {
		if s := &d.t.Spans[c]; d.all || float64(s.Duration()) >= smallest*float64(d.t.Spans[0].Duration()) {
			shown = append(shown, c)
		} else {
			folded++
			together += s.Duration()
		}
	}
	for n, c := range shown {
		branch, deeper := "├─ ", "│  "
		if n == len(shown)-1 && folded == 0 {
			branch, deeper = "└─ ", "   "
		}
		d.row(c, indent+branch, d.label(c))
		d.below(c, indent+deeper)
	}
	if folded > 0 {
		parts := "parts"
		if folded == 1 {
			parts = "part"
		}
		d.line("", "", strings.Repeat(" ", barCells), indent+"└─ ",
			fmt.Sprintf("… %d %s below 1 %%, together %s", folded, parts, figures.Delay(time.Duration(together))))
	}
}

// row draws the line of a span.
func (d *drawing) row(i int, branch, label string) {
	s := &d.t.Spans[i]
	share := ""
	if whole := d.t.Spans[0].Duration(); whole > 0 {
		share = Percent(s.Duration(), whole)
	}
	d.line(share, figures.Delay(time.Duration(s.Duration())), d.bar(i), branch, label)
}

func (d *drawing) line(share, duration, bar, branch, label string) {
	fmt.Fprintf(&d.Builder, "%5s %8s ▕%s▏ %s%s\n", share, duration, bar, branch, label)
}

// label says what a span was.
func (d *drawing) label(i int) string {
	s := &d.t.Spans[i]
	part := d.t.Part(i)
	part.Name, part.OtherName, part.Detail = shortened(s.Name, maxName), shortened(s.OtherName, maxName), shortened(s.Detail, maxName)
	part.Mark = Exact // its sign says the same
	text := strings.TrimPrefix(strings.TrimPrefix(part.Clause(), "was "), "is ")
	if s.Parts > 1 {
		text += fmt.Sprintf(", in %d parts", s.Parts)
	}
	text = shortened(text, maxLabel)
	if s.Mark < Marks {
		d.marked[s.Mark] = true
	}
	switch s.Mark {
	case Inferred:
		return inferredTag + text
	case Ambiguous:
		return unclearTag + text
	}
	return text
}

// shortened returns a text of so many characters at most.
func shortened(text string, n int) string {
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	return string([]rune(text)[:n-1]) + "…"
}

// bar shows when a span was: as a line where others divide its time, and in full where
// it is a leaf, the denser the more of a cell is its.
func (d *drawing) bar(i int) string {
	root, s := &d.t.Spans[0], &d.t.Spans[i]
	cell := float64(root.Duration()) / barCells
	var b strings.Builder
	for n := range barCells {
		from := float64(n) * cell
		part := 0.0
		if cell > 0 {
			part = (min(float64(s.End-root.Start), from+cell) - max(float64(s.Start-root.Start), from)) / cell
		}
		switch {
		case part <= 1e-9: // rounding
			b.WriteByte(' ')
		case len(d.children[i]) > 0:
			b.WriteRune('─')
		default:
			b.WriteRune([]rune("░▒▓█")[min(int(part*4+1e-9), 3)])
		}
	}
	return b.String()
}
