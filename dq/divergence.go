package dq

import (
	"math"
	"time"

	"github.com/beamscope/beamscope/dq/internal/quad"
)

// A Divergence says how far two ΔQs are apart: the largest vertical distance of
// their distribution functions, as in the test of Kolmogorov and Smirnov, and what
// to make of it. Of an observed and a calculated ΔQ it is the early sign of
// dependence: the calculated one supposes that components are independent.
type Divergence struct {
	Distance Bounds        // of the exact functions, in [0, 1]
	Nominal  float64       // the distance of the middles of the bounds
	At       time.Duration // where Nominal is found: the lower edge of the bin
	Slower   bool          // there the first is below the second: it takes longer, or fails more

	// PValue is the probability of a distance of Nominal or more between samples
	// of the same distribution; Certain that of Distance.Lo, which no
	// discretisation can explain. Both are 1 where no size is known.
	PValue  float64
	Certain float64
}

// Diverge returns the divergence of x, of n instances, and y, of m; 0 stands for a
// ΔQ that is not a sample. Of a calculated ΔQ, the size is the least of those
// behind it. It returns [ErrNoData] where one of them is empty.
func Diverge(x *DeltaQ, n uint64, y *DeltaQ, m uint64) (Divergence, error) {
	if x.Empty() || y.Empty() {
		return Divergence{}, ErrNoData
	}
	var v Divergence
	eachStep(x, y, func(at time.Duration, a, b Bounds) bool {
		v.Distance.Lo = max(v.Distance.Lo, a.Lo-b.Hi, b.Lo-a.Hi)
		v.Distance.Hi = max(v.Distance.Hi, a.Hi-b.Lo, b.Hi-a.Lo)
		if d := math.Abs(a.Mid() - b.Mid()); d > v.Nominal {
			v.Nominal, v.At, v.Slower = d, at, a.Mid() < b.Mid()
		}
		return true
	})
	size := effectiveSize(n, m)
	v.PValue, v.Certain = significance(v.Nominal, size), significance(v.Distance.Lo, size)
	return v, nil
}

// effectiveSize is nm/(n+m), or the size of the only sample.
func effectiveSize(n, m uint64) float64 {
	a, b := float64(n), float64(m)
	switch {
	case n == 0:
		return b
	case m == 0:
		return a
	}
	return float64(a / (a + b) * b)
}

// significance is the probability that samples of the same distribution, of an
// effective size, are at least d apart: 2Σ(−1)^(j−1)·exp(−2j²λ²) with
// λ = (√n + 0.12 + 0.11/√n)·d (Stephens, 1970). For distributions with atoms it is
// an upper bound.
func significance(d, size float64) float64 {
	if size == 0 {
		return 1
	}
	root := math.Sqrt(size)
	lambda := float64((root + 0.12 + 0.11/root) * d)
	if lambda < 0.2 {
		return 1 // to fifteen digits; the series is slow there
	}
	var sum float64
	for j, sign := 1.0, 1.0; j <= 100; j, sign = j+1, -sign {
		term := quad.Exp(quad.Product(float64(j*lambda), float64(float64(-2*j)*lambda))).Hi
		sum += float64(sign * term)
		if term < 1e-18 {
			break
		}
	}
	return max(0, min(1, sum+sum))
}
