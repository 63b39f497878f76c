package dq

import (
	"fmt"
	"math"
	"time"
)

// A Comparison holds the last pairs of ΔQs of a probe, an observed and a calculated
// one of each window, and tells how far the two are apart over the last of them. A
// small difference that lasts is found as surely as a large one that has just begun.
// It allocates nothing once it is made.
//
// What it says of chance holds where the instances of a sample are independent of each
// other, for each diagram, and also where the observed instances are made of those behind
// the calculated ΔQ. Distances are of the averages over windows, weighed by the observed
// instances, of which there are n in a window and N in all. A window's spread is
// √n/N for the observed ΔQ and n/N times that of the calculated one; both, and those of
// different windows, add as squares.
type Comparison struct {
	width  time.Duration
	dMax   time.Duration
	pairs  []couple
	oldest int
	held   int
	sum    couple
	run    couple
}

// A couple is what is left of a pair: by how much each of the two is above the other
// for sure, in each bin of a grid and at its dMax. Where a value is below 0, its opposite is what the
// other one is above it at most. Values are multiplied by the number of instances of
// the first, so that couples can be added.
type couple struct {
	n            float64 // instances of the first
	spread       float64 // squared, times n²
	bias         float64 // times n
	above, below []float64
}

// NewComparison returns a comparison of up to capacity pairs, in the bins of a grid
// and up to dMax, which is in the last of them. It returns [ErrGrid] for the zero grid
// or another dMax, and [ErrOperands] unless 1 ≤ capacity ≤ MaxWindow.
func NewComparison(g Grid, dMax time.Duration, capacity int) (*Comparison, error) {
	if !g.valid() || dMax > g.DMax() || dMax <= g.DMax()-g.Width() {
		return nil, fmt.Errorf("%w: a dMax of %v is not in the last of %v", ErrGrid, dMax, g)
	}
	if capacity < 1 || capacity > MaxWindow {
		return nil, fmt.Errorf("%w: comparison of %d: want 1 to %d", ErrOperands, capacity, MaxWindow)
	}
	c := &Comparison{width: g.Width(), dMax: dMax, pairs: make([]couple, capacity), sum: newCouple(g.Bins() + 1), run: newCouple(g.Bins() + 1)}
	for i := range c.pairs {
		c.pairs[i] = newCouple(g.Bins() + 1)
	}
	return c, nil
}

// newCouple returns a couple with room for all bins, and for dMax.
func newCouple(edges int) couple {
	return couple{above: make([]float64, edges), below: make([]float64, edges)}
}

// Len is the number of pairs held.
func (c *Comparison) Len() int { return c.held }

// Insert adds the pair of x, a sample of n instances, and y, which is calculated from
// samples. The oldest pair goes when there is no more room. It returns [ErrNoData], and
// changes nothing, where one of them is empty.
func (c *Comparison) Insert(x *DeltaQ, n uint64, y *DeltaQ, s Sampling) error {
	if x.Empty() || y.Empty() || n == 0 {
		return ErrNoData
	}
	if c.held == len(c.pairs) {
		c.RemoveOldest()
	}
	p := &c.pairs[(c.oldest+c.held)%len(c.pairs)]
	p.n = float64(n)
	p.spread = p.n + float64(float64(p.n*p.n)*s.Square)
	p.bias = float64(p.n * s.Bias)
	for k := range p.above {
		a, b := c.within(x, k), c.within(y, k)
		p.above[k], p.below[k] = float64((a.Lo-b.Hi)*p.n), float64((b.Lo-a.Hi)*p.n)
	}
	c.held++
	return nil
}

// within bounds d over all of bin k, which may be wider than those of d, up to dMax; or
// at dMax.
func (c *Comparison) within(d *DeltaQ, k int) Bounds {
	from := min(time.Duration(k)*c.width, c.dMax)
	to := min(from+c.width-1, c.dMax)
	return Bounds{d.At(d.index(from)).Lo, d.At(d.index(to)).Hi}
}

// RemoveOldest takes the oldest pair out, if there is one.
func (c *Comparison) RemoveOldest() {
	if c.held > 0 {
		c.oldest = (c.oldest + 1) % len(c.pairs)
		c.held--
	}
}

// Diverge returns the divergence over the last windows: over the last one, two, four
// and so on, and all of them, whichever is the least likely to be chance, the longest of
// these, and over how many windows that is. Its Chance is multiplied by the number of these tests
// (Bonferroni). What comes after dMax is not compared. It returns [ErrNoData] without
// pairs.
//
// Lasting is found otherwise: the last windows are divided into three runs of one
// window, of two, of four and so on. Of each length of which there are three runs, the
// distance that all three exceed counts where none of them is chance, and Lasting is the
// largest of these. As the runs have no window in common, three in a row that are chance
// with a probability of up to [RunChance] each are so with one of up to RunChance³. One
// window is in one of the three only, however far it is apart, and nothing older than
// the three runs counts, whatever the history is.
func (c *Comparison) Diverge() (v Divergence, windows int, err error) {
	if c.held == 0 {
		return Divergence{}, 0, ErrNoData
	}
	c.sum.clear()
	tests := 0.0
	for i := 1; i <= c.held; i++ {
		c.sum.add(c.last(i))
		if i&(i-1) != 0 && i != c.held {
			continue
		}
		tests++
		if w := c.sum.diverge(c.width); windows == 0 || w.Chance <= v.Chance {
			v, windows = w, i
		}
	}
	v.Chance = min(1, float64(v.Chance*tests))
	for length := 1; runs*length <= c.held; length *= 2 {
		v.Lasting = max(v.Lasting, c.lasting(length))
	}
	return v, windows, nil
}

// RunChance is the probability up to which a distance in a run of windows is taken not
// to be chance.
const RunChance = 0.01

// runs is how many runs of windows in a row have to diverge.
const runs = 3

// lasting returns the distance that the last runs of so many windows all exceed, 0 where
// one of them may be chance.
func (c *Comparison) lasting(length int) float64 {
	least := 1.0
	for run := range runs {
		c.run.clear()
		for i := 1; i <= length; i++ {
			c.run.add(c.last(run*length + i))
		}
		v := c.run.diverge(c.width)
		if v.Chance > RunChance {
			return 0
		}
		least = min(least, v.Distance.Lo)
	}
	return least
}

// last returns the i-th pair from the end, from 1.
func (c *Comparison) last(i int) *couple {
	return &c.pairs[(c.oldest+c.held-i)%len(c.pairs)]
}

func (p *couple) clear() {
	p.n, p.spread, p.bias = 0, 0, 0
	clear(p.above)
	clear(p.below)
}

func (p *couple) add(q *couple) {
	p.n += q.n
	p.spread += q.spread
	p.bias += q.bias
	addTo(p.above, q.above)
	addTo(p.below, q.below)
}

// addTo adds four at a time: most of what a comparison takes is this.
func addTo(dst, x []float64) {
	dst = dst[:len(x)]
	for len(x) >= 4 {
		d, y := dst[:4:4], x[:4:4]
		d[0] += y[0]
		d[1] += y[1]
		d[2] += y[2]
		d[3] += y[3]
		dst, x = dst[4:], x[4:]
	}
	for k, y := range x {
		dst[k] += y
	}
}

// diverge compares the two of a couple.
func (p *couple) diverge(width time.Duration) Divergence {
	var v Divergence
	var most, least, twice float64
	at := 0
	opposite := p.below[:len(p.above)]
	for k, above := range p.above {
		below := opposite[k]
		greater, smaller := above, below
		if greater < smaller {
			greater, smaller = smaller, greater
		}
		if greater > most {
			most = greater
		}
		if smaller < least {
			least = smaller
		}
		// Half of this is half the sum of one's bounds less half that of the other's.
		if greater-smaller > twice {
			twice, at = greater-smaller, k
		}
	}
	v.Distance = Bounds{most / p.n, min(1, -least/p.n)}
	v.Nominal, v.At, v.Slower = twice/2/p.n, time.Duration(at)*width, p.above[at] < p.below[at]
	v.Chance = chance(v.Distance.Lo, math.Sqrt(p.spread)/p.n, p.bias/p.n)
	return v
}
