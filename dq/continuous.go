package dq

import (
	"fmt"
	"math"
	"time"

	"github.com/beamscope/beamscope/dq/internal/quad"
)

// The limits of shapes.
const (
	minShape, maxShape = 0.01, 10000 // of a gamma distribution
	minPower, maxPower = 0.05, 1000  // of a Weibull or Pareto distribution
	minSigma, maxSigma = 0.001, 10   // of a log-normal distribution
)

// A continuous distribution has no end. The grid's dMax is the horizon, and the lower bound does
// not rise after it. Package quad calculates the figures and their errors.
type continuous struct {
	within func(t time.Duration) Bounds // F(t)
	beyond func(h time.Duration) excess // by how much delays exceed a horizon
	least  time.Duration                // a lower limit of the horizon
}

func (c continuous) model(g Grid) (*DeltaQ, error) {
	d, err := newModel(g, 0, max(g.DMax(), c.least))
	if err != nil {
		return nil, err
	}
	for k := range d.lo {
		d.lo[k] = c.within(d.edge(k)).Lo
		if k > 0 {
			d.lo[k] = max(d.lo[k], d.lo[k-1])
		}
	}
	last := d.Bins()
	d.hi[last] = 1
	for k := last - 1; k >= 0; k-- {
		d.hi[k] = min(c.within(d.edge(k+1)).Hi, d.hi[k+1])
	}
	d.excess = c.beyond(d.Horizon()).positive()
	return d, nil
}

// positive replaces a zero excess by the smallest positive float64. The true value is positive
// but too small for a float64, and 0 would mean that there is no excess.
func (e excess) positive() excess {
	return excess{max(e.mean, math.SmallestNonzeroFloat64), max(e.rms, math.SmallestNonzeroFloat64)}
}

// probability returns bounds on a probability that quad has calculated. Its error is at most
// [quad.Error] relative to itself, plus 2^-90. The bounds are in [0, 1].
func probability(p quad.Number) Bounds {
	if p.Hi == 0 {
		return Bounds{0, 0x1p-90}
	}
	lo, hi := p.Within(float64(math.Abs(p.Hi)*quad.Error) + 0x1p-90)
	return Bounds{max(0, lo), min(1, hi)}
}

// relative are the bounds of a figure above 0 that is within [quad.Error] of itself, or
// below 2^-890 and 0 in the calculation.
func relative(x quad.Number) Bounds {
	if x.Hi == 0 {
		return Bounds{0, 0x1p-890}
	}
	lo, hi := x.Bounds(quad.Error)
	return Bounds{max(0, lo), hi}
}

func ratio(t, unit time.Duration) quad.Number { return quad.Of(float64(t)).Over(float64(unit)) }

// opposite returns 1 − b for a probability b.
func (b Bounds) opposite() Bounds { return Bounds{subDown(1, b.Hi), subUp(1, b.Lo)} }

// product returns b·x for b, x ≥ 0.
func (b Bounds) product(x Bounds) Bounds { return Bounds{mulDown(b.Lo, x.Lo), mulUp(b.Hi, x.Hi)} }

// partialMoments holds E[Tⁱ; T > h] for i = 0, 1, 2, in nanoseconds to the power of i.
type partialMoments [3]Bounds

// excess returns the excess over h: E[T−h; T>h] = m₁ − h·m₀ and E[(T−h)²; T>h] = m₂ − 2h·m₁ +
// h²·m₀.
func (m partialMoments) excess(h time.Duration) excess {
	x := float64(h)
	mean := subUp(m[1].Hi, mulDown(x, m[0].Lo))
	second := addUp(subUp(m[2].Hi, mulDown(x+x, m[1].Lo)), mulUp(mulUp(x, x), m[0].Hi))
	return excess{max(0, mean), rootUp(max(0, second))}
}

func checkMean(name string, mean time.Duration) error {
	if mean <= 0 || mean > MaxModelDelay {
		return fmt.Errorf("%w: %s %v: want above 0, at most %v", ErrDelay, name, mean, MaxModelDelay)
	}
	return nil
}

func checkShape(name string, x, least, most float64) error {
	if !(x >= least && x <= most) {
		return fmt.Errorf("%w: %s %v: want %v to %v", ErrShape, name, x, least, most)
	}
	return nil
}

// Exponential returns the ΔQ of an exponentially distributed delay with the given mean, F(t) = 1
// − exp(−t/mean). The delay has no end: the grid's dMax is the horizon, and the lower bound does
// not rise after it. It returns [ErrGrid] for the zero grid and [ErrDelay] unless 0 < mean ≤
// MaxModelDelay and dMax ≤ MaxModelDelay.
func Exponential(g Grid, mean time.Duration) (*DeltaQ, error) {
	if err := checkMean("exponential with mean", mean); err != nil {
		return nil, err
	}
	c := continuous{within: func(t time.Duration) Bounds {
		return positiveAt(t, relative(quad.OneMinusExp(ratio(t, mean))))
	}, beyond: func(h time.Duration) excess {
		// E[T−H; T>H] = m·exp(−H/m), and E[(T−H)²; T>H] = 2m²·exp(−H/m), for the mean m.
		left := relative(quad.Exp(ratio(h, mean).Neg())).Hi
		return excess{left, rootUp(left + left)}.timesDelay(mean)
	}}
	return c.model(g)
}

// Gamma returns the ΔQ of a delay with a gamma distribution of the given mean and shape. With
// shape 1 it is exponential. With a whole number n it is the sum of n exponential delays
// (Erlang). F(t) is the regularised incomplete gamma function P(shape, shape·t/mean). The delay
// has no end, as in Exponential. It returns [ErrShape] unless the shape is from 0.01 to 10000,
// and the errors of Exponential.
func Gamma(g Grid, mean time.Duration, shape float64) (*DeltaQ, error) {
	if err := checkMean("gamma with mean", mean); err != nil {
		return nil, err
	}
	if err := checkShape("gamma with shape", shape, minShape, maxShape); err != nil {
		return nil, err
	}
	at := func(t time.Duration) quad.Number { return ratio(t, mean).Times(shape) }
	p := quad.NewGamma(quad.Of(shape))
	p1, p2 := quad.NewGamma(quad.Of(shape).Add(quad.Of(1))), quad.NewGamma(quad.Of(shape).Add(quad.Of(2)))
	c := continuous{within: func(t time.Duration) Bounds {
		return positiveAt(t, probability(p.P(at(t))))
	}, beyond: func(h time.Duration) excess {
		// E[Tⁱ; T>H] = θⁱ·Γ(a+i)/Γ(a)·Q(a+i, H/θ) with θ = mean/a: with factors 1, mean,
		// and mean²·(1 + 1/a).
		m, x := float64(mean), at(h)
		squares := relative(quad.Product(m, m).Mul(quad.Of(1).Over(shape).Add(quad.Of(1))))
		return partialMoments{
			probability(p.P(x)).opposite(),
			probability(p1.P(x)).opposite().product(Bounds{m, m}),
			probability(p2.P(x)).opposite().product(squares),
		}.excess(h)
	}}
	return c.model(g)
}

// positiveAt returns F(t) of a delay that is always above 0, so F(0) = 0.
func positiveAt(t time.Duration, f Bounds) Bounds {
	if t <= 0 {
		return Bounds{}
	}
	return f
}

// Weibull returns the ΔQ of a delay with a Weibull distribution, F(t) = 1 −
// exp(−(t/scale)^shape). 63 % of the delays are at most scale. With shape 1 it is exponential,
// and below 1 it has a heavier tail. The delay has no end, as in Exponential. It returns
// [ErrShape] unless the shape is from 0.05 to 1000, and the errors of Exponential.
func Weibull(g Grid, scale time.Duration, shape float64) (*DeltaQ, error) {
	if err := checkMean("Weibull with scale", scale); err != nil {
		return nil, err
	}
	if err := checkShape("Weibull with shape", shape, minPower, maxPower); err != nil {
		return nil, err
	}
	c := continuous{within: func(t time.Duration) Bounds {
		return positiveAt(t, relative(quad.OneMinusExp(power(ratio(max(1, t), scale), shape))))
	}, beyond: func(h time.Duration) excess {
		// E[Tⁱ; T>H] = scaleⁱ·Γ(1+i/shape)·Q(1+i/shape, (H/scale)^shape).
		x := power(ratio(h, scale), shape)
		var m partialMoments
		unit := Bounds{1, 1}
		for i := range m {
			a := quad.Of(float64(i)).Over(shape).Add(quad.Of(1))
			whole := relative(quad.Exp(quad.LogGamma(a)))
			m[i] = probability(quad.NewGamma(a).P(x)).opposite().product(whole).product(unit)
			unit = unit.product(Bounds{float64(scale), float64(scale)})
		}
		return m.excess(h)
	}}
	return c.model(g)
}

// power returns x^shape for x > 0, but at most e²⁰. At e²⁰ the probability of a longer delay is
// negligible.
func power(x quad.Number, shape float64) quad.Number {
	exponent := quad.Log(x).Times(shape)
	if exponent.Hi > 20 {
		exponent = quad.Of(20)
	}
	return quad.Exp(exponent)
}

// Pareto returns the ΔQ of a delay with a Pareto distribution, F(t) = 1 − (least/t)^shape for t ≥
// least. The smaller the shape, the heavier the tail. The mean is infinite for a shape of at most
// 1, and the standard deviation for a shape of at most 2. The delay has no end, as in
// Exponential. It returns [ErrShape] unless the shape is from 0.05 to 1000, and the errors of
// Exponential.
func Pareto(g Grid, least time.Duration, shape float64) (*DeltaQ, error) {
	if err := checkMean("Pareto from", least); err != nil {
		return nil, err
	}
	if err := checkShape("Pareto with shape", shape, minPower, maxPower); err != nil {
		return nil, err
	}
	c := continuous{least: least, within: func(t time.Duration) Bounds {
		if t <= least {
			return Bounds{}
		}
		return relative(quad.OneMinusExp(quad.Log(ratio(t, least)).Times(shape)))
	}, beyond: func(h time.Duration) excess {
		return paretoExcess(h, relative(quad.Exp(quad.Log(ratio(h, least)).Times(-shape))).Hi, shape)
	}}
	return c.model(g)
}

// paretoExcess returns the excess over h. shape is a, and at most a share left = (least/h)^a of
// the delays is above h: E[T−h; T>h] = left·h/(a−1) and E[(T−h)²; T>h] = left·2h²/((a−1)(a−2)).
// For a above 1 and 2, a−1 and a−2 are exact: multiples of an ulp of a, and smaller than a.
func paretoExcess(h time.Duration, left, shape float64) excess {
	e, x := unbounded(), float64(h)
	if shape > 1 {
		e.mean = divUp(mulUp(left, x), shape-1)
	}
	if shape > 2 {
		e.rms = rootUp(divUp(mulUp(left+left, mulUp(x, x)), mulDown(shape-1, shape-2)))
	}
	return e
}

// LogNormal returns the ΔQ of a delay whose logarithm has a normal distribution with standard
// deviation sigma: F(t) = Φ(ln(t/median)/sigma). 68 % of the delays are between median/e^sigma
// and median·e^sigma. The delay has no end, as in Exponential. It returns [ErrShape] unless sigma
// is from 0.001 to 10, and the errors of Exponential.
func LogNormal(g Grid, median time.Duration, sigma float64) (*DeltaQ, error) {
	if err := checkMean("log-normal with median", median); err != nil {
		return nil, err
	}
	if err := checkShape("log-normal with sigma", sigma, minSigma, maxSigma); err != nil {
		return nil, err
	}
	half := quad.NewGamma(quad.Of(0.5))
	at := func(t time.Duration) quad.Number { return quad.Log(ratio(max(1, t), median)).Over(sigma) }
	c := continuous{within: func(t time.Duration) Bounds {
		return positiveAt(t, probability(half.Normal(at(t))))
	}, beyond: func(h time.Duration) excess {
		// E[Tⁱ; T>H] = medianⁱ·exp(i²σ²/2)·Φ(iσ − ln(H/median)/σ).
		var m partialMoments
		unit := Bounds{1, 1}
		for i := range m {
			shift := quad.Of(sigma).Times(float64(i))
			factor := relative(quad.Exp(shift.Mul(shift).Over(2)))
			m[i] = probability(half.Normal(shift.Sub(at(h)))).product(factor).product(unit)
			unit = unit.product(Bounds{float64(median), float64(median)})
		}
		return m.excess(h)
	}}
	return c.model(g)
}

// Normal returns the ΔQ of a delay with a normal distribution, F(t) = Φ((t − mean)/sd) for t ≥ 0.
// Delays cannot be negative, so the part of the distribution below 0 counts as a delay of 0. The
// delay has no end, as in Exponential. It returns [ErrDelay] unless 0 ≤ mean ≤ MaxModelDelay and
// 0 < sd ≤ MaxModelDelay, and the errors of Exponential.
func Normal(g Grid, mean, sd time.Duration) (*DeltaQ, error) {
	if mean < 0 || mean > MaxModelDelay {
		return nil, fmt.Errorf("%w: normal with mean %v: want 0 to %v", ErrDelay, mean, MaxModelDelay)
	}
	if err := checkMean("normal with standard deviation", sd); err != nil {
		return nil, err
	}
	half := quad.NewGamma(quad.Of(0.5))
	at := func(t time.Duration) quad.Number { return ratio(t-mean, sd) }
	c := continuous{within: func(t time.Duration) Bounds {
		return probability(half.Normal(at(t)))
	}, beyond: func(h time.Duration) excess {
		// The excess over z decreases as z grows, so the lower bound of z gives the upper bound
		// of the excess.
		lo, _ := at(h).Bounds(quad.Error)
		z := quad.Of(lo)
		q := probability(half.Normal(z.Neg()))
		phi := probability(quad.Exp(z.Mul(z).Over(-2).Sub(quad.HalfLn2Pi())))
		return normalExcess(lo, q, phi).timesDelay(sd)
	}}
	return c.model(g)
}

// normalExcess returns the excess over z in standard deviations, with Q = 1 − Φ(z) and the
// density φ(z): E[Z−z; Z>z] = φ − zQ and E[(Z−z)²; Z>z] = (1+z²)Q − zφ.
func normalExcess(z float64, q, phi Bounds) excess {
	mean, second := phi.Hi, mulUp(addUp(1, mulUp(z, z)), q.Hi)
	if z >= 0 {
		mean, second = subUp(mean, mulDown(z, q.Lo)), subUp(second, mulDown(z, phi.Lo))
	} else {
		mean, second = addUp(mean, mulUp(-z, q.Hi)), addUp(second, mulUp(-z, phi.Hi))
	}
	return excess{max(0, mean), rootUp(max(0, second))}
}

// timesDelay returns e·t for t ≥ 0.
func (e excess) timesDelay(t time.Duration) excess {
	return excess{mulUp(float64(t), e.mean), mulUp(float64(t), e.rms)}
}
