package dq

import "math"

// Moments are the moments of the delay of a successful execution, in nanoseconds. Each pair of
// bounds contains the exact figure. Hi is +Inf if it is not known to be finite.
type Moments struct {
	Mean Bounds
	SD   Bounds // standard deviation
}

// Moments returns the moments of the delay given success. It returns false if no execution
// succeeds, and without data.
//
// Let s be the probability of success, T the delay, and n the number of bins of width 1. The mean
// of a bounded delay is ∫(1 − F/s) = Σ tail(k) over the bins k. The variance is E[(T−c)²] −
// (E[T]−c)² for any c. Here c is an edge near the mean, so that
//
//	E[(T−c)²] = Σ_{k≥c} tail(k)·(2(k−c)+1) + Σ_{k<c} head(k)·(2(c−k)−1)
//
// for a T on edges, where head is F/s. The first sum grows with T and the second falls, so late
// delays bound the first one from above, and early delays the second one. All sums are rounded
// outwards.
//
// The excess over the horizon H adds E[T−H] to the mean. To the second moment it adds (T−c)² −
// (H−c)² = (T−H)² + 2(H−c)(T−H).
func (d *DeltaQ) Moments() (Moments, bool) {
	if d.Empty() || d.hi[d.Bins()] == 0 {
		return Moments{}, false
	}
	late, early := late(d), early(d)
	mean := Bounds{early.mean(), late.mean()}
	beyond := d.excess.inBins(d)
	mean.Hi = addUp(mean.Hi, beyond.mean)
	c := d.edgeNear(mean)
	second := secondMoment(late, early, c, beyond.second(d.Bins()-c))
	width := Bounds{float64(d.width), float64(d.width)}
	return Moments{
		Mean: mean.product(width),
		SD:   variance(second, mean.minus(float64(c))).root().product(width),
	}, true
}

// secondMoment returns E[(T−c)²]. Delays beyond the horizon add at most beyond to it.
func secondMoment(late, early conditional, c int, beyond float64) Bounds {
	return Bounds{addDown(early.above(c), late.below(c)), addUp(addUp(late.above(c), early.below(c)), beyond)}
}

// variance returns E[(T−c)²] − (E[T]−c)², at least 0.
func variance(second, shift Bounds) Bounds {
	square := shift.square()
	return Bounds{max(0, subDown(second.Lo, square.Hi)), subUp(second.Hi, square.Lo)}
}

// edgeNear returns the edge nearest to the middle of the bounds of a mean in bins. If the upper
// bound may be infinite, it uses the lower bound.
func (d *DeltaQ) edgeNear(mean Bounds) int {
	m := mean.Lo
	if d.Bounded() {
		m = mean.Mid()
	}
	return int(math.Round(m)) // the mean is at most the last edge
}

// A conditional bounds the distribution of the delay on condition of success, from one side: a step
// function on edges from one of the bounds, and the probability of success from the other bound.
type conditional struct {
	f       []float64
	success float64
	late    bool // delays are late: tails are rounded up and heads down
}

func late(d *DeltaQ) conditional  { return conditional{d.lo, d.hi[d.Bins()], true} }
func early(d *DeltaQ) conditional { return conditional{d.hi, d.lo[d.Bins()], false} }

// tail bounds 1 − F/s at edge k, in [0, 1].
func (c conditional) tail(k int) float64 {
	switch {
	case c.f[k] == 0:
		return 1
	case c.success <= c.f[k]:
		return 0
	case c.late:
		return divUp(subUp(c.success, c.f[k]), c.success)
	}
	return divDown(subDown(c.success, c.f[k]), c.success)
}

// head bounds F/s at edge k, in [0, 1].
func (c conditional) head(k int) float64 {
	switch {
	case c.f[k] == 0:
		return 0
	case c.success <= c.f[k]:
		return 1
	case c.late:
		return divDown(c.f[k], c.success)
	}
	return divUp(c.f[k], c.success)
}

func (c conditional) mean() float64 {
	var sum float64
	for k := range len(c.f) - 1 {
		sum = c.add(sum, c.tail(k), c.late)
	}
	return sum
}

// above bounds E[max(0, T−c)²].
func (c conditional) above(centre int) float64 {
	var sum float64
	for k := centre; k < len(c.f)-1; k++ {
		sum = c.add(sum, mulOutwards(c.tail(k), float64(2*(k-centre)+1), c.late), c.late)
	}
	return sum
}

// below bounds E[max(0, c−T)²].
func (c conditional) below(centre int) float64 {
	var sum float64
	for k := range centre {
		sum = c.add(sum, mulOutwards(c.head(k), float64(2*(centre-k)-1), !c.late), !c.late)
	}
	return sum
}

func (c conditional) add(sum, x float64, up bool) float64 {
	if up {
		return addUp(sum, x)
	}
	return addDown(sum, x)
}

func mulOutwards(a, b float64, up bool) float64 {
	if up {
		return mulUp(a, b)
	}
	return mulDown(a, b)
}

// An excess bounds by how much successes exceed the horizon H: the mean and the root
// mean square of max(0, T−H) over all executions, with 0 for those that fail. It is in
// nanoseconds. The zero excess says that no success comes after the horizon.
//
// Both are norms, so the excess of a sum of delays, or of any one of several delays, is
// at most the sum of their excesses (Minkowski).
type excess struct{ mean, rms float64 }

// unbounded returns the excess of a ΔQ about which nothing is known.
func unbounded() excess { return excess{math.Inf(1), math.Inf(1)} }

func (e excess) plus(x excess) excess { return excess{addUp(e.mean, x.mean), addUp(e.rms, x.rms)} }

// scaled returns the excess of an execution that happens with probability p and otherwise fails.
func (e excess) scaled(p float64) excess {
	if p == 0 {
		return excess{}
	}
	return excess{mulUp(e.mean, p), mulUp(e.rms, rootUp(p))}
}

// times returns e·n.
func (e excess) times(n int) excess {
	return excess{mulUp(e.mean, float64(n)), mulUp(e.rms, float64(n))}
}

// inBins returns the excess of d in bins, given success: the mean over all executions, divided by
// the probability of success.
func (e excess) inBins(d *DeltaQ) excess {
	width := float64(d.width)
	return excess{divUp(e.mean, width), divUp(e.rms, width)}.given(d.lo[d.Bins()])
}

// given returns the excess given a condition: the mean over all executions, divided by the
// probability of the condition. That probability is at least least, and the condition holds
// whenever there is an excess.
func (e excess) given(least float64) excess {
	switch {
	case e == (excess{}):
		return e
	case least == 0:
		return unbounded()
	}
	return excess{divUp(e.mean, least), divUp(e.rms, rootDown(least))}
}

// second bounds E[(T−c)² − (H−c)²; T > H] for a horizon H = c + distance.
func (e excess) second(distance int) float64 {
	second := mulUp(e.rms, e.rms)
	if distance > 0 {
		second = addUp(second, mulUp(float64(2*distance), e.mean))
	}
	return second
}

// minus returns b − x.
func (b Bounds) minus(x float64) Bounds { return Bounds{subDown(b.Lo, x), subUp(b.Hi, x)} }

// root returns √b for b ≥ 0.
func (b Bounds) root() Bounds { return Bounds{rootDown(b.Lo), rootUp(b.Hi)} }

// square returns b².
func (b Bounds) square() Bounds {
	least, most := math.Abs(b.Lo), math.Abs(b.Hi)
	if least > most {
		least, most = most, least
	}
	if b.Lo < 0 && b.Hi > 0 {
		least = 0
	}
	return Bounds{mulDown(least, least), mulUp(most, most)}
}
