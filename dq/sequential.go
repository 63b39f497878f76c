package dq

import "time"

// Sequential writes to dst the ΔQ of outcomes that follow each other: each one starts when the
// previous one is done. It is the convolution of their densities (thesis, eq. 2.2). Immediate is
// its neutral element. If an operand is never, so is the result.
func (c *Calculator) Sequential(dst *DeltaQ, xs ...*DeltaQ) error {
	width, err := c.align(xs, MaxBins)
	if err != nil {
		return err
	}
	p := c.split(width)
	switch {
	case p.mass.Hi == 0:
		c.out.setAtom(width, 0, Bounds{})
	case len(p.rest) == 0:
		c.out.setAtom(width, p.shift, p.mass)
	case len(p.rest) == 1:
		c.shift(p)
	default:
		c.convolve(p)
	}
	return c.finish(dst)
}

// parts holds the operands of a sequence, divided into exact delays and others.
type parts struct {
	width  time.Duration
	shift  int       // the sum of the exact delays, in bins
	mass   Bounds    // the product of their probabilities; 0 if any operand is never
	rest   []*DeltaQ // the other operands
	total  Bounds    // the success probability of the whole
	excess excess    // the excess of the whole
}

// split divides the aligned operands into exact delays and the rest. It reuses the memory of
// c.aligned for the rest.
func (c *Calculator) split(width time.Duration) parts {
	p := parts{width: width, mass: Bounds{1, 1}, total: Bounds{1, 1}, rest: c.aligned[:0]}
	for _, x := range c.aligned {
		success := x.At(x.Bins())
		p.total = Bounds{mulDown(p.total.Lo, success.Lo), mulUp(p.total.Hi, success.Hi)}
		p.excess = p.excess.plus(x.excess)
		k, mass, ok := x.atom()
		if !ok {
			p.rest = append(p.rest, x)
			continue
		}
		p.shift += k
		p.mass = Bounds{mulDown(p.mass.Lo, mass.Lo), mulUp(p.mass.Hi, mass.Hi)}
	}
	if p.total.Hi == 0 {
		p.mass = Bounds{}
	}
	return p
}

// shift sets c.out to the only operand that is not an exact delay, shifted by the exact delays.
// It rounds once for the multiplication, and not at all if the exact delays have the probability
// 1.
func (c *Calculator) shift(p parts) {
	x := p.rest[0]
	c.out.resize(p.width, x.Bins()+p.shift)
	clear(c.out.lo[:p.shift])
	clear(c.out.hi[:p.shift])
	for k := range x.lo {
		c.out.lo[k+p.shift] = mulDown(x.lo[k], p.mass.Lo)
		c.out.hi[k+p.shift] = mulUp(x.hi[k], p.mass.Hi)
	}
	c.out.excess = p.excess
}
