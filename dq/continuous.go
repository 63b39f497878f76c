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

// A continuous distribution has no end: the grid's dMax is the horizon, beyond which the
// lower bound does not rise. Its figures come with their errors from package quad.
type continuous struct {
	within func(t time.Duration) Bounds // F(t)
	beyond func(h time.Duration) excess // what exceeds a horizon
	least  time.Duration                // the horizon is at least that
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

// positive is the excess, where it is too small for a float64 the least there is: 0 says
// that there is none.
func (e excess) positive() excess {
	return excess{max(e.mean, math.SmallestNonzeroFloat64), max(e.rms, math.SmallestNonzeroFloat64)}
}

// probability are the bounds of a probability that quad has calculated: within
// [quad.Error] of itself and 2^-90 besides, in [0, 1].
func probability(p quad.Number) Bounds {
	if p.Hi == 0 && p.Lo == 0 {
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

// opposite is 1 − b.
func (b Bounds) opposite() Bounds { return Bounds{max(0, subDown(1, b.Hi)), subUp(1, b.Lo)} }

// product is b·x for b, x ≥ 0.
func (b Bounds) product(x Bounds) Bounds { return Bounds{mulDown(b.Lo, x.Lo), mulUp(b.Hi, x.Hi)} }

// partialMoments are E[Tⁱ; T > h] for i = 0, 1, 2, in nanoseconds to the power of i.
type partialMoments [3]Bounds

// excess is what exceeds h: E[T−h; T>h] = m₁ − h·m₀ and E[(T−h)²; T>h] = m₂ − 2h·m₁ + h²·m₀.
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

// Exponential returns the ΔQ of a delay that is exponential with the given mean,
// F(t) = 1 − exp(−t/mean). It has no end: the grid's dMax is the horizon, beyond
// which the lower bound does not rise. It returns [ErrGrid] for the zero grid and
// [ErrDelay] unless 0 < mean ≤ MaxModelDelay and dMax ≤ MaxModelDelay.
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

// Gamma returns the ΔQ of a delay with a gamma distribution of the given mean and shape:
// with shape 1 it is exponential, with a whole number n it is the sum of n exponential
// delays (Erlang). F(t) is the regularised incomplete gamma function P(shape,
// shape·t/mean). It has no end, as in Exponential. It returns [ErrShape] unless the shape
// is from 0.01 to 10000, and the errors of Exponential.
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

// positiveAt is F(t) of a delay that is above 0: at 0 nothing is done.
func positiveAt(t time.Duration, f Bounds) Bounds {
	if t <= 0 {
		return Bounds{}
	}
	return f
}

// Weibull returns the ΔQ of a delay with a Weibull distribution, F(t) = 1 −
// exp(−(t/scale)^shape): of 63 % the delay is at most scale. With shape 1 it is
// exponential, below 1 it has a heavier tail. It has no end, as in Exponential. It
// returns [ErrShape] unless the shape is from 0.05 to 1000, and the errors of Exponential.
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

// power is x^shape for x > 0; from e²⁰ on it is e²⁰, of which nothing is left above.
func power(x quad.Number, shape float64) quad.Number {
	exponent := quad.Log(x).Times(shape)
	if exponent.Hi > 20 {
		exponent = quad.Of(20)
	}
	return quad.Exp(exponent)
}

// Pareto returns the ΔQ of a delay with a Pareto distribution, F(t) = 1 −
// (least/t)^shape from least on: the heavier the tail, the smaller the shape. The mean is
// infinite for a shape of 1 and less, the standard deviation for 2 and less. It has no
// end, as in Exponential. It returns [ErrShape] unless the shape is from 0.05 to 1000, and
// the errors of Exponential.
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

// paretoExcess is what exceeds h, with the shape a and at most left = (least/h)^a of the
// delays above h: E[T−h; T>h] = left·h/(a−1) and E[(T−h)²; T>h] = left·2h²/((a−1)(a−2)).
func paretoExcess(h time.Duration, left, shape float64) excess {
	e, x := unbounded(), float64(h)
	if shape > 1 {
		e.mean = divUp(mulUp(left, x), subDown(shape, 1))
	}
	if shape > 2 {
		e.rms = rootUp(divUp(mulUp(left+left, mulUp(x, x)), mulDown(subDown(shape, 1), subDown(shape, 2))))
	}
	return e
}

// LogNormal returns the ΔQ of a delay whose logarithm has a normal distribution with
// standard deviation sigma: F(t) = Φ(ln(t/median)/sigma). Of 68 % the delay is between
// median/e^sigma and median·e^sigma. It has no end, as in Exponential. It returns
// [ErrShape] unless sigma is from 0.001 to 10, and the errors of Exponential.
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

// Normal returns the ΔQ of a delay with a normal distribution, F(t) = Φ((t − mean)/sd)
// for t ≥ 0. As no delay is below 0, what the distribution has there is a delay of 0. It
// has no end, as in Exponential. It returns [ErrDelay] unless 0 ≤ mean ≤ MaxModelDelay and
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
		// What exceeds z falls with z: its lower end is the bound.
		lo, _ := at(h).Bounds(quad.Error)
		z := quad.Of(lo)
		q := probability(half.Normal(z.Neg()))
		phi := probability(quad.Exp(z.Mul(z).Over(-2).Sub(quad.HalfLn2Pi())))
		return normalExcess(lo, q, phi).timesDelay(sd)
	}}
	return c.model(g)
}

// normalExcess is what exceeds z in standard deviations, with Q = 1 − Φ(z) and the density
// φ(z): E[Z−z; Z>z] = φ − zQ and E[(Z−z)²; Z>z] = (1+z²)Q − zφ.
func normalExcess(z float64, q, phi Bounds) excess {
	mean, second := phi.Hi, mulUp(addUp(1, mulUp(z, z)), q.Hi)
	if z >= 0 {
		mean, second = subUp(mean, mulDown(z, q.Lo)), subUp(second, mulDown(z, phi.Lo))
	} else {
		mean, second = addUp(mean, mulUp(-z, q.Hi)), addUp(second, mulUp(-z, phi.Hi))
	}
	return excess{max(0, mean), rootUp(max(0, second))}
}

// timesDelay is e·t for a t ≥ 0.
func (e excess) timesDelay(t time.Duration) excess {
	return excess{mulUp(float64(t), e.mean), mulUp(float64(t), e.rms)}
}
