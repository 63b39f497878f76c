package dashboard

import (
	"math"
	"strconv"

	"github.com/rivo/uniseg"

	"github.com/beamscope/beamscope/internal/ui/plot"
)

// An area is a rectangle of cells.
type area struct{ x, y, width, height int }

// overlap returns the number of cells that two areas share.
func (a area) overlap(b area) int {
	width := min(a.x+a.width, b.x+b.width) - max(a.x, b.x)
	height := min(a.y+a.height, b.y+b.height) - max(a.y, b.y)
	return max(0, width) * max(0, height)
}

// A layout describes where the parts of a plot are on the screen. The embedded area is that of
// the curves.
type layout struct {
	area
	inner     area // everything within the border
	gutter    int  // columns of the left axis, 0 without axes
	axisLine  bool // below the curves
	legendRow bool // above the curves
	readout   int  // rows of the readout at the bottom
}

// The least sizes at which the parts of a plot are shown.
const (
	axesWidth, axesHeight = 20, 5
	lineHeight            = 9  // for the line of the lower axis
	readoutHeight         = 10 // for the readout
	legendHeight          = 8  // for a legend above the curves

	boundsWidth, boundsHeight = 30, 8 // size of the area of the curves, for their bounds
)

// legendGap is the number of columns between entries of the legend in a row.
const legendGap = 2

// layout finds a place for everything.
func (v *plotView) layout() layout {
	x, y, width, height := v.GetInnerRect()
	g := layout{area: area{x, y, width, height}, inner: area{x, y, width, height}}
	if width < axesWidth || height < axesHeight {
		return g
	}
	if v.cursor.on && height >= readoutHeight {
		g.readout = len(v.wrapped(width, max(1, height/5)))
	}
	g.height -= g.readout + 1
	if g.axisLine = height >= lineHeight; g.axisLine {
		g.height--
	}
	if g.legendRow = v.legendAbove(g.area); g.legendRow {
		g.y++
		g.height--
	}
	g.gutter = v.shares.find(v.low, v.high, g.height).width + 1
	g.x += g.gutter
	g.width -= g.gutter
	return g
}

// legendAbove reports whether the legend goes into a row above the curves. That is so if it has
// no room among them and fits into one row.
func (v *plotView) legendAbove(a area) bool {
	if a.height < legendHeight || len(v.legend) == 0 || !v.crowded && v.legendFits(a) {
		return false
	}
	width := 0
	for i := range v.legend {
		width += v.legend[i].width() + legendGap
	}
	gutter := v.shares.find(v.low, v.high, a.height-1).width + 1
	return width-legendGap <= a.width-gutter
}

// legendFits reports whether the legend may fit among the curves.
func (v *plotView) legendFits(a area) bool {
	width, height := v.legendSize()
	return width <= a.width*3/4 && height <= a.height*2/3
}

func (v *plotView) legendSize() (width, height int) {
	for i := range v.legend {
		width = max(width, v.legend[i].width())
	}
	return width, len(v.legend)
}

// wrapped returns the readout in at most most lines of at most this many columns.
func (v *plotView) wrapped(columns, most int) []string {
	const gap = "  "
	var lines []string
	for _, items := range v.items() {
		line := ""
		for _, item := range items {
			if line != "" && uniseg.StringWidth(line)+len(gap)+uniseg.StringWidth(item) > columns {
				lines = append(lines, line)
				line = gap + item
				continue
			}
			if line != "" {
				line += gap
			}
			line += item
		}
		lines = append(lines, line)
	}
	return lines[:min(most, len(lines))]
}

// A shareMark is a labelled probability on the left axis.
type shareMark struct {
	p     float64
	label string
}

// ShareMarks are the marks of an axis. They are recomputed when the axis changes.
type shareMarks struct {
	low, high float64
	height    int
	marks     []shareMark
	width     int // of the widest label
}

// find returns the marks of an axis with this many rows.
func (m *shareMarks) find(low, high float64, height int) *shareMarks {
	if m.low == low && m.high == high && m.height == height {
		return m
	}
	*m = shareMarks{low: low, high: high, height: height, marks: m.marks[:0]}
	step := shareStep(high-low, max(1, (height-1)/2))
	for k := math.Ceil(low/step - 1e-9); k*step <= high+1e-9; k++ {
		p := math.Abs(math.Round(k*step*1e9) / 1e9) // avoids -0
		label := strconv.FormatFloat(p, 'f', -1, 64)
		m.marks = append(m.marks, shareMark{p, label})
		m.width = max(m.width, len(label))
	}
	return m
}

// shareStep returns the smallest round step that divides a range of probabilities into
// at most n parts.
func shareStep(span float64, n int) float64 {
	step := 1.0
	for power := 1.0; power > 1e-6; power /= 10 {
		for _, m := range []float64{1, 0.5, 0.25} {
			if span/(m*power) > float64(n)+1e-9 {
				return step
			}
			step = m * power
		}
	}
	return step
}

// A delayMark is a labelled delay on the lower axis.
type delayMark struct {
	plot.Tick
	column int // of the tick
	from   int // first column of its label
}

// DelayMarks are the marks of an axis. They are recomputed when the axis changes.
type delayMarks struct {
	axis    plot.Axis
	columns int
	gutter  int
	marks   []delayMark
}

// find returns the marks of an axis with this many columns. Labels may extend below the gutter on
// its left.
func (m *delayMarks) find(axis plot.Axis, columns, gutter int) []delayMark {
	if m.axis == axis && m.columns == columns && m.gutter == gutter {
		return m.marks
	}
	m.axis, m.columns, m.gutter = axis, columns, gutter
	const (
		narrowest = 5 // columns from one label to the next
		most      = 12
	)
	for n := min(most, columns/narrowest); ; n-- {
		m.marks = m.marks[:0]
		if m.place(axis.Ticks(n)) || n <= 0 {
			return m.marks
		}
	}
}

// place places labels below their ticks, and reports whether all fit.
func (m *delayMarks) place(ticks []plot.Tick) bool {
	const gap = 2
	free := -m.gutter
	for _, t := range ticks {
		column := int(xScale{m.axis, m.columns}.dot(t.At) / 2)
		width := uniseg.StringWidth(t.Label)
		from := max(-m.gutter, min(m.columns-width, column-width/2))
		if from < free || width > m.columns {
			return false
		}
		free = from + width + gap
		m.marks = append(m.marks, delayMark{t, column, from})
	}
	return true
}
