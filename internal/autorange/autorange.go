// Package autorange fits the grid of an outcome to its delays, as AUTO does on an
// oscilloscope. It is arithmetic only: who decides when to look, and what becomes of
// the answer, is elsewhere.
package autorange

import (
	"math"
	"time"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/config"
)

// MaxDMax is the longest dMax that is fitted.
const MaxDMax = 64 * time.Second

// Start returns the scale with which an outcome begins of which nothing is known: up
// to a second, where the base is a millisecond in a thousand bins.
func Start(base time.Duration) config.Scale { return scaleFor(base, time.Second) }

const (
	minBins, maxBins = 500, dq.MaxBaseBins

	// dMax is made aim times the 99 % quantile, and is left alone while it is between
	// least and most times that: a scale that was fitted stays when delays vary.
	aim, least, most = 8, 2, 16

	// dMax is also aimSlowest halves of the slowest success at least, and is left alone
	// between leastSlowest and mostSlowest halves of it. The room above the slowest is
	// for what has not happened yet.
	aimSlowest, leastSlowest, mostSlowest = 8, 3, 16

	// What dMax is multiplied by where too much times out. It is made a second at
	// the least then: what begins with that is back where it was.
	widen, back = 8, time.Second

	// A scale that was widened is not narrowed again before this time.
	calm = time.Minute
)

// Seen is what was seen of an outcome since it has had its scale.
type Seen struct {
	Bins     []uint64 // delays of successes, on the grid of the scale
	Timeouts uint64

	// For is how long that was. Delays are only known to be short when there was
	// time for long ones too.
	For time.Duration

	Latest Share // of the newest window

	Past Past // what is known from scales before

	// Last says that the scale is not fitted again: it is made wide rather than fine.
	Last bool
}

// A Share is how many of the instances of a window took longer than dMax.
type Share struct{ Timeouts, Instances uint64 }

// Noticeable reports whether at least so many timed out, and more than 1 % by more than
// chance explains.
func (s Share) Noticeable(enough uint64) bool {
	hundredth := float64(s.Instances) / 100
	return s.Timeouts >= enough && float64(s.Timeouts) > hundredth+math.Sqrt(hundredth)
}

// Past is what is known of an outcome from its scales before. The zero Past is that of
// one which has its first scale.
type Past struct {
	// Tried is the longest dMax that was tried. Where MaxDMax was and more than 1 %
	// timed out, these are taken not to end at all, and the others decide.
	Tried time.Duration

	// Needed is how long a success took at least.
	Needed time.Duration

	cut     time.Duration // dMax before, where it was widened because of timeouts
	beyond  bool          // with the longest dMax there were timeouts too
	widened bool          // the scale was made wider than the one before
}

// Add notes how long successes took.
func (p *Past) Add(g dq.Grid, bins []uint64) {
	if last := lastBin(bins); last > 0 {
		p.Needed = max(p.Needed, g.Edge(last))
	}
}

// A Fitting is a scale that fits, and why.
type Fitting struct {
	Scale config.Scale

	// Quantile and Slowest are within which delays 99 % of the successes came, and
	// all of them; 0 where too much timed out for these to decide.
	Quantile, Slowest time.Duration

	Past Past // to go on with, when the scale is in force
}

// Fit returns the scale that fits what was seen with a scale; ok is false where that
// is to stay as it is.
//
// The bins are 500 to 1000, as wide as the base times a power of two where that can
// be. dMax is about eight times the 99 % quantile, and at least four times the slowest
// success that was ever seen. A single window in which a noticeable share timed out widens
// it. It is narrowed again a minute later at the earliest, and only when these were seen
// to end, or not to end with any scale.
func Fit(base time.Duration, scale config.Scale, seen Seen) (f Fitting, ok bool) {
	grid, err := scale.Grid(base)
	if err != nil {
		return Fitting{}, false
	}
	dMax := grid.DMax()
	var successes uint64
	for _, n := range seen.Bins {
		successes += n
	}
	f.Past = seen.Past
	f.Past.Add(grid, seen.Bins)
	if dMax >= seen.Past.Tried {
		f.Past.Tried, f.Past.beyond = dMax, seen.Timeouts > 0
	}
	timeouts, hundredth := float64(seen.Timeouts), float64(successes+seen.Timeouts)/100
	endless := f.Past.Tried >= MaxDMax && timeouts > hundredth
	enough := uint64(2)
	if successes == 0 {
		enough = 1 // nothing speaks for the scale
	}
	ever := Share{Timeouts: seen.Timeouts, Instances: successes + seen.Timeouts}
	never := f.Past.Tried >= MaxDMax && f.Past.beyond // some end with no scale
	switch {
	case !endless && (ever.Noticeable(enough) || ever.Timeouts >= enough && dMax < f.Past.Tried && !f.Past.beyond),
		!never && seen.Latest.Noticeable(enough),
		f.Past.Needed >= dMax:
		f.Scale = scaleFor(base, min(max(dMax*widen, back, f.Past.Needed*aimSlowest/2), MaxDMax))
		f.Past.cut, f.Past.widened = dMax, true
	case successes == 0, timeouts > hundredth && !endless:
		return Fitting{}, false
	default:
		f.Quantile = edge99(grid, seen.Bins, successes)
		f.Slowest = grid.Edge(lastBin(seen.Bins) + 1)
		want, fits := wanted(dMax, f.Quantile, max(f.Slowest, seen.Past.Needed), seen.Last)
		ended := f.Slowest > seen.Past.cut || dMax >= f.Past.Tried && f.Past.beyond
		early := seen.For < 2*dMax || f.Past.widened && seen.For < calm
		if fits || want < dMax && (early || !ended) {
			return Fitting{}, false
		}
		f.Scale = scaleFor(base, want)
		f.Past.cut, f.Past.widened = 0, want > dMax
	}
	g, err := f.Scale.Grid(base)
	if err != nil || g == grid {
		return Fitting{}, false
	}
	return f, true
}

// wanted returns which dMax is wanted for a 99 % quantile and a slowest success, and
// whether the one that there is will do.
func wanted(dMax, quantile, slowest time.Duration, last bool) (want time.Duration, fits bool) {
	low := min(max(quantile*least, slowest*leastSlowest/2), MaxDMax)
	high := max(quantile*most, slowest*mostSlowest/2)
	want = max(quantile*aim, slowest*aimSlowest/2)
	if last {
		want = high
	}
	return min(want, MaxDMax), dMax >= low && dMax <= high
}

// lastBin returns the last bin with an instance, or -1.
func lastBin(bins []uint64) int {
	i := len(bins) - 1
	for i >= 0 && bins[i] == 0 {
		i--
	}
	return i
}

// edge99 returns the upper edge of the bin with the 99 % quantile.
func edge99(g dq.Grid, bins []uint64, successes uint64) time.Duration {
	rank := successes - successes/100
	var sum uint64
	for i, n := range bins {
		if sum += n; sum >= rank {
			return g.Edge(i + 1)
		}
	}
	return g.DMax()
}

// scaleFor returns the scale of minBins to maxBins bins that reaches a dMax, or
// further where that is less than minBins of the narrowest.
func scaleFor(base, dMax time.Duration) config.Scale {
	width := widthFor(base, (dMax+maxBins-1)/maxBins)
	bins := max(int((dMax+width-1)/width), minBins)
	if time.Duration(bins)*width > MaxDMax {
		bins = int(MaxDMax / width)
	}
	return config.Scale{DMax: width * time.Duration(bins), Bins: bins, Fitted: true}
}

// widthFor returns the narrowest width of bins that is not below want: the base times
// a power of two, so that widths divide each other; below where that is a whole number
// of nanoseconds, a microsecond times one.
func widthFor(base, want time.Duration) time.Duration {
	narrowest := base
	for range dq.MaxExponent {
		if narrowest%2 != 0 || narrowest/2 < dq.MinWidth {
			break
		}
		narrowest /= 2
	}
	width := narrowest
	if want <= narrowest/2 && narrowest/2 >= dq.MinWidth {
		width = dq.MinWidth
	}
	for width < want {
		width *= 2
	}
	return width
}
