package trace

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/beamscope/beamscope/internal/beam/modname"
	"github.com/beamscope/beamscope/internal/engine/figures"
	"github.com/beamscope/beamscope/internal/host/safetext"
)

const (
	barCells    = 40    // width of the time line
	maxName     = 40    // characters of a name
	maxLabel    = 160   // characters of a span's description
	smallest    = 0.01  // share of the root below which spans are folded
	inferredTag = "~ "  // before an inferred part
	unclearTag  = "?? " // before an ambiguous part
)

// WriteText draws the tree: for each span its share of the instance's time, its duration, its place
// on the time line, and its description. The first line is the instance itself, with the name from
// the caller. Unless all is set, equal parts of a span share one line, which stands for all their
// turns, and parts of less than 1 % of the instance are folded into one line for each parent.
func (t *Trace) WriteText(w io.Writer, instance string, all bool) error {
	d := drawing{t: t, children: t.children(), all: all}
	d.row([]int{0}, "", safetext.Line(instance))
	d.below([]int{0}, "")
	if d.marked[Inferred] {
		fmt.Fprintf(&d.Builder, "%sinferred from the order of messages\n", inferredTag)
	}
	if d.marked[Ambiguous] {
		fmt.Fprintf(&d.Builder, "%sambiguous: more than one message may be the one\n", unclearTag)
	}
	_, err := io.WriteString(w, d.String())
	return err
}

// children returns the indexes of the children of each span, in order.
func (t *Trace) children() [][]int {
	children := make([][]int, len(t.Spans))
	for i := range t.Spans {
		if p := t.Spans[i].Parent; p >= 0 {
			children[p] = append(children[p], i)
		}
	}
	return children
}

// A drawing is the state while a tree is drawn. Each line stands for one or more spans, in order of
// time.
type drawing struct {
	strings.Builder
	t        *Trace
	children [][]int
	all      bool
	marked   [Marks]bool // marks that occur
}

// A likeness contains the common properties of spans that are drawn as one.
type likeness struct {
	kind           Kind
	process        PID
	mark           Mark
	detail, reason string
	inner          bool // has children
}

// divided returns the children of some spans, grouped by lines.
func (d *drawing) divided(spans []int) [][]int {
	var lines [][]int
	index := make(map[likeness]int)
	for _, i := range spans {
		for _, c := range d.children[i] {
			s := &d.t.Spans[c]
			like := likeness{s.Kind, s.Process, s.Mark, s.Detail, s.Reason, len(d.children[c]) > 0}
			if at, known := index[like]; known && !d.all {
				lines[at] = append(lines[at], c)
				continue
			}
			index[like] = len(lines)
			lines = append(lines, []int{c})
		}
	}
	return lines
}

// duration sums the durations of spans.
func (d *drawing) duration(spans []int) int64 {
	sum := int64(0)
	for _, i := range spans {
		sum += d.t.Spans[i].Duration()
	}
	return sum
}

// below draws the children of some spans, whose line has the given indentation.
func (d *drawing) below(spans []int, indent string) {
	var shown [][]int
	folded, together := 0, int64(0)
	for _, line := range d.divided(spans) {
		if took := d.duration(line); d.all || float64(took) >= smallest*float64(d.t.Spans[0].Duration()) {
			shown = append(shown, line)
		} else {
			folded += d.parts(line)
			together += took
		}
	}
	for n, line := range shown {
		branch, deeper := "├─ ", "│  "
		if n == len(shown)-1 && folded == 0 {
			branch, deeper = "└─ ", "   "
		}
		d.row(line, indent+branch, d.label(line))
		d.below(line, indent+deeper)
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

// parts returns the number of parts that some spans stand for.
func (d *drawing) parts(spans []int) int {
	n := 0
	for _, i := range spans {
		n += max(1, d.t.Spans[i].Parts)
	}
	return n
}

// row draws the line of some spans.
func (d *drawing) row(spans []int, branch, label string) {
	took := d.duration(spans)
	share := ""
	if whole := d.t.Spans[0].Duration(); whole > 0 {
		share = Percent(took, whole)
	}
	d.line(share, figures.Delay(time.Duration(took)), d.bar(spans), branch, label)
}

func (d *drawing) line(share, duration, bar, branch, label string) {
	fmt.Fprintf(&d.Builder, "%5s %8s ▕%s▏ %s%s\n", share, duration, bar, branch, label)
}

// label describes some spans. For properties in which they differ, it takes those of the longest.
func (d *drawing) label(spans []int) string {
	longest := slices.MaxFunc(spans, func(i, j int) int { return cmp.Compare(d.t.Spans[i].Duration(), d.t.Spans[j].Duration()) })
	s := &d.t.Spans[longest]
	part := d.t.Part(longest)
	part.Name, part.OtherName, part.Detail = shortened(modname.Readable(s.Name), maxName), shortened(modname.Readable(s.OtherName), maxName), shortened(modname.Readable(s.Detail), maxName)
	for _, i := range spans {
		part.Behind = max(part.Behind, d.t.Spans[i].Behind)
		part.Overtaken = max(part.Overtaken, d.t.Spans[i].Overtaken)
	}
	part.Mark = Exact // its sign already shows this
	text := strings.TrimPrefix(strings.TrimPrefix(part.Clause(), "was "), "is ")
	if n := d.parts(spans); n > 1 {
		text += fmt.Sprintf(", in %d parts", n)
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

// shortened returns a text with a maximum number of characters.
func shortened(text string, n int) string {
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	return string([]rune(text)[:n-1]) + "…"
}

// bar shows the times of some spans: as a line if others divide their time, and as blocks if they
// are leaves. The blocks are denser if the leaves take a larger share of a cell.
func (d *drawing) bar(spans []int) string {
	root := &d.t.Spans[0]
	cell := float64(root.Duration()) / barCells
	var cells [barCells]float64 // shares of each
	for _, i := range spans {
		from, to := float64(d.t.Spans[i].Start-root.Start), float64(d.t.Spans[i].End-root.Start)
		for n := range cells {
			if part := min(to, float64(n+1)*cell) - max(from, float64(n)*cell); part > 0 {
				cells[n] += part / cell
			}
		}
	}
	var b strings.Builder
	for _, part := range cells {
		switch {
		case part <= 1e-9: // rounding
			b.WriteByte(' ')
		case len(d.children[spans[0]]) > 0:
			b.WriteRune('─')
		default:
			b.WriteRune([]rune("░▒▓█")[min(int(part*4+1e-9), 3)])
		}
	}
	return b.String()
}
