package quad

import "math"

// Constants, each to 107 bits.
var (
	ln2       = Number{0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56}
	quarterPi = Number{0x1.921fb54442d18p-1, 0x1.1a62633145c07p-55}
	halfLn2Pi = Number{0x1.d67f1c864beb5p-1, -0x1.65b5a1b7ff5dfp-55} // ln(2π)/2
)

// HalfLn2Pi is ln(2π)/2.
func HalfLn2Pi() Number { return halfLn2Pi }

// Exp is e^x for x ≤ 700, and 0 for x < −620, where e^x is below 2^-894.
func Exp(x Number) Number {
	if x.Hi < -620 {
		return Number{}
	}
	k := math.Round(x.Hi / ln2.Hi)
	return expm1(x.Sub(ln2.Times(k))).Add(Of(1)).scaled(int(k))
}

// OneMinusExp is 1 − e^−y for y ≥ 0.
func OneMinusExp(y Number) Number {
	if y.Hi < 0.5 {
		return expm1(y.Neg()).Neg()
	}
	return Of(1).Sub(Exp(y.Neg()))
}

// expm1 is e^x − 1 for |x| ≤ 1/2. With y = x/256 the Taylor series of e^y − 1 is cut off
// after y¹²/12!: the rest is below 2^-9·12/13! = 2^-140 of the first term. Then eight
// times e^2y − 1 = 2(e^y − 1) + (e^y − 1)².
func expm1(x Number) Number {
	y := x.scaled(-8)
	sum := Of(1)
	for n := 12.0; n >= 2; n-- {
		sum = sum.Mul(y).Over(n).Add(Of(1))
	}
	p := sum.Mul(y)
	for range 8 {
		p = p.scaled(1).Add(p.Mul(p))
	}
	return p
}

// Log is ln x for a normal x > 0. With x = m·2^e, √½ ≤ m ≤ √2, and s = (m−1)/(m+1), it is
// e·ln 2 + 2(s + s³/3 + s⁵/5 + …). As s² < 0.0295, the rest after s⁴³/43 is below 2^-115
// of the first term.
func Log(x Number) Number {
	_, e := math.Frexp(x.Hi)
	m := x.scaled(-e)
	if m.Hi < math.Sqrt2/2 {
		m, e = m.scaled(1), e-1
	}
	s := m.Sub(Of(1)).Div(m.Add(Of(1)))
	square := s.Mul(s)
	sum := Of(1).Over(43)
	for n := 41.0; n >= 1; n -= 2 {
		sum = sum.Mul(square).Add(Of(1).Over(n))
	}
	return ln2.Times(float64(e)).Add(sum.Mul(s).scaled(1))
}

// LogGamma is ln Γ(z) for 2^-10 ≤ z ≤ 2^20, within 2^-80 of itself plus 2^-80: by
// Γ(z) = Γ(z+1)/z up to z ≥ 40, and from there by Stirling's series
//
//	(z − ½)·ln z − z + ½·ln 2π + Σ B₂ₖ/(2k(2k−1)z^(2k−1)),
//
// whose error is below the first term left out (Whittaker and Watson, A Course of Modern
// Analysis, 12.33): B₃₂/(32·31·z³¹) < 2^-140.
func LogGamma(z Number) Number {
	product := Of(1)
	for z.Hi < 40 {
		product = product.Mul(z)
		z = z.Add(Of(1))
	}
	log := Log(z)
	sum := z.Sub(Of(0.5)).Mul(log).Sub(z).Add(halfLn2Pi)
	inverse := Of(1).Div(z)
	square, power := inverse.Mul(inverse), inverse
	for i, b := range bernoulli() {
		term := Of(b[0]).Over(b[1]).Over(float64((2*i + 2) * (2*i + 1)))
		sum = sum.Add(term.Mul(power))
		power = power.Mul(square)
	}
	return sum.Sub(Log(product))
}

// bernoulli are the numbers B₂, B₄, … B₃₀ as fractions.
func bernoulli() [][2]float64 {
	return [][2]float64{
		{1, 6}, {-1, 30}, {1, 42}, {-1, 30}, {5, 66}, {-691, 2730}, {7, 6}, {-3617, 510}, {43867, 798}, {-174611, 330},
		{854513, 138}, {-236364091, 2730}, {8553103, 6}, {-23749461029, 870}, {8615841276005, 14322},
	}
}

// A Gamma is the distribution function of a standard gamma distribution with a shape
// between 2^-10 and 2^14.
type Gamma struct {
	shape Number
	log   Number // ln Γ(shape+1)
}

// NewGamma returns the distribution function for a shape.
func NewGamma(shape Number) Gamma { return Gamma{shape, LogGamma(shape.Add(Of(1)))} }

// P is the regularised incomplete gamma function P(a, x) for x ≥ 0, within [Error]
// relative to it, plus 2^-100:
//
//	P(a, x) = xᵃ·e^−x/Γ(a+1) · (1 + x/(a+1) + x²/((a+1)(a+2)) + …)
//
// All terms are positive. The series ends where the geometric series above the rest is
// below 2^-100 of the sum. Where P or 1−P is below 2^-108, it is 0 or 1: by Chernoff's
// bound both are at most exp(a·ln(x/a) + a − x) on the side of a where they are small.
func (g Gamma) P(x Number) Number {
	if x.Hi <= 0 {
		return Number{}
	}
	log, a := Log(x), g.shape
	if chernoff := log.Sub(Log(a)).Mul(a).Add(a).Sub(x); chernoff.Hi < -75 {
		if x.Hi < a.Hi {
			return Number{}
		}
		return Of(1)
	}
	sum, term := Of(1), Of(1)
	for n := 1.0; ; n++ {
		ratio := x.Div(a.Add(Of(n)))
		term = term.Mul(ratio)
		sum = sum.Add(term)
		if ratio.Hi < 1 && float64(term.Hi*ratio.Hi) <= float64(float64(0x1p-100*sum.Hi)*(1-ratio.Hi)) {
			break
		}
	}
	p := Exp(log.Mul(a).Sub(x).Sub(g.log)).Mul(sum)
	if p.Hi > 1 {
		return Of(1)
	}
	return p
}

// Normal is Φ(z), the distribution function of the standard normal distribution, within
// 2^-90: (1 ± P(½, z²/2))/2. half is NewGamma of ½.
func (half Gamma) Normal(z Number) Number {
	p := half.P(z.Mul(z).scaled(-1))
	if z.Hi < 0 {
		p = p.Neg()
	}
	return p.Add(Of(1)).scaled(-1)
}

// Roots returns exp(−2πi·j/n) for j = 0..n−1, for a power of two n up to 2^30. Each part is within
// 0.51 units in the last place. In the first octant, each root is the product of a root at a
// multiple of a step and a root within the first step. The other octants have the same parts.
func Roots(n int) []complex128 {
	octant := firstOctant(n)
	size := len(octant) - 1
	roots := make([]complex128, n)
	for j := range roots {
		at := j * (8 * size / n)
		part, rest := at/size, at%size
		if part%2 == 1 {
			rest = size - rest // count back from the end of the octant
		}
		c, s := real(octant[rest]), imag(octant[rest])
		if part%2 == 1 {
			s = -s
		}
		switch (part + 1) / 2 % 4 {
		case 0:
			roots[j] = complex(c, -s)
		case 1:
			roots[j] = complex(-s, -c)
		case 2:
			roots[j] = complex(-c, s)
		case 3:
			roots[j] = complex(s, c)
		}
	}
	return roots
}

// firstOctant returns exp(2πi·k/n) for k = 0..n/8, or for n = 8 if n is below that.
func firstOctant(n int) []complex128 {
	n = max(n, 8)
	step := 1
	for step*step < n/8 {
		step *= 2
	}
	type angle struct{ cos, sin Number }
	at := func(k int) angle {
		cos, sin := cosSin(quarterPi.Times(float64(k)).Over(float64(n / 8)))
		return angle{cos, sin}
	}
	var fine []angle
	for b := range step {
		fine = append(fine, at(b))
	}
	var coarse angle
	out := make([]complex128, n/8+1)
	for k := range out {
		if k%step == 0 {
			coarse = at(k)
		}
		x, y := coarse, fine[k%step]
		out[k] = complex(x.cos.Mul(y.cos).Sub(x.sin.Mul(y.sin)).Hi, x.sin.Mul(y.cos).Add(x.cos.Mul(y.sin)).Hi)
	}
	return out
}

// cosSin returns the cosine and the sine of an angle from 0 to π/4, by their Taylor series. The
// omitted terms are below (π/4)²⁸/28! < 2^-107.
func cosSin(x Number) (cos, sin Number) {
	square := x.Mul(x).Neg()
	cos, sin = Of(1), Of(1)
	for n := 26.0; n >= 2; n -= 2 {
		cos = cos.Mul(square).Over(float64(n * (n - 1))).Add(Of(1))
		sin = sin.Mul(square).Over(float64(n * (n + 1))).Add(Of(1))
	}
	return cos, sin.Mul(x)
}
