package dq

import "math"

// Arithmetic with a known direction of error. Each function returns the exact result if that is a
// float64, and otherwise the float64 next to it on the named side, or one further. The direction
// comes from the error term, which a fused multiply-add (or Knuth's two-sum) gives exactly. So
// exact results stay exact: 0·x = 0, 1·x = x, x+0 = x.
//
// Operands are probabilities, or sums and ratios of them, so nothing overflows.

func down(x float64) float64 { return math.Nextafter(x, math.Inf(-1)) }
func up(x float64) float64   { return math.Nextafter(x, math.Inf(1)) }

// tiny is a limit. Below it the error term of a product, or of the dividend of a quotient, may
// underflow.
const tiny = 0x1p-960

// nextIf and previousIf return the neighbour of x if so is true, and x otherwise. They avoid a
// branch, which processors could not predict. x must be at least tiny.
func nextIf(x float64, so bool) float64 { return math.Float64frombits(math.Float64bits(x) + bit(so)) }
func previousIf(x float64, so bool) float64 {
	return math.Float64frombits(math.Float64bits(x) - bit(so))
}

func bit(b bool) uint64 {
	var n uint64
	if b {
		n = 1
	}
	return n
}

func mulDown(a, b float64) float64 {
	p := float64(a * b)
	if p >= tiny {
		return previousIf(p, math.FMA(a, b, -p) < 0)
	}
	if exactProduct(a, b) {
		return p
	}
	return max(0, down(p))
}

func mulUp(a, b float64) float64 {
	p := float64(a * b)
	if p >= tiny {
		return nextIf(p, math.FMA(a, b, -p) > 0)
	}
	if exactProduct(a, b) {
		return p
	}
	return up(p)
}

func exactProduct(a, b float64) bool { return a == 0 || b == 0 || a == 1 || b == 1 }

// sumError returns (a+b) − s for s = fl(a+b), exactly (Knuth).
func sumError(a, b, s float64) float64 {
	bb := s - a
	return (a - (s - bb)) + (b - bb)
}

func addDown(a, b float64) float64 {
	s := a + b
	e := sumError(a, b, s)
	switch {
	case s >= tiny:
		return previousIf(s, e < 0)
	case e < 0:
		return down(s)
	}
	return s
}

func addUp(a, b float64) float64 {
	s := a + b
	e := sumError(a, b, s)
	switch {
	case s >= tiny:
		return nextIf(s, e > 0)
	case e > 0:
		return up(s)
	}
	return s
}

// div returns bounds on the quotient a/b, for a ≥ 0 and b > 0.
func div(a, b float64) Bounds {
	q := a / b
	if a >= tiny && q >= tiny {
		rest := math.FMA(q, b, -a)
		return Bounds{previousIf(q, rest > 0), nextIf(q, rest < 0)}
	}
	if a == 0 {
		return Bounds{}
	}
	return Bounds{max(0, down(q)), up(q)}
}

func divDown(a, b float64) float64 { return div(a, b).Lo }
func divUp(a, b float64) float64   { return div(a, b).Hi }

func subDown(a, b float64) float64 { return addDown(a, -b) }
func subUp(a, b float64) float64   { return addUp(a, -b) }

// rootDown and rootUp bound the square root of x ≥ 0. The square root of Go is
// correctly rounded.
func rootDown(x float64) float64 {
	r := math.Sqrt(x)
	if x < tiny && x > 0 {
		return down(r)
	}
	return previousIf(r, math.FMA(r, r, -x) > 0)
}

func rootUp(x float64) float64 {
	r := math.Sqrt(x)
	if x < tiny && x > 0 {
		return up(r)
	}
	return nextIf(r, math.FMA(r, r, -x) < 0)
}

// An accumulator sums with the rounding error of about one addition (Neumaier).
type accumulator struct{ s, rest float64 }

func (a *accumulator) add(x float64) {
	s := a.s + x
	a.rest += sumError(a.s, x, s)
	a.s = s
}

func (a *accumulator) sum() float64 { return a.s + a.rest }
