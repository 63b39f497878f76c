package dq

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/beamscope/beamscope/dq/internal/quad"
)

// Arithmetic on bounds contains the results of the same arithmetic on rationals, and is wider
// only by rounding.
func TestArithmeticOfBoundsInRationals(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	for range 500 {
		b, x, by := drawBounds(r), drawBounds(r), r.Float64()*1e9
		one := big.NewRat(1, 1)
		between(t, "over", b.Over(by), ratQuo(rat(b.Lo), rat(by)), ratQuo(rat(b.Hi), rat(by)))
		between(t, "product", b.product(x), ratMul(rat(b.Lo), rat(x.Lo)), ratMul(rat(b.Hi), rat(x.Hi)))
		between(t, "opposite", b.opposite(), ratSub(one, rat(b.Hi)), ratSub(one, rat(b.Lo)))
		m := b.minus(by)
		between(t, "minus", m, ratSub(rat(b.Lo), rat(by)), ratSub(rat(b.Hi), rat(by)))
		between(t, "square", b.square(), ratMul(rat(b.Lo), rat(b.Lo)), ratMul(rat(b.Hi), rat(b.Hi)))
		beneath(t, "root: Lo", b.root().Lo, rat(b.Lo), 2)
		above(t, "root: Hi", b.root().Hi, rat(b.Hi), 2)
		wide := Bounds{b.Hi + x.Lo, b.Hi + x.Hi + 1}
		v := variance(wide, b)
		beneath(t, "variance: Lo", v.Lo, ratSub(rat(wide.Lo), ratMul(rat(b.Hi), rat(b.Hi))), 1)
		above(t, "variance: Hi", v.Hi, ratSub(rat(wide.Hi), ratMul(rat(b.Lo), rat(b.Lo))), 1)
		// Sums of three terms: F at 0 and at 1 of two bins, around the edge between them.
		late := conditional{[]float64{b.Lo, x.Lo, 1}, 1, true}
		early := conditional{[]float64{b.Hi, x.Hi, 1}, 1, false}
		second := secondMoment(late, early, 1, by)
		beneath(t, "second moment: Lo", second.Lo, ratAdd(ratSub(one, rat(x.Hi)), rat(b.Lo)), 1)
		above(t, "second moment: Hi", second.Hi, ratAdd(ratAdd(ratSub(one, rat(x.Lo)), rat(b.Hi)), rat(by)), 1)
		second = secondMoment(late, early, 1, 0)
		above(t, "second moment without excess", second.Hi, ratAdd(ratSub(one, rat(x.Lo)), rat(b.Hi)), 1)
		distance := r.IntN(100)
		above(t, "second without rms", excess{by, 0}.second(distance), ratMul(rat(by), big.NewRat(int64(2*distance), 1)), 1)
		negative := Bounds{-b.Hi, -b.Lo}
		between(t, "square below 0", negative.square(), ratMul(rat(b.Lo), rat(b.Lo)), ratMul(rat(b.Hi), rat(b.Hi)))
	}
}

// drawBounds draws bounds from 0 to 1.
func drawBounds(r *rand.Rand) Bounds {
	lo, hi := r.Float64()*r.Float64(), r.Float64()*r.Float64() // more digits than numbers near 1 have
	return Bounds{min(lo, hi), max(lo, hi)}
}

// between fails unless b contains lo and hi, and is wider only by rounding.
func between(t *testing.T, name string, b Bounds, lo, hi *big.Rat) {
	t.Helper()
	beneath(t, name+": Lo", b.Lo, lo, 1)
	above(t, name+": Hi", b.Hi, hi, 1)
}

// beneath fails unless x^power is at most want, and no more than rounding below it.
func beneath(t *testing.T, name string, x float64, want *big.Rat, power int) {
	t.Helper()
	got := rat(x)
	if power == 2 {
		got = ratMul(got, got)
	}
	if off := ratSub(want, got); off.Sign() < 0 || toFloat(off) > 0x1p-45*math.Abs(toFloat(want))+1e-300 {
		t.Fatalf("%s: %v to the power of %d is below %v by %v", name, x, power, toFloat(want), toFloat(off))
	}
}

// conditionalInRationals is a conditional without rounding.
type conditionalInRationals struct {
	f       []*big.Rat
	success *big.Rat
}

// tail returns 1 − F/s at edge k, in [0, 1].
func (c conditionalInRationals) tail(k int) *big.Rat { return ratSub(big.NewRat(1, 1), c.head(k)) }

// head returns F/s at edge k, in [0, 1].
func (c conditionalInRationals) head(k int) *big.Rat {
	if c.f[k].Sign() == 0 {
		return new(big.Rat)
	}
	if c.success.Cmp(c.f[k]) <= 0 {
		return big.NewRat(1, 1)
	}
	return ratQuo(c.f[k], c.success)
}

// moments returns E[T] and, around an edge, the parts of E[(T−c)²] above and below it.
func (c conditionalInRationals) moments(centre int) (mean, above, below *big.Rat) {
	mean, above, below = new(big.Rat), new(big.Rat), new(big.Rat)
	for k := range len(c.f) - 1 {
		mean = ratAdd(mean, c.tail(k))
		if k >= centre {
			above = ratAdd(above, ratMul(c.tail(k), big.NewRat(int64(2*(k-centre)+1), 1)))
		} else {
			below = ratAdd(below, ratMul(c.head(k), big.NewRat(int64(2*(centre-k)-1), 1)))
		}
	}
	return mean, above, below
}

// Moments agree with the formulas in rational arithmetic, rounded outwards by no more than
// necessary.
func TestMomentsInRationals(t *testing.T) {
	r := rand.New(rand.NewPCG(23, 24))
	for i := range 1000 {
		d := drawStairs(t, r)
		if d.hi[d.Bins()] == 0 {
			continue
		}
		if i%3 == 0 {
			d.excess = excess{r.Float64() * 1e4, r.Float64() * 1e4}
		}
		s, n := stairOf(d), d.Bins()
		late, early := late(d), early(d)
		exactLate, exactEarly := conditionalInRationals{s.lo, s.hi[n]}, conditionalInRationals{s.hi, s.lo[n]}
		for k := range n {
			above(t, "late tail", late.tail(k), exactLate.tail(k), 1)
			beneath(t, "early tail", early.tail(k), exactEarly.tail(k), 1)
			beneath(t, "late head", late.head(k), exactLate.head(k), 1)
			above(t, "early head", early.head(k), exactEarly.head(k), 1)
		}
		beyond := d.excess.inBins(d)
		if math.IsInf(beyond.mean, 1) {
			continue
		}
		width := big.NewRat(int64(d.width), 1)
		centre := r.IntN(n + 1)
		latest, aboveLate, belowLate := exactLate.moments(centre)
		earliest, aboveEarly, belowEarly := exactEarly.moments(centre)
		v, ok := d.Moments()
		if !ok {
			t.Fatal("no moments")
		}
		beneath(t, "early mean", early.mean(), earliest, 1)
		above(t, "late mean", late.mean(), latest, 1)
		above(t, "late, above", late.above(centre), aboveLate, 1)
		beneath(t, "early, above", early.above(centre), aboveEarly, 1)
		above(t, "early, below", early.below(centre), belowEarly, 1)
		beneath(t, "late, below", late.below(centre), belowLate, 1)
		beneath(t, "mean", v.Mean.Lo, ratMul(earliest, width), 1)
		above(t, "mean", v.Mean.Hi, ratMul(ratAdd(latest, rat(beyond.mean)), width), 1)
		checkDeviation(t, d, v, exactLate, exactEarly, beyond)
	}
}

// checkDeviation checks the standard deviation against the formula in rationals. If it is a
// difference of nearly equal values, few digits remain: the accuracy is then that of the second
// moment.
func checkDeviation(t *testing.T, d *DeltaQ, v Moments, late, early conditionalInRationals, beyond excess) {
	t.Helper()
	late0, _, _ := late.moments(0)
	early0, _, _ := early.moments(0)
	mean := Bounds{toFloat(early0), toFloat(late0) + beyond.mean}
	c := d.edgeNear(mean)
	_, aboveLate, belowLate := late.moments(c)
	_, aboveEarly, belowEarly := early.moments(c)
	centre := big.NewRat(int64(c), 1)
	distance := big.NewRat(int64(2*(d.Bins()-c)), 1)
	most := ratAdd(ratAdd(aboveLate, belowEarly), ratAdd(ratMul(rat(beyond.rms), rat(beyond.rms)), ratMul(distance, rat(beyond.mean))))
	least := ratAdd(aboveEarly, belowLate)
	lo, hi := ratSub(early0, centre), ratSub(ratAdd(late0, rat(beyond.mean)), centre)
	near, far := ratMul(lo, lo), ratMul(hi, hi)
	if near.Cmp(far) > 0 {
		near, far = far, near
	}
	if lo.Sign() < 0 && hi.Sign() > 0 {
		near = new(big.Rat)
	}
	width := float64(d.width)
	room := 1e-13 * (toFloat(most) + toFloat(far)) * width * width
	square := func(x float64) *big.Rat { return ratMul(rat(x), rat(x)) }
	inNs := func(x *big.Rat) *big.Rat { return ratMul(x, rat(width*width)) }
	off := ratSub(square(v.SD.Hi), inNs(ratSub(most, near)))
	if off.Sign() < 0 || toFloat(off) > room {
		t.Fatalf("standard deviation of at most %v: its square is %v too large\n%+v", v.SD.Hi, toFloat(off), d)
	}
	floor := inNs(ratSub(least, far))
	if floor.Sign() < 0 {
		floor = new(big.Rat)
	}
	off = ratSub(floor, square(v.SD.Lo))
	if off.Sign() < 0 || toFloat(off) > room {
		t.Fatalf("standard deviation of at least %v: its square is %v too small\n%+v", v.SD.Lo, toFloat(off), d)
	}
}

// A delay with an infinite mean excess has no upper bounds on its moments, even if its horizon is
// the edge nearest to the mean.
func TestMomentsOfInfiniteExcess(t *testing.T) {
	for _, bins := range []int{1, 2, 5} {
		d := must(t)(Pareto(mustGrid(t, ms, bins), time.Duration(bins)*ms, 0.5))
		v, ok := d.Moments()
		if want := float64(bins) * 1e6; !ok || v.Mean != (Bounds{want, math.Inf(1)}) || v.SD != (Bounds{0, math.Inf(1)}) {
			t.Errorf("%d bins: %+v", bins, v)
		}
	}
}

// The excess over a horizon in the formulas for Pareto and normal delays is rounded up, by no
// more than necessary.
func TestExcessOfModelsInRationals(t *testing.T) {
	r := rand.New(rand.NewPCG(25, 26))
	one, two := big.NewRat(1, 1), big.NewRat(2, 1)
	for range 500 {
		h := time.Duration(1 + r.Int64N(int64(MaxModelDelay)))
		x, left, shape := big.NewRat(int64(h), 1), r.Float64(), 2+r.ExpFloat64()
		if left == 0 || shape == 2 {
			continue
		}
		got := paretoExcess(h, left, shape)
		less := ratSub(rat(shape), one)
		above(t, "Pareto: mean", got.mean, ratQuo(ratMul(rat(left), x), less), 1)
		square := ratQuo(ratMul(ratMul(two, rat(left)), ratMul(x, x)), ratMul(less, ratSub(rat(shape), two)))
		above(t, "Pareto: rms", got.rms, square, 2)

		// Here only the division and the root are rounded.
		few := 1 + r.Int64N(1<<20)
		got = paretoExcess(time.Duration(few), 0.25, 4)
		above(t, "Pareto: mean of few digits", got.mean, big.NewRat(few, 12), 1)
		above(t, "Pareto: rms of few digits", got.rms, big.NewRat(few*few, 12), 2)

		// Here only the product of the differences, the division and the root are rounded.
		got = paretoExcess(1<<20, 0.5, shape)
		above(t, "Pareto: rms of powers of two", got.rms, ratQuo(big.NewRat(1<<40, 1), ratMul(less, ratSub(rat(shape), two))), 2)

		// The formulas subtract two terms. For a real distribution the difference is positive, so
		// only clearly positive ones are compared.
		z, q, phi := 3*r.Float64()-1.5, drawBounds(r), drawBounds(r)
		square = ratAdd(one, ratMul(rat(z), rat(z)))
		mean, second := rat(phi.Hi), ratMul(square, rat(q.Hi))
		if z >= 0 {
			mean, second = ratSub(mean, ratMul(rat(z), rat(q.Lo))), ratSub(second, ratMul(rat(z), rat(phi.Lo)))
		} else {
			mean, second = ratSub(mean, ratMul(rat(z), rat(q.Hi))), ratSub(second, ratMul(rat(z), rat(phi.Hi)))
		}
		got = normalExcess(z, q, phi)
		if mean.Cmp(big.NewRat(1, 1000)) > 0 {
			above(t, "normal: mean", got.mean, mean, 1)
		} else if got.mean < 0 {
			t.Fatalf("a mean of %v", got.mean)
		}
		if second.Cmp(big.NewRat(1, 1000)) > 0 {
			above(t, "normal: rms", got.rms, second, 2)
		}

		// Here only one product is rounded, and the root.
		below := -1.5 * r.Float64()
		above(t, "normal: mean without a density", normalExcess(below, q, Bounds{}).mean, ratMul(rat(-below), rat(q.Hi)), 1)
		above(t, "normal: rms of the density", normalExcess(below, Bounds{}, phi).rms, ratMul(rat(-below), rat(phi.Hi)), 2)
		got = excess{left, shape}.timesDelay(h)
		above(t, "of a delay: mean", got.mean, ratMul(rat(left), x), 1)
		above(t, "of a delay: rms", got.rms, ratMul(rat(shape), x), 1)
	}
	for name, tt := range map[string]struct{ got, want excess }{
		"normal, at 0":                  {normalExcess(0, Bounds{0.5, 0.5}, Bounds{0.25, 0.25}), excess{0.25, rootUp(0.5)}},
		"normal, bounds of the density": {normalExcess(2, Bounds{0.25, 0.25}, Bounds{0.5, 0.625}), excess{0.125, 0.5}},
		"normal, no negative square":    {normalExcess(3, Bounds{}, Bounds{1, 1}), excess{1, 0}},
		"normal, no negative mean":      {normalExcess(2, Bounds{0.5, 0.5}, Bounds{0.5, 0.5}), excess{0, rootUp(1.5)}},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: %v, want %v", name, tt.got, tt.want)
		}
	}
}

// The deadline of a ΔQ within bounds is the edge from which the exact function is constant. It is
// at the earliest where the upper bound reaches the lower bound of success.
func TestDeadlineWithinBounds(t *testing.T) {
	d := &DeltaQ{width: ms, lo: []float64{0, 0.25, 0.5, 0.5}, hi: []float64{0.375, 0.625, 0.625, 0.75}}
	if v, ok := d.Deadline(); !ok || v != (Interval{ms, 3 * ms}) {
		t.Errorf("within bounds: %v", v)
	}
	d.excess = excess{1, 1}
	if v, ok := d.Deadline(); !ok || v != (Interval{ms, Unreached}) {
		t.Errorf("without an end: %v", v)
	}
}

// Transforms are cached as long as there is room. If another one does not fit, all of them are
// dropped.
func TestRoomForTransforms(t *testing.T) {
	var v convolver
	const size = maxCached / 4
	for i, want := range []int{1, 2, 3, 4, 1, 2} {
		key := cacheKey{x: new(DeltaQ), size: size}
		s := v.newSpectrum(key)
		if len(s.z) != size || v.cache[key] != s || len(v.cache) != want || v.cached != want*size {
			t.Fatalf("transform %d: %d are kept, of %d numbers, want %d", i+1, len(v.cache), v.cached, want)
		}
	}
}

// A floor has a new point only if its bound rises by more than the tolerance. A requirement
// within the tolerance adds no point.
func TestFloorAtTies(t *testing.T) {
	m := must(t)
	wait := m(Wait(mustGrid(t, ms, 1), ms))
	const p = 0.2
	if p-lessTolerance(p) <= Tolerance {
		t.Fatalf("the least value that counts as %v is less by at most the tolerance", p)
	}
	for _, tt := range []struct {
		name  string
		part  *DeltaQ
		steps []Step
		want  []Step
	}{
		{"a rise of the tolerance", wait, []Step{{5 * ms, 0.25}, {10 * ms, 0.25 + Tolerance}}, []Step{{5 * ms, 0.25}}},
		{"a rise above the tolerance", wait, []Step{{5 * ms, 0.25}, {10 * ms, 0.25 + 2*Tolerance}}, []Step{{5 * ms, 0.25}, {10 * ms, 0.25 + 2*Tolerance}}},
		{"a need of the tolerance", m(Scale(wait, 0.5)), []Step{{5 * ms, Tolerance}}, nil},
		{"a need above the tolerance", m(Scale(wait, 0.5)), []Step{{5 * ms, 2 * Tolerance}}, []Step{{5 * ms, 4 * Tolerance}}},
		{"more than the part reaches, within the tolerance", m(Scale(wait, lessTolerance(p))), []Step{{5 * ms, p}}, []Step{{5 * ms, 1}}},
	} {
		q, err := NewQTA(1, tt.steps...)
		if err != nil {
			t.Fatal(err)
		}
		b, err := BudgetFor(q, tt.part)
		if err != nil || len(b.Floor) != len(tt.want) {
			t.Errorf("%s: %v, %v, want %v", tt.name, b.Floor, err, tt.want)
			continue
		}
		for i, want := range tt.want {
			if got := b.Floor[i]; got.T != want.T || math.Abs(got.P-want.P) > 1e-15 {
				t.Errorf("%s: %v, want %v", tt.name, got, want)
			}
		}
	}
}

// A Calculator detects that an operand has been replaced in the same memory by a longer or a
// shorter one. Leftover values of the old operand do not matter, for both kinds of transforms.
func TestOperandsThatChange(t *testing.T) {
	r := rand.New(rand.NewPCG(29, 30))
	observed := func() *DeltaQ { // its densities are twins
		counts := make([]uint64, 6)
		for i := range 3 + r.IntN(4) {
			counts[i] = 1 + r.Uint64N(9)
		}
		return deltaQOf(t, mustCounts(t, mustGrid(t, ms/1000, 6), counts, 0, 0))
	}
	for name, draw := range map[string]func() *DeltaQ{
		"pairs": func() *DeltaQ { return drawStairs(t, r) }, "twins": observed,
	} {
		c := &Calculator{conv: convolver{force: forceFast}}
		x, y, got, want := draw(), draw(), new(DeltaQ), new(DeltaQ)
		for range 100 {
			if err := c.Sequential(got, x, y); err != nil {
				t.Fatal(err)
			}
			if err := (&Calculator{conv: convolver{force: forceFast}}).Sequential(want, x, y); err != nil {
				t.Fatal(err)
			}
			if !got.Equal(want) {
				t.Fatalf("%s: %+v, want %+v", name, got, want)
			}
			switch next := draw(); r.IntN(4) {
			case 0:
				*x = *next
			case 1:
				*y = *next
			case 2: // only one of the two bounds
				x.lo = append([]float64(nil), x.lo...)
				for k := range x.lo {
					x.lo[k] /= 2
				}
			}
		}
	}
}

// Second moments are taken around the edge nearest to the middle of the mean. For a delay without
// an end, it is the edge nearest to the lower bound of the mean.
func TestEdgeNearTheMean(t *testing.T) {
	d := &DeltaQ{width: ms, lo: make([]float64, 10), hi: make([]float64, 10)}
	for mean, want := range map[Bounds]int{{1, 4}: 3, {1, 3.8}: 2, {1.4, 1.4}: 1, {9, 9}: 9, {0, 0}: 0} {
		if got := d.edgeNear(mean); got != want {
			t.Errorf("the edge nearest to %v is %d, want %d", mean, got, want)
		}
	}
	d.excess = excess{1, 1}
	if got := d.edgeNear(Bounds{1.4, math.Inf(1)}); got != 1 {
		t.Errorf("the edge nearest to 1.4 or later is %d, want 1", got)
	}
}

// Error margins also matter next to a float64: if a value is closer to the float64 than its
// margin, the exact value may be on the other side.
func TestMarginsAcrossAFloat(t *testing.T) {
	for _, f := range []float64{0x1p-20, 0.25, 1. / 3, 0.75} {
		for _, tt := range []struct {
			name   string
			bounds func(quad.Number) Bounds
			near   float64 // the distance of the value from f
		}{
			{"relative", relative, f * 0x1.8p-71},
			{"probability", probability, f * 0x1.8p-71},
			{"probability, by the margin of any", probability, f*0x1p-70 + 0x1p-91},
		} {
			below, above := tt.bounds(quad.Number{Hi: f, Lo: -tt.near}), tt.bounds(quad.Number{Hi: f, Lo: tt.near})
			if !(below.Hi > f) || below.Hi > up(f) || !(above.Lo < f) || above.Lo < down(f) {
				t.Errorf("%s: beside %v: %v and %v", tt.name, f, below, above)
			}
			if below.Lo != down(f) || above.Hi != up(f) {
				t.Errorf("%s: beside %v: %v and %v are wider than they need be", tt.name, f, below, above)
			}
		}
		beyond := f * 0x1.1p-70
		below, above := relative(quad.Number{Hi: f, Lo: -beyond}), relative(quad.Number{Hi: f, Lo: beyond})
		if below.Hi != f || above.Lo != f {
			t.Errorf("further from %v than the margin: %v and %v", f, below, above)
		}
		beyond += 0x1.1p-90
		below, above = probability(quad.Number{Hi: f, Lo: -beyond}), probability(quad.Number{Hi: f, Lo: beyond})
		if below.Hi != f || above.Lo != f {
			t.Errorf("a probability further from %v than the margin: %v and %v", f, below, above)
		}
	}
}

// once returns an outcome that takes no time and succeeds with a probability within b.
func once(b Bounds) *DeltaQ { return &DeltaQ{width: ms, lo: []float64{b.Lo}, hi: []float64{b.Hi}} }

// On outcomes that take no time, the operators agree with rational arithmetic on the
// probabilities, rounded outwards by no more than necessary.
func TestOperatorsInRationals(t *testing.T) {
	r := rand.New(rand.NewPCG(33, 34))
	m, one := must(t), big.NewRat(1, 1)
	either := func(a, b float64) *big.Rat { return ratSub(ratAdd(rat(a), rat(b)), ratMul(rat(a), rat(b))) }
	both := func(a, b float64) *big.Rat { return ratMul(rat(a), rat(b)) }
	for range 1000 {
		x, y := drawBounds(r), drawBounds(r)
		if r.IntN(2) == 0 {
			x.Lo, x.Hi = x.Lo/1000, x.Hi/1000
		}
		a, b := once(x), once(y)
		between(t, "first to finish", m(FirstToFinish(a, b)).At(0), either(x.Lo, y.Lo), either(x.Hi, y.Hi))
		between(t, "all to finish", m(AllToFinish(a, b)).At(0), both(x.Lo, y.Lo), both(x.Hi, y.Hi))
		between(t, "in sequence", m(Sequential(a, b)).At(0), both(x.Lo, y.Lo), both(x.Hi, y.Hi))
		between(t, "scaled", m(Scale(a, y.Lo)).At(0), both(x.Lo, y.Lo), both(x.Hi, y.Lo))
		between(t, "tried twice", m(RetryOverlap(a, ms, 2)).At(1), either(x.Lo, x.Lo), either(x.Hi, x.Hi))
		// A retry is 1 minus the probability that all attempts fail, so its bounds allow for the
		// rounding of that difference.
		again := m(Retry(a, ms, 2)).At(1)
		least, most := ratSub(either(x.Lo, x.Lo), rat(again.Lo)), ratSub(rat(again.Hi), either(x.Hi, x.Hi))
		if least.Sign() < 0 || most.Sign() < 0 || toFloat(least) > 0x1p-51 || toFloat(most) > 0x1p-51 {
			t.Fatalf("%v, tried again: %v", x, again)
		}

		w := []float64{r.Float64(), 0}
		w[1] = (1 - w[0]) * (1 + 1e-10*(r.Float64()-0.5))
		sum := ratAdd(rat(w[0]), rat(w[1]))
		s, err := weightSum(w)
		if err != nil {
			t.Fatal(err)
		}
		between(t, "weights", s, sum, sum)
		mean := func(a, b float64) *big.Rat { return ratQuo(ratAdd(both(w[0], a), both(w[1], b)), sum) }
		c := m(Choice(w, a, b))
		between(t, "choice", c.At(0), mean(x.Lo, y.Lo), mean(x.Hi, y.Hi))
		b.excess = excess{r.Float64() * 1e6, 0}
		above(t, "choice: excess", m(Choice(w, a, b)).excess.mean, ratQuo(ratMul(rat(b.excess.mean), rat(w[1])), sum), 1)
		failure, _ := a.IntangibleMass()
		between(t, "failure", failure, ratSub(one, rat(x.Hi)), ratSub(one, rat(x.Lo)))
	}
	// Rounding never makes a probability greater than 1.
	certain, rare := once(Bounds{1, 1}), once(Bounds{0x1p-60, 0x1p-60})
	for name, d := range map[string]*DeltaQ{
		"first": m(FirstToFinish(certain, rare)), "last": m(FirstToFinish(rare, certain)), "retry": m(Retry(rare, ms, MaxAttempts)),
		"choice": m(Choice([]float64{0.1, 0.2, 0.7}, certain, certain, certain)),
	} {
		b := d.At(d.Bins())
		if name != "retry" && b != (Bounds{1, 1}) || b.Hi > 1 || b.Lo > b.Hi {
			t.Errorf("%s: %v", name, b)
		}
	}
	if got := (&DeltaQ{width: ms, lo: []float64{0, 0}, hi: []float64{0x1p-60, 1}}).overlapUp(3*ms, ms, 3); got != 1 {
		t.Errorf("overlapping, nearly certain: %v", got)
	}
}

// The distribution functions of Uniform and Samples agree with rational arithmetic, rounded
// outwards.
func TestSharesInRationals(t *testing.T) {
	r := rand.New(rand.NewPCG(35, 36))
	m, g := must(t), mustGrid(t, MinWidth, 1)
	for range 100 {
		from := time.Duration(r.Int64N(20_000))
		to := from + 1 + time.Duration(r.Int64N(20_000))
		d := m(Uniform(g, from, to))
		share := func(at time.Duration) *big.Rat { return big.NewRat(int64(min(max(at, from), to)-from), int64(to-from)) }
		for k := range d.Bins() {
			between(t, "uniform", d.At(k), share(d.edge(k)), share(d.edge(k+1)))
		}
		if n := d.Bins(); d.At(n) != (Bounds{1, 1}) || d.edge(n) < to || n > 0 && d.edge(n-1) >= to {
			t.Fatalf("%v to %v: %v at %v", from, to, d.At(n), d.edge(n))
		}

		delays := make([]time.Duration, 1+r.IntN(20))
		for i := range delays {
			delays[i] = time.Duration(r.Int64N(5_000))
		}
		failures := r.Uint64N(5)
		d = m(Samples(g, delays, failures))
		count := func(until time.Duration) *big.Rat {
			n := int64(0)
			for _, at := range delays {
				if at < until {
					n++
				}
			}
			return big.NewRat(n, int64(len(delays))+int64(failures))
		}
		for k := range d.Bins() + 1 {
			between(t, "samples", d.At(k), count(d.edge(k)+1), count(d.edge(k+1)))
		}
		if n := d.Bins(); n > 0 && d.lo[n-1] == d.hi[n] {
			t.Fatalf("nothing happens in the last bin of %+v", d)
		}
	}
	// All delays are just before the edge. The last bin contains nothing that was not already
	// certain before it.
	if d := m(Samples(g, []time.Duration{0, 0}, 0)); d.Bins() != 0 {
		t.Errorf("delays of 0: %+v", d)
	}
	if d := m(Samples(g, []time.Duration{0, 5 * MinWidth}, 0)); d.Bins() != 5 {
		t.Errorf("a delay on an edge: %+v", d)
	}
}

// Retry rounds the share that remains after some attempts outwards. A retry is never worse than
// its last attempt.
func TestLeftAfterAttempts(t *testing.T) {
	r := rand.New(rand.NewPCG(37, 38))
	one := big.NewRat(1, 1)
	for range 2000 {
		left, f := r.Float64(), r.Float64()*r.Float64()
		if r.IntN(2) == 0 {
			left = 1 - 0x1p-53*float64(1+r.IntN(3))
		}
		exact := ratSub(one, ratMul(rat(left), ratSub(one, rat(f))))
		least, most := afterDown(left, f), afterUp(left, f)
		if rat(least).Cmp(exact) > 0 || rat(most).Cmp(exact) < 0 || least < f || most > 1 || most-least > 0x1p-50 {
			t.Fatalf("%v left, %v succeed: %v to %v", left, f, least, most)
		}
	}
	for left, want := range map[float64]float64{0: 1, 1: 0.3} {
		if least, most := afterDown(left, 0.3), afterUp(left, 0.3); least != want || most != want {
			t.Errorf("%v left: %v to %v, want %v", left, least, most, want)
		}
	}
}

// The failure of a budget is rounded down, so that the part with this failure still meets the
// requirement.
func TestFailureOfABudgetIsRoundedDown(t *testing.T) {
	r := rand.New(rand.NewPCG(39, 40))
	m := must(t)
	for range 1000 {
		p := r.Float64() * r.Float64()
		reached := p + (1-p)*r.Float64()
		q, err := NewQTA(1, Step{ms, p})
		if err != nil {
			t.Fatal(err)
		}
		b, err := BudgetFor(q, m(Scale(Immediate(), reached)))
		if err != nil {
			t.Fatal(err)
		}
		exact := ratSub(big.NewRat(1, 1), ratQuo(rat(p), rat(reached)))
		if off := ratSub(exact, rat(b.Failure)); off.Sign() < 0 || toFloat(off) > 0x1p-50 {
			t.Fatalf("%v of %v: a failure of %v, want %v", p, reached, b.Failure, toFloat(exact))
		}
	}
}

// An atom is exactly one delay, or a failure.
func TestAtom(t *testing.T) {
	m, g := must(t), mustGrid(t, ms, 1)
	for _, tt := range []struct {
		d    *DeltaQ
		k    int
		mass Bounds
		want bool
	}{
		{Immediate(), 0, Bounds{1, 1}, true}, {Never(), 0, Bounds{}, true}, {m(Wait(g, 5*ms)), 5, Bounds{1, 1}, true},
		{m(Scale(m(Wait(g, 5*ms)), 0.5)), 5, Bounds{0.5, 0.5}, true}, {m(Wait(g, 5*ms-1)), 0, Bounds{}, false},
		{m(Uniform(g, 0, 2*ms)), 0, Bounds{}, false}, {m(Exponential(g, ms)), 0, Bounds{}, false},
	} {
		if k, mass, ok := tt.d.atom(); k != tt.k || mass != tt.mass || ok != tt.want {
			t.Errorf("%v: %v bins, %v, %v", tt.d, k, mass, ok)
		}
	}
}

// A transform is cached and reused as long as the operand stays the same.
func TestTransformsAreCached(t *testing.T) {
	var v convolver
	x := must(t)(Uniform(mustGrid(t, ms, 1), 0, 5*ms))
	for _, p := range []packing{packPair, packTwin} {
		s := v.spectrum(x, v.plan(16), p)
		norm := s.norm
		s.norm = 99 // a marker
		if again := v.spectrum(x, v.plan(16), p); again != s || again.norm != 99 {
			t.Errorf("packing %v: the transform is computed again", p)
		}
		x.hi = append([]float64(nil), x.hi...)
		x.hi[1] /= 2
		if again := v.spectrum(x, v.plan(16), p); again != s || again.norm == 99 || again.norm == norm {
			t.Errorf("packing %v: another operand has a norm of %v", p, again.norm)
		}
	}
}

// Both ways to extract values from a transform replace negative values by 0, because the exact
// values are not negative.
func TestNoNegativeValues(t *testing.T) {
	z := []complex128{complex(4, -8), complex(-12, 16)}
	re, im := make([]float64, 2), make([]float64, 2)
	split(re, im, z)
	if re[0] != 2 || im[0] != 0 || re[1] != 0 || im[1] != 8 {
		t.Errorf("%v and %v", re, im)
	}
	for n, want := range map[int][]float64{4: {2, 0, 0, 8}, 3: {2, 0, 0}, 1: {2}} {
		dst := make([]float64, n)
		interleave(dst, z)
		for i := range dst {
			if dst[i] != want[i] {
				t.Errorf("%v, want %v", dst, want)
			}
		}
	}
}

// The cheaper method is the direct one for few bins and the fast one for many. For operands of
// the same length, the limit is at about 50 bins.
func TestCheaperMethod(t *testing.T) {
	m := must(t)
	r := rand.New(rand.NewPCG(41, 42))
	draw := func(bins int) *DeltaQ { // lower and upper densities that are not twins
		points := make([]BoundedStep, bins)
		for i := range points {
			lo := (float64(i) + r.Float64()) / float64(bins)
			points[i] = BoundedStep{ms * time.Duration(i+1), lo, (lo + 1) / 2}
		}
		return m(Envelope(mustGrid(t, ms, 1), points))
	}
	twins := func(bins int) *DeltaQ { return random(t, r, bins) }
	for _, tt := range []struct {
		name   string
		xs     []*DeltaQ
		direct bool
	}{
		{"few bins", []*DeltaQ{draw(20), draw(20)}, true}, {"many bins", []*DeltaQ{draw(300), draw(300)}, false},
		{"few bins before many", []*DeltaQ{draw(4), draw(3000)}, true}, {"few bins after many", []*DeltaQ{draw(3000), draw(4)}, true},
		{"three with few bins", []*DeltaQ{draw(12), draw(12), draw(12)}, true}, {"three with many bins", []*DeltaQ{draw(200), draw(200), draw(200)}, false},
		{"twins of few bins", []*DeltaQ{twins(20), twins(20)}, true}, {"twins of many bins", []*DeltaQ{twins(300), twins(300)}, false},
	} {
		var cheapest, direct, fast convolver
		direct.force, fast.force = forceDirect, forceFast
		got, byDirect, byFast := cheapest.densities(tt.xs).err, direct.densities(tt.xs).err, fast.densities(tt.xs).err
		if byDirect == byFast || (got == byDirect) != tt.direct || (got == byFast) == tt.direct {
			t.Errorf("%s: an error of %v, by the direct method %v, by transforms %v", tt.name, got, byDirect, byFast)
		}
	}
}

// The band of two different windows has finite bounds that surround the mean.
func TestBandOfTwoWindows(t *testing.T) {
	g := mustGrid(t, ms, 2)
	w, err := NewWindow(g, 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []uint64{190, 210} {
		if err := w.Insert(mustCounts(t, g, []uint64{n, 400 - n}, 0, 0)); err != nil {
			t.Fatal(err)
		}
	}
	var b Band
	if err := w.WriteBand(&b, 0.5); err != nil || !(b.Lo[1] > 0 && b.Lo[1] < 0.5 && b.Hi[1] > 0.5 && b.Hi[1] < 1) {
		t.Errorf("%+v, %v", b, err)
	}
}

// Samples do not prove that no success comes later, so the mean of a band has no upper bound.
func TestConfidentSamplesHaveNoEnd(t *testing.T) {
	d, err := ConfidentSamples(mustGrid(t, ms, 1), []time.Duration{ms, 2 * ms}, 0, 0.5)
	if err != nil || d.Bounded() {
		t.Fatalf("%+v, %v", d, err)
	}
	if v, ok := d.Moments(); !ok || !math.IsInf(v.Mean.Hi, 1) || !math.IsInf(v.SD.Hi, 1) {
		t.Errorf("%+v", v)
	}
}

// If a sample is used k times, the mean of the result has a bias of (k−1)/2m, times the weight of
// the sample.
func TestSamplingAddsUp(t *testing.T) {
	var s Sampling
	s.Add(0.5, 3, 100)
	if want := (Sampling{0.25 / 100, 0.5 * 2 / 2 / 100}); s != want {
		t.Errorf("%+v, want %+v", s, want)
	}
	s.Add(1, 0.5, 10) // below a choice, used less than once
	s.Add(1, 1, 10)
	if want := (Sampling{0.25/100 + 0.1 + 0.1, 0.005}); math.Abs(s.Square-want.Square) > 1e-15 || s.Bias != want.Bias {
		t.Errorf("%+v, want %+v", s, want)
	}
}

// MaxInstances is the largest number up to which every count is exact as a float64.
func TestCountsAreExact(t *testing.T) {
	if most := uint64(MaxInstances); uint64(float64(most-1)) != most-1 || uint64(float64(most+1)) == most+1 {
		t.Errorf("%d instances", most)
	}
}

// The last term of the mean square beyond a horizon is rounded up even if the other terms are 0.
func TestPartialMomentsOfLongHorizons(t *testing.T) {
	r := rand.New(rand.NewPCG(43, 44))
	for range 300 {
		h, p := time.Duration(r.Int64N(int64(MaxModelDelay))), r.Float64()
		x := big.NewRat(int64(h), 1)
		above(t, "rms", partialMoments{{p, p}}.excess(h).rms, ratMul(ratMul(x, x), rat(p)), 2)
	}
}

// If many delays exceed a horizon, the excess is the integral of the survival function of another
// library.
func TestExcessEqualsIntegral(t *testing.T) {
	m := must(t)
	g := mustGrid(t, ms, 15)
	for name, tt := range map[string]struct {
		d        *DeltaQ
		survival func(ms float64) float64
	}{
		"exponential":          {m(Exponential(g, 10*ms)), distuv.Exponential{Rate: 0.1}.Survival},
		"gamma":                {m(Gamma(g, 10*ms, 2.5)), distuv.Gamma{Alpha: 2.5, Beta: 0.25}.Survival},
		"weibull":              {m(Weibull(g, 10*ms, 1.5)), distuv.Weibull{K: 1.5, Lambda: 10}.Survival},
		"log-normal":           {m(LogNormal(g, 10*ms, 0.7)), distuv.LogNormal{Mu: math.Log(10), Sigma: 0.7}.Survival},
		"normal":               {m(Normal(g, 10*ms, 5*ms)), distuv.Normal{Mu: 10, Sigma: 5}.Survival},
		"normal, mostly above": {m(Normal(g, 20*ms, 5*ms)), distuv.Normal{Mu: 20, Sigma: 5}.Survival},
	} {
		const horizon, step = 15.0, 1e-3
		var mean, square float64
		for u := step / 2; u < 8; u += step { // t = 15·exp(u)
			at, dt := horizon*math.Exp(u), horizon*(math.Exp(u+step/2)-math.Exp(u-step/2))
			mean += tt.survival(at) * dt
			square += 2 * (at - horizon) * tt.survival(at) * dt
		}
		rms := math.Sqrt(square)
		if got := tt.d.excess; math.Abs(got.mean/1e6-mean) > 1e-5*mean || math.Abs(got.rms/1e6-rms) > 1e-5*rms {
			t.Errorf("%s: %v and %v ms, want %v and %v", name, got.mean/1e6, got.rms/1e6, mean, rms)
		}
	}
}

// The deadline is in the last bin that contains a success.
func TestDeadlineBeforeEmptyBins(t *testing.T) {
	o := mustCounts(t, mustGrid(t, ms, 5), []uint64{0, 1, 2, 0, 0}, 0, 0)
	if v, ok := o.Deadline(); !ok || v != (Interval{2 * ms, 3 * ms}) {
		t.Errorf("%v, %v", v, ok)
	}
	if v, ok := o.Earliest(); !ok || v != (Interval{ms, 2 * ms}) {
		t.Errorf("%v, %v", v, ok)
	}
	for _, p := range []float64{-0.5, math.Nextafter(0, -1), math.Nextafter(1, 2), 1.5, math.NaN()} {
		if v, ok := o.Quantile(p); ok {
			t.Errorf("quantile %v: %v", p, v)
		}
	}
}

// BaseGrid and NewGrid have the same limit for the widest bins.
func TestWidestBaseGrid(t *testing.T) {
	for exponent := range 4 {
		base := MaxWidth >> exponent
		if g, err := BaseGrid(base, exponent, 1); err != nil || g.Width() != base<<exponent {
			t.Errorf("2^%d: %v, %v", exponent, g, err)
		}
		if g, err := BaseGrid(base+1, exponent, 1); err == nil {
			t.Errorf("2^%d: %v is accepted", exponent, g)
		}
	}
}

// A quotient replaces negative values by 0 if they result from rounding alone. If a value is more
// negative, there is no quotient.
func TestQuotientIsNotNegative(t *testing.T) {
	for v, want := range map[float64]bool{-1e-10: true, -1e-9: true, -1.1e-9: false, 0: true} {
		r := []float64{0.5, v, 0.25}
		if got := isQuotient([]float64{0.5, 0, 0.25}, []float64{1}, r); got != want || want && r[1] != 0 {
			t.Errorf("%v: %v, %v", v, got, r)
		}
	}
}

// The margin of the requirement on success is calculated from the failure, 1 − success, rounded
// outwards.
func TestFailureOfAVerdict(t *testing.T) {
	r := rand.New(rand.NewPCG(45, 46))
	q, err := NewQTA(0)
	if err != nil {
		t.Fatal(err)
	}
	for range 500 {
		b := drawBounds(r)
		p := q.final(once(b))
		between(t, "lack", Bounds{-p.Probability.Hi, -p.Probability.Lo}, ratSub(big.NewRat(1, 1), rat(b.Hi)), ratSub(big.NewRat(1, 1), rat(b.Lo)))
	}
}

// If several points have the same hazard, the first one is reported.
func TestHazardOfEqualMargins(t *testing.T) {
	q, err := NewQTA(1, Step{ms, 0.5}, Step{2 * ms, 0.5}, Step{3 * ms, 0.375})
	if err != nil {
		t.Fatal(err)
	}
	j, err := q.Judge(once(Bounds{0.25, 0.25}))
	if err != nil || j.Hazard.Probability != 0.25 || j.Hazard.ProbabilityAt != 0 {
		t.Errorf("%+v, %v", j.Hazard, err)
	}
}

// A sequence with an outcome that never succeeds is never, even if its parts have no end.
func TestNeverInSequence(t *testing.T) {
	m := must(t)
	g := mustGrid(t, ms, 8)
	endless := m(Exponential(g, 2*ms))
	lost := m(AllToFinish(endless, Never()))
	for _, xs := range [][]*DeltaQ{{lost, endless}, {endless, lost, endless}, {lost, Immediate()}, {lost}} {
		if d := m(Sequential(xs...)); !d.Equal(Never()) {
			t.Errorf("%v in sequence: %v, no end %v", xs, d, !d.Bounded())
		}
	}
}

// No distance has a chance of exactly RunChance. The chance depends only on the quotient of
// distance and spread, and decreases with it. The test checks all adjacent float64 quotients
// around the limit.
func TestNoChanceEqualsRunChance(t *testing.T) {
	x := math.Sqrt(math.Log(2/RunChance) / 2)
	for range 50 {
		x = math.Nextafter(x, 0)
	}
	if chance(x, 1, 0) <= RunChance {
		t.Fatal("begins too late")
	}
	for range 100 {
		if x = math.Nextafter(x, 2); chance(x, 1, 0) == RunChance {
			t.Errorf("%x has the chance of runs", x)
		}
	}
	if chance(x, 1, 0) >= RunChance {
		t.Fatal("ends too early")
	}
}
