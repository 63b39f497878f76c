// Package quad calculates with numbers of twice the precision of a float64, each the unevaluated
// sum of two float64s. It has the functions that the models of package dq need. It has two aims:
//
//   - Known errors. The functions of package math promise no bound on their errors.
//   - The same bits on every processor. The functions of package math do not promise
//     that: some are in assembly on some processors, and a compiler may fuse a
//     multiplication with an addition. Here each product is rounded explicitly.
//
// With u = 2^-53, a result of Add or Sub is wrong by at most 4u² of itself, one of Mul by 5u² and
// one of Div by 15u² (Joldes, Muller and Popescu, "Tight and Rigorous Error Bounds for Basic
// Building Blocks of Double-Word Arithmetic", ACM TOMS 44(2), 2017, algorithms 6, 7, 12 and 17).
//
// [Error] bounds the relative error of each function with ample room: a result takes a few hundred
// operations, each wrong by at most 15u² < 2^-102, and cancellation costs less than 20 bits.
// Results below 2^-900 may be wrong by more, because their second part underflows.
package quad

import "math"

// Error bounds the relative error of Exp, OneMinusExp, Log away from 1, and GammaP:
// 2^-70, which is 2^-17 of the distance of two float64s.
const Error = 0x1p-70

// A Number is the sum of two float64s, Hi being the float64 nearest to it.
type Number struct{ Hi, Lo float64 }

// Of is x, exactly.
func Of(x float64) Number { return Number{x, 0} }

// parts is the sum of x and y for |x| ≥ |y|, or x = 0.
func parts(x, y float64) Number {
	s := x + y
	return Number{s, y - (s - x)}
}

// twoSum is a+b exactly (Knuth).
func twoSum(a, b float64) Number {
	s := a + b
	bb := s - a
	return Number{s, (a - (s - bb)) + (b - bb)}
}

// Product is a·b, exact except for underflow.
func Product(a, b float64) Number {
	p := float64(a * b)
	return Number{p, math.FMA(a, b, -p)}
}

// Add is a + b.
func (a Number) Add(b Number) Number {
	s, t := twoSum(a.Hi, b.Hi), twoSum(a.Lo, b.Lo)
	v := parts(s.Hi, s.Lo+t.Hi)
	return parts(v.Hi, t.Lo+v.Lo)
}

// Neg is −a.
func (a Number) Neg() Number { return Number{-a.Hi, -a.Lo} }

// Sub is a − b.
func (a Number) Sub(b Number) Number { return a.Add(b.Neg()) }

// Mul is a·b.
func (a Number) Mul(b Number) Number {
	p := Product(a.Hi, b.Hi)
	low := math.FMA(a.Hi, b.Lo, math.FMA(a.Lo, b.Hi, float64(a.Lo*b.Lo)))
	return parts(p.Hi, p.Lo+low)
}

// Times is a·x.
func (a Number) Times(x float64) Number {
	c := Product(a.Hi, x)
	t := parts(c.Hi, float64(a.Lo*x))
	return parts(t.Hi, t.Lo+c.Lo)
}

// Div is a/b.
func (a Number) Div(b Number) Number {
	q := a.Hi / b.Hi
	r := b.Times(q)
	rest := (a.Hi - r.Hi) + (a.Lo - r.Lo)
	return parts(q, rest/b.Hi)
}

// Over is a/x.
func (a Number) Over(x float64) Number { return a.Div(Of(x)) }

// scaled is a·2^n, exact except for underflow.
func (a Number) scaled(n int) Number { return Number{math.Ldexp(a.Hi, n), math.Ldexp(a.Lo, n)} }

// Bounds returns the closest float64s that bound each value within relative·|a| of a.
func (a Number) Bounds(relative float64) (lo, hi float64) {
	return a.Within(math.Abs(float64(a.Hi * relative)))
}

// Within returns the closest float64s that bound each value within absolute of a.
func (a Number) Within(absolute float64) (lo, hi float64) {
	least := twoSum(a.Hi, math.Nextafter(a.Lo-absolute, math.Inf(-1)))
	most := twoSum(a.Hi, math.Nextafter(a.Lo+absolute, math.Inf(1)))
	lo, hi = least.Hi, most.Hi
	if least.Lo < 0 {
		lo = math.Nextafter(lo, math.Inf(-1))
	}
	if most.Lo > 0 {
		hi = math.Nextafter(hi, math.Inf(1))
	}
	return lo, hi
}
