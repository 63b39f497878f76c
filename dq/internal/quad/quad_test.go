package quad

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// The references of these tests use a different method: numbers of 400 bits, and plain series
// without reduction of arguments.

const precision = 400

func num(x Number) *big.Float {
	return new(big.Float).SetPrec(precision).Add(real64(x.Hi), real64(x.Lo))
}

func real64(x float64) *big.Float { return new(big.Float).SetPrec(precision).SetFloat64(x) }

func mul(a, b *big.Float) *big.Float { return new(big.Float).SetPrec(precision).Mul(a, b) }
func add(a, b *big.Float) *big.Float { return new(big.Float).SetPrec(precision).Add(a, b) }
func sub(a, b *big.Float) *big.Float { return new(big.Float).SetPrec(precision).Sub(a, b) }
func quo(a, b *big.Float) *big.Float { return new(big.Float).SetPrec(precision).Quo(a, b) }

// refExp sums xⁿ/n! for x halved until it is below 1/2, and then squares the sum as often.
func refExp(x *big.Float) *big.Float {
	halvings := 0
	for y, _ := x.Float64(); math.Abs(y) > 0.5; y /= 2 {
		x = quo(x, real64(2))
		halvings++
	}
	sum, term := real64(1), real64(1)
	for n := 1.0; n < 90; n++ {
		term = quo(mul(term, x), real64(n))
		sum = add(sum, term)
	}
	for range halvings {
		sum = mul(sum, sum)
	}
	return sum
}

// refLog is Newton's iteration on refExp.
func refLog(x *big.Float) *big.Float {
	start, _ := x.Float64()
	y := real64(math.Log(start))
	for range 5 {
		y = add(y, sub(quo(x, refExp(y)), real64(1)))
	}
	return y
}

// refPi is Machin's formula.
func refPi() *big.Float {
	arctan := func(n float64) *big.Float {
		sum, power := real64(0), quo(real64(1), real64(n))
		for k := 0.0; k < 300; k++ {
			term := quo(power, real64(2*k+1))
			if int(k)%2 == 1 {
				term.Neg(term)
			}
			sum = add(sum, term)
			power = quo(power, real64(n*n))
		}
		return sum
	}
	return mul(real64(4), sub(mul(real64(4), arctan(5)), arctan(239)))
}

// refGamma is Γ(z) for z from 1 to 200: the integral of t^(z−1)e^−t from 0 to 900, as a series in
// which all terms are positive.
func refGamma(z *big.Float) *big.Float {
	// Γ(z) = γ(z, X) + Γ(z, X); for X = 900 and z ≤ 200 the second is below 2^-300 of it.
	const x = 900
	sum, term := quo(real64(1), z), quo(real64(1), z)
	for n := 1.0; n < 4000; n++ {
		term = quo(mul(term, real64(x)), add(z, real64(n)))
		sum = add(sum, term)
	}
	power := refExp(sub(mul(z, refLog(real64(x))), real64(x)))
	return mul(power, sum)
}

// refP is P(a, x) by the series γ(a, x) = xᵃ Σ (−x)ⁿ/(n!(a+n)). Its terms cancel each other, so it
// needs 400 bits.
func refP(a, x *big.Float) *big.Float {
	sum, power := real64(0), real64(1)
	for n := 0.0; n < 800; n++ {
		sum = add(sum, quo(power, add(a, real64(n))))
		power = quo(mul(power, new(big.Float).Neg(x)), real64(n+1))
	}
	return quo(mul(refExp(mul(a, refLog(x))), sum), refGamma(a))
}

func wrong(t testing.TB, name string, got Number, want *big.Float, relative, absolute float64) {
	t.Helper()
	allowed, _ := new(big.Float).Abs(want).Float64()
	difference, _ := new(big.Float).Abs(sub(num(got), want)).Float64()
	if !(difference <= allowed*relative+absolute) {
		w, _ := want.Float64()
		t.Fatalf("%s: %v, want %v: wrong by %v", name, got, w, difference)
	}
}

func drawNumber(t *rapid.T, name string, least, most float64) Number {
	x := rapid.Float64Range(least, most).Draw(t, name)
	return Of(x).Add(Of(x * rapid.Float64Range(-0x1p-54, 0x1p-54).Draw(t, name+" rest")))
}

func TestArithmetic(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		a, b := drawNumber(rt, "a", -1e10, 1e10), drawNumber(rt, "b", 1e-10, 1e10)
		x := rapid.Float64Range(1e-10, 1e10).Draw(rt, "x")
		const u2 = 0x1p-106
		wrong(t, "add", a.Add(b), add(num(a), num(b)), 4*u2, 0)
		wrong(t, "sub", a.Sub(b), sub(num(a), num(b)), 4*u2, 0)
		wrong(t, "mul", a.Mul(b), mul(num(a), num(b)), 5*u2, 1e-300)
		wrong(t, "div", a.Div(b), quo(num(a), num(b)), 15*u2, 1e-300)
		wrong(t, "times", a.Times(x), mul(num(a), real64(x)), 2*u2, 1e-300)
		wrong(t, "over", a.Over(x), quo(num(a), real64(x)), 15*u2, 1e-300)
	})
}

func TestFunctions(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		x := drawNumber(rt, "x", -600, 300)
		wrong(t, "exp", Exp(x), refExp(num(x)), Error, 0)
		y := drawNumber(rt, "y", 1e-200, rapid.SampledFrom([]float64{1e-100, 1e-6, 1, 100}).Draw(rt, "scale"))
		if y.Hi > 1e-60 {
			wrong(t, "1 − exp", OneMinusExp(y), sub(real64(1), refExp(new(big.Float).Neg(num(y)))), Error, 1e-115)
		}
		z := drawNumber(rt, "z", 1e-3, rapid.SampledFrom([]float64{0.9, 1.1, 1e3, 1e18}).Draw(rt, "scale"))
		wrong(t, "log", Log(z), refLog(num(z)), 0x1p-90, 0x1p-98)
	})
}

func TestGammaFunctions(t *testing.T) {
	if testing.Short() {
		t.Skip("long references")
	}
	for _, a := range []float64{0.0625, 0.5, 1, 1.5, 3.25, 17, 60.5} {
		shape := Of(a)
		wrong(t, "log gamma", LogGamma(Of(a+1)), refLog(refGamma(real64(a+1))), 0x1p-80, 0x1p-80)
		g := NewGamma(shape)
		for _, f := range []float64{1e-9, 1e-3, 0.3, 0.9, 1, 1.1, 2, 5} {
			x := Of(a * f)
			want := quo(refP(real64(a), num(x)), real64(1))
			if a*f < 80 {
				wrong(t, "P", g.P(x), want, Error, 0x1p-100)
			}
		}
	}
}

// Φ(z) for a few z, from tables to 20 digits (Abramowitz and Stegun, table 26.1, and by
// symmetry), and 1/2 at 0.
func TestNormal(t *testing.T) {
	half := NewGamma(Of(0.5))
	for z, want := range map[float64]string{
		0:  "0.5",
		1:  "0.84134474606854294859",
		.5: "0.69146246127401310364",
		-1: "0.15865525393145705141",
		2:  "0.97724986805182079280",
		3:  "0.99865010196836990547",
	} {
		exact, _, err := big.ParseFloat(want, 10, precision, big.ToNearestEven)
		if err != nil {
			t.Fatal(err)
		}
		wrong(t, "normal", half.Normal(Of(z)), exact, 0, 1e-20)
	}
}

func TestRoots(t *testing.T) {
	pi := refPi()
	for _, n := range []int{1, 2, 4, 8, 16, 64, 4096} {
		roots := Roots(n)
		for j := 0; j < n; j += 1 + n/50 {
			// e^ix by its series.
			x := quo(mul(pi, real64(float64(2*j))), real64(float64(n)))
			cos, sin, term := real64(0), real64(0), real64(1)
			for k := range 120 {
				signed := new(big.Float).Set(term)
				if k%4 >= 2 {
					signed.Neg(signed)
				}
				if k%2 == 0 {
					cos = add(cos, signed)
				} else {
					sin = add(sin, signed)
				}
				term = quo(mul(term, x), real64(float64(k+1)))
			}
			near(t, n, j, real(roots[j]), cos)
			near(t, n, j, -imag(roots[j]), sin)
		}
	}
}

// near fails unless x is the float64 nearest to a value, or next to it.
func near(t *testing.T, n, j int, x float64, want *big.Float) {
	t.Helper()
	w, _ := want.Float64()
	if math.Abs(w) < 1e-100 {
		w = 0
	}
	if math.Abs(x-w) > 0x1p-52*math.Abs(w) {
		t.Errorf("root %d of %d: %v, want %v", j, n, x, w)
	}
}

// The bounds contain all possible values of the number, and are next to it.
func TestBounds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		x := drawNumber(rt, "x", 1e-10, 1)
		e := rapid.SampledFrom([]float64{0, 0x1p-100, Error, 0x1p-50}).Draw(rt, "error")
		lo, hi := x.Bounds(e)
		least, most := sub(num(x), mul(num(x), real64(e*0.999))), add(num(x), mul(num(x), real64(e*0.999)))
		if real64(lo).Cmp(least) > 0 || real64(hi).Cmp(most) < 0 {
			rt.Fatalf("%v within %v: %v to %v", x, e, lo, hi)
		}
		if e <= Error && hi > math.Nextafter(math.Nextafter(lo, 2), 2) {
			rt.Fatalf("%v within %v: %v to %v are far apart", x, e, lo, hi)
		}
	})
}

// The Bernoulli numbers follow from each other: the sum of C(m+1, k)·Bₖ for k = 0..m is 0.
func TestBernoulli(t *testing.T) {
	numbers := []*big.Rat{big.NewRat(1, 1)}
	for m := int64(1); m <= 30; m++ {
		sum := new(big.Rat)
		for k, b := range numbers {
			sum.Add(sum, new(big.Rat).Mul(new(big.Rat).SetInt(new(big.Int).Binomial(m+1, int64(k))), b))
		}
		numbers = append(numbers, sum.Quo(sum.Neg(sum), big.NewRat(m+1, 1)))
	}
	got := bernoulli()
	if len(got) != 15 {
		t.Fatalf("%d numbers, want B₂, B₄, … B₃₀", len(got))
	}
	for i, b := range got {
		if want := numbers[2*i+2]; new(big.Rat).SetFrac64(int64(b[0]), int64(b[1])).Cmp(want) != 0 {
			t.Errorf("B%d is %v/%v, want %v", 2*i+2, b[0], b[1], want)
		}
	}
}

// Γ(n+1) is n!, and Γ(n+½) is (2n)!/(4ⁿ·n!)·√π.
func TestLogGammaOfFactorials(t *testing.T) {
	half := quo(refLog(refPi()), real64(2))
	for _, n := range []int64{1, 2, 3, 5, 10, 38, 39, 40, 41, 60, 200, 5000} {
		factorial := new(big.Float).SetPrec(precision).SetInt(new(big.Int).MulRange(1, n))
		wrong(t, "log of a factorial", LogGamma(Of(float64(n+1))), logOf(factorial), 0x1p-80, 0x1p-80)
		ratio := new(big.Float).SetPrec(precision).SetInt(new(big.Int).MulRange(n+1, 2*n))
		ratio.SetMantExp(ratio, int(-2*n))
		wrong(t, "log Γ of a half", LogGamma(Of(float64(n)+0.5)), add(logOf(ratio), half), 0x1p-80, 0x1p-80)
	}
}

// logOf is the logarithm of a number that may be too large for a float64.
func logOf(x *big.Float) *big.Float {
	e := x.MantExp(nil)
	m := new(big.Float).SetPrec(precision).SetMantExp(x, -e)
	return add(refLog(m), mul(refLog(real64(2)), real64(float64(e))))
}

// P(n, x) is the probability that n exponential delays together take at most x:
// 1 − e^−x·Σ xᵏ/k! for k below n.
func TestGammaOfWholeShapes(t *testing.T) {
	for _, n := range []float64{1, 2, 5, 20, 100} {
		g := NewGamma(Of(n))
		for _, f := range []float64{1e-3, 0.1, 0.5, 0.9, 0.99, 1, 1.01, 1.1, 1.5, 2, 3} {
			x := real64(n * f)
			sum, term := real64(0), real64(1)
			for k := 0.0; k < n; k++ {
				sum = add(sum, term)
				term = quo(mul(term, x), real64(k+1))
			}
			want := sub(real64(1), mul(refExp(new(big.Float).Neg(x)), sum))
			wrong(t, "P", g.P(Of(n*f)), want, Error, 0x1p-100)
		}
		// So close to 1 that one float64 rounds to 1, but two float64s do not: e^-42 is 2^-60.6.
		if p := NewGamma(Of(1)).P(Of(42)); p.Hi != 1 || p.Lo >= 0 {
			t.Errorf("P(1, 42) is %v", p)
		}
		if p := g.P(Number{}); p != (Number{}) {
			t.Errorf("P(%v, 0) is %v", n, p)
		}
		if p := g.P(Of(-1)); p != (Number{}) {
			t.Errorf("P(%v, −1) is %v", n, p)
		}
		if p := g.P(Of(1e6)); p != Of(1) {
			t.Errorf("P(%v, 10⁶) is %v", n, p)
		}
	}
}

// If a bound is a float64, Within returns that float64 or one next to it.
func TestWithinIsAdjacent(t *testing.T) {
	lo, hi := Of(0.25).Within(1)
	if lo < -0.75-0x1p-52 || lo > -0.75 || hi < 1.25 || hi > 1.25+0x1p-52 {
		t.Errorf("1/4 within 1: %v to %v", lo, hi)
	}
	for _, x := range []float64{1, 1. / 3, 1e9, -2} {
		if lo, hi := Of(x).Within(0); lo > x || hi < x || lo < math.Nextafter(x, math.Inf(-1)) || hi > math.Nextafter(x, math.Inf(1)) {
			t.Errorf("%v exactly: %v to %v", x, lo, hi)
		}
	}
}

// The limits of arguments: e^x is 0 below −620 and not from −620 on, and 1 − e^−y is right where it
// changes from one formula to the other.
func TestFunctionsAtTheirLimits(t *testing.T) {
	for _, x := range []float64{-620, -619.5, -100, -1e-20, 0, 1e-20, 0.5, 1, 699, 700} {
		wrong(t, "exp", Exp(Of(x)), refExp(real64(x)), Error, 0)
	}
	if got := Exp(Of(math.Nextafter(-620, -700))); got != (Number{}) {
		t.Errorf("e^-620 is %v", got)
	}
	for _, y := range []float64{1e-300, 1e-20, 0.3, math.Nextafter(0.5, 0), 0.5, 1, 50} {
		want := real64(y)
		if y > 1e-60 {
			want = sub(real64(1), refExp(real64(-y)))
		}
		wrong(t, "1 − exp", OneMinusExp(Of(y)), want, Error, 0)
	}
	if got := OneMinusExp(Number{}); num(got).Sign() != 0 {
		t.Errorf("1 − e^0 is %v", got)
	}
	for _, x := range []float64{math.Sqrt2 / 2, math.Sqrt2, 1, 2, 4, 0.5, 1e-300, 1e300} {
		wrong(t, "log", Log(Of(x)), logOf(real64(x)), 0x1p-90, 0x1p-98)
	}
}
