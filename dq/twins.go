package dq

import "slices"

// fastTwins convolves densities whose lower density is the upper one shifted. It splits a real
// density p into its even and odd values: as a power series, p(t) = e(t²)+t·o(t²). Then a product
// is
//
//	e = e₁e₂ + t²·o₁o₂
//	o = e₁o₂ + o₁e₂
//
// The transforms of e + i·o have only half the length that fast would need. The error is that of
// fast, because e and o together are at most 1 everywhere. It is doubled for the two additional
// products.
func (v *convolver) fastTwins(xs []*DeltaQ, length, size int) density {
	plan := v.plan(size)
	norms, least := v.transform(xs, plan, packTwin)
	v.multiplyTwins(plan)
	plan.backward(v.product)
	v.hi = slices.Grow(v.hi[:0], length)[:length]
	interleave(v.hi, v.product)
	err := fastError(len(xs), length, size, norms, least)
	err.absolute += err.absolute
	return density{hi: v.hi, err: err}
}

// interleave writes the real and imaginary parts of z, divided by its length, alternately to dst.
// The exact values are not negative.
func interleave(dst []float64, z []complex128) {
	scale := 1 / float64(len(z))
	for i, x := range z[:len(dst)/2] {
		dst[2*i], dst[2*i+1] = float64(atLeastZero(real(x))*scale), float64(atLeastZero(imag(x))*scale)
	}
	if last := len(dst) - 1; last%2 == 0 {
		dst[last] = float64(atLeastZero(real(z[last/2])) * scale)
	}
}

func atLeastZero(x float64) float64 {
	if x < 0 {
		return 0
	}
	return x
}

// multiplyTwins sets v.product to the transform of e + i·o of the result.
func (v *convolver) multiplyTwins(plan *transform) {
	size := plan.n
	roots := plan.reversedRoots()
	v.product = append(v.product[:0], v.used[0].z...)
	for _, s := range v.used[1:] {
		multiplyTwinPair(v.product, s.z, 0, 0, roots[0])
		for block := 1; block < size; block *= 2 {
			for p, q := block, 2*block-1; p <= q; p, q = p+1, q-1 {
				multiplyTwinPair(v.product, s.z, p, q, roots[p])
			}
		}
	}
}

// multiplyTwinPair multiplies x and y at positions p and q, which belong to a frequency and its
// negative. t² is w at p and the conjugate of w at q.
func multiplyTwinPair(x, y []complex128, p, q int, w complex128) {
	xe, xo := separate(x[p], x[q])
	ye, yo := separate(y[p], y[q])
	e, o := product(xe, ye)+product(w, product(xo, yo)), product(xe, yo)+product(xo, ye)
	x[p] = complex(real(e)-imag(o), imag(e)+real(o))
	x[q] = complex(real(e)+imag(o), real(o)-imag(e))
}

// reversedRoots returns exp(−2πi·f/n) for the frequency f at each position.
func (t *transform) reversedRoots() []complex128 {
	if t.reversed == nil {
		t.reversed = make([]complex128, t.n)
		f := 0
		for p := range t.reversed {
			t.reversed[p] = t.roots[f]
			// Count up in reversed bits: carry from the top.
			bit := t.n >> 1
			for ; bit > 0 && f&bit != 0; bit >>= 1 {
				f &^= bit
			}
			f |= bit
		}
	}
	return t.reversed
}
