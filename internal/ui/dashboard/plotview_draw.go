package dashboard

import (
	"math"
	"slices"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/uniseg"

	"github.com/beamscope/beamscope/internal/engine/figures"
	"github.com/beamscope/beamscope/internal/ui/braille"
	"github.com/beamscope/beamscope/internal/ui/plot"
)

// An xScale maps delays to dots in a number of columns.
type xScale struct {
	axis    plot.Axis
	columns int
}

func (s xScale) dot(t time.Duration) float64 {
	return 0.5 + s.axis.Position(t)*float64(s.columns*braille.CellWidth-1)
}

// delay returns the delay at a dot.
func (s xScale) delay(dot float64) time.Duration {
	return s.axis.Delay((dot - 0.5) / float64(max(1, s.columns*braille.CellWidth-1)))
}

// A yScale maps probabilities to dots in a number of rows. Both ends of the range are visible.
type yScale struct {
	low, high float64
	rows      int
}

func (s yScale) dot(p float64) float64 {
	return 0.5 + (s.high-p)/(s.high-s.low)*float64(s.rows*braille.CellHeight-1)
}

// A chart contains what is needed to draw the curves of a plot.
type chart struct {
	*braille.Canvas
	x     xScale
	y     yScale
	edges *edgeDots
}

// A drawnAs contains everything except the curves that affects the place of the legend.
type drawnAs struct {
	width, height, entries int
	cursor                 cursor
	log, zoomed            bool
	window                 plot.Axis
	low, high              float64
}

// Draw implements [tview.Primitive].
func (v *plotView) Draw(screen tcell.Screen) {
	_, _, width, height := v.GetInnerRect()
	as := drawnAs{width, height, len(v.legend), v.cursor, v.log, v.zoomed, v.window, v.low, v.high}
	if as != v.lastDrawn {
		v.lastDrawn, v.legendWas, v.crowded = as, area{}, false // the legend stays in place only while nothing else changes
	}
	if placed := v.draw(screen); !placed && !v.crowded {
		v.crowded = true
		v.draw(screen)
	}
}

// draw draws everything, and reports whether the legend had a place.
func (v *plotView) draw(screen tcell.Screen) (placed bool) {
	v.drawBox(screen)
	v.drawTitle(screen, v.plotFacts())
	g := v.layout()
	if g.width <= 0 || g.height <= 0 {
		return true
	}
	v.canvas.Resize(g.width, g.height)
	v.taken, v.legendAt = v.taken[:0], area{}
	c := chart{&v.canvas, xScale{v.axis(), g.width}, yScale{v.low, v.high, g.height}, &v.edges}
	v.drawCurves(c)
	v.canvas.Draw(screen, g.x, g.y)
	if g.gutter > 0 && len(v.series) > 0 {
		v.drawAxes(screen, g, c)
		v.drawReadout(screen, g)
	}
	return v.drawWords(screen, g, c)
}

// drawBox clears the view and draws its border. It replaces [tview.Box]'s method, which allocates
// a string for each cell.
func (v *plotView) drawBox(screen tcell.Screen) {
	x, y, width, height := v.GetRect()
	for row := range height {
		for column := range width {
			screen.Put(x+column, y+row, " ", tcell.StyleDefault)
		}
	}
	if width < 2 || height < 2 {
		return
	}
	style, lines := v.theme.Style(dim), "┌─┐│└┘"
	if v.selected {
		style, lines = v.theme.Style(strong), "╔═╗║╚╝"
	}
	const size = len("─")
	line := func(i int) string { return lines[i*size:][:size] }
	right, bottom := x+width-1, y+height-1
	for column := x + 1; column < right; column++ {
		screen.Put(column, y, line(1), style)
		screen.Put(column, bottom, line(1), style)
	}
	for row := y + 1; row < bottom; row++ {
		screen.Put(x, row, line(3), style)
		screen.Put(right, row, line(3), style)
	}
	screen.Put(x, y, line(0), style)
	screen.Put(right, y, line(2), style)
	screen.Put(x, bottom, line(4), style)
	screen.Put(right, bottom, line(5), style)
}

// drawTitle writes the title into the border, followed by the facts.
func (v *plotView) drawTitle(screen tcell.Screen, facts []words) {
	const least = 3 // columns for the title
	x, y, width, height := v.GetRect()
	end := x + width - 2
	x += 2
	if end-x < least || height < 2 {
		return
	}
	piece := func(text string, style tcell.Style) {
		if x < end {
			x += put(screen, x, y, end-x, text, style)
		}
	}
	piece(" ", tcell.StyleDefault)
	piece(figures.Middle(v.title, max(end-x-v.factsWidth(facts), least)), v.theme.Style(strong))
	for _, w := range facts {
		piece(" · ", v.theme.Style(dim))
		piece(w.text, w.style)
	}
	piece(" ", tcell.StyleDefault)
}

// plotFacts returns the facts about a plot: those about the series, that the window has no
// groups, and that the scale is logarithmic.
func (v *plotView) plotFacts() []words {
	facts := slices.Clip(v.facts)
	if v.ungrouped {
		facts = append(facts, words{"no groups in this window", v.theme.Style(dim)})
	}
	if v.log {
		facts = append(facts, words{"log", v.theme.Style(dim)})
	}
	return facts
}

// factsWidth returns the number of columns that the facts need after the title, with a space at
// the end. It is at most half the width of the view.
func (v *plotView) factsWidth(facts []words) int {
	_, _, width, _ := v.GetRect()
	n := 1
	for _, w := range facts {
		n += uniseg.StringWidth(" · " + w.text)
	}
	return min(n, width/2)
}

// drawCurves draws everything that consists of dots. The most important curves come last, on top.
func (v *plotView) drawCurves(c chart) {
	if t, ok := v.cursorDelay(); ok {
		c.upright(t, 0, 1, tcell.StyleDefault, braille.Dash{1, 1})
	}
	for i := range v.series {
		s := &v.series[i]
		if s.DMax > 0 {
			c.upright(s.DMax, v.low, v.high, v.theme.Style(required), braille.Dash{3, 2})
		}
		if v.visible(plot.Observed) {
			v.hatch(c, i)
		}
		v.drawStairs(c, v.stairs[i])
	}
	bounds := len(v.series) == 1 && c.x.columns >= boundsWidth && c.y.rows >= boundsHeight
	for _, r := range plot.Roles() {
		if !v.visible(r) {
			continue
		}
		for i := range v.series {
			if curve := v.series[i].Curve(r); curve != nil && curve.Width > 0 {
				c.curve(curve, v.stroke(i, r), bounds)
			}
		}
	}
	v.drawFailed(c)
}

func (v *plotView) stroke(i int, r plot.Role) stroke {
	if len(v.series) > 1 {
		return v.theme.outcomeStroke(i, r)
	}
	return v.theme.roleStroke(r)
}

// upright draws a vertical line at a delay.
func (c chart) upright(t time.Duration, from, to float64, style tcell.Style, dash braille.Dash) {
	pen := c.Pen(style, dash)
	pen.MoveTo(c.x.dot(t), c.y.dot(from))
	pen.LineTo(c.x.dot(t), c.y.dot(to))
}

// curve draws a curve. If bounds is set, it also draws the curve's bounds where they differ
// visibly from it.
func (c chart) curve(f *plot.Curve, s stroke, bounds bool) {
	for _, bound := range [2][]float64{f.Lo, f.Hi} {
		if bound == nil || !bounds {
			continue
		}
		pen := c.Pen(s.style, braille.Dash{1, 3})
		c.trace(f, bound, func(x, y, middle float64) {
			if math.Abs(y-middle) <= 1 {
				pen.MoveTo(x, y)
			} else {
				pen.LineTo(x, y)
			}
		})
	}
	pen := c.Pen(s.style, s.dash)
	c.trace(f, f.Y, func(x, y, _ float64) { pen.LineTo(x, y) })
}

// trace calls to for points of a function at the edges of bins, from one end of the axis to the
// other, together with the curve's own value there. If several points share a column of dots, it
// uses only the first and the last, because the function never falls.
func (c chart) trace(f *plot.Curve, values []float64, to func(x, y, middle float64)) {
	end := func(t time.Duration) {
		to(c.x.dot(t), c.y.dot(at(values, f.Width, t)), c.y.dot(at(f.Y, f.Width, t)))
	}
	dots := c.edges.find(c.x, f.Width, len(values))
	axis := c.x.axis
	first := int(axis.From/f.Width) + 1
	behind := min(len(values), int((axis.To+f.Width-1)/f.Width))
	end(axis.From)
	for k := first; k < behind; k++ {
		if k > first && k+1 < behind && int(dots[k-1]) == int(dots[k+1]) {
			continue
		}
		to(dots[k], c.y.dot(values[k]), c.y.dot(f.Y[k]))
	}
	end(axis.To)
}

// EdgeDots are the dots of the edges of bins. They are recomputed when the scale or the width of
// the bins changes.
type edgeDots struct {
	x     xScale
	width time.Duration
	dots  []float64
}

// find returns the dots of the edges 0 to n-1.
func (e *edgeDots) find(x xScale, width time.Duration, n int) []float64 {
	if e.x != x || e.width != width {
		*e = edgeDots{x: x, width: width, dots: e.dots[:0]}
	}
	for k := len(e.dots); k < n; k++ {
		e.dots = append(e.dots, x.dot(time.Duration(k)*width))
	}
	return e.dots
}

// at interpolates a function that is known at the edges of bins.
func at(values []float64, width, t time.Duration) float64 {
	k := int(t / width)
	if k >= len(values)-1 {
		return values[len(values)-1]
	}
	share := float64(t-time.Duration(k)*width) / float64(width)
	return values[k] + share*(values[k+1]-values[k])
}

// drawStairs draws a requirement. Parts that are missed are solid and twice as thick.
func (v *plotView) drawStairs(c chart, stairs []plot.Stretch) {
	before := 0.0
	for _, s := range stairs {
		line := v.theme.requiredStroke()
		if s.Missed {
			line = stroke{style: v.theme.Style(bad)}
		}
		for thick := 0.0; thick == 0 || s.Missed && thick < 2; thick++ {
			pen := c.Pen(line.style, line.dash)
			pen.MoveTo(c.x.dot(s.From)+thick, c.y.dot(before)+thick)
			pen.LineTo(c.x.dot(s.From)+thick, c.y.dot(s.P)+thick)
			pen.LineTo(c.x.dot(min(s.To, c.x.axis.To)), c.y.dot(s.P)+thick)
		}
		before = s.P
	}
}

// hatch fills the gap between a requirement and the observed curve that misses it.
func (v *plotView) hatch(c chart, i int) {
	const apart = 4
	curve := v.series[i].Curve(plot.Observed)
	if curve == nil {
		return
	}
	for _, s := range v.stairs[i] {
		if !s.Missed || s.From >= v.series[i].DMax { // after dMax the bracket shows what is missing
			continue
		}
		from := max(0, int(c.x.dot(s.From)))
		to := min(c.x.columns*braille.CellWidth, int(c.x.dot(min(s.To, c.x.axis.To))))
		for x := from; x < to; x++ {
			top := max(0, int(c.y.dot(s.P)))
			bottom := min(float64(c.y.rows*braille.CellHeight), c.y.dot(at(curve.Y, curve.Width, max(0, c.x.delay(float64(x)+0.5)))))
			for y := top + (apart-(x+top)%apart)%apart; y < int(bottom); y += apart {
				c.Set(x, y, v.theme.Style(bad))
			}
		}
	}
}

// failing returns a single series whose share of failures is to be shown.
func (v *plotView) failing() (*plot.Series, bool) {
	if len(v.series) != 1 || !v.visible(plot.Observed) {
		return nil, false
	}
	s := &v.series[0]
	return s, s.HasFailed && s.Failed > 0
}

// failedStyle returns the style of the failing share: bad if the share is too large.
func (v *plotView) failedStyle(s *plot.Series) tcell.Style {
	if s.Judged && 1-s.Failed < s.MinSuccess {
		return v.theme.Style(bad)
	}
	return tcell.StyleDefault
}

// drawFailed draws a bracket after dMax, between the curve and 1.
func (v *plotView) drawFailed(c chart) {
	s, ok := v.failing()
	if !ok {
		return
	}
	x, style := math.Floor(c.x.dot(s.DMax))+3.5, v.failedStyle(s)
	pen := c.Pen(style, braille.Dash{})
	pen.MoveTo(x-1, c.y.dot(1))
	pen.LineTo(x, c.y.dot(1))
	pen.LineTo(x, c.y.dot(1-s.Failed))
	pen.LineTo(x-1, c.y.dot(1-s.Failed))
}

// drawAxes draws the axes and their labels.
func (v *plotView) drawAxes(screen tcell.Screen, g layout, c chart) {
	style := v.theme.Style(dim)
	for y := range g.height {
		screen.Put(g.x-1, g.y+y, "│", style)
	}
	for _, m := range v.shares.find(v.low, v.high, g.height).marks {
		y := g.y + int(c.y.dot(m.p))/braille.CellHeight
		screen.Put(g.x-1, y, "┤", style)
		put(screen, g.x-1-len(m.label), y, len(m.label), m.label, style)
	}
	below := g.y + g.height
	if g.axisLine {
		screen.Put(g.x-1, below, "└", style)
		for x := range g.width {
			screen.Put(g.x+x, below, "─", style)
		}
	}
	for _, m := range v.delays.find(c.x.axis, g.width, g.gutter) {
		if g.axisLine {
			screen.Put(g.x+m.column, below, "┬", style)
		}
	}
	if g.axisLine {
		below++
	}
	at := v.drawCursorLabel(screen, g, c, below)
	for _, m := range v.delays.marks {
		label := area{m.from, 0, uniseg.StringWidth(m.Label), 1}
		if label.overlap(at) == 0 {
			put(screen, g.x+m.from, below, label.width, m.Label, style)
		}
	}
}

// drawCursorLabel writes the delay at the cursor into the row of the labels. It returns the
// columns of the plot that the label takes, with one more on either side.
func (v *plotView) drawCursorLabel(screen tcell.Screen, g layout, c chart, row int) area {
	t, ok := v.cursorDelay()
	column := int(math.Floor(c.x.dot(t) / braille.CellWidth))
	if !ok || column < 0 || column >= g.width {
		return area{}
	}
	label := figures.ExactDelay(t)
	width := uniseg.StringWidth(label)
	from := max(-g.gutter, min(g.width-width, column-width/2))
	put(screen, g.x+from, row, width, label, v.theme.Selected())
	return area{from - 1, 0, width + 2, 1}
}

// drawReadout writes the values of the curves at the cursor below the axis.
func (v *plotView) drawReadout(screen tcell.Screen, g layout) {
	if g.readout == 0 {
		return
	}
	for i, line := range v.wrapped(g.inner.width, g.readout) {
		put(screen, g.inner.x, g.inner.y+g.inner.height-g.readout+i, g.inner.width, line, tcell.StyleDefault)
	}
}

// drawWords writes the words within the plot, each where it hides least. It reports whether the
// legend had a place.
func (v *plotView) drawWords(screen tcell.Screen, g layout, c chart) (placed bool) {
	w := writer{v, screen, g}
	if !v.drawn(plot.Observed) && v.visible(plot.Observed) {
		w.nothing()
	}
	if g.gutter == 0 || len(v.series) == 0 {
		return true
	}
	w.numbers(c)
	w.dMax(c)
	w.failing(c)
	return w.legend(c)
}

// A writer writes words into a plot.
type writer struct {
	*plotView
	screen tcell.Screen
	layout layout
}

// hides returns a measure of what an area of the plot would hide.
func (w writer) hides(a area) int {
	const word = 100 // hiding a word is worse than anything else
	n := 0
	for y := a.y; y < a.y+a.height; y++ {
		for x := a.x; x < a.x+a.width; x++ {
			if !w.canvas.Blank(x, y) {
				n++
			}
		}
	}
	for _, t := range w.taken {
		n += word * a.overlap(t)
	}
	return n
}

// write writes a line of text at a cell of the plot.
func (w writer) write(x, y int, text string, style tcell.Style) {
	n := put(w.screen, w.layout.x+x, w.layout.y+y, w.layout.width-x, text, style)
	w.taken = append(w.taken, area{x, y, n, 1})
}

// nothing explains in the middle of the plot why there is no observed curve.
func (w writer) nothing() {
	text := w.plotView.nothing()
	width := min(w.layout.width, uniseg.StringWidth(text))
	at := area{(w.layout.width - width) / 2, w.layout.height / 2, width, 1}
	style := w.theme.Style(strong)
	if len(w.series) > 0 && w.silent() > 0 {
		style = w.theme.Style(doubtful)
	}
	w.write(at.x, w.leastHidden(at, 1), text, style)
}

// leastHidden returns the row in which an area hides least. It tries the area's own row and the
// next few in a direction.
func (w writer) leastHidden(a area, direction int) int {
	const tries = 4
	best, hidden := a.y, math.MaxInt
	for range tries {
		if a.y < 0 || a.y+a.height > w.layout.height {
			break
		}
		if n := w.hides(a); n < hidden {
			best, hidden = a.y, n
		}
		a.y += direction
	}
	return best
}

// numbers writes the numbers of outcomes onto their curves, each at a different height.
func (w writer) numbers(c chart) {
	if len(w.series) < 2 || !w.visible(plot.Observed) {
		return
	}
	for i := range w.series {
		curve := w.series[i].Curve(plot.Observed)
		if curve == nil {
			continue
		}
		p := curve.Y[len(curve.Y)-1] * float64(i+1) / float64(len(w.series)+1)
		q, ok := curve.Quantile(p)
		x, y := int(c.x.dot(q.Hi)/braille.CellWidth), int(c.y.dot(p)/braille.CellHeight)
		if ok && x >= 0 && x < w.layout.width && y >= 0 && y < w.layout.height {
			w.write(x, y, w.plotView.legend[i].mark, w.theme.outcomeStroke(i, plot.Observed).style.Bold(true))
		}
	}
}

// dMax writes the values of dMax beside their lines, at the bottom.
func (w writer) dMax(c chart) {
	seen := time.Duration(0)
	for i := range w.series {
		s := &w.series[i]
		if s.DMax == seen {
			continue
		}
		seen = s.DMax
		w.beside(c, s.DMax, w.layout.height-1, -1, "dMax "+s.DMax.String(), w.theme.Style(required))
	}
}

// failing writes the failing share below its bracket.
func (w writer) failing(c chart) {
	s, ok := w.plotView.failing()
	if !ok {
		return
	}
	row := int(c.y.dot(1-s.Failed))/braille.CellHeight + 1
	if !w.beside(c, s.DMax, row, 1, s.HowFailed()+" "+percent(s.Failed), w.failedStyle(s)) {
		w.beside(c, s.DMax, row, 1, percent(s.Failed), w.failedStyle(s))
	}
}

// beside writes words to the left of a delay, in the given row or one of the next in a direction.
// It reports whether there is room.
func (w writer) beside(c chart, t time.Duration, row, direction int, text string, style tcell.Style) bool {
	width := uniseg.StringWidth(text)
	x := int(math.Floor(c.x.dot(t)/braille.CellWidth)) - width
	if x < 0 || x+width > w.layout.width || 4*width > 3*w.layout.width {
		return false
	}
	row = max(0, min(w.layout.height-1, row))
	w.write(x, w.leastHidden(area{x, row, width, 1}, direction), text, style)
	return true
}

// legend writes the legend, among the curves or above them. It returns false if it found no place
// among the curves.
func (w writer) legend(c chart) (placed bool) {
	switch {
	case w.layout.legendRow:
		w.legendAbove()
	case w.legendFits(w.layout.area):
		return w.legendWithin(c)
	}
	return true
}

func (w writer) legendAbove() {
	x, y := w.layout.x, w.layout.y-1
	for i := range w.plotView.legend {
		x += w.plotView.legend[i].draw(w.screen, x, y) + legendGap
	}
}

// legendWithin writes the legend among the curves: in its previous place, in a free corner, or
// else wherever it hides least. It reports whether there is such a place.
func (w writer) legendWithin(c chart) (placed bool) {
	width, height := w.legendSize()
	w.drawSteps(c)
	before := area{w.legendWas.x, w.legendWas.y, width, height}
	best, ok := w.best([]area{before}, width*height/mayHide)
	if !ok || w.legendWas == (area{}) {
		corners := w.corners(c, width, height)
		if best, ok = w.best(corners, 0); !ok {
			best, ok = w.best(slices.Concat(corners, w.everywhere(width, height)), width*height/mayHide)
		}
	}
	if !ok {
		return false
	}
	for i := range w.plotView.legend {
		x, y := w.layout.x+best.x, w.layout.y+best.y+i
		for column := range width {
			w.screen.Put(x+column, y, " ", tcell.StyleDefault)
		}
		w.plotView.legend[i].draw(w.screen, x, y)
	}
	w.taken = append(w.taken, best)
	w.legendAt, w.legendWas = best, best
	return true
}

// drawSteps draws the requirements alone.
func (w writer) drawSteps(c chart) {
	w.steps.Resize(w.layout.width, w.layout.height)
	c.Canvas = &w.steps
	for _, stairs := range w.stairs {
		w.drawStairs(c, stairs)
	}
}

// mayHide limits how much the legend may hide: an eighth of its area. Hidden cells count fully,
// and dots in the columns beside the legend count half.
const mayHide = 8

// best returns the place where the legend hides least and has least beside it. It skips places
// that cover or touch a line of a QTA. It returns false if the legend would hide more than most
// in every place.
func (w writer) best(places []area, most int) (best area, ok bool) {
	least := math.MaxInt
	whole := area{0, 0, w.layout.width, w.layout.height}
	for _, a := range places {
		size := a.width * a.height
		if size == 0 || a.overlap(whole) < size || w.besideQTA(a) {
			continue
		}
		n := (w.hides(a) + w.hides(area{a.x - 1, a.y, a.width + 2, a.height}) + 1) / 2
		if n < least && n <= most {
			best, least, ok = a, n, true
		}
	}
	return best, ok
}

// besideQTA reports whether an area, or one of the columns beside it, contains part of a
// requirement.
func (w writer) besideQTA(a area) bool {
	for y := a.y; y < a.y+a.height; y++ {
		for x := a.x - 1; x <= a.x+a.width; x++ {
			if !w.steps.Blank(x, y) {
				return true
			}
		}
	}
	return false
}

// everywhere returns areas of this size all over the plot.
func (w writer) everywhere(width, height int) []area {
	var all []area
	for y := 0; y+height <= w.layout.height; y++ {
		for x := 1; x+width < w.layout.width; x += 2 {
			all = append(all, area{x, y, width, height})
		}
	}
	return all
}

// corners returns the areas of this size in the corners, the lower right one first. They leave
// room for the text in the lowest row, and for the line of dMax. The last ones are beside the
// lower right corner.
func (w writer) corners(c chart, width, height int) []area {
	const beside = 14
	end := w.layout.width
	for i := range w.series {
		if x := int(c.x.dot(w.series[i].DMax) / braille.CellWidth); x > end-width && x < end {
			end = x
		}
	}
	right, bottom := end-width-1, w.layout.height-height-1
	at := func(x, y int) area { return area{x, y, width, height} }
	return []area{at(right, bottom), at(1, 0), at(right, 1), at(1, bottom), at(right-beside, bottom+1), at(right-beside, bottom)}
}

// draw writes an entry of the legend, and returns the number of columns it took.
func (e *entry) draw(screen tcell.Screen, x, y int) int {
	start := x
	x += put(screen, x, y, len(e.mark), e.mark, e.line.style.Bold(true))
	x += put(screen, x, y, uniseg.StringWidth(e.line.text), e.line.text, e.line.style)
	x++
	x += put(screen, x, y, uniseg.StringWidth(e.name), e.name, tcell.StyleDefault)
	return x - start
}
