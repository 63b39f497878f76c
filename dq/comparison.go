package dq

import (
	"fmt"
	"math"
	"time"
)

// A Comparison holds the last pairs of ΔQs of an outcome, an observed and a calculated one for each
// window, and measures their distance over several windows. It finds a small difference that lasts
// as surely as a large one that has just begun. After it is made it allocates nothing.
//
// Its statements about chance hold for each diagram if the instances of a sample are independent of
// each other. They also hold if the observed instances consist of the instances of the calculated
// ΔQ. Distances are those of averages over windows, weighted by the observed instances: n in a
// window and N in all. The spread of a window is √n/N for the observed ΔQ and n/N times its own
// spread for the calculated one. Both, and those of different windows, add as squares.
type Comparison struct {
	width  time.Duration
	dMax   time.Duration
	pairs  []couple
	oldest int
	held   int
	sum    couple
	run    couple
}

// A couple summarises a pair, in each bin of a grid and at its dMax. above is a lower bound on
// how far the first ΔQ is above the second, and below the same for the second above the first. A
// negative value −d means that the other ΔQ is higher by at most d. Values are multiplied by the
// number of instances of the first ΔQ, so that couples can be added.
type couple struct {
	n            float64 // the instances of the first ΔQ
	spread       float64 // the squared spread, times n²
	bias         float64 // times n
	above, below []float64
}

// NewComparison returns a comparison of up to capacity pairs, in the bins of a grid and for delays
// up to dMax, which must be in the last bin. It returns [ErrGrid] for the zero grid or any other
// dMax, and [ErrOperands] unless 1 ≤ capacity ≤ MaxWindow.
func NewComparison(g Grid, dMax time.Duration, capacity int) (*Comparison, error) {
	if dMax > g.DMax() || dMax <= g.DMax()-g.Width() {
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

// newCouple returns a couple with room for all bins and for dMax.
func newCouple(edges int) couple {
	return couple{above: make([]float64, edges), below: make([]float64, edges)}
}

// Len is the number of pairs held.
func (c *Comparison) Len() int { return c.held }

// Insert adds the pair of x, a sample of n instances, and y, which is calculated from samples. If
// there is no more room, the oldest pair goes. Insert returns [ErrNoData], and changes nothing, if
// x or y is empty.
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

// within returns bounds on d over the whole of bin k up to dMax, or at dMax itself. Bin k may be
// wider than the bins of d.
func (c *Comparison) within(d *DeltaQ, k int) Bounds {
	from := min(time.Duration(k)*c.width, c.dMax)
	to := min(from+c.width-1, c.dMax)
	return Bounds{d.At(d.index(from)).Lo, d.At(d.index(to)).Hi}
}

// RemoveOldest removes the oldest pair, if there is one.
func (c *Comparison) RemoveOldest() {
	if c.held > 0 {
		c.oldest = (c.oldest + 1) % len(c.pairs)
		c.held--
	}
}

// Diverge returns the divergence over the last windows. It tests the last window, the last two,
// four and so on, and all of them. It chooses the test that is the least likely to be chance, and
// of equal ones the longest, and reports its number of windows. Chance is multiplied by the number
// of these tests (Bonferroni). Delays beyond dMax are not compared. It returns [ErrNoData] without
// pairs.
//
// Lasting uses another method: the last windows are divided into three runs of one window, of two,
// of four and so on. For each length with three runs, the distance that all three exceed counts if
// none of them is chance. Lasting is the largest of these distances. The runs have no window in
// common, so if each of three is chance with a probability of up to [RunChance], all three are with
// one of up to RunChance³. A single window is in only one of the three, however large its distance
// is, and windows before the three runs do not count.
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

// RunChance is the largest probability at which the distance in a run of windows does not count as
// chance.
const RunChance = 0.01

// runs is the number of consecutive runs of windows that must diverge.
const runs = 3

// lasting returns the distance that all of the last runs exceed, where each run has length
// windows. It returns 0 if the distance in any of these runs may be chance.
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

// last returns the i-th pair from the end. The last pair is number 1.
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

// addTo adds x to dst. It adds four values at a time, because a comparison spends most of its
// time here.
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

// diverge returns the divergence between the two ΔQs of a couple.
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
		// Half of this is the distance between the middles of the two bounds.
		if greater-smaller > twice {
			twice, at = greater-smaller, k
		}
	}
	v.Distance = Bounds{most / p.n, min(1, -least/p.n)}
	v.Nominal, v.At, v.Slower = twice/2/p.n, time.Duration(at)*width, p.above[at] < p.below[at]
	v.Chance = chance(v.Distance.Lo, math.Sqrt(p.spread)/p.n, p.bias/p.n)
	return v
}
