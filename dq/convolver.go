package dq

import (
	"math"
	"math/bits"
	"slices"
)

// A convolver convolves the two discrete distributions of each of several ΔQs, and
// knows how far its results may be from the exact ones.
type convolver struct {
	plans  map[int]*transform
	cache  map[cacheKey]*spectrum
	cached int // complex numbers in cache

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

// A support is where a bound on a distribution function grows: it is 0 before the
// edge from, and has its last value at the edge to and after.
type support struct{ from, to int }

func supportOf(f []float64) support {
	if f[len(f)-1] == 0 {
		return support{}
	}
	return support{firstPositive(f), firstFull(f)}
}

func (s support) len() int { return s.to - s.from + 1 }

// convolve sets c.out to the operands of p that are not exact delays, in sequence,
// later by those that are.
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
		d.err.relative += float64(len(c.aligned)+4) * 0x1p-52
	}
	c.out.resize(p.width, bins)
	c.out.excess = p.excess
	cumulate(c.out.lo, d.lo, lo, p.total.Lo, func(sum float64) float64 { return d.err.below(sum * p.mass.Lo) })
	cumulate(c.out.hi, d.hi, hi, p.total.Hi, func(sum float64) float64 { return d.err.above(sum * p.mass.Hi) })
}

// cumulate sets f to the distribution function of a density: 0 before its support,
// total after it, and in between what bound makes of the sum so far.
func cumulate(f, density []float64, s support, total float64, bound func(float64) float64) {
	clear(f[:s.from])
	var sum accumulator
	for k := s.from; k < s.to; k++ {
		sum.add(density[k-s.from])
		f[k] = min(total, bound(sum.sum()))
	}
	for k := s.to; k < len(f); k++ {
		f[k] = total
	}
}

// An accumulator sums with the rounding error of about one addition (Neumaier).
type accumulator struct{ s, rest float64 }

func (a *accumulator) add(x float64) {
	s := a.s + x
	a.rest += sumError(a.s, x, s)
	a.s = s
}

func (a *accumulator) sum() float64 { return a.s + a.rest }

// A sumBound tells how far a sum of the first values of a density may be from the
// exact one: by relative times itself, plus absolute.
type sumBound struct{ relative, absolute float64 }

func (e sumBound) below(s float64) float64 { return max(0, s*(1-e.relative)-e.absolute) }
func (e sumBound) above(s float64) float64 { return s*(1+e.relative) + e.absolute }

// A density is a convolution: of the lower and of the upper densities of operands,
// each from the sum of the edges where theirs start.
type density struct {
	lo, hi []float64
	err    sumBound
}

// underflow is above what the products of a convolution can lose by being too
// small for a float64, all together.
const underflow = 0x1p-1030

// The costs of the two methods in nanoseconds, as measured by BenchmarkConvolve:
// of one multiplication and addition for both bounds, and of one complex number
// per doubling in a transform. Only their ratio matters.
const (
	directCost    = 1.1
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
	size := 1 << bits.Len(uint(length-1))
	transforms := float64(len(xs)+1) * float64(size) * float64(bits.Len(uint(size))+2)
	cheaper := float64(direct)*directCost <= transforms*transformCost
	if cheaper && v.force != forceFast || v.force == forceDirect {
		return v.direct(xs)
	}
	return v.fast(xs, length, size)
}

// direct multiplies out. All terms are non-negative, so each value of the result
// is within a relative error of one half ulp for each term and operation.
func (v *convolver) direct(xs []*DeltaQ) density {
	v.lo, v.hi = appendDensity(v.lo[:0], xs[0].lo), appendDensity(v.hi[:0], xs[0].hi)
	terms := 4
	for _, x := range xs[1:] {
		terms += min(x.Bins()+1, max(len(v.lo), len(v.hi))) + 4
		v.lo = v.multiply(v.lo, x.lo)
		v.hi = v.multiply(v.hi, x.hi)
	}
	return density{v.lo, v.hi, sumBound{relative: float64(terms) * 0x1p-52, absolute: underflow}}
}

// multiply convolves a with the density of the distribution function f. It returns
// its own working memory, and takes a for the next time.
func (v *convolver) multiply(a, f []float64) []float64 {
	s := supportOf(f)
	n := len(a) + s.len() - 1
	out := slices.Grow(v.tmp[:0], n)[:n]
	clear(out)
	before := 0.0
	for j, value := range f[s.from : s.to+1] {
		p := value - before
		before = value
		if p == 0 {
			continue
		}
		row := out[j : j+len(a)]
		for i, q := range a {
			row[i] += p * q
		}
	}
	v.tmp = a
	return out
}

// appendDensity appends the density of the distribution function f on its support.
func appendDensity(dst, f []float64) []float64 {
	s, before := supportOf(f), 0.0
	for _, value := range f[s.from : s.to+1] {
		dst = append(dst, value-before)
		before = value
	}
	return dst
}

// A spectrum is the transform of lo + i·hi for the densities lo and hi of one ΔQ,
// with what it was made of, to be recognised.
type spectrum struct {
	lo, hi []float64 // the bounds of the ΔQ
	z      []complex128
	norm   float64 // the 2-norm of the densities
}

// A cacheKey finds a spectrum; the content of the ΔQ decides whether it holds.
type cacheKey struct {
	x    *DeltaQ
	size int
}

// maxCached is the number of complex numbers to keep: 64 MiB.
const maxCached = 1 << 22

// stageError bounds the relative error, in the 2-norm, that each doubling of a
// transform adds: u + γ₄(√2+u) = 6.7 u with u = 2^-53 and twiddle factors within u
// (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., thm 24.2),
// rounded up.
const stageError = 10 * 0x1p-53

// fast convolves by transforms of the given size, at least length. The lower
// density is the real part, the upper the imaginary: one transform for both.
//
// The error of the result in the 2-norm is at most that of each transform times
// the 2-norm of its operand, since the transforms of the others are nowhere above
// 1, and that of the products and the inverse times the 2-norm of the result, which
// is at most that of any operand. A sum over m values of it is then wrong by at
// most √m times as much (Cauchy and Schwarz).
func (v *convolver) fast(xs []*DeltaQ, length, size int) density {
	plan := v.plan(size)
	v.used = v.used[:0]
	var norms, least float64
	for i, x := range xs {
		s := v.spectrum(x, plan)
		v.used = append(v.used, s)
		norms += s.norm
		if i == 0 || s.norm < least {
			least = s.norm
		}
	}
	v.multiplySpectra(size)
	plan.backward(v.product)
	v.lo, v.hi = v.lo[:0], v.hi[:0]
	scale := 1 / float64(size)
	for _, z := range v.product[:length] {
		// The exact values are not negative: cutting off only comes closer.
		v.lo = append(v.lo, max(0, real(z)*scale))
		v.hi = append(v.hi, max(0, imag(z)*scale))
	}
	k := float64(len(xs))
	transform := stageError * float64(bits.Len(uint(size-1)))
	products := 8 * k * 0x1p-53
	err2 := 1.01 * (norms*(transform+4*0x1p-53) + 1.5*least*(transform+products))
	return density{v.lo, v.hi, sumBound{
		relative: 8 * 0x1p-53 * k,
		absolute: err2*math.Sqrt(float64(length)) + underflow,
	}}
}

func (v *convolver) plan(size int) *transform {
	t := v.plans[size]
	if t == nil {
		if v.plans == nil {
			v.plans = make(map[int]*transform)
		}
		t = newTransform(size)
		v.plans[size] = t
	}
	return t
}

// spectrum returns the transform of x, computed only where x has changed.
func (v *convolver) spectrum(x *DeltaQ, plan *transform) *spectrum {
	s := v.cache[cacheKey{x, plan.n}]
	if s == nil {
		s = v.newSpectrum(cacheKey{x, plan.n})
	} else if slices.Equal(s.lo, x.lo) && slices.Equal(s.hi, x.hi) {
		return s
	}
	s.lo, s.hi = append(s.lo[:0], x.lo...), append(s.hi[:0], x.hi...)
	v.lo, v.hi = appendDensity(v.lo[:0], x.lo), appendDensity(v.hi[:0], x.hi)
	clear(s.z)
	var squares float64
	for i, p := range v.lo {
		s.z[i] = complex(p, 0)
		squares += p * p
	}
	for i, p := range v.hi {
		s.z[i] += complex(0, p)
		squares += p * p
	}
	s.norm = math.Sqrt(squares) * (1 + 1e-9)
	plan.forward(s.z)
	return s
}

// newSpectrum makes room for one more; it forgets all the others where there is
// none left, except those under way.
func (v *convolver) newSpectrum(key cacheKey) *spectrum {
	if v.cache == nil || v.cached+key.size > maxCached {
		v.cache, v.cached = make(map[cacheKey]*spectrum), 0
	}
	s := &spectrum{z: make([]complex128, key.size)}
	v.cache[key] = s
	v.cached += key.size
	return s
}

// multiplySpectra leaves in v.product the transform of lo + i·hi of the result.
// Where the values at the frequencies f and −f are a and b,
// lo is (a+b̄)/2 and hi is (a−b̄)/2i; in bit-reversed order the partner of position
// p in [2^j, 2^(j+1)) is 3·2^j − 1 − p.
func (v *convolver) multiplySpectra(size int) {
	v.product = slices.Grow(v.product[:0], size)[:size]
	v.pair(0, 0)
	for block := 1; block < size; block *= 2 {
		for p, q := block, 2*block-1; p <= q; p, q = p+1, q-1 {
			v.pair(p, q)
		}
	}
}

func (v *convolver) pair(p, q int) {
	lo, hi := complex(1, 0), complex(1, 0)
	for _, s := range v.used {
		a, b := s.z[p], s.z[q]
		b = complex(real(b), -imag(b))
		sum, diff := a+b, a-b
		lo *= complex(real(sum)/2, imag(sum)/2)
		hi *= complex(imag(diff)/2, -real(diff)/2)
	}
	v.product[p] = complex(real(lo)-imag(hi), imag(lo)+real(hi))
	v.product[q] = complex(real(lo)+imag(hi), real(hi)-imag(lo))
}
