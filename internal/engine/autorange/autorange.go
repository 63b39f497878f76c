// Package autorange fits the grid of an outcome to its delays, like AUTO on an oscilloscope. It
// contains only the arithmetic. Its callers decide when to fit, and what to do with the result.
package autorange

import (
	"math"
	"time"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/files/config"
)

// MaxDMax is the largest dMax that Fit chooses.
const MaxDMax = 64 * time.Second

// Start returns the first scale of an outcome without data. With a base of a millisecond it has a
// thousand bins up to a second.
func Start(base time.Duration) config.Scale { return scaleFor(base, time.Second) }

const (
	minBins, maxBins = 500, dq.MaxBaseBins

	// Fit chooses a dMax of aim times the 99 % quantile. It leaves dMax unchanged while that is
	// between least and most times the quantile, so that a fitted scale stays when delays vary.
	aim, least, most = 8, 2, 16

	// dMax is also at least aimSlowest halves of the slowest success, and unchanged while it is
	// between leastSlowest and mostSlowest halves of it. The room above the slowest success is
	// for slower ones that have not happened yet.
	aimSlowest, leastSlowest, mostSlowest = 8, 3, 16

	// widen is the factor for dMax if too many instances time out. dMax is then at least back, so
	// that a scale that began with a second returns there.
	widen, back = 8, time.Second

	// A widened scale is narrowed after calm at the earliest. The time doubles with each such
	// return, up to calm << mostReturns.
	calm        = time.Minute
	mostReturns = 6
)

// Seen contains the data of an outcome since its scale was last set.
type Seen struct {
	Bins     []uint64 // delays of successes, on the grid of the scale
	Timeouts uint64

	// For is the duration of these data. Delays are known to be short only if there was time for
	// long ones too.
	For time.Duration

	Latest Share // of the newest window

	// Open is the number of instances that were open at the end of the newest window. Starts is
	// the number that started in a second of it.
	Open   uint64
	Starts float64

	Past Past // data from earlier scales

	// Last means that the scale will not be fitted again, so it is made wide rather than fine.
	Last bool
}

// A Share is the number of instances of a window that took longer than dMax, with the number of
// all instances.
type Share struct{ Timeouts, Instances uint64 }

// Noticeable reports whether at least enough instances timed out, and more than 1 % even allowing
// for chance.
func (s Share) Noticeable(enough uint64) bool {
	hundredth := float64(s.Instances) / 100
	return s.Timeouts >= enough && float64(s.Timeouts) > hundredth+math.Sqrt(hundredth)
}

// Past contains what is known about an outcome from earlier scales. The zero Past is for the
// first scale.
type Past struct {
	// Tried is the longest dMax that was tried. If that was MaxDMax and more than 1 % timed out,
	// these instances are assumed to never end, and the others determine the scale.
	Tried time.Duration

	// Needed is a lower bound of the longest delay of the remembered successes.
	Needed time.Duration

	recent  time.Duration // the same since the last call of Forget
	beyond  bool          // with the longest dMax there were timeouts too
	widened bool          // the scale was made wider than the one before
	returns int           // number of times that a widened scale was narrowed again
}

// Add adds the delays of successes.
func (p *Past) Add(g dq.Grid, bins []uint64) {
	if last := lastBin(bins); last > 0 {
		p.recent = max(p.recent, g.Edge(last))
		p.Needed = max(p.Needed, p.recent)
	}
}

// Calm returns the time without slow instances after which a widened scale is narrowed: at least a
// minute, and longer if a widened scale was narrowed more often before.
func (p Past) Calm() time.Duration { return calm << min(p.returns, mostReturns) }

// Forget drops successes that were added before the previous call of Forget. Call it each time
// that [Past.Calm] has passed.
func (p *Past) Forget() { p.Needed, p.recent = p.recent, 0 }

// A Fitting is a fitted scale with the reasons for it.
type Fitting struct {
	Scale config.Scale

	// Quantile is the delay within which 99 % of the successes ended, and Slowest that of all of
	// them. Both are 0 if too many timeouts make them meaningless. Only Quantile is 0 if a
	// success with an earlier scale took longer than dMax: it took at least Slowest.
	Quantile, Slowest time.Duration

	Past Past // the Past to use once the scale is in force
}

// Fit returns the scale that fits the data from the present scale. ok is false if the scale
// should stay.
// There are 500 to 1000 bins, as wide as the base times a power of two if possible. dMax is about
// eight times the 99 % quantile, and at least four times the slowest remembered success. A single
// window with a noticeable share of timeouts widens it. It is not narrowed while more instances
// are open than can have started within the narrower dMax. A widened scale is narrowed when
// [Past.Calm] has passed.
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
		enough = 1 // no data supports the scale
	}
	ever := Share{Timeouts: seen.Timeouts, Instances: successes + seen.Timeouts}
	never := f.Past.Tried >= MaxDMax && f.Past.beyond // some instances end with no scale
	switch {
	case !endless && (ever.Noticeable(enough) || ever.Timeouts >= enough && dMax < f.Past.Tried && !f.Past.beyond),
		!never && seen.Latest.Noticeable(enough):
		f.Scale = scaleFor(base, min(max(dMax*widen, back, f.Past.Needed*aimSlowest/2), MaxDMax))
		f.Past.widened = true
	case f.Past.Needed >= dMax:
		f.Slowest = f.Past.Needed
		f.Scale = scaleFor(base, min(f.Past.Needed*aimSlowest/2, MaxDMax))
		f.Past.widened = true
	case successes == 0, timeouts > hundredth && !endless:
		return Fitting{}, false
	default:
		f.Quantile = edge99(grid, seen.Bins, successes)
		f.Slowest = grid.Edge(lastBin(seen.Bins) + 1)
		want, fits := wanted(dMax, f.Quantile, max(f.Slowest, seen.Past.Needed), seen.Last)
		early := seen.For < 2*dMax || f.Past.widened && seen.For < f.Past.Calm()
		if fits || want < dMax && (early || seen.older(want)) {
			return Fitting{}, false
		}
		f.Scale = scaleFor(base, want)
		if want < dMax && f.Past.widened {
			f.Past.returns++
		}
		f.Past.widened = want > dMax
	}
	g, err := f.Scale.Grid(base)
	if err != nil || g == grid {
		return Fitting{}, false
	}
	return f, true
}

// older reports whether some instances seem to be open for longer than dMax: more are open than
// started in that time, even allowing for chance.
func (s Seen) older(dMax time.Duration) bool {
	started := s.Starts * dMax.Seconds()
	return float64(s.Open) > started+2*math.Sqrt(started)
}

// wanted returns the dMax for a 99 % quantile and a slowest success, and whether the present one
// fits.
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

// scaleFor returns the scale with minBins to maxBins bins that reaches at least dMax. It reaches
// further if dMax is less than minBins of the narrowest bins.
func scaleFor(base, dMax time.Duration) config.Scale {
	width := widthFor(base, (dMax+maxBins-1)/maxBins)
	bins := max(int((dMax+width-1)/width), minBins)
	if time.Duration(bins)*width > MaxDMax {
		bins = int(MaxDMax / width)
	}
	return config.Scale{DMax: width * time.Duration(bins), Bins: bins, Fitted: true}
}

// widthFor returns the narrowest width of bins that is at least want. A width is the base times a
// power of two if that is a whole number of nanoseconds, so that widths divide each other. A
// narrower one is a microsecond times a power of two.
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
