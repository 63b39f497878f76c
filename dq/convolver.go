package dq

import (
	"math"
	"math/bits"
)

// A convolver convolves the lower and the upper distributions of several ΔQs, and bounds the
// error of its results.
type convolver struct {
	plans  map[int]*transform
	cache  map[cacheKey]*spectrum
	cached int // the number of complex numbers in cache

	lo, hi, tmp []float64 // densities, for the direct method
	product     []complex128
	used        []*spectrum

	force method // for tests and benchmarks
}

// A method of convolution.
type method int

const (
	cheapest method = iota
	forceDirect
	forceFast
)

// A support is the range of edges in which a bound on a distribution function grows. The bound is
// 0 before edge from and constant from edge to on.
type support struct{ from, to int }

func supportOf(f []float64) support {
	if f[len(f)-1] == 0 {
		return support{}
	}
	return support{firstPositive(f), firstFull(f)}
}

func (s support) len() int { return s.to - s.from + 1 }

// convolve sets c.out to the sequence of all operands of p: it convolves the operands that are
// not exact delays, and shifts the result by the exact delays.
func (c *Calculator) convolve(p parts) {
	lo, hi := support{p.shift, p.shift}, support{p.shift, p.shift}
	bins := p.shift
	for _, x := range p.rest {
		bins += x.Bins()
		l, h := supportOf(x.lo), supportOf(x.hi)
		lo.from, lo.to = lo.from+l.from, lo.to+l.to
		hi.from, hi.to = hi.from+h.from, hi.to+h.to
	}
	d := c.conv.densities(p.rest)
	if p.mass != (Bounds{1, 1}) {
		d.err.relative += ulps(len(c.aligned) + 4)
	}
	c.out.resize(p.width, bins)
	c.out.excess = p.excess
	sumUp(d.hi)
	if d.twins {
		d.lo = d.hi
	} else {
		sumUp(d.lo)
	}
	cumulate(c.out.lo, d.lo, lo, p.total.Lo, float64(p.mass.Lo*(1-d.err.relative)), -d.err.absolute)
	cumulate(c.out.hi, d.hi, hi, p.total.Hi, float64(p.mass.Hi*(1+d.err.relative)), d.err.absolute)
}

// cumulate sets f to the distribution function of a density: 0 before its support and total after
// it. Within the support, it is the sum up to each edge times factor plus offset, which bounds
// the exact value.
func cumulate(f, sums []float64, s support, total, factor, offset float64) {
	clear(f[:s.from])
	inside := f[s.from:s.to]
	for i, sum := range sums[:len(inside)] {
		v := float64(sum*factor) + offset
		if v > total {
			v = total
		}
		if v < 0 {
			v = 0
		}
		inside[i] = v
	}
	for k := s.to; k < len(f); k++ {
		f[k] = total
	}
}

// sumUp replaces each value by the sum of all values up to it. The summation is compensated
// (Neumaier), so the error is about an ulp for any number of values.
func sumUp(x []float64) {
	var sum, rest float64
	for i, p := range x {
		next := sum + p
		rest += sumError(sum, p, next)
		sum = next
		x[i] = sum + rest
	}
}

// ulps returns n units in the last place of 1.
func ulps(n int) float64 { return float64(float64(n) * 0x1p-52) }

// A sumBound bounds the error of a sum of the first values of a density: relative times the sum,
// plus absolute.
type sumBound struct{ relative, absolute float64 }

// A density is the result of a convolution: that of the lower densities of the operands, and that
// of the upper ones. Each begins at the sum of the edges at which the densities of the operands
// begin. For twins only the upper one exists.
type density struct {
	lo, hi []float64
	twins  bool
	err    sumBound
}

// underflow is an upper bound on the total that the products of a convolution can lose because
// they are too small for a float64.
const underflow = 0x1p-1030

// The costs of the two methods in nanoseconds, measured by BenchmarkConvolve: one multiplication
// and addition, and one complex number per doubling in a transform. Only their ratio matters. For
// operands of equal length, both methods cost the same at about 50 bins.
const (
	directCost    = 1.0
	transformCost = 1.0
)

// densities convolves two or more operands by the cheaper method.
func (v *convolver) densities(xs []*DeltaQ) density {
	lo, hi, direct := 1, 1, 0
	for i, x := range xs {
		l, h := supportOf(x.lo).len(), supportOf(x.hi).len()
		if i > 0 {
			direct += lo*l + hi*h
		}
		lo, hi = lo+l-1, hi+h-1
	}
	length := max(lo, hi)
	difference, twins := twins(xs)
	size := 1 << bits.Len(uint(length-1))
	if twins {
		direct, size = direct/2, max(1, size/2)
	}
	transforms := (len(xs) + 1) * size * (bits.Len(uint(size)) + 2)
	cheaper := float64(float64(direct)*directCost) <= float64(float64(transforms)*transformCost)
	var d density
	switch {
	case cheaper && v.force != forceFast || v.force == forceDirect:
		d = v.direct(xs, twins)
	case twins:
		d = v.fastTwins(xs, length, size)
	default:
		d = v.fast(xs, length, size)
	}
	d.twins = twins
	d.err.absolute += difference
	return d
}

// maxTwinDifference is the largest difference, summed over a density, at which the lower and the
// upper density count as equal. The two densities of an observed ΔQ are
// equal in this sense, one bin apart. The densities of a sequence of observed ΔQs are too.
const maxTwinDifference = 1e-13

// twins reports whether the lower and upper densities of each operand are equal except for a
// shift. Then a single convolution serves both, and adds at most difference to the error of a
// sum.
func twins(xs []*DeltaQ) (difference float64, ok bool) {
	for _, x := range xs {
		l, h := supportOf(x.lo), supportOf(x.hi)
		if l.len() != h.len() {
			return 0, false
		}
		lo, hi := x.lo[l.from:l.to+1], x.hi[h.from:h.to+1]
		var l0, h0 float64
		for i, a := range lo {
			b := hi[i]
			difference += math.Abs((a - l0) - (b - h0))
			l0, h0 = a, b
		}
		if !(difference <= maxTwinDifference) {
			return 0, false
		}
	}
	return float64(difference * (1 + 1e-9)), true
}
