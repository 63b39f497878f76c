package dq

import "math"

// A transform computes discrete Fourier transforms of one length, a power of two,
// in place. The forward one decimates in frequency and leaves its values in
// bit-reversed order; the backward one takes them in that order: products of
// transforms need no reordering. Stages go two at a time (radix 4, in the order of
// radix 2), after Cooley and Tukey.
type transform struct {
	n      int
	stages []stage // of lengths n, n/4, …, down to 4 or 8
}

// A stage holds the twiddle factors of blocks of one length: w^j, w^2j, w^3j for
// w = exp(−2πi/length), for each j below length/4.
type stage struct {
	length  int
	twiddle []complex128
}

// newTransform returns the transform of length n, a power of two.
func newTransform(n int) *transform {
	t := &transform{n: n}
	for length := n; length >= 4; length /= 4 {
		s := stage{length: length, twiddle: make([]complex128, 0, 3*length/4)}
		for j := range length / 4 {
			s.twiddle = append(s.twiddle, root(j, length), root(2*j, length), root(3*j, length))
		}
		t.stages = append(t.stages, s)
	}
	return t
}

// root is exp(−2πi·j/n), within an ulp in each part.
func root(j, n int) complex128 {
	sin, cos := math.Sincos(2 * math.Pi * float64(j) / float64(n))
	return complex(cos, -sin)
}

func (t *transform) forward(x []complex128) {
	for _, s := range t.stages {
		for from := 0; from < t.n; from += s.length {
			s.forward(x[from : from+s.length])
		}
	}
	if t.odd() {
		butterflies(x)
	}
}

// backward is n times the inverse of forward.
func (t *transform) backward(x []complex128) {
	if t.odd() {
		butterflies(x)
	}
	for i := len(t.stages) - 1; i >= 0; i-- {
		s := t.stages[i]
		for from := 0; from < t.n; from += s.length {
			s.backward(x[from : from+s.length])
		}
	}
}

// odd tells that a stage of length 2 is left over.
func (t *transform) odd() bool {
	return t.n >= 2 && (len(t.stages) == 0 || t.stages[len(t.stages)-1].length == 8)
}

func butterflies(x []complex128) {
	for i := 0; i+1 < len(x); i += 2 {
		x[i], x[i+1] = x[i]+x[i+1], x[i]-x[i+1]
	}
}

func (s stage) forward(x []complex128) {
	q := len(x) / 4
	x0, x1, x2, x3 := x[:q], x[q:2*q], x[2*q:3*q], x[3*q:4*q]
	tw := s.twiddle
	for j := range x0 {
		w := tw[3*j : 3*j+3 : 3*j+3]
		a, b, c, d := x0[j], x1[j], x2[j], x3[j]
		ac, bd := a+c, b+d
		r, i := a-c, b-d
		i = complex(imag(i), -real(i)) // −i·(b−d)
		x0[j] = ac + bd
		x1[j] = (ac - bd) * w[1]
		x2[j] = (r + i) * w[0]
		x3[j] = (r - i) * w[2]
	}
}

func (s stage) backward(x []complex128) {
	q := len(x) / 4
	x0, x1, x2, x3 := x[:q], x[q:2*q], x[2*q:3*q], x[3*q:4*q]
	tw := s.twiddle
	for j := range x0 {
		w := tw[3*j : 3*j+3 : 3*j+3]
		a := x0[j]
		b := mulConj(x1[j], w[1])
		c := mulConj(x2[j], w[0])
		d := mulConj(x3[j], w[2])
		ac, bd := a+b, a-b
		r, i := c+d, c-d
		i = complex(-imag(i), real(i)) // i·(c−d)
		x0[j] = ac + r
		x1[j] = bd + i
		x2[j] = ac - r
		x3[j] = bd - i
	}
}

// mulConj is a times the conjugate of b.
func mulConj(a, b complex128) complex128 {
	return complex(real(a)*real(b)+imag(a)*imag(b), imag(a)*real(b)-real(a)*imag(b))
}
