package dashboard

import (
	"math"
	"slices"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/tview"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/ui/braille"
	"github.com/beamscope/beamscope/internal/ui/plot"
)

// A plotView draws the ΔQ of one or several outcomes. The user chooses the visible part, which
// stays when new windows arrive.
type plotView struct {
	*tview.Box
	theme *theme

	title     string
	series    []plot.Series
	stairs    [][]plot.Stretch // the requirements of the series
	facts     []words          // about the series, after the title
	ungrouped bool             // groups were requested instead of the plot, but the window has none
	legend    []entry

	selected  bool // the keys act on this plot
	hidden    uint // roles, as bits
	log       bool
	chosen    bool // the user chose the scale
	zoomed    bool
	window    plot.Axis // the visible part, if zoomed
	low, high float64   // visible range of probabilities
	cursor    cursor
	dragged   bool // the mouse drags the plot,
	dragX     int  // and was last in this column

	canvas braille.Canvas
	steps  braille.Canvas // only the requirements
	delays delayMarks
	shares shareMarks
	edges  edgeDots
	taken  []area // areas occupied by words in the plot

	// The area of the legend among the curves now and before; empty if it is elsewhere. If
	// crowded is set, there was no room among the curves, and the legend is above them.
	legendAt, legendWas area
	crowded             bool
	lastDrawn           drawnAs
}

// A cursor is a delay at which curves are read. It is either fixed, or follows the delay by which
// a share p of the instances has succeeded.
type cursor struct {
	on bool
	at time.Duration
	p  float64 // 0 if at is fixed
}

func newPlotView(t *theme) *plotView {
	v := &plotView{Box: tview.NewBox(), theme: t, high: 1}
	v.SetBorder(true)
	return v
}

// show sets the title and the series, which it does not copy.
func (v *plotView) show(title string, series []plot.Series) {
	if title != v.title && !v.chosen {
		v.log = false // the scale is chosen anew for the new series
	}
	v.title, v.series = title, series
	v.stairs = v.stairs[:0]
	for i := range series {
		v.stairs = append(v.stairs, series[i].Requirement())
	}
	v.chooseScale()
	v.facts = v.theme.facts(v.facts[:0], series)
	v.legend = v.entries(v.legend[:0])
}

// toggle hides or shows the curves in a role.
func (v *plotView) toggle(r plot.Role) {
	v.hidden ^= 1 << r
	v.legend = v.entries(v.legend[:0])
}

// nextCurves hides the means, then everything except observed curves, and then shows all again.
func (v *plotView) nextCurves() {
	const means = 1<<plot.Mean | 1<<plot.CalculatedMean
	switch v.hidden {
	case 0:
		v.hidden = means
	case means:
		v.hidden = means | 1<<plot.Calculated
	default:
		v.hidden = 0
	}
	v.legend = v.entries(v.legend[:0])
}

// hiddenRoles returns the roles whose curves are hidden.
func (v *plotView) hiddenRoles() []plot.Role {
	var roles []plot.Role
	for _, r := range plot.Roles() {
		if !v.visible(r) {
			roles = append(roles, r)
		}
	}
	return roles
}

// visible reports whether curves in a role are shown.
func (v *plotView) visible(r plot.Role) bool { return v.hidden&(1<<r) == 0 }

// full returns the axis that shows everything: up to dMax, and some room after it.
func (v *plotView) full() plot.Axis {
	var a plot.Axis
	for i := range v.series {
		a.To = max(a.To, v.series[i].DMax)
	}
	if a.To <= 0 {
		return plot.Axis{To: time.Millisecond}
	}
	if v.log {
		a.Log, a.From = true, min(v.earliest(), a.To/2)
	}
	room := min(0.2, 3/float64(max(1, v.layout().width)))
	a.To = a.Delay(1 / (1 - room))
	return a
}

// earliest returns a round delay above 0 and well before the start of any curve, because a curve
// that begins at the edge could not be distinguished from it. A round delay keeps the axis from
// moving with every window.
func (v *plotView) earliest() time.Duration {
	const room = 0.6
	first := time.Duration(1<<63 - 1)
	for i := range v.series {
		for _, c := range v.series[i].Curves {
			k := slices.IndexFunc(c.Y, func(y float64) bool { return y > 0 })
			from := c.Width / 2
			if k > 1 {
				from = time.Duration(k-1) * c.Width
			}
			first = min(first, from)
		}
	}
	first = time.Duration(room * float64(first))
	power := time.Duration(1)
	for power <= first/10 {
		power *= 10
	}
	for _, m := range []time.Duration{5, 2} {
		if m*power <= first {
			return m * power
		}
	}
	return power
}

// axis returns the visible axis.
func (v *plotView) axis() plot.Axis {
	a := v.full()
	if !v.zoomed {
		return a
	}
	w := plot.Axis{From: max(v.window.From, a.From), To: min(v.window.To, a.To), Log: v.log}
	if w.From >= w.To { // the zoomed part no longer exists
		return a
	}
	return w
}

// look makes the delays between from and to visible, within the limits of the plot.
func (v *plotView) look(from, to time.Duration) {
	a := v.full()
	from, to = max(from, a.From), min(to, a.To)
	if to-from < v.finest() {
		return
	}
	v.zoomed = from > a.From || to < a.To
	v.window = plot.Axis{From: from, To: to}
}

// finest returns the smallest visible range of delays. A bin has no finer detail.
func (v *plotView) finest() time.Duration {
	width := time.Duration(0)
	for i := range v.series {
		for _, c := range v.series[i].Curves {
			if width == 0 || c.Width < width {
				width = c.Width
			}
		}
	}
	return max(2*width, time.Microsecond)
}

// zoom enlarges the delays around the cursor, or around the middle, by a factor.
func (v *plotView) zoom(factor float64) {
	x := 0.5
	if t, ok := v.cursorDelay(); ok {
		if at := v.axis().Position(t); at >= 0 && at <= 1 {
			x = at
		}
	}
	v.zoomAt(x, factor)
}

// zoomAt enlarges the delays around a position on the axis by a factor.
func (v *plotView) zoomAt(x, factor float64) {
	if !(factor > 0) {
		return
	}
	a := v.axis()
	v.look(a.Delay(x-x/factor), a.Delay(x+(1-x)/factor))
}

// pan moves the visible part by a share of its width: to longer delays, or to shorter ones if
// share is negative.
func (v *plotView) pan(share float64) {
	a, whole := v.axis(), v.full()
	from, to := whole.Position(a.From), whole.Position(a.To)
	by := max(-from, min(1-to, share*(to-from)))
	v.look(whole.Delay(from+by), whole.Delay(to+by))
}

// zoomProbability enlarges the probabilities by a factor, around the observed curve at the
// cursor. Without a cursor it enlarges them from the upper end of the range.
func (v *plotView) zoomProbability(factor float64) {
	const least = 0.001
	if !(factor > 0) {
		return
	}
	around := v.high
	if c, t, ok := v.read(); ok {
		if b, known := c.Read(t); known {
			around = max(v.low, min(v.high, b.Mid()))
		}
	}
	low := max(0, around-(around-v.low)/factor)
	high := min(1, around+(v.high-around)/factor)
	if high-low >= least {
		v.low, v.high = low, high
	}
}

// reset shows everything again, and keeps the scale.
func (v *plotView) reset() { v.zoomed, v.low, v.high = false, 0, 1 }

// toggleLog switches between a linear and a logarithmic scale of delays. The scale is then no
// longer chosen automatically.
func (v *plotView) toggleLog() { v.log, v.chosen = !v.log, true }

// A curve hugs the left edge of a linear scale if all successes except a few lie within the part
// hugs of the axis. It no longer does if they take more than the part frees. Between the two the
// scale stays unchanged.
const (
	few         = 0.05
	hugs, frees = 1.0 / 12, 1.0 / 4
)

// chooseScale chooses a logarithmic scale if the curves would hug the left edge of a linear one.
// It does nothing if the user has chosen a scale, has zoomed in or uses the cursor.
func (v *plotView) chooseScale() {
	if v.chosen || v.zoomed || v.cursor.on {
		return
	}
	var reach, end time.Duration
	curves := 0
	for i := range v.series {
		s := &v.series[i]
		end = max(end, s.DMax)
		curves += len(s.Curves)
		c := s.Curve(plot.Observed)
		if c == nil || len(c.Y) == 0 || c.Y[len(c.Y)-1] <= 0 {
			continue
		}
		most := (1 - few) * c.Y[len(c.Y)-1]
		at := slices.IndexFunc(c.Y, func(y float64) bool { return y >= most })
		reach = max(reach, time.Duration(at)*c.Width)
	}
	switch part := float64(reach) / float64(end); {
	case curves == 0:
		v.log = false
	case reach <= 0 || end <= 0:
	case part < hugs:
		v.log = true
	case part > frees:
		v.log = false
	}
}

// leading returns the curve that the cursor follows: the first observed one, or else the first
// visible one.
func (v *plotView) leading() *plot.Curve {
	for _, r := range []plot.Role{plot.Observed, plot.Calculated, plot.Mean, plot.CalculatedMean, plot.Earlier} {
		for i := range v.series {
			if c := v.series[i].Curve(r); c != nil && v.visible(r) {
				return c
			}
		}
	}
	return nil
}

// read returns the curve that the cursor follows, and the delay at the cursor.
func (v *plotView) read() (*plot.Curve, time.Duration, bool) {
	c := v.leading()
	t, ok := v.cursorDelay()
	return c, t, ok && c != nil
}

// cursorDelay returns the delay at the cursor. It returns false without a cursor, and if the
// curve does not reach the cursor's share.
func (v *plotView) cursorDelay() (time.Duration, bool) {
	if !v.cursor.on || v.cursor.p == 0 {
		return v.cursor.at, v.cursor.on
	}
	c := v.leading()
	if c == nil {
		return 0, false
	}
	return c.Reaches(v.cursor.p)
}

// cursorBy moves the cursor by this many cells of the screen, and at least to the next edge of a
// bin. The visible part follows.
func (v *plotView) cursorBy(cells int) {
	a := v.axis()
	from, ok := v.cursorDelay()
	if !ok {
		v.cursorAt(0.5)
		return
	}
	to := v.snap(a.Delay(a.Position(from) + float64(cells)/float64(max(1, v.layout().width))))
	if c := v.leading(); c != nil && to == v.snap(from) {
		switch {
		case cells > 0:
			to = v.snap(to + c.Width)
		case cells < 0:
			to = v.snap(to - c.Width)
		}
	}
	v.cursor = cursor{on: true, at: to}
	v.follow()
}

// cursorAt moves the cursor to the edge of a bin nearest to a position on the axis.
func (v *plotView) cursorAt(x float64) {
	a := v.axis()
	v.cursor = cursor{on: true, at: v.snap(a.Delay(max(0, min(1, x))))}
}

// snap returns the edge of a bin nearest to a delay, for the curve that the cursor follows.
// Figures are exact at edges. The edge is visible if nothing is zoomed.
func (v *plotView) snap(t time.Duration) time.Duration {
	a := v.full()
	t = max(a.From, min(a.To, t))
	c := v.leading()
	if c == nil {
		return t
	}
	first, last := (a.From+c.Width-1)/c.Width, a.To/c.Width
	return min(max((t+c.Width/2)/c.Width, first), last) * c.Width
}

// follow keeps the cursor in the visible part.
func (v *plotView) follow() {
	t, ok := v.cursorDelay()
	if !ok || !v.zoomed {
		return
	}
	const room = 0.1 // between the cursor and the edge of the visible part
	switch x := v.axis().Position(t); {
	case math.IsInf(x, -1):
	case x < 0:
		v.pan(x - room)
	case x > 1:
		v.pan(x - 1 + room)
	}
}

// cursorTo moves the cursor to where the observed curve reaches a share p. The cursor stays at
// this share in later windows.
func (v *plotView) cursorTo(p float64) {
	if p > 0 && p <= 1 {
		v.cursor = cursor{on: true, p: p}
		v.follow()
	}
}

// cursorQuantile moves the cursor by this many round shares. Without a current one it moves to a
// half.
func (v *plotView) cursorQuantile(steps int) {
	all := roundShares()
	at := v.roundShare()
	if at == 0 {
		v.cursorTo(0.5)
		return
	}
	i := slices.Index(all, at) + steps
	v.cursorTo(all[max(0, min(len(all)-1, i))])
}

func (v *plotView) cursorOff() { v.cursor = cursor{} }

// roundShares returns the probabilities at which the cursor stops.
func roundShares() []float64 {
	return []float64{0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999}
}

// roundShare returns the greatest round share that is certainly reached at the cursor, or 0.
func (v *plotView) roundShare() float64 {
	reached := v.cursor.p
	if reached == 0 {
		c, t, ok := v.read()
		if !ok {
			return 0
		}
		b, _ := c.Read(t)
		reached = b.Lo
	}
	round := 0.0
	for _, p := range roundShares() {
		if dq.AtLeast(reached, p) {
			round = p
		}
	}
	return round
}

// MouseHandler implements [tview.Primitive]: a click moves the cursor, dragging pans,
// and the wheel zooms.
func (v *plotView) MouseHandler() func(tview.MouseAction, *tcell.EventMouse, func(tview.Primitive)) (bool, tview.Primitive) {
	return v.WrapMouseHandler(func(action tview.MouseAction, event *tcell.EventMouse, _ func(tview.Primitive)) (bool, tview.Primitive) {
		x, y := event.Position()
		if v.dragged {
			return v.drag(action, x)
		}
		if !v.InRect(x, y) {
			return false, nil
		}
		if action == tview.MouseLeftDown {
			v.dragged, v.dragX = true, x
			return true, v
		}
		return v.mouse(action, x), nil
	})
}

// drag follows the mouse until its button is released.
func (v *plotView) drag(action tview.MouseAction, x int) (bool, tview.Primitive) {
	switch action {
	case tview.MouseLeftUp:
		v.dragged = false
		return true, nil
	case tview.MouseMove:
		v.pan(float64(v.dragX-x) / float64(max(1, v.layout().width)))
		v.dragX = x
	}
	return true, v
}

// mouse handles a mouse action at a column of the screen, and reports whether it did anything.
func (v *plotView) mouse(action tview.MouseAction, x int) bool {
	const factor, step = 1.25, 0.1
	g := v.layout()
	at := (float64(x-g.x) + 0.5) / float64(max(1, g.width))
	switch action {
	case tview.MouseLeftClick:
		v.cursorAt(at)
	case tview.MouseScrollUp:
		v.zoomAt(max(0, min(1, at)), factor)
	case tview.MouseScrollDown:
		v.zoomAt(max(0, min(1, at)), 1/factor)
	case tview.MouseScrollLeft:
		v.pan(-step)
	case tview.MouseScrollRight:
		v.pan(step)
	default:
		return false
	}
	return true
}
