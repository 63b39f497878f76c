package dq

import (
	"math"
	"math/bits"
	"slices"
)

// A spectrum is the transform of the densities of a ΔQ. It includes the bounds of the ΔQ, to
// detect changes.
type spectrum struct {
	lo, hi []float64 // the bounds of the ΔQ
	z      []complex128
	norm   float64 // the 2-norm of the densities
}

// A cacheKey identifies a cached spectrum. The spectrum is valid only if the ΔQ still has the
// same bounds.
type cacheKey struct {
	x       *DeltaQ
	size    int
	packing packing
}

// maxCached is the maximum number of cached complex numbers: 64 MiB.
const maxCached = 1 << 22

// stageError bounds the relative error, in the 2-norm, that each doubling of a
// transform adds: u + γ₄(√2+u) = 6.7 u with u = 2^-53 and twiddle factors within u
// (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., thm 24.2),
// rounded up.
const stageError = 10 * 0x1p-53

// fast convolves by transforms of the given size, which must be at least length. A single
// transform handles both densities: the lower one is the real part and the upper one the
// imaginary part.
//
// The error of the result in the 2-norm has two parts. The first is the error of each transform
// times the 2-norm of its operand, because the transforms of the other operands are at most 1
// everywhere. The second is the error of the products and the inverse transform times the 2-norm
// of the result, which is at most that of any operand. The error of a sum over m values of the
// result is at most √m times as large (Cauchy and Schwarz).
func (v *convolver) fast(xs []*DeltaQ, length, size int) density {
	plan := v.plan(size)
	norms, least := v.transform(xs, plan, packPair)
	v.multiplySpectra(size)
	plan.backward(v.product)
	v.lo = slices.Grow(v.lo[:0], length)[:length]
	v.hi = slices.Grow(v.hi[:0], length)[:length]
	split(v.lo, v.hi, v.product)
	return density{lo: v.lo, hi: v.hi, err: fastError(len(xs), length, size, norms, least)}
}

// fastError returns the error of a sum of values of a convolution of k operands by transforms.
// norms is the sum of the 2-norms of the operands, and least the smallest of them.
func fastError(k, length, size int, norms, least float64) sumBound {
	transform := float64(stageError * float64(bits.Len(uint(size-1))))
	products := ulps(4 * k)
	err2 := float64(1.01 * (float64(norms*(transform+4*0x1p-53)) + float64(float64(1.5*least)*(transform+products))))
	return sumBound{
		relative: ulps(4 * k),
		absolute: float64(err2*math.Sqrt(float64(length))) + underflow,
	}
}

// split divides z by its length and separates it into real and imaginary parts. The exact values
// are not negative, so replacing negative values by 0 only reduces the error.
func split(re, im []float64, z []complex128) {
	scale := 1 / float64(len(z))
	im, z = im[:len(re)], z[:len(re)]
	for i, x := range z {
		a, b := float64(real(x)*scale), float64(imag(x)*scale)
		if a < 0 {
			a = 0
		}
		if b < 0 {
			b = 0
		}
		re[i], im[i] = a, b
	}
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

// transform sets v.used to the transforms of the operands. It returns the sum of their norms and
// the smallest norm.
func (v *convolver) transform(xs []*DeltaQ, plan *transform, p packing) (norms, least float64) {
	v.used = v.used[:0]
	for i, x := range xs {
		s := v.spectrum(x, plan, p)
		v.used = append(v.used, s)
		norms += s.norm
		if i == 0 || s.norm < least {
			least = s.norm
		}
	}
	return norms, least
}

// A packing is a way to store densities as complex numbers.
type packing int

const (
	packPair packing = iota // lower + i·upper
	packTwin                // the upper one only: even + i·odd values
)

// spectrum returns the transform of x. It uses the cached transform if x has not changed.
func (v *convolver) spectrum(x *DeltaQ, plan *transform, p packing) *spectrum {
	key := cacheKey{x, plan.n, p}
	s := v.cache[key]
	if s == nil {
		s = v.newSpectrum(key)
	} else if slices.Equal(s.lo, x.lo) && slices.Equal(s.hi, x.hi) {
		return s
	}
	s.lo, s.hi = append(s.lo[:0], x.lo...), append(s.hi[:0], x.hi...)
	clear(s.z)
	v.hi = appendDensity(v.hi[:0], x.hi)
	if p == packTwin {
		s.norm = packEvenOdd(s.z, v.hi)
	} else {
		v.lo = appendDensity(v.lo[:0], x.lo)
		s.norm = packBoth(s.z, v.lo, v.hi)
	}
	plan.forward(s.z)
	return s
}

// packBoth and packEvenOdd fill z, which must contain only zeros, and return the 2-norm.
func packBoth(z []complex128, re, im []float64) float64 {
	var squares float64
	for i, p := range re {
		z[i] = complex(p, 0)
		squares += float64(p * p)
	}
	for i, p := range im {
		z[i] += complex(0, p)
		squares += float64(p * p)
	}
	return float64(math.Sqrt(squares) * (1 + 1e-9))
}

func packEvenOdd(z []complex128, x []float64) float64 {
	var squares float64
	for i := 0; i < len(x); i += 2 {
		var odd float64
		if i+1 < len(x) {
			odd = x[i+1]
		}
		z[i/2] = complex(x[i], odd)
		squares += float64(x[i]*x[i]) + float64(odd*odd)
	}
	return float64(math.Sqrt(squares) * (1 + 1e-9))
}

// newSpectrum returns a new spectrum in the cache. If the cache is full, it first drops all other
// spectra; those in v.used remain valid.
func (v *convolver) newSpectrum(key cacheKey) *spectrum {
	if v.cache == nil || v.cached+key.size > maxCached {
		v.cache, v.cached = make(map[cacheKey]*spectrum), 0
	}
	s := &spectrum{z: make([]complex128, key.size)}
	v.cache[key] = s
	v.cached += key.size
	return s
}

// multiplySpectra sets v.product to the transform of lo + i·hi of the result. If the values at
// the frequencies f and −f are a and b, then lo is (a+b̄)/2 and hi is (a−b̄)/2i. In bit-reversed
// order, the partner of position p in [2^j, 2^(j+1)) is 3·2^j − 1 − p.
func (v *convolver) multiplySpectra(size int) {
	v.product = slices.Grow(v.product[:0], size)[:size]
	copy(v.product, v.used[0].z)
	for _, s := range v.used[1:] {
		multiplyPair(v.product, s.z, 0, 0)
		for block := 1; block < size; block *= 2 {
			for p, q := block, 2*block-1; p <= q; p, q = p+1, q-1 {
				multiplyPair(v.product, s.z, p, q)
			}
		}
	}
}

// multiplyPair multiplies the transforms x and y at positions p and q, which belong to a
// frequency and its negative. It multiplies the two real densities separately.
func multiplyPair(x, y []complex128, p, q int) {
	xl, xh := separate(x[p], x[q])
	yl, yh := separate(y[p], y[q])
	lo, hi := product(xl, yl), product(xh, yh)
	x[p] = complex(real(lo)-imag(hi), imag(lo)+real(hi))
	x[q] = complex(real(lo)+imag(hi), real(hi)-imag(lo))
}

// separate returns (a+b̄)/2 and (a−b̄)/2i.
func separate(a, b complex128) (lo, hi complex128) {
	return complex((real(a)+real(b))/2, (imag(a)-imag(b))/2), complex((imag(a)+imag(b))/2, (real(b)-real(a))/2)
}
