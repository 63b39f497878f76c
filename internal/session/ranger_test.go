package session

import (
	"strings"
	"testing"
	"time"

	"github.com/beamscope/beamscope/internal/autorange"
	"github.com/beamscope/beamscope/internal/config"
	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/scope"
)

// A ranging is an outcome whose scale is fitted window by window.
type ranging struct {
	t       *testing.T
	finder  *finder
	config  config.Config
	windows int64
}

func newRanging(t *testing.T) *ranging {
	c := config.Default()
	c.Outcomes = []config.Outcome{{Name: "a", Span: "a", Scale: autorange.Start(c.Base)}}
	f := &finder{found: map[origin]*found{{span: "a"}: {}}}
	return &ranging{t: t, finder: f, config: c}
}

// window has a window of a second with instances of some delays.
func (r *ranging) window(delays ...time.Duration) {
	r.t.Helper()
	grid, err := r.config.Outcomes[0].Scale.Grid(r.config.Base)
	if err != nil {
		r.t.Fatal(err)
	}
	p := scope.Probe{Spec: outcome.Spec{Span: "a", BinWidth: grid.Width(), Bins: grid.Bins()}}
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
	r.finder.found[origin{span: "a"}].see(&p, true)
}

// fit fits the scale, if it is to be, and returns dMax.
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

// The first window of an incident widens the scale, also after a long time in which all
// was well and after all fits; and the wide scale stays when the incident is over.
func TestIncidentWidensTheScale(t *testing.T) {
	const normal = 8 * time.Millisecond
	r := newRanging(t)
	r.window(times(50, normal)...)
	r.window(times(50, normal)...)
	first := r.fit()
	if first < 4*normal || first > time.Second/2 {
		t.Fatalf("fitted up to %v", first)
	}
	for range fitMemory - 5 {
		r.window(times(200, normal)...)
		if got := r.fit(); got != first {
			t.Fatalf("up to %v while nothing changed", got)
		}
	}
	r.window(times(48, 3*time.Second)...)
	if got := r.fit(); got < time.Second {
		t.Fatalf("up to %v after the first window of the incident", got)
	}
	r.window(times(48, 3*time.Second)...)
	wide := r.fit()
	if wide < 3*time.Second {
		t.Fatalf("up to %v after the second window of the incident", wide)
	}
	for range 40 {
		r.window(append(times(20, normal), times(1, 2*time.Second)...)...)
		r.fit()
	}
	if got := r.fit(); got != wide {
		t.Errorf("up to %v after the incident, %v in it", got, wide)
	}
	r.finder.found[origin{span: "a"}].fits = maxFits
	r.window(times(48, time.Minute)...)
	if got := r.fit(); got <= wide {
		t.Errorf("up to %v where a minute is needed, after %d fits", got, maxFits)
	}
}

// Instances that are slow in the old scale widen a narrower scale that is about to come into force.
func TestSlowWhileTheScaleChanges(t *testing.T) {
	r := newRanging(t)
	r.window(times(50, 8*time.Millisecond)...)
	r.window(times(50, 8*time.Millisecond)...)
	fit, ok := r.finder.fitOf(r.config, &r.config.Outcomes[0])
	if !ok {
		t.Fatal("not fitted")
	}
	fit.settle()
	r.window(times(50, 900*time.Millisecond)...) // the change comes after it
	r.config.Outcomes[0].Scale = fit.fitting.Scale
	r.window(times(1, 8*time.Millisecond)...)
	if got := r.fit(); got < 1800*time.Millisecond {
		t.Errorf("up to %v where 900ms were seen", got)
	}
}

// Notices add the names of spans where the names of outcomes look alike.
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
