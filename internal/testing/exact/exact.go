// Package exact works out outcome diagrams exactly, to check packages dq and diagram.
//
// It shares no code with them and uses other methods: masses at points in time instead
// of bounds on distribution functions, whole numbers of any size instead of floats, and
// the meaning of each operator instead of its formula. It is slow, and for tests only.
package exact

import (
	"math"
	"math/big"
	"slices"
)

// A Dist is the exact distribution of the delay of an outcome that may fail: a probability for each
// delay, in whole ticks from 0 on. The caller chooses the length of a tick. The rest of the
// probabilities to 1 is failure.
//
// All probabilities have one denominator, so no operator needs a common divisor.
type Dist struct {
	mass  []*big.Int // by tick; not longer than needed
	whole *big.Int   // the denominator, above 0
}

// Never is the outcome that always fails.
func Never() Dist { return Dist{whole: big.NewInt(1)} }

// At is the outcome that always takes t ticks.
func At(t int) Dist {
	d := zeros(t+1, big.NewInt(1))
	d.mass[t].SetInt64(1)
	return d
}

// New returns the distribution with a probability for each tick. None is negative, and
// their sum is at most 1.
func New(probabilities []*big.Rat) Dist {
	whole := big.NewInt(1)
	for _, p := range probabilities {
		whole = leastCommonMultiple(whole, p.Denom())
	}
	d := zeros(len(probabilities), whole)
	for t, p := range probabilities {
		d.mass[t].Mul(p.Num(), new(big.Int).Quo(whole, p.Denom()))
	}
	return d.trimmed()
}

func zeros(n int, whole *big.Int) Dist {
	d := Dist{make([]*big.Int, n), whole}
	for t := range d.mass {
		d.mass[t] = new(big.Int)
	}
	return d
}

func leastCommonMultiple(a, b *big.Int) *big.Int {
	m := new(big.Int).Mul(a, b)
	return m.Quo(m, new(big.Int).GCD(nil, nil, a, b))
}

// trimmed drops the ticks at the end that have no mass.
func (d Dist) trimmed() Dist {
	n := len(d.mass)
	for n > 0 && d.mass[n-1].Sign() == 0 {
		n--
	}
	d.mass = d.mass[:n]
	return d
}

// Len is the number of ticks up to the slowest success, which is at tick Len − 1.
func (d Dist) Len() int { return len(d.mass) }

// Success is the probability of success.
func (d Dist) Success() Share { return Share{d.sum(len(d.mass)), d.whole} }

// Failure is the probability of failure.
func (d Dist) Failure() Share {
	return Share{new(big.Int).Sub(d.whole, d.sum(len(d.mass))), d.whole}
}

// sum is the mass of the first n ticks.
func (d Dist) sum(n int) *big.Int {
	sum := new(big.Int)
	for _, m := range d.mass[:min(n, len(d.mass))] {
		sum.Add(sum, m)
	}
	return sum
}

// Within returns the probabilities of success within 0, 1, … ticks, n of them.
func (d Dist) Within(n int) []Share {
	shares, sum := make([]Share, n), new(big.Int)
	for t := range shares {
		if t < len(d.mass) {
			sum.Add(sum, d.mass[t])
		}
		shares[t] = Share{new(big.Int).Set(sum), d.whole}
	}
	return shares
}

// Quantile returns the smallest number of ticks within which the probability of success is at least
// p; false if there is none.
func (d Dist) Quantile(p float64) (int, bool) {
	for t, f := range d.Within(max(1, len(d.mass))) {
		if f.Cmp(p) >= 0 {
			return t, true
		}
	}
	return 0, false
}

// A Share is an exact probability, as a fraction that is not reduced.
type Share struct{ part, whole *big.Int }

// Cmp compares s with a finite x: it is negative for s < x, 0 for s = x and positive for
// s > x.
func (s Share) Cmp(x float64) int {
	fraction, exponent := math.Frexp(x)
	scaled := new(big.Int).Mul(big.NewInt(int64(fraction*0x1p53)), s.whole) // times 2^(exponent−53)
	part := s.part
	if exponent -= 53; exponent < 0 {
		part = new(big.Int).Lsh(part, uint(-exponent))
	} else {
		scaled.Lsh(scaled, uint(exponent))
	}
	return part.Cmp(scaled)
}

// Minus is s − x, to 50 digits and then rounded to the nearest float64.
func (s Share) Minus(x float64) float64 {
	q := new(big.Float).SetPrec(precision).SetInt(s.part)
	q.Quo(q, new(big.Float).SetPrec(precision).SetInt(s.whole))
	difference, _ := q.Sub(q, big.NewFloat(x)).Float64()
	return difference
}

// precision of differences, in bits: enough for a difference of 1e-50 from 1.
const precision = 256

// Float64 is the float64 next to s.
func (s Share) Float64() float64 { return s.Minus(0) }

// Mean returns the mean delay of a success in ticks; false if there is no success.
func (d Dist) Mean() (*big.Rat, bool) {
	sum, successes := new(big.Int), d.sum(len(d.mass))
	if successes.Sign() == 0 {
		return nil, false
	}
	for t, m := range d.mass {
		sum.Add(sum, new(big.Int).Mul(m, big.NewInt(int64(t))))
	}
	return new(big.Rat).SetFrac(sum, successes), true
}

// Scale is the outcome that is tried with probability p and fails otherwise.
func (d Dist) Scale(p *big.Rat) Dist { return d.scale(Share{p.Num(), p.Denom()}) }

func (d Dist) scale(p Share) Dist {
	out := zeros(len(d.mass), new(big.Int).Mul(d.whole, p.whole))
	for t, m := range d.mass {
		out.mass[t].Mul(m, p.part)
	}
	return out.trimmed()
}

// Later is the outcome that starts t ticks later.
func (d Dist) Later(t int) Dist {
	out := zeros(len(d.mass)+t, d.whole)
	for i, m := range d.mass {
		out.mass[i+t].Set(m)
	}
	return out.trimmed()
}

// or returns the outcome that is one of two mutually exclusive outcomes: their masses are added.
func (d Dist) or(x Dist) Dist {
	whole := leastCommonMultiple(d.whole, x.whole)
	out := zeros(max(len(d.mass), len(x.mass)), whole)
	for _, y := range []Dist{d, x} {
		factor := new(big.Int).Quo(whole, y.whole)
		for t, m := range y.mass {
			out.mass[t].Add(out.mass[t], new(big.Int).Mul(m, factor))
		}
	}
	return out.trimmed()
}

// Sequence is the outcome of two that follow each other.
func Sequence(x, y Dist) Dist {
	out := zeros(max(0, len(x.mass)+len(y.mass)-1), new(big.Int).Mul(x.whole, y.whole))
	if len(x.mass) == 0 || len(y.mass) == 0 {
		return Never()
	}
	product := new(big.Int)
	for i, p := range x.mass {
		for j, q := range y.mass {
			out.mass[i+j].Add(out.mass[i+j], product.Mul(p, q))
		}
	}
	return out.trimmed()
}

// Choice is the outcome that is one of several, with probabilities in the ratio of the
// weights.
func Choice(weights []*big.Rat, xs []Dist) Dist {
	sum := new(big.Rat)
	for _, w := range weights {
		sum.Add(sum, w)
	}
	out := Never()
	for i, x := range xs {
		out = out.or(x.Scale(new(big.Rat).Quo(weights[i], sum)))
	}
	return out
}

// First returns the delay of the faster of two outcomes that start together: one of them takes t,
// and the other takes t, takes longer, or fails.
func First(x, y Dist) Dist {
	return together(x, y, func(a, b *tally) *big.Int {
		sum := new(big.Int).Mul(a.now, b.now)
		sum.Add(sum, new(big.Int).Mul(a.now, b.not))
		return sum.Add(sum, new(big.Int).Mul(a.not, b.now))
	})
}

// All is the outcome of two outcomes that start together and must both succeed: one of them takes
// t, and the other takes at most t.
func All(x, y Dist) Dist {
	return together(x, y, func(a, b *tally) *big.Int {
		sum := new(big.Int).Mul(a.now, b.now)
		sum.Add(sum, new(big.Int).Mul(a.now, b.before))
		return sum.Add(sum, new(big.Int).Mul(a.before, b.now))
	})
}

// A tally divides the executions of an outcome at a tick: those done before it, those done at it,
// and those not done yet, which may be done later or fail.
type tally struct{ before, now, not *big.Int }

// together combines two outcomes that start together. now returns the mass of the result at a tick.
func together(x, y Dist, now func(a, b *tally) *big.Int) Dist {
	n := max(len(x.mass), len(y.mass))
	out := zeros(n, new(big.Int).Mul(x.whole, y.whole))
	a, b := newTally(x), newTally(y)
	for t := range out.mass {
		a.advance(x, t)
		b.advance(y, t)
		out.mass[t] = now(a, b)
	}
	return out.trimmed()
}

func newTally(d Dist) *tally {
	return &tally{new(big.Int), new(big.Int), new(big.Int).Set(d.whole)}
}

func (a *tally) advance(d Dist, t int) {
	a.before.Add(a.before, a.now)
	a.now = new(big.Int)
	if t < len(d.mass) {
		a.now.Set(d.mass[t])
	}
	a.not.Sub(a.not, a.now)
}

// Timeout is the outcome that fails if it takes longer than t ticks.
func (d Dist) Timeout(t int) Dist {
	d.mass = slices.Clone(d.mass[:min(t+1, len(d.mass))])
	return d.trimmed()
}

// Retry is the outcome that is tried up to attempts times, each given up after t ticks.
func (d Dist) Retry(t, attempts int) Dist {
	once := d.Timeout(t)
	out, failure := once, once.Failure()
	for range attempts - 1 {
		out = once.or(out.Later(t).scale(failure))
	}
	return out
}

// Overlap is the outcome of several attempts: another one starts every t ticks, and earlier ones go
// on. The first to succeed counts.
func (d Dist) Overlap(t, attempts int) Dist {
	out := d
	for i := range attempts - 1 {
		out = First(out, d.Later((i+1)*t))
	}
	return out
}
