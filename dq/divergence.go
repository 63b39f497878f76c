package dq

import (
	"math"
	"time"

	"github.com/beamscope/beamscope/dq/internal/quad"
)

// A Divergence says how far two ΔQs are apart: the largest vertical distance of
// their distribution functions, and what to make of it. Of an observed and a
// calculated ΔQ it is the early sign of dependence: the calculated one supposes that
// components are independent.
type Divergence struct {
	Distance Bounds        // of the exact functions, in [0, 1]
	Nominal  float64       // the distance of the middles of the bounds
	At       time.Duration // where Nominal is found: the lower edge of the bin
	Slower   bool          // there the first is below the second: it takes longer, or fails more

	// Chance bounds the probability that samples alone are Distance.Lo or more apart where
	// the ΔQs behind them are the same, see [Comparison]. It is 1 for ΔQs of unknown size.
	Chance float64

	// Lasting is a distance that was exceeded in each of the last three runs of windows
	// of one length, each run by itself beyond chance; 0 where there is none. See
	// [Comparison.Diverge].
	Lasting float64
}

// Diverge returns the distance of x and y. It returns [ErrNoData] where one of them is
// empty.
func Diverge(x, y *DeltaQ) (Divergence, error) {
	if x.Empty() || y.Empty() {
		return Divergence{}, ErrNoData
	}
	v := Divergence{Chance: 1}
	eachStep(x, y, func(at time.Duration, a, b Bounds) bool {
		v.Distance.Lo = max(v.Distance.Lo, a.Lo-b.Hi, b.Lo-a.Hi)
		v.Distance.Hi = max(v.Distance.Hi, a.Hi-b.Lo, b.Hi-a.Lo)
		if d := math.Abs(a.Mid() - b.Mid()); d > v.Nominal {
			v.Nominal, v.At, v.Slower = d, at, a.Mid() < b.Mid()
		}
		return true
	})
	return v, nil
}

// A Sampling says how far a ΔQ that is calculated from samples may be from the one that
// the distributions behind these samples would give. Its zero value is that of a ΔQ that
// is calculated from no sample.
type Sampling struct {
	Square float64 // the sum of weight²/m over all samples, which are independent of each other
	Bias   float64 // a bound of the mean's distance that repeated use of a sample makes
}

// Add adds a sample of m instances. The weight says by how much the calculated ΔQ moves
// where that of the sample moves, by the largest vertical distance: at most 1 each time a
// sequence, an all-to-finish or a first-to-finish operator uses it, and the branch's
// probability below a choice. Times is how often the sample is used: the mean of what k
// uses of one sample give is off by (k−1)/2m for each use (a V-statistic's bias).
func (s *Sampling) Add(weight, times float64, m uint64) {
	s.Square += float64(weight*weight) / float64(m)
	s.Bias += float64(weight*max(0, times-1)) / 2 / float64(m)
}

// chance bounds the probability of a distance by chance: 2exp(−2x²), where x is by how
// many times the spread the distance is larger than the bias. For one sample, whose spread
// is 1/√n, that is the inequality of Dvoretzky, Kiefer and Wolfowitz with Massart's
// constant. Spreads of several samples add as squares, because they are independent: of
// two samples it is the test of Kolmogorov and Smirnov. For what is calculated of
// several it is no proven bound; TestChanceIsNoMoreThanSaid
// checks it by simulation.
func chance(distance, spread, bias float64) float64 {
	if spread == 0 {
		return 1
	}
	x := float64((distance - bias) / spread)
	if !(x > 0) {
		return 1
	}
	return min(1, float64(2*quad.Exp(quad.Product(float64(-2*x), x)).Hi))
}
