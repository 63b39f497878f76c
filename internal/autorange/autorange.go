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

	// dMax is made so many times the 99 % quantile, and is left alone while it is
	// between the other two: what is fitted stays as it is when delays vary.
	aim, least, most = 4, 2, 8

	widen = 8 // what dMax is multiplied by where too much times out
)

// Seen is what was seen of an outcome since it has had its scale.
type Seen struct {
	Bins     []uint64 // delays of successes, on the grid of the scale
	Timeouts uint64

	// For is how long that was. Delays are only known to be short when there was
	// time for long ones too.
	For time.Duration

	// Tried is the longest dMax that was tried before. Where MaxDMax was and more
	// than 1 % timed out, these are taken not to end at all, and the others decide.
	Tried time.Duration
}

// Fit returns the scale that fits what was seen with a scale, and the quantile that
// decided: the delay up to which 99 % of the successes came; 0 where it is longer
// than the scale shows. ok is false where the scale is to stay as it is.
//
// The bins are 500 to 1000, as wide as the base times a power of two where that can
// be, and dMax is about four times the quantile.
func Fit(base time.Duration, scale config.Scale, seen Seen) (fitted config.Scale, quantile time.Duration, ok bool) {
	grid, err := scale.Grid(base)
	if err != nil {
		return scale, 0, false
	}
	dMax := grid.DMax()
	var successes uint64
	for _, n := range seen.Bins {
		successes += n
	}
	hundredth := float64(successes+seen.Timeouts) / 100
	endless := max(seen.Tried, dMax) >= MaxDMax && float64(seen.Timeouts) > hundredth
	switch {
	// Three standard deviations more than 1 %: it is not by chance.
	case float64(seen.Timeouts) > hundredth+3*math.Sqrt(hundredth) && !endless:
		fitted = scaleFor(base, min(dMax*widen, MaxDMax))
	case successes == 0, float64(seen.Timeouts) > hundredth && !endless:
		return scale, 0, false
	default:
		quantile = edge99(grid, seen.Bins, successes)
		want := min(quantile*aim, MaxDMax)
		fits := dMax >= min(quantile*least, MaxDMax) && dMax <= quantile*most
		if fits || want < dMax && seen.For < 2*dMax {
			return scale, 0, false
		}
		fitted = scaleFor(base, want)
	}
	g, err := fitted.Grid(base)
	if err != nil || g == grid {
		return scale, 0, false
	}
	return fitted, quantile, true
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
	width, exponent, byExponent := widthFor(base, (dMax+maxBins-1)/maxBins)
	bins := max(int((dMax+width-1)/width), minBins)
	if time.Duration(bins)*width > MaxDMax {
		bins = int(MaxDMax / width)
	}
	if byExponent {
		return config.Scale{Exponent: exponent, Bins: bins}
	}
	return config.Scale{DMax: width * time.Duration(bins), Bins: bins}
}

// widthFor returns the narrowest width of bins that is not below want: the base times
// a power of two, so that widths divide each other; below where that is a whole number
// of nanoseconds, a microsecond times one. byExponent tells whether a scale can give it
// by its exponent.
func widthFor(base, want time.Duration) (width time.Duration, exponent int, byExponent bool) {
	narrowest, exponent := base, 0
	for exponent > -dq.MaxExponent && narrowest%2 == 0 && narrowest/2 >= dq.MinWidth {
		narrowest /= 2
		exponent--
	}
	if want <= narrowest/2 && narrowest/2 >= dq.MinWidth {
		for width = dq.MinWidth; width < want; {
			width *= 2
		}
		return width, 0, false
	}
	for width = narrowest; width < want; exponent++ {
		width *= 2
	}
	return width, exponent, exponent <= dq.MaxExponent
}
