package dq

import (
	"fmt"
	"math"
)

// FirstToFinish writes to dst the ΔQ of the fastest of several outcomes that start together:
// 1 − Π(1−Fᵢ), for any number of operands (thesis, eq. 2.3 for two). Never is its neutral element.
func (c *Calculator) FirstToFinish(dst *DeltaQ, xs ...*DeltaQ) error {
	return c.pointwise(dst, xs, func(acc, f Bounds) Bounds {
		// acc + f·(1−acc) rises with both, and is exact if one of them is 0.
		return Bounds{
			max(f.Lo, addDown(acc.Lo, mulDown(f.Lo, subDown(1, acc.Lo)))),
			min(1, addUp(acc.Hi, mulUp(f.Hi, subUp(1, acc.Hi)))),
		}
	})
}

// AllToFinish writes to dst the ΔQ of outcomes that start together and must all succeed: ΠFᵢ, for
// any number of operands (thesis, eq. 2.4 for two). Immediate is its neutral element.
func (c *Calculator) AllToFinish(dst *DeltaQ, xs ...*DeltaQ) error {
	return c.pointwise(dst, xs, func(acc, f Bounds) Bounds {
		return Bounds{mulDown(acc.Lo, f.Lo), mulUp(acc.Hi, f.Hi)}
	})
}

// pointwise combines the distribution functions of the operands at each edge. A success of the
// result comes no later than the slowest success of the operands, so the excess over the horizon
// is at most the sum of theirs.
func (c *Calculator) pointwise(dst *DeltaQ, xs []*DeltaQ, f func(acc, x Bounds) Bounds) error {
	width, err := c.align(xs, MaxBins*len(xs))
	if err != nil {
		return err
	}
	c.out.resize(width, c.bins())
	for i, x := range c.aligned {
		for k := range c.out.lo {
			b := x.At(k)
			if i > 0 {
				b = f(Bounds{c.out.lo[k], c.out.hi[k]}, b)
			}
			c.out.lo[k], c.out.hi[k] = b.Lo, b.Hi
		}
		c.out.excess = c.out.excess.plus(x.excess)
	}
	return c.finish(dst)
}

// weightSlack is the largest accepted difference between 1 and the sum of the weights of a
// choice.
const weightSlack = 1e-9

// Choice writes to dst the ΔQ of an outcome that is one of several: operand i with probability
// weights[i], ΣwᵢFᵢ (thesis, eq. 2.5 for two). The weights are divided by their sum, which must be
// 1 within 1e-9. Choice returns [ErrOperands] unless there is one weight for each operand, and
// [ErrProbability] for a weight outside [0, 1] or any other sum.
func (c *Calculator) Choice(dst *DeltaQ, weights []float64, xs ...*DeltaQ) error {
	if len(weights) != len(xs) {
		return fmt.Errorf("%w: %d weights for %d operands", ErrOperands, len(weights), len(xs))
	}
	sum, err := weightSum(weights)
	if err != nil {
		return err
	}
	width, err := c.align(xs, MaxBins*len(xs))
	if err != nil {
		return err
	}
	c.out.resize(width, c.bins())
	for k := range c.out.lo {
		b := mix(c.aligned, weights, sum, k)
		c.out.lo[k], c.out.hi[k] = b.Lo, b.Hi
	}
	for i, x := range c.aligned {
		c.out.excess = c.out.excess.plus(x.excess.scaled(divUp(weights[i], sum.Lo)))
	}
	return c.finish(dst)
}

// weightSum returns bounds on the exact sum of the weights of a choice.
func weightSum(weights []float64) (Bounds, error) {
	var sum Bounds
	for i, w := range weights {
		if err := checkProbability(w); err != nil {
			return Bounds{}, fmt.Errorf("weight %d: %w", i+1, err)
		}
		sum = Bounds{addDown(sum.Lo, w), addUp(sum.Hi, w)}
	}
	if math.Abs(sum.Lo-1) > weightSlack || math.Abs(sum.Hi-1) > weightSlack {
		return Bounds{}, fmt.Errorf("%w: the weights sum to %v: want 1", ErrProbability, sum.Mid())
	}
	return sum, nil
}

// mix returns the weighted mean of the operands at edge k. A mean lies between the smallest and
// the largest operand. Limiting the result to that range keeps it exact where all operands are
// equal, above all at 0 and 1.
func mix(xs []*DeltaQ, weights []float64, sum Bounds, k int) Bounds {
	var b Bounds
	least, greatest := 1.0, 0.0
	for i, x := range xs {
		if weights[i] == 0 {
			continue
		}
		f := x.At(k)
		b.Lo = addDown(b.Lo, mulDown(weights[i], f.Lo))
		b.Hi = addUp(b.Hi, mulUp(weights[i], f.Hi))
		least, greatest = min(least, f.Lo), max(greatest, f.Hi)
	}
	return Bounds{
		max(least, divDown(b.Lo, sum.Hi)),
		min(greatest, divUp(b.Hi, sum.Lo)),
	}
}
