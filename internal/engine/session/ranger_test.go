package session

import (
	"strings"
	"testing"
	"time"

	"github.com/beamscope/beamscope/internal/engine/autorange"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/files/config"
)

// A ranging is an outcome whose scale is fitted window by window.
type ranging struct {
	t       *testing.T
	finder  *finder
	config  config.Config
	windows int64
	extra   int // additional starts in a window; negative for fewer starts than ends
}

func newRanging(t *testing.T) *ranging {
	c := config.Default()
	c.Outcomes = []config.Outcome{{Name: "a", Span: "a", Scale: autorange.Start(c.Base)}}
	f := &finder{found: map[origin]*found{{span: "a"}: {}}}
	return &ranging{t: t, finder: f, config: c}
}

// window adds a window of one second with instances of these delays.
func (r *ranging) window(delays ...time.Duration) {
	r.t.Helper()
	grid, err := r.config.Outcomes[0].Scale.Grid(r.config.Base)
	if err != nil {
		r.t.Fatal(err)
	}
	p := scope.Outcome{Spec: outcome.Spec{Span: "a", BinWidth: grid.Width(), Bins: grid.Bins()}}
	p.Window = outcome.Window{From: r.windows * int64(time.Second), To: (r.windows + 1) * int64(time.Second)}
	p.Counts.Bins = make([]uint64, grid.Bins())
	for _, d := range delays {
		if bin, ok := grid.Bin(d); ok {
			p.Counts.Bins[bin]++
			p.Counts.Successes++
		} else {
			p.Counts.Timeouts++
		}
	}
	r.windows++
	p.Counts.Starts = uint64(max(len(delays)+r.extra, 0))
	r.finder.found[origin{span: "a"}].see(&p, true)
}

// fit fits the scale if that is due, and returns dMax.
func (r *ranging) fit() time.Duration {
	r.t.Helper()
	if fit, ok := r.finder.fitOf(r.config, &r.config.Outcomes[0]); ok {
		r.config.Outcomes[0].Scale = fit.fitting.Scale
		fit.settle()
	}
	grid, err := r.config.Outcomes[0].Scale.Grid(r.config.Base)
	if err != nil {
		r.t.Fatal(err)
	}
	return grid.DMax()
}

func times(n int, d time.Duration) []time.Duration {
	all := make([]time.Duration, n)
	for i := range all {
		all[i] = d
	}
	return all
}

// The first window of an incident widens the scale, even after a long calm time and after all
// fits. The wide scale stays after the incident.
func TestIncidentWidensTheScale(t *testing.T) {
	const normal = 8 * time.Millisecond
	r := newRanging(t)
	r.window(times(50, normal)...)
	r.window(times(50, normal)...)
	first := r.fit()
	if first < 4*normal || first > time.Second/2 {
		t.Fatalf("first fit: dMax %v", first)
	}
	for range fitMemory - 5 {
		r.window(times(200, normal)...)
		if got := r.fit(); got != first {
			t.Fatalf("dMax %v while nothing changed", got)
		}
	}
	r.window(times(48, 3*time.Second)...)
	if got := r.fit(); got < time.Second {
		t.Fatalf("dMax %v after the first window of the incident", got)
	}
	r.window(times(48, 3*time.Second)...)
	wide := r.fit()
	if wide < 3*time.Second {
		t.Fatalf("dMax %v after the second window of the incident", wide)
	}
	for range 40 {
		r.window(append(times(20, normal), times(1, 2*time.Second)...)...)
		r.fit()
	}
	if got := r.fit(); got != wide {
		t.Errorf("dMax %v after the incident, %v in it", got, wide)
	}
	r.finder.found[origin{span: "a"}].fits = maxFits
	r.window(times(48, time.Minute)...)
	if got := r.fit(); got <= wide {
		t.Errorf("dMax %v, although a minute is needed, after %d fits", got, maxFits)
	}
}

// Instances that are slow in the old scale widen the narrower scale that is about to come into
// force.
func TestSlowWhileTheScaleChanges(t *testing.T) {
	r := newRanging(t)
	r.window(times(50, 8*time.Millisecond)...)
	r.window(times(50, 8*time.Millisecond)...)
	fit, ok := r.finder.fitOf(r.config, &r.config.Outcomes[0])
	if !ok {
		t.Fatal("the scale is not fitted")
	}
	fit.settle()
	r.window(times(50, 900*time.Millisecond)...) // before the change is in force
	r.config.Outcomes[0].Scale = fit.fitting.Scale
	r.window(times(1, 8*time.Millisecond)...)
	if got := r.fit(); got < 1800*time.Millisecond {
		t.Errorf("dMax %v, although 900ms were seen", got)
	}
}

// The notice about a scale mentions a slower instance that ended since the scale was chosen.
func TestSlowSinceTheScaleWasChosen(t *testing.T) {
	for delay, want := range map[time.Duration]bool{8 * time.Millisecond: false, 900 * time.Millisecond: true} {
		r := newRanging(t)
		r.window(times(50, 8*time.Millisecond)...)
		r.window(times(50, 8*time.Millisecond)...)
		chosen, ok := r.finder.fitOf(r.config, &r.config.Outcomes[0])
		if !ok {
			t.Fatal("the scale is not fitted")
		}
		r.window(times(50, delay)...)
		r.finder.settle(&edit{fitted: []*fit{chosen}})
		if got := r.finder.notices[0].Text; strings.Contains(got, "; since then one took 900ms, so it becomes wider again") != want {
			t.Errorf("%v: %q", delay, got)
		}
	}
}

// Notices add the names of spans if the names of outcomes look alike.
func TestFitNamesSpans(t *testing.T) {
	r := newRanging(t)
	r.config.Outcomes[0] = config.Outcome{Name: "a_", Span: "a", Scale: r.config.Outcomes[0].Scale}
	r.window(times(50, 8*time.Millisecond)...)
	r.window(times(50, 8*time.Millisecond)...)
	fit, ok := r.finder.fitOf(r.config, &r.config.Outcomes[0])
	if !ok || !strings.HasPrefix(fit.String(), "a_ «a»: fitted to ") {
		t.Errorf("%v, %v", fit, ok)
	}
}
