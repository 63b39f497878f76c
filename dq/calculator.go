package dq

import (
	"fmt"
	"sort"
	"time"
)

// A Calculator applies the operators of the algebra. From one call to the next it keeps its working
// memory, the tables of the transforms, and the transforms of operands that have not changed. The
// zero Calculator is ready for use. It is not safe for use by several goroutines at once.
//
// Each operator writes its result to dst and uses the memory of dst, so a steady sequence of calls
// allocates nothing. dst may be one of the operands. On an error dst does not change. Operands of
// different widths are first brought to the largest width (thesis, 5.1.4), but an operand without
// any delay, such as never, does not count. If a result would need more than [MaxBins] bins, its
// bins are wider by a whole factor.
//
// All operators return [ErrNoData] if an operand is empty and [ErrOperands] if there are too few.
// The functions of the package with the same names do the same with a Calculator of their own, and
// return a new DeltaQ.
type Calculator struct {
	out     DeltaQ    // the result being calculated
	aligned []*DeltaQ // the operands at a common width
	spare   []DeltaQ  // memory for rebinned operands

	conv convolver
}

// finish copies the result to dst. Rounding may have made a bound fall by an ulp where it should
// stay level. finish repairs this: a lower bound at one time is also a lower bound at every later
// time, and an upper bound at one time is also one at every earlier time.
func (c *Calculator) finish(dst *DeltaQ) error {
	lo, hi := c.out.lo, c.out.hi
	for k := 1; k < len(lo); k++ {
		if lo[k] < lo[k-1] {
			lo[k] = lo[k-1]
		}
	}
	for k := len(hi) - 2; k >= 0; k-- {
		if hi[k] > hi[k+1] {
			hi[k] = hi[k+1]
		}
	}
	c.out.trim()
	dst.resize(c.out.width, c.out.Bins())
	copy(dst.lo, c.out.lo)
	copy(dst.hi, c.out.hi)
	dst.excess = c.out.excess
	return nil
}

// align sets c.aligned to the operands at their common width, with at most maxSum bins in total
// and maxEach bins each. It returns that width.
func (c *Calculator) align(xs []*DeltaQ, maxSum int) (time.Duration, error) {
	if len(xs) == 0 {
		return 0, fmt.Errorf("%w: none", ErrOperands)
	}
	width, err := commonWidth(xs)
	if err != nil {
		return 0, err
	}
	if width, err = widthForSum(xs, width, maxSum); err != nil {
		return 0, err
	}
	if len(c.spare) < len(xs) {
		c.spare = append(c.spare, make([]DeltaQ, len(xs)-len(c.spare))...)
	}
	c.aligned = c.aligned[:0]
	for i, x := range xs {
		if x.width != width {
			rebin(&c.spare[i], x, width)
			x = &c.spare[i]
		}
		c.aligned = append(c.aligned, x)
	}
	return width, nil
}

// commonWidth returns the largest bin width of all operands that contain delays.
func commonWidth(xs []*DeltaQ) (time.Duration, error) {
	var width, constant time.Duration
	for i, x := range xs {
		switch {
		case x.Empty():
			return 0, fmt.Errorf("operand %d: %w", i+1, ErrNoData)
		case x.isConstant():
			constant = max(constant, x.width)
		default:
			width = max(width, x.width)
		}
	}
	if width == 0 {
		width = constant
	}
	return width, nil
}

// widthForSum returns the smallest multiple of width at which the operands have at most maxSum
// bins in total.
func widthForSum(xs []*DeltaQ, width time.Duration, maxSum int) (time.Duration, error) {
	fits := func(factor int) bool { return binsTogether(xs, width*time.Duration(factor)) <= maxSum }
	most := int(MaxWidth / width)
	factor := 1
	if !fits(1) { // rarely: the search below takes longer
		factor = 1 + sort.Search(most, func(i int) bool { return fits(i + 1) })
	}
	if factor > most {
		return 0, fmt.Errorf("%w: %d operands need bins wider than %v", ErrGrid, len(xs), MaxWidth)
	}
	return width * time.Duration(factor), nil
}

// binsTogether returns the total number of bins of all operands at the given width.
func binsTogether(xs []*DeltaQ, width time.Duration) int {
	sum := 0
	for _, x := range xs {
		sum += int(ceilDiv(x.Horizon(), width))
	}
	return sum
}

// bins returns the largest number of bins of any aligned operand.
func (c *Calculator) bins() int {
	n := 0
	for _, x := range c.aligned {
		n = max(n, x.Bins())
	}
	return n
}

// Rebin writes to dst the ΔQ x on wider bins (thesis, eq. 5.10). It is exact if the widths divide
// each other: lower edges stay lower edges. Otherwise the bounds widen to the next edge. It returns
// [ErrGrid] if width is narrower than that of x, or if NewGrid does not accept it.
func (c *Calculator) Rebin(dst, x *DeltaQ, width time.Duration) error {
	if x.Empty() {
		return ErrNoData
	}
	if err := checkWidth(width); err != nil {
		return err
	}
	if width < x.width && !x.isConstant() {
		return fmt.Errorf("%w: rebinning %v to narrower bins of %v would invent data", ErrGrid, x.width, width)
	}
	rebin(&c.out, x, width)
	return c.finish(dst)
}

// rebin sets dst, which is not x, to x on bins of another width.
func rebin(dst, x *DeltaQ, width time.Duration) {
	n := int(ceilDiv(x.Horizon(), width))
	dst.resize(width, n)
	dst.excess = x.excess
	for k := range dst.lo {
		// The lower bound holds from k·width on, the upper one until just before
		// (k+1)·width.
		dst.lo[k] = x.lo[x.index(dst.edge(k))]
		dst.hi[k] = x.hi[min(int(ceilDiv(dst.edge(k+1), x.width))-1, x.Bins())]
	}
}

// Scale writes to dst the ΔQ of an outcome that is tried with probability p and
// otherwise fails, p·F (thesis, eq. 5.5). It returns [ErrProbability] unless p is
// in [0, 1].
func (c *Calculator) Scale(dst, x *DeltaQ, p float64) error {
	if x.Empty() {
		return ErrNoData
	}
	if err := checkProbability(p); err != nil {
		return err
	}
	c.out.resize(x.width, x.Bins())
	for k := range x.lo {
		c.out.lo[k] = mulDown(x.lo[k], p)
		c.out.hi[k] = mulUp(x.hi[k], p)
	}
	c.out.excess = x.excess.scaled(p)
	return c.finish(dst)
}

// Timeout writes to dst the ΔQ of an outcome with a timeout t: slower executions fail. It returns
// [ErrDelay] for t < 0.
func (c *Calculator) Timeout(dst, x *DeltaQ, t time.Duration) error {
	if x.Empty() {
		return ErrNoData
	}
	if t < 0 {
		return fmt.Errorf("%w: timeout after %v", ErrDelay, t)
	}
	n := x.index(t)
	cut := int(ceilDiv(min(t, x.Horizon()), x.width)) // the first edge at which t has passed
	c.out.resize(x.width, cut)
	copy(c.out.lo, x.lo[:n+1])
	copy(c.out.hi, x.hi[:n+1])
	if cut > n {
		c.out.lo[cut], c.out.hi[cut] = x.lo[n], x.hi[n]
	}
	if t > x.Horizon() {
		c.out.excess = x.excess
	}
	return c.finish(dst)
}
