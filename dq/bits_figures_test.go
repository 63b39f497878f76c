package dq

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/beamscope/beamscope/dq/internal/quad"
)

func bitsOfRounding(c *corpus) {
	for _, f := range []struct {
		name string
		f    func(a, b float64) float64
	}{
		{"mulDown", mulDown}, {"mulUp", mulUp}, {"addDown", addDown}, {"addUp", addUp}, {"subDown", subDown}, {"subUp", subUp},
	} {
		for _, a := range bitsFloats {
			var out []float64
			for _, b := range bitsFloats {
				out = append(out, f.f(a, b))
				if f.name != "mulDown" && f.name != "mulUp" {
					out = append(out, f.f(-a, b), f.f(-a, -b))
				}
			}
			c.of("%s %x", f.name, a)(out)
		}
		r := rand.New(rand.NewPCG(2, 1))
		for _, scale := range []int{0, -480, -960, -1020} {
			var out []float64
			for range 60 {
				a, b := math.Ldexp(r.Float64(), scale-r.IntN(4)), r.Float64()
				if f.name != "mulDown" && f.name != "mulUp" {
					b = math.Ldexp(b, scale-r.IntN(60))
				}
				out = append(out, f.f(a, b), f.f(b, a))
			}
			c.of("%s at 2^%d", f.name, scale)(out)
		}
	}
	r := rand.New(rand.NewPCG(2, 2))
	for _, a := range bitsFloats {
		var quotients []Bounds
		var lower, upper, sums []float64
		var exact []bool
		for _, b := range bitsFloats {
			sums = append(sums, sumError(a, b, a+b), sumError(a, -b, a-b))
			exact = append(exact, exactProduct(a, b))
			if b > 0 && !math.IsInf(a, 0) {
				quotients, lower, upper = append(quotients, div(a, b)), append(lower, divDown(a, b)), append(upper, divUp(a, b))
			}
		}
		for range 10 {
			b := r.Float64()
			quotients = append(quotients, div(a, b), Bounds{a, a + 1}.Over(b))
		}
		c.of("div %x", a)(quotients, lower, upper)
		c.of("sumError %x", a)(sums)
		c.of("exactProduct %x", a)(exact)
		c.of("root %x", a)(rootDown(a), rootUp(a))
		c.of("next to %x", a)(down(a), up(a), nextIf(a, true), nextIf(a, false), previousIf(max(a, 1), true), previousIf(a, false))
	}
	var roots []float64
	for _, x := range drawFloats(r, 40) {
		roots = append(roots, rootDown(x), rootUp(x), rootDown(x*x), rootUp(x*x), rootDown(x*tiny), rootUp(x*tiny))
	}
	c.of("roots")(roots)
	c.of("bit")(bit(true), bit(false))
	var sum accumulator
	for _, x := range append(drawFloats(r, 50), 1e16, -1e16, 1e-20, -3, 1e300, -1e300) {
		sum.add(x)
	}
	c.of("accumulator")(sum, sum.sum())
	for n := range 5 {
		c.of("ulps %d", n)(ulps(n))
	}
	for _, p := range []float64{0, 1e-300, 5e-13, 1e-12, 2e-12, 3e-12, 0.07, 0.5, 1} {
		less := lessTolerance(p)
		c.of("tolerance %v", p)(less, AtLeast(less, p), AtLeast(math.Nextafter(less, -1), p), AtLeast(math.Nextafter(less, 1), p),
			AtLeast(p, p), AtLeast(p/2, p), AtLeast(0, p), AtLeast(math.NaN(), p))
	}
	for _, b := range []Bounds{{0, 1}, {0.25, 0.25}, {0.1, 0.7}, {-3, 1.0 / 3}, {-2, -0.1}, {-1.0 / 3, 0.3}, {-0.3, 1.0 / 3}, {0, 0}, {-0.7, 0}} {
		c.of("bounds %v", b)(b.Width(), b.Mid(), b.Contains(b.Lo), b.Contains(b.Hi), b.Contains(b.Mid()), b.Contains(math.Nextafter(b.Lo, -9)),
			b.Contains(math.Nextafter(b.Hi, 9)), b.minus(0.1), b.minus(3), b.square())
		if b.Lo >= 0 {
			c.of("positive bounds %v", b)(b.Over(3), b.Over(0.1), b.opposite(), b.product(Bounds{0.1, 1.0 / 3}), b.product(b), b.root())
		}
	}
	for _, v := range []Interval{{0, 0}, {3, 9}, {3, Unreached}, {3, Unreached - 1}} {
		c.of("interval %v", v)(v.Finite(), v.Contains(2), v.Contains(3), v.Contains(4), v.Contains(8), v.Contains(9), v.Contains(10), v.Contains(0), v.Contains(Unreached))
	}
	c.of("limits")(Tolerance, int64(Unreached), int64(MinWidth), int64(MaxWidth), MaxBins, MaxBaseBins, MaxExponent, int64(MaxModelDelay), MaxAttempts,
		uint64(MaxInstances), MaxWindow, Z68, Z95, RunChance, tiny, underflow, stageError, maxTwinDifference, maxCached, maxDeconvolved, weightSlack)
}

func bitsOfGrids(c *corpus) {
	for _, w := range []time.Duration{-1, 0, MinWidth - 1, MinWidth, MinWidth + 1, ms, MaxWidth - 1, MaxWidth, MaxWidth + 1} {
		c.of("checkWidth %d", w)(checkWidth(w))
		for _, n := range []int{-1, 0, 1, 2, MaxBins - 1, MaxBins, MaxBins + 1} {
			c.of("NewGrid %d %d", w, n)(NewGrid(w, n))
		}
	}
	for _, base := range []time.Duration{0, MinWidth - 1, MinWidth, MinWidth + 1, 1024 * MinWidth, 1023 * MinWidth, ms, MaxWidth >> 10, MaxWidth>>10 + 1, MaxWidth >> 3,
		MaxWidth>>3 + 1, MaxWidth >> 1, MaxWidth>>1 + 1, MaxWidth, MaxWidth + 1, MaxWidth << 3} {
		for _, exponent := range []int{-12, -11, -10, -9, -3, -1, 0, 1, 3, 9, 10, 11, 12} {
			c.of("BaseGrid %d %d", base, exponent)(pairsOf(func(n int) (Grid, error) { return BaseGrid(base, exponent, n) }, -1, 0, 1, 2, MaxBaseBins, MaxBaseBins+1)...)
			if exponent >= -MaxExponent && exponent <= MaxExponent {
				c.of("scaleByPower %d %d", base, exponent)(scaleByPower(base, exponent))
			}
		}
	}
	for _, dMax := range []time.Duration{-1, 0, 1, 7, ms, 65536 * MinWidth, 65537 * MinWidth, 100 * ms, math.MaxInt64, MaxBins * MaxWidth} {
		c.of("DMaxGrid %d", dMax)(pairsOf(func(n int) (Grid, error) { return DMaxGrid(dMax, n) }, -1, 0, 1, 2, 3, 100, 1000, MaxBins, MaxBins+1)...)
	}
	for _, g := range []Grid{{}, bitsGrid(ms, 1), bitsGrid(ms, 2), bitsGrid(7*MinWidth, 50), bitsGrid(MaxWidth, MaxBins)} {
		c.of("methods of %v", g)(g.Width(), g.Bins(), g.DMax(), g.Edge(-1), g.Edge(0), g.Edge(1), g.Edge(7), g.valid(), g.String())
		for i, t := range []time.Duration{-1, 0, 1, g.width - 1, g.width, g.width + 1, g.DMax() - 1, g.DMax(), g.DMax() + 1} {
			if g.valid() {
				c.of("Bin of %v: delay %d, %d", g, i, t)(g.Bin(t))
			}
		}
	}
	c.of("Bin of zero grid")(Grid{}.Bin(0))
}

// pairsOf returns the results of f for each argument.
func pairsOf[A, R any](f func(A) (R, error), args ...A) []any {
	var out []any
	for _, a := range args {
		x, err := f(a)
		out = append(out, x, err)
	}
	return out
}

func bitsOfDelays(c *corpus) {
	for _, text := range []string{
		"", "0", "1", "1ms", "1.5ms", "0.6ns", ".5us", "1.5us", "1h30m", "-3ms", "-0.5ns", "+2s", "1e3s", "9223372036854775807ns", "9223372036854775808ns",
		"-9223372036854775808ns", "2562047h47m16.854775807s", "2562047h47m16.8547758071s", "0.1s", "0.0000000001s", "1.0ns", "1.0000000001s", "5µs", "5μs", "1m0.5s",
		"1h0.0000000000001h", "00.5us", "1.s", "--1s", "1 ms", "-0", "+0", "0s", "1h2m3s4ms5us6ns", "0.333333333333333333h", "1ms1ms", "3ns",
		"-1.0000000001s", "-1h30m", "1.5", "ms",
	} {
		c.of("ParseDelay %q", text)(ParseDelay(text))
	}
	for _, text := range []string{"", "0", "1ms", "-1.5h", "+.25us3ns", "5µs", "1m1s"} {
		c.of("nanoseconds %q", text)(nanoseconds(text).String())
	}
	for _, d := range []time.Duration{
		0, 1, 9, 10, 999, 1000, 1001, 1010, 999_999, ms, ms + 1, ms + 500_000, 10 * ms, 100 * ms, time.Second - 1, time.Second, time.Second + 1, 1500 * ms, 59_900 * ms,
		time.Minute - 1, time.Minute, time.Minute + 1, 61 * time.Second, 90 * time.Second, 2 * time.Minute, 59 * time.Minute, time.Hour - 1, time.Hour, time.Hour + 1,
		61 * time.Minute, 90 * time.Minute, 2 * time.Hour, 25 * time.Hour, math.MaxInt64,
	} {
		c.of("FormatDelay %d", d)(FormatDelay(d), decimal(d, time.Microsecond), decimal(d, time.Second))
	}
}

// bitsExcesses are excesses of all sizes.
var bitsExcesses = []excess{{}, {1, 2}, {1.0 / 3, 0.7}, {0, 1e-300}, {1e-300, 1e-200}, {1e6 + 0.1, 3e6 + 0.7}, {3, math.Inf(1)}, {math.Inf(1), math.Inf(1)}}

func bitsOfMoments(c *corpus) {
	for _, x := range moreOperands() {
		c.of("Moments of %s", x.name)(x.x.Moments())
		if x.x.Empty() {
			continue
		}
		for _, f := range []struct {
			name string
			c    conditional
		}{{"late", late(x.x)}, {"early", early(x.x)}} {
			n := x.x.Bins()
			c.of("%s %s", f.name, x.name)(f.c.success, f.c.late, f.c.mean())
			if f.c.success == 0 {
				continue
			}
			var each []float64
			for k := range n + 1 {
				each = append(each, f.c.tail(k), f.c.head(k))
			}
			for k := range min(n, 7) + 1 {
				each = append(each, f.c.above(k), f.c.below(k))
			}
			c.of("tails, %s %s", f.name, x.name)(each)
		}
		var near []int
		for _, m := range []Bounds{{0, 0}, {0.2, 0.9}, {0.4999, 0.5}, {0.5, 0.5}, {1.2, 2.8}, {1.5, 1.5}, {2.5, math.Inf(1)}, {3, 9}} {
			if x.x.Bounded() && math.IsInf(m.Hi, 1) {
				continue // a bounded ΔQ has a finite mean
			}
			near = append(near, x.x.edgeNear(m))
		}
		c.of("edgeNear of %s", x.name)(near)
		if n := x.x.Bins(); n > 0 && x.x.hi[n] > 0 && x.x.lo[n] > 0 {
			c.of("secondMoment of %s", x.name)(secondMoment(late(x.x), early(x.x), 0, 0.1), secondMoment(late(x.x), early(x.x), n/2, 0), secondMoment(late(x.x), early(x.x), n, 1.0/3))
		}
		var beyond []excess
		for _, e := range bitsExcesses {
			beyond = append(beyond, e.inBins(x.x))
		}
		c.of("inBins of %s", x.name)(beyond)
	}
	r := rand.New(rand.NewPCG(3, 2))
	for i := range 12 {
		d := drawRaw(r, ms, i)
		d.lo[i] = max(d.lo[i], 0.1)
		d.hi[i] = 1
		d.excess = excess{1e6 * r.Float64(), 2e6 * r.Float64()}
		c.of("Moments without end, %d", i)(d.Moments())
	}
	for _, e := range bitsExcesses {
		var sums, scaled []excess
		var second []float64
		for _, x := range bitsExcesses {
			sums = append(sums, e.plus(x))
		}
		for _, p := range []float64{0, 1e-300, 0.1, 1.0 / 3, 1} {
			scaled = append(scaled, e.scaled(p), e.given(p))
		}
		for _, n := range []int{0, 1, 2, 3, 1000} {
			scaled = append(scaled, e.times(n), e.timesDelay(time.Duration(n)))
		}
		for _, n := range []int{-2, -1, 0, 1, 2, 7} {
			second = append(second, e.second(n))
		}
		c.of("excess %v", e)(sums, scaled, second, e.positive())
	}
	r = rand.New(rand.NewPCG(3, 1))
	for i := range 12 {
		lo, shift := r.Float64(), r.Float64()-0.5
		second, mean := Bounds{lo, lo + r.Float64()}, Bounds{shift, shift + r.Float64()/2}
		c.of("variance %d", i)(variance(second, mean), second.root(), mean.square(), second.minus(shift), mulOutwards(lo, second.Hi, true), mulOutwards(lo, second.Hi, false))
	}
	c.of("unbounded")(unbounded())
}

func bitsOfModels(c *corpus) {
	c.of("atoms")(Never(), Unknown(), Immediate())
	grids := []Grid{{}, bitsGrid(ms, 1), bitsGrid(ms, 10), bitsGrid(700*time.Microsecond, 3)}
	most := uint64(MaxInstances)
	for _, g := range grids {
		for _, t := range []time.Duration{-1, 0, 1, ms - 1, ms, ms + 1, 2 * ms, 2100 * time.Microsecond, 14*ms + 3, MaxModelDelay + 1} {
			c.of("Wait %v %d", g, t)(Wait(g, t))
		}
		for _, span := range [][2]time.Duration{{0, 0}, {-1, -1}, {-1, 1}, {1, 0}, {0, 1}, {0, ms - 1}, {0, ms}, {1, ms + 1}, {ms, 3 * ms}, {ms + 1, 3*ms - 1}, {2 * ms, 2 * ms}, {ms / 2, 9*ms + 7},
			{3 * ms, MaxModelDelay + 1}} {
			c.of("Uniform %v %d", g, span)(Uniform(g, span[0], span[1]))
		}
		for i, steps := range [][]Step{
			nil, {{0, 0}}, {{0, 1}}, {{0, 0.5}}, {{ms, 0}}, {{1, 0.5}}, {{ms - 1, 0.5}, {ms, 0.6}}, {{ms, 0.5}, {ms + 1, 0.6}}, {{0, 0.1}, {ms, 0.1}, {2 * ms, 0.1}},
			{{ms, 0.2}, {2 * ms, 0.2}, {3*ms + 1, 0.7}, {9 * ms, 0.7}}, {{ms, -0.1}}, {{ms, 1.1}}, {{ms, math.NaN()}}, {{-1, 0.5}}, {{ms, 0.5}, {ms, 0.6}}, {{ms, 0.5}, {ms - 1, 0.6}},
			{{ms, 0.5}, {2 * ms, 0.4}}, {{ms, 0.5}, {2 * ms, 2}}, {{ms, 1}, {MaxModelDelay + 1, 1}}, {{0, 0}, {1, 1}}, {{1, 0}, {2, 1.0 / 3}, {5*ms + 1, 2.0 / 3}},
		} {
			c.of("Steps %v, %d", g, i)(Steps(g, steps))
		}
		for i, points := range [][]BoundedStep{
			nil, {{0, 0, 0}}, {{0, 0, 1}}, {{0, 1, 1}}, {{ms, 0.2, 0.4}}, {{ms, 0.4, 0.2}}, {{ms, 0.2, 0.4}, {2 * ms, 0.5, 0.45}}, {{ms, 0.2, 0.4}, {2 * ms, 0.1, 0.5}}, {{ms, 0.2, 0.4}, {2 * ms, 0.3, 0.3}},
			{{ms, 0.2, 0.4}, {ms, 0.3, 0.5}}, {{-1, 0.2, 0.4}}, {{ms, -0.2, 0.4}}, {{ms, 0.2, 1.4}}, {{0, 0.1, 0.2}, {ms - 1, 0.1, 0.3}, {ms, 0.2, 0.4}, {ms + 1, 0.3, 0.5}, {4*ms + 1, 0.9, 1}},
			{{ms, 0.5, 0.5}, {3 * ms, 0.5, 0.5}, {5 * ms, 0.5, 0.5}}, {{ms, 0, 0}, {3 * ms, 0.2, 0.2}}, {{ms, 0.1, 1}, {MaxModelDelay + 1, 0.1, 1}}, {{2 * ms, 0.3, 0.3}, {4 * ms, 0.3, 0.8}, {6 * ms, 0.8, 0.8}},
		} {
			c.of("Envelope %v, %d", g, i)(Envelope(g, points))
		}
		for i, s := range []struct {
			delays   []time.Duration
			failures uint64
		}{
			{nil, 0}, {nil, 1}, {nil, most}, {nil, most + 1}, {[]time.Duration{1}, most}, {[]time.Duration{1}, most - 1}, {[]time.Duration{0}, 0}, {[]time.Duration{-1}, 0},
			{[]time.Duration{ms}, 0}, {[]time.Duration{ms - 1}, 2}, {[]time.Duration{ms + 1, ms, ms - 1, ms, 0}, 0}, {[]time.Duration{5 * ms, ms, 3 * ms}, 4}, {[]time.Duration{MaxModelDelay + 1}, 0},
			{[]time.Duration{0, 0, 2 * ms}, 1}, {nil, ^uint64(0)}, {[]time.Duration{1}, ^uint64(0)}, {[]time.Duration{1, 2}, ^uint64(0)},
		} {
			c.of("Samples %v, %d", g, i)(Samples(g, s.delays, s.failures))
			for _, alpha := range []float64{0.05, 0.999999} {
				c.of("ConfidentSamples %v, %d, %v", g, i, alpha)(ConfidentSamples(g, s.delays, s.failures, alpha))
			}
		}
		for _, t := range [][2]time.Duration{{0, 0}, {0, 1}, {-1, 1}, {0, MaxModelDelay}, {0, MaxModelDelay + 1}, {0, ms * MaxBins}, {0, ms*MaxBins + 1}, {0, ms * 2 * MaxBins}, {0, ms*2*MaxBins + 1}} {
			d, err := newModel(g, t[0], t[1])
			c.of("newModel %v %d", g, t)(d.Width(), d.Bins(), err)
		}
	}
	for _, a := range []time.Duration{0, 1, 2, 6, 7, 8} {
		c.of("ceilDiv %d", a)(ceilDiv(a, 1), ceilDiv(a, 2), ceilDiv(a, 7))
	}
	steps := []Step{{1, 0.2}, {2, 0.4}, {3, 0.9}}
	c.of("stepValue")(stepValue(steps, 0), stepValue(steps, 1), stepValue(steps, 2), stepValue(steps, 3))
}

func bitsOfContinuous(c *corpus) {
	grids := []Grid{{}, bitsGrid(ms, 1), bitsGrid(ms, 9), bitsGrid(30*ms, 4), bitsGrid(MinWidth, 3)}
	delays := []time.Duration{-1, 0, 1, 100, 3 * ms, 7*ms + 5, MaxModelDelay, MaxModelDelay + 1}
	for _, g := range grids {
		for _, mean := range delays {
			c.of("Exponential %v %d", g, mean)(Exponential(g, mean))
		}
		for _, shaped := range []struct {
			name   string
			model  func(Grid, time.Duration, float64) (*DeltaQ, error)
			shapes []float64
		}{
			{"Gamma", Gamma, []float64{0.3, 1, 2, 7.7}},
			{"Weibull", Weibull, []float64{0.5, 1, 2.2}},
			{"Pareto", Pareto, []float64{0.9, 1, 1.5, 2, 2.2, 7}},
			{"LogNormal", LogNormal, []float64{0.3, 1.1}},
		} {
			for _, mean := range delays {
				for _, shape := range shaped.shapes {
					c.of("%s %v %d %v", shaped.name, g, mean, shape)(shaped.model(g, mean, shape))
				}
			}
		}
		for _, mean := range []time.Duration{-1, 0, 3 * ms, MaxModelDelay, MaxModelDelay + 1} {
			for _, sd := range []time.Duration{-1, 0, 1, 2 * ms, 50 * ms, MaxModelDelay, MaxModelDelay + 1} {
				c.of("Normal %v %d %d", g, mean, sd)(Normal(g, mean, sd))
			}
		}
	}
	for _, g := range []Grid{bitsGrid(MaxModelDelay/128, 128), bitsGrid(MaxModelDelay/128, 129)} {
		c.of("Exponential %v", g)(Exponential(g, MaxModelDelay/50))
		c.of("Normal %v", g)(Normal(g, MaxModelDelay/3, MaxModelDelay/50))
		c.of("Pareto %v", g)(Pareto(g, MaxModelDelay, 3))
		c.of("Weibull %v", g)(Weibull(g, MaxModelDelay/50, 3))
	}
	g := bitsGrid(ms, 5)
	below := func(x float64) float64 { return math.Nextafter(x, 0) }
	above := func(x float64) float64 { return math.Nextafter(x, math.Inf(1)) }
	for _, s := range []float64{math.NaN(), -1, 0, below(minShape), minShape, maxShape, above(maxShape), below(minPower), minPower, maxPower, above(maxPower), below(minSigma), minSigma, maxSigma, above(maxSigma)} {
		if !(s > maxPower && s < above(maxShape)) { // these take long
			c.of("Gamma of shape %v", s)(Gamma(g, 2*ms, s))
		}
		c.of("Weibull of shape %v", s)(Weibull(g, 2*ms, s))
		c.of("Pareto of shape %v", s)(Pareto(g, 2*ms, s))
		c.of("LogNormal of sigma %v", s)(LogNormal(g, 2*ms, s))
		c.of("checkShape %v", s)(checkShape("x", s, minShape, maxShape), checkShape("x", s, minPower, maxPower), checkShape("x", s, minSigma, maxSigma))
	}
	c.of("checkMean")(pairsOf(func(t time.Duration) (bool, error) { return true, checkMean("x", t) }, -1, 0, 1, MaxModelDelay, MaxModelDelay+1)...)
	for _, x := range []quad.Number{{}, quad.Of(1e-300), quad.Of(0x1p-900), quad.Of(0x1p-880), quad.Of(1e-30), quad.Of(0.1), quad.Of(1).Over(3), quad.Of(1), quad.Of(1).Over(3).Add(quad.Of(1)).Sub(quad.Of(1).Over(3)), quad.Of(-0.25), quad.Of(7)} {
		c.of("of the number %x %x", x.Hi, x.Lo)(probability(x), relative(x), positiveAt(-1, relative(x)), positiveAt(0, relative(x)), positiveAt(1, relative(x)))
	}
	for _, shape := range []float64{0.5, 1, 3, 400} {
		for _, x := range []float64{1e-9, 0.5, 1, 1.0526, 5, 1e3, 1e9} {
			c.of("power %v %v", x, shape)(power(quad.Of(x), shape))
		}
	}
	c.of("power at the limit")(power(quad.Exp(quad.Of(20)), 1), power(quad.Exp(quad.Of(19.999)), 1), power(quad.Exp(quad.Of(20.001)), 1))
	for _, t := range []time.Duration{0, 1, ms} {
		c.of("ratio %d", t)(ratio(t, 3), ratio(t, 7*ms))
	}
	for _, h := range []time.Duration{0, 1, 3 * ms, MaxModelDelay} {
		for _, shape := range []float64{0.5, 1, above(1), 1.3, 2, above(2), 3.7, 9} {
			c.of("paretoExcess %d %v", h, shape)(paretoExcess(h, 1, shape), paretoExcess(h, 0.3, shape), paretoExcess(h, 1e-300, shape))
		}
		for i, m := range []partialMoments{{}, {{0.1, 0.2}, {0.3, 0.4}, {0.5, 0.6}}, {{1, 1}, {1e6, 1e6 + 1}, {2e12, 2e12 + 1}}, {{1.0 / 3, 1.0 / 3}, {1e6 / 3.0, 1e6 / 3.0}, {1e12 / 0.7, 1e12 / 0.7}}, {{0, 0x1p-90}, {0, 0x1p-40}, {0, 0x1p-10}}} {
			c.of("partialMoments %d beyond %d", i, h)(m.excess(h))
		}
	}
	for _, z := range []float64{-40, -3.3, -1, -0x1p-60, 0, 0x1p-60, 0.1, 1.0 / 3, 2.7, 40} {
		c.of("normalExcess %v", z)(normalExcess(z, Bounds{0.1, 0.3}, Bounds{0.2, 0.7}), normalExcess(z, Bounds{1.0 / 3, 1.0 / 3}, Bounds{0.37, 0.37}), normalExcess(z, Bounds{0, 0x1p-90}, Bounds{0, 0x1p-91}))
	}
}
