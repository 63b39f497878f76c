package autorange_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/beamscope/beamscope/internal/engine/autorange"
	"github.com/beamscope/beamscope/internal/files/config"
)

const (
	us = time.Microsecond
	ms = time.Millisecond
)

// long is enough time for every delay.
const long = time.Hour

// see counts delays on the grid of a scale.
func see(t rapid.TB, base time.Duration, scale config.Scale, delays ...time.Duration) autorange.Seen {
	t.Helper()
	grid, err := scale.Grid(base)
	if err != nil {
		t.Fatal(err)
	}
	s := autorange.Seen{Bins: make([]uint64, grid.Bins()), For: long}
	for _, d := range delays {
		if bin, ok := grid.Bin(d); ok {
			s.Bins[bin]++
		} else {
			s.Timeouts++
		}
	}
	return s
}

// fitted returns the scale that is in force after a fit.
func fitted(t *testing.T, base time.Duration, scale config.Scale, seen autorange.Seen) (config.Scale, bool) {
	f, ok := autorange.Fit(base, scale, seen)
	if !ok {
		return scale, false
	}
	if !f.Scale.Fitted {
		t.Errorf("%+v is not marked as fitted", f.Scale)
	}
	f.Scale.Fitted = false // to compare it with scales in this file
	return f.Scale, true
}

// repeat returns n times a delay, and others.
func repeat(n int, d time.Duration, others ...time.Duration) []time.Duration {
	for range n {
		others = append(others, d)
	}
	return others
}

func TestFit(t *testing.T) {
	start := config.Scale{Bins: 1000}
	of := func(exponent, bins int) config.Scale { // for a base of a millisecond
		return config.Scale{DMax: time.Duration(math.Ldexp(float64(ms), exponent)) * time.Duration(bins), Bins: bins}
	}
	for _, test := range []struct {
		name   string
		base   time.Duration
		scale  config.Scale
		delays []time.Duration
		want   config.Scale // the same as the previous scale means that it stays
	}{
		{"nothing seen", ms, start, nil, start},
		{"fits", ms, start, repeat(100, 250*ms), start},
		{"fits with the least room", ms, start, repeat(100, 499*ms), start},
		{"fits with the most room", ms, start, repeat(100, 63*ms), start},
		{"long", ms, start, repeat(100, 600*ms), of(3, 601)},
		{"short", ms, start, repeat(100, 49*ms), of(-1, 800)},
		{"shorter", ms, start, repeat(100, 9*ms), of(-3, 640)},
		{"below the narrowest width by exponent", ms, config.Scale{DMax: 8 * ms, Bins: 512}, repeat(100, 250*us), config.Scale{DMax: 2128 * us, Bins: 532}},
		{"narrowest", ms, config.Scale{DMax: 4 * ms, Bins: 1000}, repeat(100, 3*us), config.Scale{DMax: 500 * us, Bins: 500}},
		{"narrowest already", ms, config.Scale{DMax: 500 * us, Bins: 500}, repeat(100, 0), config.Scale{DMax: 500 * us, Bins: 500}},
		{"all time out", ms, start, repeat(100, 5*time.Second), of(3, 1000)},
		{"all time out again", ms, of(3, 1000), repeat(100, 50*time.Second), of(6, 1000)},
		{"already the longest", ms, of(6, 1000), repeat(100, time.Hour), of(6, 1000)},
		{"one times out, and none succeeds", ms, start, repeat(1, 30*time.Second), of(3, 1000)},
		{"one of two times out", ms, start, repeat(1, 30*time.Second, 300*ms), start},
		{"more than 1 % time out", ms, start, repeat(9000, 100*ms, repeat(200, time.Hour)...), of(3, 1000)},
		{"slightly more than 1 % time out, perhaps by chance", ms, start, repeat(988, 10*ms, repeat(12, time.Hour)...), start},
		{"more than chance explains time out", ms, start, repeat(293, 10*ms, repeat(7, time.Hour)...), of(3, 1000)},
		{"few time out", ms, start, repeat(999, 10*ms, time.Hour), of(-3, 704)},
		{"some never end", ms, of(6, 1000), repeat(98, 100*ms, repeat(2, time.Hour)...), of(1, 512)},
		{"outliers are not cut off", ms, start, repeat(995, 10*ms, repeat(5, 900*ms)...), of(2, 901)},
		{"one slow success", ms, start, repeat(995, 10*ms, 600*ms), start},
		{"narrow base", us, config.Scale{DMax: time.Second, Bins: 1000}, repeat(100, 10*ms), config.Scale{DMax: 688 * 128 * us, Bins: 688}},
		{"narrow base, long", us, config.Scale{DMax: time.Second, Bins: 1000}, repeat(100, 600*ms), config.Scale{DMax: 2 * 2404352 * us, Bins: 587}},
		{"wide base", time.Hour, config.Scale{DMax: time.Second, Bins: 1000}, repeat(100, 10*ms), config.Scale{DMax: 88064 * us, Bins: 688}},
	} {
		got, ok := fitted(t, test.base, test.scale, see(t, test.base, test.scale, test.delays...))
		if got != test.want || ok != (test.want != test.scale) {
			t.Errorf("%s: %+v, %v, want %+v", test.name, got, ok, test.want)
		}
	}
}

// Delays do not count as short before long ones had time to end. A delay that is too long for the
// scale counts at once.
func TestFitWaits(t *testing.T) {
	scale := config.Scale{Bins: 1000}
	for _, test := range []struct {
		delay time.Duration
		seen  time.Duration
		want  bool
	}{
		{ms, 1900 * ms, false},
		{ms, 2 * time.Second, true},
		{900 * ms, 0, true},
		{time.Minute, 0, true},
	} {
		seen := see(t, ms, scale, repeat(100, test.delay)...)
		seen.For = test.seen
		if _, ok := autorange.Fit(ms, scale, seen); ok != test.want {
			t.Errorf("after %v with delays of %v: %v, want %v", test.seen, test.delay, ok, test.want)
		}
	}
}

// If slow calls come after the scale was made for fast ones, the scale soon no longer cuts them
// off, however few they are. If they stay away for a short time, the scale does not change.
func TestFitWidensAgain(t *testing.T) {
	var scale config.Scale
	var past autorange.Past
	lasting := long
	fit := func(delays ...time.Duration) bool {
		t.Helper()
		seen := see(t, ms, scale, delays...)
		seen.Past, seen.For = past, lasting
		f, ok := autorange.Fit(ms, scale, seen)
		if ok {
			scale, past = f.Scale, f.Past
		}
		return ok
	}
	check := func(what string, ok, want bool, least, most time.Duration) {
		t.Helper()
		grid, err := scale.Grid(ms)
		if err != nil {
			t.Fatal(err)
		}
		if ok != want || grid.DMax() < least || grid.DMax() > most {
			t.Fatalf("%s: %v, %v up to %v", what, ok, grid, grid.DMax())
		}
	}
	for _, slow := range []int{2, 7, 20} {
		scale, past = autorange.Start(ms), autorange.Past{}
		check("fast", fit(repeat(500, 10*ms)...), true, 40*ms, 160*ms)
		check("slow", fit(repeat(1000-slow, 10*ms, repeat(slow, 700*ms)...)...), true, time.Second, time.Second)
		lasting = past.Calm() - 1
		check("fast again", fit(repeat(500, 10*ms)...), false, time.Second, time.Second)
		lasting = long
		check("slow again", fit(repeat(1000-slow, 10*ms, repeat(slow, 700*ms)...)...), true, 1050*ms, 5800*ms)
		check("and again", fit(repeat(1000-slow, 10*ms, repeat(slow, 700*ms)...)...), false, 1050*ms, 5800*ms)
		fit(repeat(500, 10*ms)...)
		check("fast at last", fit(repeat(500, 10*ms)...), false, 1050*ms, 5800*ms)
		past.Forget() // removes the slow ones
		past.Forget()
		check("fast, and slow ones forgotten", fit(repeat(500, 10*ms)...), true, 40*ms, 160*ms)
		if past.Calm() <= time.Minute {
			t.Errorf("narrowed again after %v", past.Calm())
		}
	}

	// Instances that do not end even with the longest scale do not keep it there.
	scale, past = autorange.Start(ms), autorange.Past{}
	lost := repeat(997, 10*ms, repeat(3, time.Hour)...)
	check("fast and lost", fit(lost...), true, 40*ms, 160*ms)
	check("as lost as before", fit(lost...), false, 40*ms, 160*ms)
	scale, past = autorange.Start(ms), autorange.Past{}
	check("fast", fit(repeat(500, 10*ms)...), true, 40*ms, 160*ms)
	check("lost", fit(lost...), true, time.Second, time.Second)
	check("lost there too", fit(lost...), true, 40*ms, 160*ms)
	check("lost for good", fit(lost...), false, 40*ms, 160*ms)
}

// The last scale is wide.
func TestFitLast(t *testing.T) {
	scale := autorange.Start(ms)
	seen := see(t, ms, scale, repeat(100, 10*ms)...)
	seen.Last = true
	if got, _ := fitted(t, ms, scale, seen); got != (config.Scale{DMax: 176 * ms, Bins: 704}) {
		t.Errorf("%+v", got)
	}
}

// For any delays, four fits are enough, or six if some never end, because all lengths are tried
// first. Then dMax has the right relation to the 99 % quantile, nothing that was seen is cut off
// within the limits, and the same delays change nothing more.
func TestFitSettles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := rapid.SampledFrom([]time.Duration{us, 1500, 7 * us, 100 * us, ms, 10 * ms, time.Second, time.Hour}).Draw(t, "base")
		// Delays have as many orders of magnitude as possible, and one mode or two.
		around := func(label string) time.Duration {
			return time.Duration(rapid.Int64Range(1, 40).Draw(t, label)) << rapid.IntRange(0, 31).Draw(t, label+" magnitude")
		}
		modes := []time.Duration{around("fast"), around("slow")}
		slow := rapid.IntRange(0, 1000).Draw(t, "slow ones")
		delays := repeat(1000-slow, modes[0], repeat(slow, modes[1])...)

		scale := autorange.Start(base)
		var past autorange.Past
		fit := func() bool {
			seen := see(t, base, scale, delays...)
			seen.Past = past
			f, ok := autorange.Fit(base, scale, seen)
			if ok {
				scale, past = f.Scale, f.Past
			}
			return ok
		}
		steps := 4
		if max(modes[0], modes[1]) > autorange.MaxDMax {
			steps = 6
		}
		for range steps {
			fit()
		}
		settled := scale
		if fit() {
			t.Fatalf("%+v is not settled: %+v", settled, scale)
		}
		grid, err := scale.Grid(base)
		if err != nil {
			t.Fatal(err)
		}
		if grid.Bins() < 500 || grid.Bins() > 1000 || grid.DMax() > autorange.MaxDMax {
			t.Fatalf("%v", grid)
		}
		fits(t, base, scale, see(t, base, scale, delays...), past)
	})
}

// fits checks that dMax is where it should be.
func fits(t *rapid.T, base time.Duration, scale config.Scale, seen autorange.Seen, past autorange.Past) {
	grid, _ := scale.Grid(base)
	var successes, sum uint64
	var quantile, slowest time.Duration
	for i, n := range seen.Bins {
		successes += n
		if n > 0 {
			slowest = grid.Edge(i + 1)
		}
	}
	if successes == 0 || float64(seen.Timeouts) > float64(successes+seen.Timeouts)/100 && past.Tried < autorange.MaxDMax {
		return // it is only known that some are too long, by chance or permanently
	}
	for i, n := range seen.Bins {
		if sum += n; sum*100 >= successes*99 {
			quantile = grid.Edge(i + 1)
			break
		}
	}
	slowest = max(slowest, past.Needed)
	tooNarrow := grid.DMax() < min(max(2*quantile, slowest*3/2), autorange.MaxDMax-grid.Width())
	tooWide := grid.DMax() > max(16*quantile, 8*slowest) && grid.Width() >= 2*us && seen.Timeouts == 0 && past.Tried < autorange.MaxDMax
	if tooNarrow || tooWide {
		t.Fatalf("%v for a quantile of %v, and %v at most", grid, quantile, slowest)
	}
}

// Delays that a run has needed stay in the scale. The scale of an incident is not narrowed while
// the incident lasts, nor for a minute after it was widened, and never below the remembered
// successes.
func TestFitKeepsIncident(t *testing.T) {
	scale := autorange.Start(ms)
	var past autorange.Past
	fit := func(lasting time.Duration, delays ...time.Duration) time.Duration {
		t.Helper()
		seen := see(t, ms, scale, delays...)
		seen.Past, seen.For = past, lasting
		if f, ok := autorange.Fit(ms, scale, seen); ok {
			scale, past = f.Scale, f.Past
		}
		grid, err := scale.Grid(ms)
		if err != nil {
			t.Fatal(err)
		}
		return grid.DMax()
	}
	if first := fit(time.Minute, repeat(100, 10*ms)...); first < 40*ms || first > 160*ms {
		t.Fatalf("first fit: dMax %v, want ample room above 10ms", first)
	}
	incident := fit(time.Second, repeat(50, 300*ms)...)
	if incident < time.Second {
		t.Fatalf("dMax %v in the incident", incident)
	}
	if got := fit(20*time.Second, repeat(1000, 110*ms, 90*ms)...); got != incident {
		t.Errorf("dMax %v within a minute after %v", got, incident)
	}
	if got := fit(2*time.Minute, repeat(1000, 20*ms, 110*ms)...); got < 4*110*ms {
		t.Errorf("dMax %v, although 110ms were needed", got)
	}

	// A success that ended with the old scale, while the next was being applied, counts too.
	scale, past = config.Scale{DMax: 40 * ms, Bins: 640}, autorange.Past{Needed: 700 * ms}
	if got := fit(0, repeat(1, 10*ms)...); got < 1400*ms {
		t.Errorf("dMax %v, although 700ms were needed", got)
	}
}

// A window in which a noticeable share takes too long widens the scale, however many were short
// before.
func TestFitWidensAtOnce(t *testing.T) {
	scale := config.Scale{DMax: 40 * ms, Bins: 640}
	seen := see(t, ms, scale, repeat(10_000, 5*ms, repeat(48, time.Second)...)...)
	if _, ok := autorange.Fit(ms, scale, seen); ok {
		t.Fatal("widened for 48 of 10 000")
	}
	seen.Latest = autorange.Share{Timeouts: 48, Instances: 48}
	if f, ok := autorange.Fit(ms, scale, seen); !ok || f.Scale.DMax < time.Second {
		t.Errorf("%+v, %v where a window had nothing but timeouts", f, ok)
	}
	seen.Latest = autorange.Share{Timeouts: 1, Instances: 48}
	if f, ok := autorange.Fit(ms, scale, seen); ok {
		t.Errorf("%+v where a window had one timeout", f)
	}
}

// A scale is not narrowed while more instances are open than can have started within the narrower
// dMax, because some of them must be older.
func TestFitWaitsForOpenInstances(t *testing.T) {
	for _, test := range []struct {
		open   uint64
		starts float64
		want   bool
	}{
		{0, 0, true},
		{1, 0, false}, // no more starts
		{4, 50, true},
		{50, 50, false},
		{1, 1, false},
		{40_000, 1e6, true},
	} {
		seen := see(t, ms, autorange.Start(ms), repeat(100, 10*ms)...)
		seen.Open, seen.Starts = test.open, test.starts
		if _, ok := autorange.Fit(ms, autorange.Start(ms), seen); ok != test.want {
			t.Errorf("%d open, %v/s: %v, want %v", test.open, test.starts, ok, test.want)
		}
	}
}
