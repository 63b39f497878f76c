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
type Comparison struct {
	width  time.Duration
	pairs  []couple
	oldest int
	held   int
	sum    couple
}

// A couple is two ΔQs at the edges of a grid, each value multiplied by the number of
// instances of the first, so that pairs can be added.
type couple struct {
	n, m float64 // instances of the first, and behind the second
	x, y bounds
}

type bounds struct{ lo, hi []float64 }

// NewComparison returns a comparison of up to capacity pairs, at the edges of a
// grid. It returns [ErrGrid] for the zero grid and [ErrOperands] unless
// 1 ≤ capacity ≤ MaxWindow.
func NewComparison(g Grid, capacity int) (*Comparison, error) {
	if !g.valid() {
		return nil, fmt.Errorf("%w: the zero grid", ErrGrid)
	}
	if capacity < 1 || capacity > MaxWindow {
		return nil, fmt.Errorf("%w: comparison of %d: want 1 to %d", ErrOperands, capacity, MaxWindow)
	}
	c := &Comparison{width: g.Width(), pairs: make([]couple, capacity), sum: newCouple(g.Bins() + 1)}
	for i := range c.pairs {
		c.pairs[i] = newCouple(g.Bins() + 1)
	}
	return c, nil
}

func newCouple(edges int) couple {
	values := func() []float64 { return make([]float64, edges) }
	return couple{x: bounds{values(), values()}, y: bounds{values(), values()}}
}

// Len is the number of pairs held.
func (c *Comparison) Len() int { return c.held }

// Insert adds the pair of x, of n instances, and y, of which the outcome behind it
// with the fewest has m. The oldest pair goes when there is no more room. It
// returns [ErrNoData], and changes nothing, where one of them is empty.
func (c *Comparison) Insert(x *DeltaQ, n uint64, y *DeltaQ, m uint64) error {
	if x.Empty() || y.Empty() || n == 0 || m == 0 {
		return ErrNoData
	}
	if c.held == len(c.pairs) {
		c.RemoveOldest()
	}
	p := &c.pairs[(c.oldest+c.held)%len(c.pairs)]
	p.n, p.m = float64(n), float64(m)
	c.fill(p.x, x, p.n)
	c.fill(p.y, y, p.n)
	c.held++
	return nil
}

// fill writes the values of d at the edges, which need not be edges of d.
func (c *Comparison) fill(b bounds, d *DeltaQ, weight float64) {
	for k := range b.lo {
		at := d.At(d.index(time.Duration(k) * c.width))
		b.lo[k], b.hi[k] = at.Lo*weight, at.Hi*weight
	}
}

// RemoveOldest takes the oldest pair out, if there is one.
func (c *Comparison) RemoveOldest() {
	if c.held > 0 {
		c.oldest = (c.oldest + 1) % len(c.pairs)
		c.held--
	}
}

// Diverge returns the divergence over the last windows: over the last one, two,
// four and so on, and all of them, whichever is the most significant, and over how
// many that is. Its p-values are multiplied by the number of these tests
// (Bonferroni), and are approximate, as what is calculated is no sample. What comes
// after the last edge is not compared. It returns [ErrNoData] without pairs.
func (c *Comparison) Diverge() (v Divergence, windows int, err error) {
	if c.held == 0 {
		return Divergence{}, 0, ErrNoData
	}
	c.sum.clear()
	tests := 0.0
	for i := 1; i <= c.held; i++ {
		c.sum.add(&c.pairs[(c.oldest+c.held-i)%len(c.pairs)])
		if i&(i-1) != 0 && i != c.held {
			continue
		}
		tests++
		if w := c.sum.diverge(c.width); windows == 0 || w.moreSignificant(v) {
			v, windows = w, i
		}
	}
	v.PValue, v.Certain = min(1, v.PValue*tests), min(1, v.Certain*tests)
	return v, windows, nil
}

// moreSignificant tells whether v is less likely to be chance than w.
func (v Divergence) moreSignificant(w Divergence) bool {
	if v.Certain != w.Certain {
		return v.Certain < w.Certain
	}
	return v.PValue < w.PValue
}

func (p *couple) clear() {
	p.n, p.m = 0, 0
	for _, values := range [][]float64{p.x.lo, p.x.hi, p.y.lo, p.y.hi} {
		clear(values)
	}
}

func (p *couple) add(q *couple) {
	p.n += q.n
	p.m += q.m
	p.x.add(q.x)
	p.y.add(q.y)
}

func (b bounds) add(c bounds) {
	for k := range b.lo {
		b.lo[k] += c.lo[k]
		b.hi[k] += c.hi[k]
	}
}

// diverge compares the two of a couple. Between two edges a distribution function is
// at least what it is at the first, and at most what it is at the second.
func (p *couple) diverge(width time.Duration) Divergence {
	var v Divergence
	last := len(p.x.lo) - 1
	for k := range p.x.lo {
		next := min(k+1, last)
		v.Distance.Lo = max(v.Distance.Lo, p.x.lo[k]-p.y.hi[k], p.y.lo[k]-p.x.hi[k])
		v.Distance.Hi = max(v.Distance.Hi, p.x.hi[next]-p.y.lo[k], p.y.hi[next]-p.x.lo[k])
		x, y := (p.x.lo[k]+p.x.hi[k])/2, (p.y.lo[k]+p.y.hi[k])/2
		if d := math.Abs(x - y); d > v.Nominal {
			v.Nominal, v.At, v.Slower = d, time.Duration(k)*width, x < y
		}
	}
	v.Distance.Lo /= p.n
	v.Distance.Hi = min(1, v.Distance.Hi/p.n)
	v.Nominal /= p.n
	size := p.n / (p.n + p.m) * p.m
	v.PValue, v.Certain = significance(v.Nominal, size), significance(v.Distance.Lo, size)
	return v
}
