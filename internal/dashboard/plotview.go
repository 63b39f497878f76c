package dashboard

import (
	"math"
	"slices"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/tview"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/braille"
	"github.com/beamscope/beamscope/internal/plot"
)

// A plotView draws the ΔQ of one or several probes. Which part of it is seen is up to
// the person who looks at it, and stays while new windows come in.
type plotView struct {
	*tview.Box
	theme *theme

	title     string
	series    []plot.Series
	stairs    [][]plot.Stretch // the requirements of the series
	facts     []words          // about the series, behind the title
	ungrouped bool             // groups are wanted in the place of the plot, and the window has none
	legend    []entry

	selected  bool // the keys act on it
	hidden    uint // roles, as bits
	log       bool
	chosen    bool // the scale was, by a person
	zoomed    bool
	window    plot.Axis // that is seen, where zoomed
	low, high float64   // probabilities that are seen
	cursor    cursor
	dragged   bool // with the mouse,
	dragX     int  // which was here

	canvas braille.Canvas
	steps  braille.Canvas // the requirements alone
	delays delayMarks
	shares shareMarks
	edges  edgeDots
	taken  []area // by words in the plot

	// Where the legend is among the curves, empty where it is not there, and where it was
	// before. It is above them where it was found that there is no room.
	legendAt, legendWas area
	crowded             bool
	lastDrawn           drawnAs
}

// A cursor is a delay at which curves are read: one that was chosen, or the one at
// which a share p of the instances has succeeded, as it moves from window to window.
type cursor struct {
	on bool
	at time.Duration
	p  float64 // 0 where at was chosen
}

func newPlotView(t *theme) *plotView {
	v := &plotView{Box: tview.NewBox(), theme: t, high: 1}
	v.SetBorder(true)
	return v
}

// show sets what is shown from now on. The series are not copied.
func (v *plotView) show(title string, series []plot.Series) {
	if title != v.title && !v.chosen {
		v.log = false // until it is chosen for what is shown now
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

// toggle hides the curves in a role, or shows them again.
func (v *plotView) toggle(r plot.Role) {
	v.hidden ^= 1 << r
	v.legend = v.entries(v.legend[:0])
}

// nextCurves leaves out the means, then all but what is observed, and then nothing.
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

// hiddenRoles returns the roles whose curves are not shown.
func (v *plotView) hiddenRoles() []plot.Role {
	var roles []plot.Role
	for _, r := range plot.Roles() {
		if !v.visible(r) {
			roles = append(roles, r)
		}
	}
	return roles
}

// visible tells whether curves in a role are shown.
func (v *plotView) visible(r plot.Role) bool { return v.hidden&(1<<r) == 0 }

// full returns the axis on which everything can be seen: up to dMax, and some room
// behind it.
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

// earliest returns a round delay more than 0, and some time before anything can be seen of any
// curve: a curve that begins at the edge could not be told from it. It is round so that the
// axis does not move with every window.
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

// axis returns the axis that is seen.
func (v *plotView) axis() plot.Axis {
	a := v.full()
	if !v.zoomed {
		return a
	}
	w := plot.Axis{From: max(v.window.From, a.From), To: min(v.window.To, a.To), Log: v.log}
	if w.From >= w.To { // what was zoomed in on is gone
		return a
	}
	return w
}

// look has the delays between from and to be seen, as far as there are such.
func (v *plotView) look(from, to time.Duration) {
	a := v.full()
	from, to = max(from, a.From), min(to, a.To)
	if to-from < v.finest() {
		return
	}
	v.zoomed = from > a.From || to < a.To
	v.window = plot.Axis{From: from, To: to}
}

// finest returns how little of the delays can be seen at once: there is nothing to see
// within a bin.
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

// zoom shows the delays around the cursor, or in the middle, larger by a factor.
func (v *plotView) zoom(factor float64) {
	x := 0.5
	if t, ok := v.cursorDelay(); ok {
		if at := v.axis().Position(t); at >= 0 && at <= 1 {
			x = at
		}
	}
	v.zoomAt(x, factor)
}

// zoomAt is zoom around a position on the axis.
func (v *plotView) zoomAt(x, factor float64) {
	if !(factor > 0) {
		return
	}
	a := v.axis()
	v.look(a.Delay(x-x/factor), a.Delay(x+(1-x)/factor))
}

// pan moves on to longer delays by a share of those that are seen, to shorter ones
// where it is below 0.
func (v *plotView) pan(share float64) {
	a, whole := v.axis(), v.full()
	from, to := whole.Position(a.From), whole.Position(a.To)
	by := max(-from, min(1-to, share*(to-from)))
	v.look(whole.Delay(from+by), whole.Delay(to+by))
}

// zoomProbability shows probabilities larger by a factor: those around where the
// observed curve is at the cursor, or without a cursor those below 1.
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

// reset shows everything again, on the scale that it is on.
func (v *plotView) reset() { v.zoomed, v.low, v.high = false, 0, 1 }

// toggleLog changes between a linear and a logarithmic scale of delays, for good.
func (v *plotView) toggleLog() { v.log, v.chosen = !v.log, true }

// A curve hugs the left edge of a linear scale where all but a few successes are within so
// small a part of it, and does not any more where they take so large a part. Between the
// two the scale stays as it is.
const (
	few         = 0.05
	hugs, frees = 1.0 / 12, 1.0 / 4
)

// chooseScale makes the scale logarithmic where the curves would hug the left edge of a
// linear one, unless a person has chosen one or looks at a part.
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

// leading returns the curve that the cursor follows: the first that was observed, or
// else the first that there is.
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

// read returns the curve that the cursor follows, and the delay that it is at.
func (v *plotView) read() (*plot.Curve, time.Duration, bool) {
	c := v.leading()
	t, ok := v.cursorDelay()
	return c, t, ok && c != nil
}

// cursorDelay returns the delay that the cursor is at. It is false without a cursor,
// and where the share that it is to be at is not reached.
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

// cursorBy moves the cursor by so many cells of the screen, and at least to the next
// edge; the part that is seen moves with it.
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

// cursorAt moves the cursor to a position on the axis, or the edge next to it.
func (v *plotView) cursorAt(x float64) {
	a := v.axis()
	v.cursor = cursor{on: true, at: v.snap(a.Delay(max(0, min(1, x))))}
}

// snap returns the edge of a bin of the curve that the cursor follows that is next to a
// delay, and can be seen when nothing is zoomed: figures are exact there.
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

// follow has the cursor be seen where only a part of the delays is.
func (v *plotView) follow() {
	t, ok := v.cursorDelay()
	if !ok || !v.zoomed {
		return
	}
	const room = 0.1 // between the cursor and the end
	switch x := v.axis().Position(t); {
	case math.IsInf(x, -1):
	case x < 0:
		v.pan(x - room)
	case x > 1:
		v.pan(x - 1 + room)
	}
}

// cursorTo moves the cursor to where the observed curve reaches a share p, and leaves
// it there in the windows to come.
func (v *plotView) cursorTo(p float64) {
	if p > 0 && p <= 1 {
		v.cursor = cursor{on: true, p: p}
		v.follow()
	}
}

// cursorQuantile moves the cursor by so many round shares; from none to a half.
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

// roundShares returns the probabilities that the cursor stops at.
func roundShares() []float64 {
	return []float64{0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999}
}

// roundShare returns the greatest round share that is surely reached at the cursor;
// 0 where there is none.
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

// mouse does what the mouse says at a column of the screen, and tells whether that is
// anything.
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
