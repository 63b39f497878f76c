package export

import (
	"strconv"
	"time"

	gonum "gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/beamscope/beamscope/internal/engine/figures"
	"github.com/beamscope/beamscope/internal/ui/plot"
)

// A chart draws a plot between its axes. Its coordinates are positions on a plot.Axis, from 0 to
// 1, and probabilities.
type chart struct {
	plot *Plot
	axis plot.Axis

	// Set while the chart draws.
	canvas draw.Canvas
	x, y   func(float64) vg.Length
}

// beyond is the length of the axis relative to dMax. The part after dMax shows failures.
const beyond = 1.1

// axis returns the shown range of delays.
func (p *Plot) axis() plot.Axis {
	a := p.Axis
	if a.To == 0 {
		for i := range p.Series {
			a.To = max(a.To, time.Duration(beyond*float64(p.Series[i].DMax)))
		}
	}
	if !a.Log || a.From > 0 {
		return a
	}
	a.From = a.To
	for i := range p.Series {
		for _, c := range p.Series[i].Curves {
			a.From = min(a.From, c.Width)
		}
	}
	if a.From == a.To { // there is at most one bin
		a.From = max(1, a.To/1000)
	}
	return a
}

// framed returns the axes of a plot with this width, and the chart between them.
func framed(p *Plot, width vg.Length) *gonum.Plot {
	axis := p.axis()
	unit, name := figures.Unit(axis.To)
	g := gonum.New()
	g.BackgroundColor = nil
	g.X.Label.Text, g.Y.Label.Text = "delay ("+name+")", "probability of success"
	g.X.Min, g.X.Max, g.Y.Min, g.Y.Max = 0, 1, 0, 1.04
	const room = 48 // width for a label
	g.X.Tick.Marker = gonum.ConstantTicks(ticks(axis, unit, max(2, int(width/room))))
	g.Y.Tick.Marker = gonum.ConstantTicks{{Value: 0, Label: "0"}, {Value: 0.25, Label: "0.25"}, {Value: 0.5, Label: "0.5"}, {Value: 0.75, Label: "0.75"}, {Value: 1, Label: "1"}}
	for _, a := range []*gonum.Axis{&g.X, &g.Y} {
		align := a.Label.TextStyle
		a.Label.TextStyle = sans(9.5, ink())
		a.Label.TextStyle.XAlign, a.Label.TextStyle.YAlign, a.Label.TextStyle.Rotation = align.XAlign, align.YAlign, align.Rotation
		align = a.Tick.Label
		a.Tick.Label = sans(8.5, ink())
		a.Tick.Label.XAlign, a.Tick.Label.YAlign = align.XAlign, align.YAlign
		a.Padding, a.Tick.Length = 0, 4
		a.LineStyle.Width, a.Tick.LineStyle.Width = 0.7, 0.7
	}
	g.Add(&chart{plot: p, axis: axis})
	return g
}

// ticks returns at most n ticks of an axis, with figures in one unit.
func ticks(a plot.Axis, unit time.Duration, n int) []gonum.Tick {
	var out []gonum.Tick
	for _, t := range a.Ticks(n) {
		label := strconv.FormatFloat(float64(t.At)/float64(unit), 'f', -1, 64)
		out = append(out, gonum.Tick{Value: a.Position(t.At), Label: label})
	}
	return out
}

// Plot implements gonum's plotter. It draws areas first, and then lines in ascending order of
// importance.
func (c *chart) Plot(canvas draw.Canvas, g *gonum.Plot) {
	c.canvas = canvas
	c.x, c.y = g.Transforms(&c.canvas)
	c.gridLines(g)
	c.each(func(curve *plot.Curve, s stroke) {
		if curve.Lo != nil {
			c.band(curve, s)
		}
	})
	for i := range c.plot.Series {
		c.requirement(&c.plot.Series[i])
	}
	c.each(func(curve *plot.Curve, s stroke) { c.canvas.StrokeLines(s.line, c.trace(curve.Y, curve.Width)) })
	for i := range c.plot.Series {
		c.failed(&c.plot.Series[i], i)
	}
}

// each calls a function for all curves and their strokes, in drawing order.
func (c *chart) each(do func(*plot.Curve, stroke)) {
	for i := range c.plot.Series {
		curves := c.plot.curves(&c.plot.Series[i])
		for k := range curves {
			do(&curves[k], strokeOf(c.plot, i, curves[k].Role))
		}
	}
}

// gridLines draws a line at each tick except the axes.
func (c *chart) gridLines(g *gonum.Plot) {
	style := draw.LineStyle{Color: pale(), Width: 0.5}
	for _, t := range g.X.Tick.Marker.Ticks(0, 1) {
		if t.Value > 0 {
			c.canvas.StrokeLine2(style, c.x(t.Value), c.canvas.Min.Y, c.x(t.Value), c.canvas.Max.Y)
		}
	}
	for _, t := range g.Y.Tick.Marker.Ticks(0, 1) {
		if t.Value > 0 {
			c.canvas.StrokeLine2(style, c.canvas.Min.X, c.y(t.Value), c.canvas.Max.X, c.y(t.Value))
		}
	}
}

// trace returns the line of a function that is known at the edges of bins, within the axis. It is
// straight between edges, and constant after the last one.
func (c *chart) trace(y []float64, width time.Duration) []vg.Point {
	at := func(t time.Duration) vg.Point {
		return vg.Point{X: c.x(c.axis.Position(t)), Y: c.y(between(y, width, t))}
	}
	line := []vg.Point{at(c.axis.From)}
	for k := int(c.axis.From/width) + 1; k < len(y) && time.Duration(k)*width < c.axis.To; k++ {
		flat := k+1 < len(y) && y[k-1] == y[k] && y[k] == y[k+1]
		if !flat {
			line = append(line, at(time.Duration(k)*width))
		}
	}
	return append(line, at(c.axis.To))
}

// between interpolates a function that is known at the edges of bins.
func between(y []float64, width, t time.Duration) float64 {
	last := len(y) - 1
	k := int(t / width)
	if k >= last {
		return y[last]
	}
	return y[k] + (y[k+1]-y[k])*float64(t%width)/float64(width)
}

// band draws the area between the bounds of a curve.
func (c *chart) band(curve *plot.Curve, s stroke) {
	lo, hi := c.trace(curve.Lo, curve.Width), c.trace(curve.Hi, curve.Width)
	around := append([]vg.Point{}, lo...)
	for i := len(hi) - 1; i >= 0; i-- {
		around = append(around, hi[i])
	}
	c.canvas.FillPolygon(translucent(s.line.Color, s.area), around)
	if s.edges {
		edge := draw.LineStyle{Color: translucent(s.line.Color, 0xA0), Width: 0.6, Dashes: []vg.Length{2, 2}}
		c.canvas.StrokeLines(edge, lo, hi)
	}
}

// requirement draws the steps of the QTA, and dMax.
func (c *chart) requirement(s *plot.Series) {
	if c.visible(s.DMax) {
		x := c.x(c.axis.Position(s.DMax))
		c.canvas.StrokeLine2(dMaxStyle(), x, c.canvas.Min.Y, x, c.canvas.Max.Y)
	}
	if !s.Judged {
		return
	}
	level := 0.0
	for _, step := range required(s) {
		if step.T <= c.axis.From {
			level = max(level, step.P)
		}
	}
	line := []vg.Point{{X: c.x(0), Y: c.y(level)}}
	for _, step := range required(s) {
		if !c.visible(step.T) || step.P <= level {
			continue
		}
		x := c.x(c.axis.Position(step.T))
		line = append(line, vg.Point{X: x, Y: c.y(level)}, vg.Point{X: x, Y: c.y(step.P)})
		level = step.P
	}
	c.canvas.StrokeLines(requiredStyle(), append(line, vg.Point{X: c.x(1), Y: c.y(level)}))
}

// visible reports whether a delay is on the axis, after its beginning.
func (c *chart) visible(t time.Duration) bool { return c.axis.From < t && t <= c.axis.To }

// failed marks the failures of a series beside dMax: the distance between the observed curve and
// 1, with a figure if there is room.
func (c *chart) failed(s *plot.Series, index int) {
	if !c.marks(s) {
		return
	}
	style := failedStyle(c.plot, index)
	x := c.x(c.axis.Position(s.DMax)) + vg.Length(5*(index+1))
	lo, hi := c.y(1-s.Failed), c.y(1)
	if x > c.canvas.Max.X {
		return
	}
	bracket(c.canvas, style, x, lo, hi)
	label := sans(8, ink())
	label.YAlign = draw.YCenter
	figure := figures.Percent(s.Failed)
	if x += 4; len(c.plot.Series) == 1 && x+label.Width(figure) <= c.canvas.Max.X && hi-lo > label.Height(figure) {
		c.canvas.FillText(label, vg.Point{X: x, Y: (lo + hi) / 2}, figure)
	}
}

// marks reports whether the failures of a series are marked.
func (c *chart) marks(s *plot.Series) bool {
	for _, curve := range c.plot.curves(s) {
		if curve.Role == plot.Observed {
			return s.HasFailed && s.Failed > 0 && c.visible(s.DMax)
		}
	}
	return false
}

// failedStyle returns the style of the mark for failures.
func failedStyle(p *Plot, index int) draw.LineStyle {
	style := strokeOf(p, index, plot.Observed).line
	style.Width = 1.2
	return style
}

// bracket draws a vertical line with caps.
func bracket(c draw.Canvas, style draw.LineStyle, x, lo, hi vg.Length) {
	const half = 2.5
	c.StrokeLine2(style, x, lo, x, hi)
	c.StrokeLine2(style, x-half, lo, x+half, lo)
	c.StrokeLine2(style, x-half, hi, x+half, hi)
}
