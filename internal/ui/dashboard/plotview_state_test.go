package dashboard

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/rivo/tview"
	"pgregory.net/rapid"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/ui/plot"
	"github.com/beamscope/beamscope/internal/ui/tui"
	"github.com/beamscope/beamscope/internal/ui/tui/tuitest"
)

const ms = time.Millisecond

// simple returns an outcome of 10 instances in bins of 10 ms: 2, 4, 0 and 3 instances, and one
// timeout.
func simple(t testing.TB, q *dq.QTA) plot.Series {
	t.Helper()
	return made(t, q, 10*ms, 1, 2, 4, 0, 3)
}

func made(t testing.TB, q *dq.QTA, width time.Duration, timeouts uint64, counts ...uint64) plot.Series {
	t.Helper()
	p, err := observedAs(width, timeouts, counts)
	if err != nil {
		t.Fatal(err)
	}
	return plot.Of(p, q, nil, "")
}

func observedAs(width time.Duration, timeouts uint64, counts []uint64) (*scope.Outcome, error) {
	g, err := dq.NewGrid(width, len(counts))
	if err != nil {
		return nil, err
	}
	o, err := dq.FromCounts(g, counts, 0, timeouts)
	if err != nil {
		return nil, err
	}
	p := &scope.Outcome{Name: "p", Spec: outcome.Spec{BinWidth: width, Bins: len(counts)}, Observed: o}
	p.Counts = outcome.Counts{Successes: o.Successes(), Timeouts: timeouts}
	if o.Empty() {
		return p, nil
	}
	p.Calculated, err = o.DeltaQ()
	return p, err
}

// view returns a plot of series with 66 columns and 20 rows.
func view(series ...plot.Series) *plotView {
	v := newPlotView(&theme{tui.NewTheme(256)})
	v.SetRect(0, 0, 66, 20)
	v.show("p", series)
	return v
}

func TestZoom(t *testing.T) {
	v := view(simple(t, nil))
	whole := v.axis()
	if whole.From != 0 || whole.To < 40*ms || whole.To > 44*ms {
		t.Fatalf("at first from %v to %v, want from 0 to a bit more than 40ms", whole.From, whole.To)
	}
	v.zoom(2)
	a := v.axis()
	if got, want := a.To-a.From, whole.To/2; (got - want).Abs() > 1 {
		t.Errorf("twice as large: %v, want %v", got, want)
	}
	v.pan(-10)
	if a := v.axis(); a.From != 0 || (a.To-whole.To/2).Abs() > 1 {
		t.Errorf("panned beyond the beginning: %v to %v", a.From, a.To)
	}
	v.pan(0.5)
	if a := v.axis(); (a.From - whole.To/4).Abs() > 2 {
		t.Errorf("panned by half: from %v, want %v", a.From, whole.To/4)
	}
	v.cursorTo(0.2) // at 10 ms
	before := v.axis().Position(10 * ms)
	v.zoom(2)
	if after := v.axis().Position(10 * ms); math.Abs(after-before) > 1e-6 {
		t.Errorf("the cursor has moved from %v to %v", before, after)
	}
	for range 100 {
		v.zoom(2)
	}
	if a := v.axis(); a.To-a.From < 20*ms {
		t.Errorf("zoomed to %v, want no less than two bins", a.To-a.From)
	}
	v.zoom(0)
	v.zoom(1e-9)
	if diff := cmp.Diff(whole, v.axis()); diff != "" {
		t.Errorf("zoomed out, -want +got:\n%s", diff)
	}
}

// The zoomed part stays while windows arrive, as far as it exists.
func TestZoomStays(t *testing.T) {
	v := view(simple(t, nil))
	v.zoom(2)
	before := v.axis()
	v.show("p", []plot.Series{made(t, nil, 10*ms, 0, 1, 1, 1, 1)})
	if diff := cmp.Diff(before, v.axis()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	v.show("p", []plot.Series{made(t, nil, ms, 0, 1, 1, 1, 1)})
	if a := v.axis(); a.From != 0 || a.To < 4*ms || a.To > 5*ms {
		t.Errorf("from %v to %v of 4ms", a.From, a.To)
	}
}

func TestZoomProbability(t *testing.T) {
	v := view(simple(t, nil))
	v.zoomProbability(2)
	if v.low != 0.5 || v.high != 1 {
		t.Errorf("without a cursor %v to %v, want the upper half", v.low, v.high)
	}
	v.reset()
	v.cursorTo(0.6) // at 20 ms, where 60 % are done
	v.zoomProbability(2)
	if math.Abs(v.low-0.3) > 1e-9 || math.Abs(v.high-0.8) > 1e-9 {
		t.Errorf("at 0.6: %v to %v, want 0.3 to 0.8", v.low, v.high)
	}
	for range 100 {
		v.zoomProbability(2)
	}
	if v.high-v.low < 0.001 {
		t.Errorf("%v to %v", v.low, v.high)
	}
	v.zoomProbability(-1)
	v.zoomProbability(1e-9)
	if v.low != 0 || v.high != 1 {
		t.Errorf("zoomed out: %v to %v", v.low, v.high)
	}
}

// A logarithmic scale has no 0, so the axis begins a little before the first visible point.
func TestLog(t *testing.T) {
	for name, tt := range map[string]struct {
		series plot.Series
		from   time.Duration
	}{
		"from the first bin on":   {simple(t, nil), 2 * ms},
		"from the first edge on":  {made(t, nil, ms, 0, 0, 0, 0, 0, 0, 0, 0, 1, 5, 0, 0, 0), 2 * ms},
		"without a success":       {made(t, nil, ms, 1, 0, 0, 0, 0), 200 * time.Microsecond},
		"without anything at all": {made(t, nil, ms, 0, 0, 0, 0, 0), 2 * ms},
	} {
		v := view(tt.series)
		v.toggleLog()
		if a := v.axis(); a.From != tt.from || !a.Log {
			t.Errorf("%s: %+v, want from %v", name, a, tt.from)
		}
		v.toggleLog()
		if a := v.axis(); a.From != 0 || a.Log {
			t.Errorf("%s: and back: %+v", name, a)
		}
	}
}

// A plot has a logarithmic scale if its curve would hug the left edge, and a linear one if it
// clearly would not. Between the two limits, and after the user has chosen a scale, it does not
// change.
func TestScaleIsChosen(t *testing.T) {
	// slow returns a series of 100 bins whose instances all end in the given bin.
	slow := func(bins int) []plot.Series {
		counts := make([]uint64, 100)
		counts[bins-1] = 50
		return []plot.Series{made(t, nil, ms, 0, counts...)}
	}
	v := view(slow(50)[0])
	for _, step := range []struct {
		bins int
		log  bool
	}{{50, false}, {20, false}, {10, false}, {8, true}, {10, true}, {24, true}, {26, false}, {10, false}, {1, true}, {100, false}} {
		v.show("a", slow(step.bins))
		if v.axis().Log != step.log {
			t.Errorf("all end within %d %% of the scale: logarithmic %v, want %v", step.bins, v.axis().Log, step.log)
		}
	}
	v.show("a", slow(2))
	v.show("b", slow(20))
	if v.axis().Log {
		t.Error("a plot of another probe keeps the logarithmic scale")
	}
	v.show("b", slow(2))
	v.show("b", []plot.Series{made(t, nil, ms, 0, make([]uint64, 100)...)})
	if v.axis().Log {
		t.Error("a plot without curves has a logarithmic scale")
	}
	v.show("b", slow(2))
	v.toggleLog()
	v.show("a", slow(1))
	if v.axis().Log {
		t.Error("the chosen scale was not kept")
	}
	v = view(slow(50)[0])
	v.cursorAt(0.5)
	v.show("a", slow(1))
	if v.axis().Log {
		t.Error("the scale changes while the cursor is on")
	}
}

func TestCursor(t *testing.T) {
	v := view(simple(t, nil))
	at := func(want time.Duration) {
		t.Helper()
		if got, ok := v.cursorDelay(); !ok || got != want {
			t.Errorf("at %v, %v, want %v", got, ok, want)
		}
	}
	if _, ok := v.cursorDelay(); ok || v.readout() != nil {
		t.Error("there is a cursor from the beginning")
	}
	v.cursorQuantile(1)
	at(20 * ms) // median
	v.cursorQuantile(1)
	at(40 * ms) // third quartile
	v.cursorQuantile(1)
	at(40 * ms) // quantile 0.9
	v.cursorQuantile(1)
	if got, ok := v.cursorDelay(); ok {
		t.Errorf("0.95 is never reached, but the cursor is at %v", got)
	}
	if diff := cmp.Diff([]string{"95% within  observed never  calculated never"}, v.readout()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	v.cursorQuantile(-100)
	at(10 * ms)

	v.cursorTo(0.5)
	v.show("p", []plot.Series{made(t, nil, 10*ms, 0, 0, 0, 0, 1)})
	at(40 * ms) // the cursor follows its quantile

	v.cursorAt(0.5)
	half, _ := v.cursorDelay()
	v.cursorBy(3)
	v.cursorBy(-3)
	if got, _ := v.cursorDelay(); got != half {
		t.Errorf("there and back: %v, want %v", got, half)
	}
	v.cursorBy(-1000)
	at(0)
	v.cursorTo(2)
	at(0)
	v.cursorOff()
	v.cursorBy(7)
	if got, _ := v.cursorDelay(); got != half {
		t.Errorf("from no cursor to %v, want the middle", got)
	}
}

// The cursor stops at edges of bins, because figures are exact there. This holds both for many
// edges in one cell and for bins wider than a cell. The visible part follows the cursor.
func TestCursorSnaps(t *testing.T) {
	v := view(simple(t, nil))
	v.cursorAt(0.33)
	for _, step := range []int{0, 1, 1, -1, -1, -1} {
		before, _ := v.cursorDelay()
		if step != 0 {
			v.cursorBy(step)
		}
		at, ok := v.cursorDelay()
		if !ok || at%(10*ms) != 0 || at-before != time.Duration(step)*10*ms {
			t.Errorf("from %v by %d to %v", before, step, at)
		}
	}

	v.look(5*ms, 35*ms)
	v.cursorTo(0.9)
	if a := v.axis(); a.From > 40*ms || a.To < 40*ms || a.To-a.From > 31*ms {
		t.Errorf("the cursor is at 40 ms, and the visible part is %+v", a)
	}
	v.look(15*ms, 35*ms)
	v.cursorBy(-1000)
	if a := v.axis(); a.From != 0 {
		t.Errorf("the cursor is at 0, and the visible part is %+v", a)
	}
	v.toggleLog()
	v.cursorBy(-1000)
	if at, _ := v.cursorDelay(); at%(10*ms) != 0 || at <= 0 {
		t.Errorf("at %v of a logarithmic scale", at)
	}
}

// The readout of a mean contains its bounds, and the interval in which a quantile lies according
// to them.
func TestReadoutOfMean(t *testing.T) {
	band := dq.Band{
		Mean: []float64{0, 0.3, 0.5, 0.6, 0.8}, Lo: []float64{0, 0.2, 0.4, 0.5, 0.7}, Hi: []float64{0, 0.4, 0.6, 0.7, 0.9}}
	p := &scope.Outcome{Name: "p", Mean: scope.Mean{Width: 10 * ms, Windows: 9, Band: band}}
	v := view(plot.Of(p, nil, nil, ""))
	for _, tt := range []struct {
		windows int
		p       float64
		want    []string
	}{
		{9, 0.5, []string{"at 20ms  mean 50.0 (40.0…60.0)%", "50% within  mean 20.0…30.0ms"}},
		{9, 0.75, []string{"at 40ms  mean 80.0 (70.0…90.0)%", "75% within  mean ≥40.0ms"}},
		{9, 0.95, []string{"95% within  mean never"}},
		{1, 0.5, []string{"at 20ms  mean 50.0%", "50% within  mean 20.0ms"}},
	} {
		p.Mean.Windows = tt.windows
		v.show("p", []plot.Series{plot.Of(p, nil, nil, "")})
		v.cursorTo(tt.p)
		if diff := cmp.Diff(tt.want, v.readout()); diff != "" {
			t.Errorf("%v of %d windows, -want +got:\n%s", tt.p, tt.windows, diff)
		}
	}
}

// The shown slack is rounded down, and the shown hazard up.
func TestMarginsAreRounded(t *testing.T) {
	m := &dq.Margin{Time: 18256 * time.Microsecond, HasTime: true, Probability: 0.012345}
	if got := marginOf(&dq.Judgement{Slack: m}); got != "slack 18.2ms, 1.23%" {
		t.Error(got)
	}
	if got := marginOf(&dq.Judgement{Hazard: m}); got != "hazard 18.3ms, 1.24%" {
		t.Error(got)
	}
}

func TestReadout(t *testing.T) {
	q, err := dq.Quartiles(5*ms, 10*ms, 30*ms, 0.05)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		do   func(*plotView)
		want []string
	}{
		{"off", func(v *plotView) { v.cursorOff() }, nil},
		{"within a bin", func(v *plotView) { v.cursor = cursor{on: true, at: 15 * ms} }, []string{
			"at 15ms  observed 20.0…60.0%  calculated 20.0…60.0%  QTA 50%",
			"10% within  observed ≤10.0ms  calculated ≤10.0ms"}},
		{"between edges where nothing is", func(v *plotView) { v.cursor = cursor{on: true, at: 29 * ms} }, []string{
			"at 29ms  observed 60.0%  calculated 60.0%  QTA 50%",
			"50% within  observed ≤20.0ms  calculated ≤20.0ms"}},
		{"missed in the end", func(v *plotView) { v.cursor = cursor{on: true, at: 40 * ms} }, []string{
			"at 40ms  observed 90.0%  calculated 90.0%  QTA 95% missed",
			"90% within  observed ≤40.0ms  calculated ≤40.0ms"}},
		{"before anything", func(v *plotView) { v.cursor = cursor{on: true, at: 2 * ms} }, []string{
			"at 2ms  observed 0.0…20.0%  calculated 0.0…20.0%"}},
		{"hidden", func(v *plotView) { v.cursorTo(0.5); v.toggle(plot.Calculated) }, []string{
			"at 20ms  observed 60.0%  QTA 50%",
			"50% within  observed ≤20.0ms"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := view(simple(t, &q))
			tt.do(v)
			if diff := cmp.Diff(tt.want, v.readout()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestReadoutOfSeveral(t *testing.T) {
	slow := made(t, nil, 10*ms, 0, 0, 0, 0, 1)
	slow.Name = "slow"
	v := view(simple(t, nil), slow)
	v.cursorTo(0.5)
	want := []string{"1 p  at 20ms  observed 60.0%  calculated 60.0%", "2 slow  at 20ms  observed 0.0%  calculated 0.0%"}
	if diff := cmp.Diff(want, v.readout()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	v.cursorTo(0.99)
	want = []string{"1 p  99% within  observed never  calculated never", "2 slow  99% within  observed ≤40.0ms  calculated ≤40.0ms"}
	if diff := cmp.Diff(want, v.readout()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestBetween(t *testing.T) {
	tests := []struct {
		lo, hi float64
		want   string
	}{
		{0, 0, "0.0%"},
		{1, 1, "100.0%"},
		{0.932, 0.935, "93.2…93.5%"},
		{0.93251, 0.93749, "93.2…93.8%"},
		{0.5, 0.9999999, "50.0…100.0000%"},
		{0.9511, 0.9512, "95.1%"},
		{0.5, 0.9999, "50.0…99.99%"},
		{0.9996, 1, "99.96…100.0%"},
		{0.00001, 0.00002, "0.001…0.002%"},
		{0.0483, 0.0999, "4.83…9.99%"},
		{0.09996, 0.1, "10.0%"},
		{0, 1e-9, "0.0…0.0001%"},
		{0.99999999, 1, "99.9999…100.0%"},
		{1. / 3, math.Nextafter(1./3, 1), "33.3%"},
	}
	for _, tt := range tests {
		if got := between(dq.Bounds{Lo: tt.lo, Hi: tt.hi}); got != tt.want {
			t.Errorf("%v to %v is shown as %s, want %s", tt.lo, tt.hi, got, tt.want)
		}
	}
}

// mouseEvent returns a mouse event at a position of the screen.
func mouseEvent(x, y int) *tcell.EventMouse {
	return tcell.NewEventMouse(x, y, tcell.ButtonNone, tcell.ModNone)
}

func TestMouse(t *testing.T) {
	v := view(simple(t, nil))
	handle := v.MouseHandler()
	send := func(action tview.MouseAction, x, y int) (bool, tview.Primitive) {
		t.Helper()
		return handle(action, mouseEvent(x, y), func(tview.Primitive) {})
	}
	if consumed, _ := send(tview.MouseLeftDown, 70, 5); consumed {
		t.Error("a click outside the plot is consumed")
	}
	if consumed, capture := send(tview.MouseLeftDown, 30, 5); !consumed || capture != tview.Primitive(v) {
		t.Errorf("button pressed: consumed %v, captured by %v", consumed, capture)
	}
	if consumed, capture := send(tview.MouseLeftUp, 30, 5); !consumed || capture != nil {
		t.Errorf("button released: consumed %v, captured by %v", consumed, capture)
	}
	if consumed, _ := send(tview.MouseLeftClick, 30, 5); !consumed {
		t.Error("a click is not consumed")
	}
	g := v.layout()
	clicked, ok := v.cursorDelay()
	if at := v.axis().Delay((float64(30-g.x) + 0.5) / float64(g.width)); !ok || (clicked-at).Abs() > 5*ms || clicked%(10*ms) != 0 {
		t.Errorf("clicked at %v, %v, want the edge next to %v", clicked, ok, at)
	}
	before := v.axis()
	if consumed, _ := send(tview.MouseScrollUp, 30, 5); !consumed {
		t.Error("the wheel is not consumed")
	}
	if a := v.axis(); a.To-a.From >= before.To-before.From || a.From >= clicked || a.To <= clicked {
		t.Errorf("zoomed to %v…%v around %v", a.From, a.To, clicked)
	}
	if consumed, _ := send(tview.MouseMove, 30, 5); consumed {
		t.Error("a move without a button is consumed")
	}
	zoomed := v.axis()
	send(tview.MouseLeftDown, 30, 5)
	if consumed, capture := send(tview.MouseMove, 27, 90); !consumed || capture != tview.Primitive(v) {
		t.Error("a drag is not followed")
	}
	send(tview.MouseLeftUp, 27, 90)
	by := time.Duration(3 / float64(g.width) * float64(zoomed.To-zoomed.From))
	if a := v.axis(); (a.From - zoomed.From - by).Abs() > 2 {
		t.Errorf("dragged from %v to %v, want by %v", zoomed.From, a.From, by)
	}
	send(tview.MouseScrollLeft, 30, 5)
	if a := v.axis(); a.From >= zoomed.From+by {
		t.Errorf("the wheel to the left pans to %v", a.From)
	}
	send(tview.MouseScrollRight, 30, 5)
	for range 10 {
		send(tview.MouseScrollDown, 30, 5)
	}
	if diff := cmp.Diff(before, v.axis()); diff != "" {
		t.Errorf("zoomed out, -want +got:\n%s", diff)
	}
}

// All of a thousand instances take the same time. The curve rises in one step, although it has
// far more edges than there are columns.
func TestStepWithinAColumn(t *testing.T) {
	counts := make([]uint64, 1000)
	counts[500] = 1000
	v := view(made(t, nil, 10*time.Microsecond, 0, counts...))
	v.toggle(plot.Calculated)
	v.Draw(newScreen(t, 66, 20))
	g := v.layout()
	column := int(xScale{v.axis(), g.width}.dot(5010*time.Microsecond) / 2)
	for y := range g.height {
		if v.canvas.Blank(column, y) && v.canvas.Blank(column-1, y) {
			t.Errorf("row %d of %d is blank at the step", y, g.height)
		}
	}
	for y := 1; y < g.height-1; y++ {
		for x := range g.width {
			if x != column && x != column-1 && x < g.width-4 && !v.canvas.Blank(x, y) {
				t.Errorf("there is something at (%d, %d), off the step", x, y)
			}
		}
	}
}

// Drawing a plot, which happens five times a second for each, allocates little.
func TestDrawingAllocatesLittle(t *testing.T) {
	const most = 30
	v := view(busy(t))
	screen := newScreen(t, 66, 20)
	if n := testing.AllocsPerRun(10, func() { v.Draw(screen) }); n > most {
		t.Errorf("%v allocations to draw a plot, want at most %d", n, most)
	}
}

// Text that is too wide ends with an ellipsis, and is never cut within a character.
func TestPut(t *testing.T) {
	for _, tt := range []struct {
		text    string
		columns int
		want    string
	}{
		{"probe", 5, "probe"},
		{"probe", 4, "pro…"},
		{"probe", 1, "…"},
		{"probe", 0, ""},
		{"探针", 4, "探针"},
		{"探针", 3, "探…"},
		{"探针", 2, "…"},
		{"[red]", 9, "[red]"},
	} {
		screen := newScreen(t, 10, 1)
		used := put(screen, 0, 0, tt.columns, tt.text, tcell.StyleDefault)
		if got := strings.TrimSpace(tuitest.Text(screen)); got != tt.want || used > tt.columns {
			t.Errorf("%q in %d columns: %q in %d", tt.text, tt.columns, got, used)
		}
	}
}

// draws returns a random view of random outcomes after random actions.
func draws(t *rapid.T) *plotView {
	v := newPlotView(&theme{tui.NewTheme(rapid.SampledFrom([]int{0, 8, 16, 256}).Draw(t, "colours"))})
	for range rapid.IntRange(0, 4).Draw(t, "steps") {
		v.show("a title that is long", rapid.SliceOfN(anySeries(), 0, 3).Draw(t, "series"))
		v.SetRect(2, 1, rapid.IntRange(0, 70).Draw(t, "width"), rapid.IntRange(0, 30).Draw(t, "height"))
		factor := rapid.OneOf(rapid.Float64Range(0.1, 10), rapid.SampledFrom([]float64{0, -1, math.NaN(), math.Inf(1)})).Draw(t, "factor")
		for range rapid.IntRange(0, 5).Draw(t, "things") {
			rapid.SampledFrom([]func(){
				v.toggleLog, v.reset, v.cursorOff,
				func() { v.zoom(factor) },
				func() { v.zoomProbability(factor) },
				func() { v.pan(factor - 1) },
				func() { v.cursorBy(int(10 * min(9, factor))) },
				func() { v.cursorTo(factor) },
				func() { v.cursorQuantile(rapid.IntRange(-2, 2).Draw(t, "quantiles")) },
				func() { v.toggle(rapid.SampledFrom(plot.Roles()).Draw(t, "role")) },
			}).Draw(t, "thing")()
		}
	}
	return v
}

func anySeries() *rapid.Generator[plot.Series] {
	return rapid.Custom(func(t *rapid.T) plot.Series {
		width := time.Duration(rapid.Int64Range(int64(time.Microsecond), int64(time.Second)).Draw(t, "bin width"))
		counts := rapid.SliceOfN(rapid.Uint64Range(0, 9), 1, 40).Draw(t, "counts")
		p, err := observedAs(width, rapid.Uint64Range(0, 9).Draw(t, "timeouts"), counts)
		if err != nil {
			t.Fatal(err)
		}
		q, err := dq.NewQTA(rapid.Float64Range(0, 1).Draw(t, "failure"),
			dq.Step{T: time.Duration(len(counts)/2) * width, P: rapid.Float64Range(0, 1).Draw(t, "required")})
		if err != nil {
			t.Fatal(err)
		}
		return plot.Of(p, &q, p, "")
	})
}

// Whatever a plot shows and however it is used, it draws nothing outside the view and shows no
// invalid number, and part of the axis stays visible.
func TestPlotOfAnything(t *testing.T) {
	const width, height = 76, 34
	screen := newScreen(t, width, height)
	rapid.Check(t, func(t *rapid.T) {
		v := draws(t)
		screen.Fill('~', tcell.StyleDefault)
		v.Draw(screen)
		x, y, w, h := v.GetRect()
		for row := range height {
			for column := range width {
				inside := column >= x && column < x+w && row >= y && row < y+h
				if text, _, _ := screen.Get(column, row); text != "~" && !inside {
					t.Fatalf("%q at (%d, %d)", text, column, row)
				}
			}
		}
		if a := v.axis(); a.From < 0 || a.From >= a.To || v.low < 0 || v.low >= v.high || v.high > 1 {
			t.Fatalf("from %v to %v, from %v to %v", a.From, a.To, v.low, v.high)
		}
		if said := strings.Join(v.readout(), "\n"); strings.Contains(said, "NaN") || strings.Contains(said, "Inf") || strings.Contains(said, "-") {
			t.Fatal(said)
		}
	})
}
