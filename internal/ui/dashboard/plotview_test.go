package dashboard

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gdamore/tcell/v2"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/engine/session"
	"github.com/beamscope/beamscope/internal/files/recording"
	"github.com/beamscope/beamscope/internal/ui/plot"
	"github.com/beamscope/beamscope/internal/ui/tui"
	"github.com/beamscope/beamscope/internal/ui/tui/tuitest"
)

var update = flag.Bool("update", false, "write what is drawn into the golden files")

// A replayed contains the frames of a replayed recording.
type replayed struct {
	system *scope.System
	frames []*scope.Frame
}

func (r *replayed) Configured(s *scope.System, _ outcome.Plan) error { r.system = s; return nil }
func (r *replayed) Noticed(outcome.Notice) error                     { return nil }
func (r *replayed) Framed(_ *outcome.Batch, f *scope.Frame) error {
	r.frames = append(r.frames, f.Clone())
	return nil
}

// replayCache caches replayed recordings by name. Nothing modifies its values.
var replayCache sync.Map

// replay returns one of the recordings that come with the program.
func replay(t testing.TB, name string) *replayed {
	t.Helper()
	if r, ok := replayCache.Load(name); ok {
		return r.(*replayed)
	}
	file, err := os.Open(filepath.Join(program, name+".bsr"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	entries, err := recording.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	r := new(replayed)
	if err := (session.Replay{Observers: []scope.Observer{r}}).Play(t.Context(), entries); err != nil {
		t.Fatal(err)
	}
	replayCache.Store(name, r)
	return r
}

// series returns the series of an outcome in a frame, together with that of an earlier frame unless
// earlier is negative.
func (r *replayed) series(t testing.TB, frame, earlier int, name string) plot.Series {
	t.Helper()
	find := func(n int) *scope.Outcome {
		for i := range r.frames[n].Outcomes {
			if p := &r.frames[n].Outcomes[i]; p.Name == name {
				return p
			}
		}
		t.Fatalf("no outcome %s in frame %d", name, n)
		return nil
	}
	var before *scope.Outcome
	if earlier >= 0 {
		before = find(earlier)
	}
	label := ""
	if earlier >= 0 {
		label = fmt.Sprintf("window %d, %s", earlier, r.frames[earlier].Time.UTC().Format("15:04:05"))
	}
	return plot.Of(find(frame), r.qta(name), before, label)
}

func (r *replayed) qta(name string) *dq.QTA {
	for _, p := range r.system.Outcomes {
		if p.Spec.Name == name {
			return p.QTA
		}
	}
	return nil
}

// newScreen returns a screen with a size and a number of colours.
func newScreen(t testing.TB, width, height int) tcell.SimulationScreen {
	t.Helper()
	screen := tcell.NewSimulationScreen("UTF-8")
	if err := screen.Init(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(screen.Fini)
	screen.SetSize(width, height)
	screen.Clear()
	return screen
}

// A picture is the expected look of a plot of some size.
type picture struct {
	name          string
	width, height int
	colors        int
	series        []plot.Series
	do            func(*plotView)
}

// Every plot looks the same as in its reviewed golden file.
func TestPictures(t *testing.T) {
	r := replay(t, "mm1k")
	const calm, overload, after = 8, 15, 22
	one := func(frame int) []plot.Series { return []plot.Series{r.series(t, frame, -1, "probe")} }
	both := func(frame int) []plot.Series {
		return []plot.Series{r.series(t, frame, -1, "worker_1"), r.series(t, frame, -1, "worker_2")}
	}
	tests := []picture{
		{"tiny", 20, 6, 256, one(calm), nil},
		{"narrow", 26, 12, 256, one(overload), nil},
		{"low", 40, 8, 256, one(calm), nil},
		{"low-overload", 40, 8, 256, one(overload), nil},
		{"usual", 66, 20, 256, one(calm), func(v *plotView) { v.selected = true }},
		{"overload", 66, 20, 256, one(overload), func(v *plotView) { v.cursorTo(0.5) }},
		{"overload-monochrome", 66, 20, 0, one(overload), func(v *plotView) { v.cursorTo(0.5) }},
		{"overload-16", 66, 20, 16, one(overload), nil},
		{"means", 80, 24, 256, one(after), func(v *plotView) { v.cursorAt(0.1); v.toggle(plot.Earlier) }},
		{"earlier", 66, 20, 256, []plot.Series{r.series(t, calm, overload, "probe")}, func(v *plotView) {
			v.toggle(plot.Mean)
			v.toggle(plot.CalculatedMean)
		}},
		{"everything", 66, 22, 256, []plot.Series{r.series(t, overload, calm, "probe")}, func(v *plotView) { v.cursorTo(0.5) }},
		{"log", 66, 20, 256, one(overload), func(v *plotView) { v.toggleLog(); v.cursorTo(0.25) }},
		{"zoomed", 66, 20, 256, one(overload), func(v *plotView) {
			v.cursorTo(0.5)
			v.zoom(4)
			v.zoomProbability(2)
		}},
		{"two", 66, 20, 256, both(overload), func(v *plotView) { v.cursorTo(0.5) }},
		{"two-monochrome", 66, 20, 0, both(calm), func(v *plotView) { v.toggle(plot.Mean) }},
		{"loss", 66, 16, 256, []plot.Series{lossy(r.series(t, overload, -1, "probe"))}, nil},
		{"loss-cut", 40, 10, 256, []plot.Series{lossy(r.series(t, overload, -1, "probe"))}, nil},
		{"mean-alone", 66, 16, 256, []plot.Series{unseen(r.series(t, after, -1, "probe"))}, nil},
		{"huge", 200, 60, 256, one(overload), func(v *plotView) { v.cursorTo(0.9) }},
		{"nothing", 40, 12, 256, []plot.Series{{Name: "probe", DMax: 50 * time.Millisecond, Caveat: "not observed"}}, nil},
		{"no-series", 40, 12, 256, nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tuitest.Golden(t, *update, filepath.Join("testdata", "plotview", tt.name+".txt"), tt.draw(t))
		})
	}
}

// lossy returns the series with loss added to its window.
func lossy(s plot.Series) plot.Series {
	s.Lost, s.Caveat = 3, "loss"
	return s
}

// unseen returns the series of a window without instances, after windows that had some.
func unseen(s plot.Series) plot.Series {
	s.Curves = slices.DeleteFunc(s.Curves, func(c plot.Curve) bool { return c.Role == plot.Observed || c.Role == plot.Calculated })
	s.Instances, s.HasFailed, s.Caveat = 0, false, "no instances"
	return s
}

// Six plots on a small terminal are legible.
func TestSixPlots(t *testing.T) {
	const width, height = 26, 12
	r := replay(t, "mm1k")
	screen := newScreen(t, 3*width, 2*height)
	for i := range 6 {
		name := []string{"worker_1", "worker_2", "probe"}[i%3]
		v := newPlotView(&theme{tui.NewTheme(256)})
		v.SetRect(i%3*width, i/3*height, width, height)
		v.show(name, []plot.Series{r.series(t, 8+7*(i/3), -1, name)})
		if i == 4 {
			v.selected = true
		}
		v.Draw(screen)
	}
	tuitest.Golden(t, *update, filepath.Join("testdata", "plotview", "six.txt"), tuitest.Text(screen)+"\n"+tuitest.Styles(screen))
}

// draw returns the text of the picture, and below it the style of each cell.
func (p picture) draw(t *testing.T) string {
	t.Helper()
	v := newPlotView(&theme{tui.NewTheme(p.colors)})
	v.SetRect(0, 0, p.width, p.height)
	v.show("probe", p.series)
	if p.do != nil {
		p.do(v)
	}
	screen := newScreen(t, p.width, p.height)
	v.Draw(screen)
	return tuitest.Text(screen) + strings.Join(v.readout(), "\n") + "\n\n" + tuitest.Styles(screen)
}
