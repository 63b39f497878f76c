package dq

import "math"

// Moments are those of the delay of an execution that succeeds. Each is bounds
// that contain the exact figure. The Hi of a moment that is not known to be
// finite, or that is a ratio to what may be 0, is +Inf.
type Moments struct {
	Mean     Bounds // in seconds
	Variance Bounds // in seconds squared
	Skewness Bounds // third standardised moment; 0 for a symmetric distribution
	Kurtosis Bounds // fourth standardised moment, not the excess; 3 for a normal one
}

// Moments returns the moments of the delay on condition of success. It is false
// where no execution succeeds, and without data.
//
// The mean of a bounded delay is ∫(1 − F/s) with s the success probability; the
// higher moments come from the parts of (T−c)^m above and below a centre c in the
// middle of the bounds of the mean, each of which grows with T, or falls with it.
// Where d is not Bounded, only the mean has a finite upper bound.
func (d *DeltaQ) Moments() (Moments, bool) {
	n := d.Bins()
	if d.Empty() || d.hi[n] == 0 {
		return Moments{}, false
	}
	// All in bins from here on.
	late := conditional{f: d.lo, success: d.hi[n]}
	early := conditional{f: d.hi, success: d.lo[n]}
	mean := widened(Bounds{early.mean(), late.mean()}, n)
	if d.excess > 0 {
		mean.Hi += d.excess / float64(d.width) / d.lo[n] * (1 + 1e-12)
	}
	c := mean.Mid()
	if !d.Bounded() {
		c = mean.Lo // Mid may be far off, or infinite
	}
	var central [5]Bounds // E[(T−c)^m]
	for m := 2; m <= 4; m++ {
		central[m] = about(early, late, c, m, n)
		if !d.Bounded() {
			central[m].Hi = math.Inf(1)
		}
	}
	unit := d.width.Seconds()
	out := standardise(mean.sub(c), central)
	out.Mean = mean.inUnits(unit)
	out.Variance = out.Variance.inUnits(unit * unit)
	return out, true
}

// A conditional is a step function on edges divided by a success probability: a
// bound on the distribution of the delay on condition of success.
type conditional struct {
	f       []float64
	success float64
}

// tail is 1 − F/s at edge k, in [0, 1].
func (c conditional) tail(k int) float64 {
	if c.success <= c.f[k] && c.f[k] > 0 {
		return 0
	}
	if c.success == 0 {
		return 1
	}
	return (c.success - c.f[k]) / c.success // not 1 − …, which would cancel
}

// head is F/s at edge k, in [0, 1].
func (c conditional) head(k int) float64 {
	if c.success <= c.f[k] && c.f[k] > 0 {
		return 1
	}
	if c.success == 0 {
		return 0
	}
	return c.f[k] / c.success
}

// mean is the mean in bins.
func (c conditional) mean() float64 {
	var a accumulator
	for k := range len(c.f) - 1 {
		a.add(c.tail(k))
	}
	return a.sum()
}

// above is E[max(0, T−c)^m]: the sum of the tail times what the power grows by
// over each bin.
func (c conditional) above(centre float64, m int) float64 {
	var a accumulator
	for k := max(0, int(centre)); k < len(c.f)-1; k++ {
		lower, upper := max(0, float64(k)-centre), float64(k+1)-centre
		a.add(c.tail(k) * (power(upper, m) - power(lower, m)))
	}
	return a.sum()
}

// below is E[max(0, c−T)^m].
func (c conditional) below(centre float64, m int) float64 {
	var a accumulator
	for k := 0; k < len(c.f) && float64(k) < centre; k++ {
		upper, lower := centre-float64(k), max(0, centre-float64(k+1))
		a.add(c.head(k) * (power(upper, m) - power(lower, m)))
	}
	return a.sum()
}

func power(x float64, m int) float64 {
	out := 1.0
	for range m {
		out *= x
	}
	return out
}

// about bounds E[(T−c)^m]. What lies above the centre is greatest for late delays,
// what lies below it for early ones.
func about(early, late conditional, c float64, m, n int) Bounds {
	above := widened(Bounds{early.above(c, m), late.above(c, m)}, n)
	below := widened(Bounds{late.below(c, m), early.below(c, m)}, n)
	if m%2 == 1 {
		return Bounds{above.Lo - below.Hi, above.Hi - below.Lo}
	}
	return Bounds{above.Lo + below.Lo, above.Hi + below.Hi}
}

// widened makes up for the rounding of a sum of non-negative terms over n bins,
// each a tail or head times a difference of powers. Only the latter cancels, at
// worst by a factor of n.
func widened(b Bounds, n int) Bounds {
	relative := float64(n+16) * 0x1p-50
	return Bounds{max(0, b.Lo*(1-relative)), b.Hi * (1 + relative)}
}

// standardise makes variance, skewness and kurtosis of the moments about a centre,
// given the mean's distance from it.
func standardise(e Bounds, about [5]Bounds) Moments {
	e2 := e.square()
	e3 := Bounds{power(e.Lo, 3), power(e.Hi, 3)}
	e4 := e2.square()
	variance := about[2].minus(e2).atLeast(0)
	third := about[3].minus(e.times(about[2]).scale(3)).plus(e3.scale(2))
	fourth := about[4].minus(e.times(about[3]).scale(4)).plus(e2.times(about[2]).scale(6)).minus(e4.scale(3)).atLeast(0)
	sd := Bounds{math.Sqrt(variance.Lo), math.Sqrt(variance.Hi)}
	return Moments{
		Variance: variance,
		Skewness: third.over(sd.times(variance)).wider(),
		Kurtosis: fourth.over(variance.square()).wider().atLeast(1),
	}
}

// Interval arithmetic. The results are rounded to nearest; wider makes up for it.

func (b Bounds) wider() Bounds {
	margin := 1e-12 * max(math.Abs(b.Lo), math.Abs(b.Hi))
	if math.IsInf(margin, 0) {
		margin = 0
	}
	return Bounds{b.Lo - margin, b.Hi + margin}
}

// inUnits is b·x, not negative, rounded outwards: it may be too small for all the
// digits of a float64.
func (b Bounds) inUnits(x float64) Bounds { return Bounds{max(0, down(b.Lo*x)), up(b.Hi * x)} }

func (b Bounds) sub(x float64) Bounds     { return Bounds{b.Lo - x, b.Hi - x} }
func (b Bounds) scale(x float64) Bounds   { return Bounds{b.Lo * x, b.Hi * x} } // x ≥ 0
func (b Bounds) plus(x Bounds) Bounds     { return Bounds{b.Lo + x.Lo, b.Hi + x.Hi} }
func (b Bounds) minus(x Bounds) Bounds    { return Bounds{b.Lo - x.Hi, b.Hi - x.Lo} }
func (b Bounds) atLeast(x float64) Bounds { return Bounds{max(x, b.Lo), max(x, b.Hi)} }

func (b Bounds) square() Bounds {
	s := Bounds{b.Lo * b.Lo, b.Hi * b.Hi}
	if s.Lo > s.Hi {
		s.Lo, s.Hi = s.Hi, s.Lo
	}
	if b.Lo < 0 && b.Hi > 0 {
		s.Lo = 0
	}
	return s
}

func (b Bounds) times(x Bounds) Bounds {
	p, q, r, s := zeroTimes(b.Lo, x.Lo), zeroTimes(b.Lo, x.Hi), zeroTimes(b.Hi, x.Lo), zeroTimes(b.Hi, x.Hi)
	return Bounds{min(p, q, r, s), max(p, q, r, s)}
}

// zeroTimes is a·b, and 0 for 0·∞: the infinite end is a bound, never reached.
func zeroTimes(a, b float64) float64 {
	if a == 0 || b == 0 {
		return 0
	}
	return a * b
}

// over is b/x for x ≥ 0; anything where x may be 0.
func (b Bounds) over(x Bounds) Bounds {
	if x.Lo <= 0 {
		out := Bounds{math.Inf(-1), math.Inf(1)}
		if b.Lo >= 0 {
			out.Lo = 0
		}
		return out
	}
	out := b.times(Bounds{1 / x.Hi, 1 / x.Lo})
	if math.IsNaN(out.Lo) || math.IsNaN(out.Hi) {
		return Bounds{math.Inf(-1), math.Inf(1)}
	}
	return out
}
