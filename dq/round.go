package dq

import "math"

// Arithmetic with a known direction of error. Each function returns the exact
// result where that is a float64, and otherwise the float64 next to it on the
// named side, or one further. The direction comes from the error term, which a
// fused multiply-add (or Knuth's two-sum) gives exactly, so that what is exact
// stays exact: 0·x = 0, 1·x = x, x+0 = x.
//
// Operands are probabilities, or sums and ratios of such: no overflow.

func down(x float64) float64 { return math.Nextafter(x, math.Inf(-1)) }
func up(x float64) float64   { return math.Nextafter(x, math.Inf(1)) }

// tiny is above the range in which the error term of a product may underflow.
const tiny = 0x1p-960

func mulDown(a, b float64) float64 {
	p := a * b
	if exactProduct(a, b) || p >= tiny && math.FMA(a, b, -p) >= 0 {
		return p
	}
	return max(0, down(p))
}

func mulUp(a, b float64) float64 {
	p := a * b
	if exactProduct(a, b) || p >= tiny && math.FMA(a, b, -p) <= 0 {
		return p
	}
	return up(p)
}

func exactProduct(a, b float64) bool { return a == 0 || b == 0 || a == 1 || b == 1 }

// sumError is (a+b) − s for s = fl(a+b), exactly (Knuth).
func sumError(a, b, s float64) float64 {
	bb := s - a
	return (a - (s - bb)) + (b - bb)
}

func addDown(a, b float64) float64 {
	s := a + b
	if sumError(a, b, s) < 0 {
		return down(s)
	}
	return s
}

func addUp(a, b float64) float64 {
	s := a + b
	if sumError(a, b, s) > 0 {
		return up(s)
	}
	return s
}

// divDown and divUp take a ≥ 0 and b > 0.
func divDown(a, b float64) float64 {
	q := a / b
	if math.FMA(q, b, -a) > 0 || q < tiny && q != 0 {
		return max(0, down(q))
	}
	return q
}

func divUp(a, b float64) float64 {
	q := a / b
	if math.FMA(q, b, -a) < 0 || q < tiny && a != 0 {
		return up(q)
	}
	return q
}

func subDown(a, b float64) float64 { return addDown(a, -b) }
func subUp(a, b float64) float64   { return addUp(a, -b) }

// An accumulator sums with the rounding error of about one addition (Neumaier).
type accumulator struct{ s, rest float64 }

func (a *accumulator) add(x float64) {
	s := a.s + x
	a.rest += sumError(a.s, x, s)
	a.s = s
}

func (a *accumulator) sum() float64 { return a.s + a.rest }
