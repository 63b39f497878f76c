package dq

import (
	"math"
	"time"

	"github.com/beamscope/beamscope/dq/internal/quad"
)

// A Divergence is the distance of two ΔQs: the largest vertical distance of their distribution
// functions, and its significance. Between an observed and a calculated ΔQ it is the early sign of
// dependence, because the calculated one assumes that components are independent.
type Divergence struct {
	Distance Bounds        // the distance of the exact functions, in [0, 1]
	Nominal  float64       // the distance of the middles of the bounds
	At       time.Duration // where Nominal is found: the lower edge of the bin
	Slower   bool          // at that point the first is below the second: it takes longer, or fails more often

	// Chance bounds the probability that samples of equal ΔQs are at least Distance.Lo apart, see
	// [Comparison]. It is 1 if the sizes of the samples are unknown.
	Chance float64

	// Lasting is a distance that each of the last three runs of windows of one length exceeded,
	// each run by itself beyond chance; 0 if there is none. See [Comparison.Diverge].
	Lasting float64
}

// Diverge returns the distance of x and y. It returns [ErrNoData] if x or y is empty.
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

// A Sampling describes the possible distance between a ΔQ that is calculated from samples and the
// ΔQ that the distributions behind these samples would give. The zero value belongs to a ΔQ that is
// calculated from no sample.
type Sampling struct {
	Square float64 // the sum of weight²/m over all samples, which are independent of each other
	Bias   float64 // an upper bound of the shift of the mean by repeated use of a sample
}

// Add adds a sample of m instances. The weight is the ratio of a movement of the calculated ΔQ to
// the movement of the sample's ΔQ that causes it, by the largest vertical distances: at most 1 for
// each use by a sequence, an all-to-finish or a first-to-finish operator, and the probability of
// the branch below a choice. times is the number of uses of the sample: the mean of k uses of one
// sample is off by (k−1)/2m for each use (the bias of a V-statistic).
func (s *Sampling) Add(weight, times float64, m uint64) {
	s.Square += float64(weight*weight) / float64(m)
	s.Bias += float64(weight*max(0, times-1)) / 2 / float64(m)
}

// chance bounds the probability of a distance by chance: 2exp(−2x²), where x is the distance minus
// the bias, divided by the spread. For one sample, whose spread is 1/√n, this is the inequality of
// Dvoretzky, Kiefer and Wolfowitz with Massart's constant. Samples are independent, so their
// spreads add as squares: for two samples this is the test of Kolmogorov and Smirnov. For a ΔQ that
// is calculated from several samples, the bound is not proven. TestChanceIsNotUnderstated checks it
// by simulation.
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
