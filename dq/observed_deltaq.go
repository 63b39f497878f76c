package dq

import (
	"fmt"
	"time"

	"github.com/beamscope/beamscope/dq/internal/quad"
)

// DeltaQ returns the bounds on the distribution function of the counted instances: each delay lies
// between the edges of its bin. They are about these instances, not about later ones; for those see
// [Observed.Confident]. It returns [ErrNoData] without instances.
func (o *Observed) DeltaQ() (*DeltaQ, error) {
	d := new(DeltaQ)
	if err := o.WriteDeltaQ(d); err != nil {
		return nil, err
	}
	return d, nil
}

// WriteDeltaQ is like DeltaQ, but writes to dst and uses the memory of dst. On an error dst does
// not change.
func (o *Observed) WriteDeltaQ(dst *DeltaQ) error {
	if o.Empty() {
		return ErrNoData
	}
	dst.resize(o.grid.Width(), o.grid.Bins())
	n := float64(o.Instances())
	sum := uint64(0)
	var before Bounds
	for k := range dst.lo {
		sum += o.Count(k)
		after := div(float64(sum), n)
		dst.lo[k], dst.hi[k] = before.Lo, after.Hi
		before = after
	}
	// An instance of exactly dMax is in the last bin, so edge N includes all instances.
	dst.trim()
	return nil
}

// Epsilon is the half-width of the Dvoretzky–Kiefer–Wolfowitz band of n instances:
// with probability at least 1−α the distribution they are drawn from is nowhere
// further than √(ln(2/α)/2n) from their empirical one (Massart, 1990, for the
// constant). It is in (0, 1]. It returns [ErrNoData] for n = 0 and
// [ErrProbability] unless 0 < α < 1.
func Epsilon(n uint64, alpha float64) (float64, error) {
	if n == 0 {
		return 0, ErrNoData
	}
	if !(alpha > 0 && alpha < 1) {
		return 0, fmt.Errorf("%w: α %v: want above 0, below 1", ErrProbability, alpha)
	}
	_, square := quad.Log(quad.Of(2).Over(alpha)).Over(float64(2 * n)).Bounds(quad.Error)
	return min(1, rootUp(square)), nil
}

// widenBy makes the bounds wider by ε on either side.
func (d *DeltaQ) widenBy(epsilon float64) {
	for k := range d.lo {
		d.lo[k], d.hi[k] = max(0, subDown(d.lo[k], epsilon)), min(1, addUp(d.hi[k], epsilon))
	}
}

// ConfidentSamples returns the statistical band of [Samples]: bounds that are wider by [Epsilon] on
// both sides. A success may come later than all seen ones, so the mean has no upper bound. The
// errors are those of Samples and Epsilon.
func ConfidentSamples(g Grid, delays []time.Duration, failures uint64, alpha float64) (*DeltaQ, error) {
	d, err := Samples(g, delays, failures)
	if err != nil {
		return nil, err
	}
	epsilon, err := Epsilon(uint64(len(delays))+failures, alpha)
	if err != nil {
		return nil, err
	}
	d.widenBy(epsilon)
	d.excess = unbounded()
	return d, nil
}

// Confident returns the statistical band of o, separate from the guaranteed bounds: a ΔQ whose
// bounds are wider by [Epsilon] on both sides. If instances are drawn independently from a
// distribution, the band contains that distribution with probability at least 1−α. Operators
// preserve this: a result from bands of α₁, α₂, … is a band of at most α₁+α₂+…. The errors are
// those of Epsilon.
func (o *Observed) Confident(alpha float64) (*DeltaQ, error) {
	epsilon, err := Epsilon(o.Instances(), alpha)
	if err != nil {
		return nil, err
	}
	d := new(DeltaQ)
	if err := o.WriteDeltaQ(d); err != nil {
		return nil, err
	}
	for n := o.grid.Bins(); d.Bins() < n; { // the horizon is dMax: a success may be later than all observed ones
		last := d.At(d.Bins())
		d.lo, d.hi = append(d.lo, last.Lo), append(d.hi, last.Hi)
	}
	d.widenBy(epsilon)
	return d, nil
}
