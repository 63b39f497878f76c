package dq

import "github.com/beamscope/beamscope/dq/internal/quad"

// A transform computes discrete Fourier transforms of one length, a power of two, in place. The
// forward transform decimates in frequency and leaves its values in bit-reversed order. The
// backward transform takes values in that order, so products of transforms need no reordering.
// Two stages are combined at a time (radix 4, in the order of radix 2), after Cooley and Tukey.
type transform struct {
	n      int
	stages []stage      // of lengths n, n/4, …, down to 4 or 8
	roots  []complex128 // exp(−2πi·j/n)

	reversed []complex128 // roots in bit-reversed order; nil until first used
}

// A stage holds the twiddle factors of blocks of one length: w^j, w^2j, w^3j for
// w = exp(−2πi/length), for each j below length/4.
type stage struct {
	length     int
	w1, w2, w3 []complex128
}

// newTransform returns the transform of length n, a power of two.
func newTransform(n int) *transform {
	t := &transform{n: n, roots: quad.Roots(n)}
	for length := n; length >= 4; length /= 4 {
		s := stage{length: length}
		for j := range length / 4 {
			at := j * (n / length)
			s.w1 = append(s.w1, t.roots[at])
			s.w2 = append(s.w2, t.roots[2*at])
			s.w3 = append(s.w3, t.roots[3*at])
		}
		t.stages = append(t.stages, s)
	}
	return t
}

func (t *transform) forward(x []complex128) {
	for i := range t.stages {
		s := &t.stages[i]
		for from := 0; from < t.n; from += s.length {
			s.forward(x[from : from+s.length])
		}
	}
	if t.odd() {
		butterflies(x)
	}
}

// backward computes n times the inverse of forward.
func (t *transform) backward(x []complex128) {
	if t.odd() {
		butterflies(x)
	}
	for i := len(t.stages) - 1; i >= 0; i-- {
		s := &t.stages[i]
		for from := 0; from < t.n; from += s.length {
			s.backward(x[from : from+s.length])
		}
	}
}

// odd reports whether a stage of length 2 is left over (or one of length 1, which does nothing).
func (t *transform) odd() bool {
	return len(t.stages) == 0 || t.stages[len(t.stages)-1].length == 8
}

func butterflies(x []complex128) {
	for i := 0; i+1 < len(x); i += 2 {
		x[i], x[i+1] = x[i]+x[i+1], x[i]-x[i+1]
	}
}

// quarters returns the four parts of a block and the twiddle factors. They are sliced so that the
// compiler can see that all have the same length.
func (s *stage) quarters(x []complex128) (x0, x1, x2, x3, w1, w2, w3 []complex128) {
	q := len(x) / 4
	return x[:q], x[q:][:q], x[2*q:][:q], x[3*q:][:q], s.w1[:q], s.w2[:q], s.w3[:q]
}

func (s *stage) forward(x []complex128) {
	x0, x1, x2, x3, w1, w2, w3 := s.quarters(x)
	x1, x2, x3, w1, w2, w3 = x1[:len(x0)], x2[:len(x0)], x3[:len(x0)], w1[:len(x0)], w2[:len(x0)], w3[:len(x0)]
	for j, a := range x0 {
		b, c, d := x1[j], x2[j], x3[j]
		ac, bd := a+c, b+d
		r, i := a-c, b-d
		i = complex(imag(i), -real(i)) // −i·(b−d)
		x0[j] = ac + bd
		x1[j] = product(ac-bd, w2[j])
		x2[j] = product(r+i, w1[j])
		x3[j] = product(r-i, w3[j])
	}
}

func (s *stage) backward(x []complex128) {
	x0, x1, x2, x3, w1, w2, w3 := s.quarters(x)
	x1, x2, x3, w1, w2, w3 = x1[:len(x0)], x2[:len(x0)], x3[:len(x0)], w1[:len(x0)], w2[:len(x0)], w3[:len(x0)]
	for j, a := range x0 {
		b, c, d := mulConj(x1[j], w2[j]), mulConj(x2[j], w1[j]), mulConj(x3[j], w3[j])
		ac, bd := a+b, a-b
		r, i := c+d, c-d
		i = complex(-imag(i), real(i)) // i·(c−d)
		x0[j] = ac + r
		x1[j] = bd + i
		x2[j] = ac - r
		x3[j] = bd - i
	}
}

// product returns a·b, with each product of parts rounded: see package quad.
func product(a, b complex128) complex128 {
	return complex(float64(real(a)*real(b))-float64(imag(a)*imag(b)), float64(real(a)*imag(b))+float64(imag(a)*real(b)))
}

// mulConj returns a times the conjugate of b.
func mulConj(a, b complex128) complex128 {
	return complex(float64(real(a)*real(b))+float64(imag(a)*imag(b)), float64(imag(a)*real(b))-float64(real(a)*imag(b)))
}
