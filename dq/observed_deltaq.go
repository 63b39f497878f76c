package dq

import (
	"fmt"
	"time"

	"github.com/beamscope/beamscope/dq/internal/quad"
)

// DeltaQ returns the bounds on the distribution function of the instances that
// were counted: each delay lies between the edges of its bin. They are about these
// instances, not about the next ones; for that see [Observed.Confident]. It
// returns [ErrNoData] where there is none.
func (o *Observed) DeltaQ() (*DeltaQ, error) {
	d := new(DeltaQ)
	if err := o.WriteDeltaQ(d); err != nil {
		return nil, err
	}
	return d, nil
}

// WriteDeltaQ is DeltaQ into dst, whose memory it uses. On an error dst is left as
// it was.
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
	// An instance of exactly dMax is in the last bin: edge N has seen all.
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

// ConfidentSamples returns the statistical band of [Samples]: bounds that are wider by
// [Epsilon] on either side. A success may come later than all that were seen, so the mean
// has no upper bound. The errors are those of Samples and Epsilon.
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

// Confident returns the statistical band of o, kept apart from the guaranteed
// bounds: a ΔQ whose bounds are wider by [Epsilon] on either side, and contain with
// probability at least 1−α the distribution that the instances are drawn from
// independently. Operators carry it on: what is composed of bands of α₁, α₂, … is
// one of at most α₁+α₂+…. The errors are those of Epsilon.
func (o *Observed) Confident(alpha float64) (*DeltaQ, error) {
	epsilon, err := Epsilon(o.Instances(), alpha)
	if err != nil {
		return nil, err
	}
	d := new(DeltaQ)
	if err := o.WriteDeltaQ(d); err != nil {
		return nil, err
	}
	for n := o.grid.Bins(); d.Bins() < n; { // its horizon is dMax: any success may be later than those seen
		last := d.At(d.Bins())
		d.lo, d.hi = append(d.lo, last.Lo), append(d.hi, last.Hi)
	}
	d.widenBy(epsilon)
	return d, nil
}
