package export

import (
	"slices"

	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/beamscope/beamscope/internal/ui/plot"
)

// A legend explains each kind of line in a picture once.
type legend []legendEntry

type legendEntry struct {
	text   string
	sample func(draw.Canvas) // draws a sample that fills the canvas
	wide   vg.Length         // width of the sample
}

// legend returns the legend of all plots: the curves, the most important first, and then the
// other marks.
func (p Picture) legend() legend {
	var l legend
	roles := plot.Roles()
	slices.Reverse(roles)
	for _, r := range roles {
		for i := range p.Plots {
			for k := range p.Plots[i].Series {
				l.addCurve(&p.Plots[i], k, r)
			}
		}
	}
	for i := range p.Plots {
		l.addMarks(&p.Plots[i])
	}
	return l
}

// addCurve adds the curve of a role, if a series has it.
func (l *legend) addCurve(p *Plot, index int, r plot.Role) {
	curves := p.curves(&p.Series[index])
	at := slices.IndexFunc(curves, func(c plot.Curve) bool { return c.Role == r })
	if at < 0 {
		return
	}
	name := curves[at].Name()
	bounded := curves[at].Lo != nil
	switch {
	case bounded && r == plot.Calculated:
		name += ", with bounds"
	case bounded:
		name += ", with confidence bounds"
	}
	if len(p.Series) > 1 {
		name = plot.NameAmong(p.Series, index) + " " + name
	}
	s := strokeOf(p, index, r)
	l.add(name, lineSample, func(c draw.Canvas) {
		if bounded {
			c.SetColor(translucent(s.line.Color, s.area))
			c.Fill(c.Rectangle.Path())
		}
		c.StrokeLine2(s.line, c.Min.X, c.Center().Y, c.Max.X, c.Center().Y)
	})
}

// addMarks adds what a plot shows in addition to curves.
func (l *legend) addMarks(p *Plot) {
	shown := chart{plot: p, axis: p.axis()}
	for i := range p.Series {
		s := &p.Series[i]
		if s.Judged {
			l.add("required (QTA)", lineSample, func(c draw.Canvas) {
				x, y := c.Center().X, c.Center().Y
				c.StrokeLines(requiredStyle(), []vg.Point{{X: c.Min.X, Y: c.Min.Y}, {X: x, Y: c.Min.Y}, {X: x, Y: y + 2}, {X: c.Max.X, Y: y + 2}})
			})
		}
		if shown.visible(s.DMax) {
			l.add("dMax", markSample, func(c draw.Canvas) { c.StrokeLine2(dMaxStyle(), c.Center().X, c.Min.Y, c.Center().X, c.Max.Y) })
		}
		if shown.marks(s) {
			l.add(s.HowFailedInFull(), markSample, func(c draw.Canvas) { bracket(c, failedStyle(p, i), c.Center().X, c.Min.Y, c.Max.Y) })
		}
	}
}

// add adds an entry, unless there is one with the same text.
func (l *legend) add(text string, wide vg.Length, sample func(draw.Canvas)) {
	if !slices.ContainsFunc(*l, func(e legendEntry) bool { return e.text == text }) {
		*l = append(*l, legendEntry{text, sample, wide})
	}
}

// Sizes of a legend, in points.
const (
	lineSample   = 24 // width
	markSample   = 6  // width
	sampleHeight = 8
	sampleGap    = 4 // between a sample and its text
	entryGap     = 14
	lineHeight   = 13
)

// draw draws the legend at the bottom of a canvas, on as many lines as it needs, and returns its
// height.
func (l legend) draw(c draw.Canvas) vg.Length {
	style := sans(8.5, ink())
	style.YAlign = draw.YCenter
	lines := l.lines(style, c.Size().X)
	for i, line := range lines {
		y := c.Min.Y + lineHeight*(vg.Length(len(lines)-1-i)+0.5)
		x := c.Center().X - line.width(style)/2
		for _, e := range line {
			at := c
			at.Rectangle = vg.Rectangle{Min: vg.Point{X: x, Y: y - sampleHeight/2}, Max: vg.Point{X: x + e.wide, Y: y + sampleHeight/2}}
			e.sample(at)
			c.FillText(style, vg.Point{X: x + e.wide + sampleGap, Y: y}, e.text)
			x += e.width(style) + entryGap
		}
	}
	return vg.Length(len(lines))*lineHeight + 4
}

// lines divides the legend into lines of at most this width.
func (l legend) lines(style text.Style, width vg.Length) []legend {
	lines := []legend{nil}
	for _, e := range l {
		last := &lines[len(lines)-1]
		if longer := append(slices.Clone(*last), e); len(*last) == 0 || longer.width(style) <= width {
			*last = longer
			continue
		}
		lines = append(lines, legend{e})
	}
	return lines
}

// width returns the width of the legend in one line.
func (l legend) width(style text.Style) vg.Length {
	width := vg.Length(-entryGap)
	for _, e := range l {
		width += e.width(style) + entryGap
	}
	return width
}

func (e legendEntry) width(style text.Style) vg.Length {
	return e.wide + sampleGap + style.Width(e.text)
}
