package dq

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/beamscope/beamscope/dq/internal/quad"
)

// The error bound of the fast method is that of the theorem, within a factor of three. Real
// errors are far smaller, so tests of results cannot show that the bound is right.
func TestFastErrorMatchesTheorem(t *testing.T) {
	const u = 0x1p-53
	gamma := func(n float64) float64 { return n * u / (1 - n*u) }
	eta := u + gamma(4)*(math.Sqrt2+u) // for twiddle factors within u
	for _, tt := range []struct {
		operands, length, size int
		norms, least           float64
	}{
		{2, 2, 2, 2, 1},
		{2, 300, 512, 1.5, 0.5},
		{3, 1000, 1024, 0.3, 0.01},
		{20, 5000, 8192, 4, 0.1},
		{2, MaxBins, MaxBins, 2, 1},
		{500, MaxBins, MaxBins, 30, 0.01},
	} {
		stages := math.Log2(float64(tt.size))
		transform := stages * eta / (1 - stages*eta)
		products := math.Sqrt2 * gamma(2) * float64(tt.operands-1)
		want := math.Sqrt(float64(tt.length)) * (tt.norms*transform + tt.least*(transform+products))
		got := fastError(tt.operands, tt.length, tt.size, tt.norms, tt.least)
		if got.absolute < want || got.absolute > 3*want+underflow {
			t.Errorf("%+v: absolute error %g, want %g", tt, got.absolute, want)
		}
		// Sums are compensated. But the mass is the product of the operands' masses, and the sum is
		// multiplied by it.
		if least := float64(tt.operands+2) * u; got.relative < least || got.relative > 16*least {
			t.Errorf("%+v: relative error %g, want at least %g", tt, got.relative, least)
		}
	}
}

// The method for twins has two products instead of one, and transforms of half the length.
func TestTwinErrorIsDoubled(t *testing.T) {
	x := random(t, rand.New(rand.NewPCG(1, 2)), 1000)
	var v convolver
	length := 2*x.Bins() - 1
	got := v.fastTwins([]*DeltaQ{x, x}, length, 1024).err
	squares, before := 0.0, 0.0
	for _, f := range x.hi {
		squares += (f - before) * (f - before)
		before = f
	}
	norm := math.Sqrt(squares)
	if want := 2 * fastError(2, length, 1024, 2*norm, norm).absolute; got.absolute < want || got.absolute > want*(1+1e-6) {
		t.Errorf("absolute error %g, want %g", got.absolute, want)
	}
}

// Functions of package quad are accurate within [quad.Error]. The bounds allow for that error,
// even if the value itself is a float64.
func TestMarginsOfFunctions(t *testing.T) {
	margin := big.NewRat(1, 1<<35)
	margin.Mul(margin, margin) // 2^-70
	for _, x := range []float64{0x1p-80, 1e-9, 0.25, 0.5, 1} {
		off := new(big.Rat).Mul(rat(x), margin)
		low, high := new(big.Rat).Sub(rat(x), off), new(big.Rat).Add(rat(x), off)
		if b := relative(quad.Of(x)); rat(b.Lo).Cmp(low) > 0 || rat(b.Hi).Cmp(high) < 0 || b.Width() > 4*0x1p-53*x {
			t.Errorf("%v within a share of itself: %v", x, b)
		}
		b := probability(quad.Of(x))
		low.Sub(low, rat(0x1p-90))
		if rat(b.Lo).Cmp(low) > 0 || x < 1 && rat(b.Hi).Cmp(high.Add(high, rat(0x1p-90))) < 0 || b.Hi > 1 || b.Width() > 4*0x1p-53*x+4*0x1p-90 {
			t.Errorf("the probability %v: %v", x, b)
		}
	}
	if b := relative(quad.Of(0)); b.Lo != 0 || b.Hi < 0x1p-900 || b.Hi > 0x1p-800 {
		t.Errorf("what may be too small to calculate: %v", b)
	}
	if b := probability(quad.Of(0)); b.Lo != 0 || b.Hi < 0x1p-90 || b.Hi > 0x1p-80 {
		t.Errorf("a probability that may be too small to calculate: %v", b)
	}
}

// The tolerance decides ties. Values that are further apart are not ties.
func TestTies(t *testing.T) {
	for _, tt := range []struct {
		x, p float64
		want bool
	}{
		{0.5, 0.5, true}, {0.6, 0.5, true}, {0.4, 0.5, false},
		{0.5 - 0.9e-12, 0.5, true}, {0.5 - 1.1e-12, 0.5, false},
		{1 - 0.9e-12, 1, true}, {1 - 1.1e-12, 1, false},
		{0, 0, true}, {0, 1e-300, false}, {0, 1e-13, false}, {0, 1e-12, false},
		{0.51e-13, 1e-13, true}, {0.49e-13, 1e-13, false}, {1.05e-12, 2e-12, true}, {0.95e-12, 2e-12, false},
	} {
		if got := AtLeast(tt.x, tt.p); got != tt.want {
			t.Errorf("AtLeast(%v, %v) = %v", tt.x, tt.p, got)
		}
	}
	d := must(t)(Steps(mustGrid(t, ms, 1), []Step{{ms, 0.3}, {3 * ms, 0.8}}))
	for _, tt := range []struct {
		p    float64
		want Interval
		ok   bool
	}{
		{0, Interval{}, true}, {1e-300, Interval{ms, ms}, true}, {0.3, Interval{ms, ms}, true}, {0.3 + 0.9e-12, Interval{ms, ms}, true},
		{0.3 + 1.1e-12, Interval{3 * ms, 3 * ms}, true}, {0.8 + 0.9e-12, Interval{3 * ms, 3 * ms}, true},
		{0.8 + 1.1e-12, Interval{}, false}, {1, Interval{}, false}, {math.Nextafter(1, 2), Interval{}, false}, {-1e-300, Interval{}, false},
		{math.NaN(), Interval{}, false},
	} {
		if got, ok := d.Quantile(tt.p); got != tt.want || ok != tt.ok {
			t.Errorf("Quantile(%v) = %v, %v, want %v, %v", tt.p, got, ok, tt.want, tt.ok)
		}
	}
}

// 0 and 1 are valid probabilities.
func TestProbabilitiesOf0And1(t *testing.T) {
	g := mustGrid(t, ms, 1)
	for _, p := range []float64{0, 1} {
		d, err := Steps(g, []Step{{ms, p}})
		if err != nil {
			t.Fatal(err)
		}
		if s, ok := d.Success(); !ok || s != (Bounds{p, p}) {
			t.Errorf("success %v, want %v", s, p)
		}
		if m, ok := d.IntangibleMass(); !ok || m != (Bounds{1 - p, 1 - p}) {
			t.Errorf("failure %v, want %v", m, 1-p)
		}
		if _, err := Scale(d, p); err != nil {
			t.Error(err)
		}
		if _, err := NewQTA(p); err != nil {
			t.Error(err)
		}
		if _, err := Choice([]float64{p, 1 - p}, d, d); err != nil {
			t.Error(err)
		}
	}
	for _, p := range []float64{-math.SmallestNonzeroFloat64, math.Nextafter(1, 2), math.Inf(1), math.NaN()} {
		if _, err := Steps(g, []Step{{ms, p}}); err == nil {
			t.Errorf("%v is accepted as a probability", p)
		}
		if _, err := Scale(Immediate(), p); err == nil {
			t.Errorf("%v is accepted as a factor", p)
		}
	}
}

// A delay without an end remains without an end after each operator, here with a horizon that
// leaves out a seventh of the successes. The moments of the results contain the exact ones.
func TestOperatorsKeepDelaysUnbounded(t *testing.T) {
	m := must(t)
	const mean = 5 * ms
	x := m(Exponential(mustGrid(t, ms/50, 500), mean)) // 10 ms: a share of e⁻² comes later
	short := m(Wait(mustGrid(t, ms/50, 1), ms))
	e := func(t float64) float64 { return math.Exp(-t / 5) }
	for name, tt := range map[string]struct {
		d        *DeltaQ
		mean, sd float64 // in milliseconds
	}{
		"itself":                        {x, 5, 5},
		"scaled":                        {m(Scale(x, 0.3)), 5, 5},
		"wider":                         {m(Rebin(x, ms)), 5, 5},
		"in sequence":                   {m(Sequential(x, x, x)), 15, 5 * math.Sqrt(3)},
		"after a delay":                 {m(Sequential(short, x)), 6, 5},
		"fastest":                       {m(FirstToFinish(x, x)), 2.5, 2.5},
		"fastest of this and never":     {m(FirstToFinish(Never(), x)), 5, 5},
		"slowest":                       {m(AllToFinish(x, x)), 7.5, 5 * math.Sqrt(1.25)},
		"slowest of this and immediate": {m(AllToFinish(Immediate(), x)), 5, 5},
		"never or this":                 {m(Choice([]float64{0.2, 0.8}, Never(), x)), 5, 5},
		"this or immediate":             {m(Choice([]float64{0.5, 0.5}, x, Immediate())), 2.5, 5 * math.Sqrt(0.75)},
		"with a timeout":                {m(Timeout(x, 30*ms)), (5 - 35*e(30)) / (1 - e(30)), math.Sqrt(25 - 900*e(30)/(1-e(30))/(1-e(30)))},
		"overlapping":                   {m(RetryOverlap(x, 2*ms, 2)), 5*(1-e(2)) + 2.5*e(2), math.NaN()},
	} {
		v, ok := tt.d.Moments()
		if !ok || !v.Mean.Contains(tt.mean*1e6) || v.Mean.Width() > 1.2*tt.mean*1e6 {
			t.Errorf("%s: a mean of %v, want %v ms", name, v.Mean, tt.mean)
		}
		if !math.IsNaN(tt.sd) && (!v.SD.Contains(tt.sd*1e6) || math.IsInf(v.SD.Hi, 1)) {
			t.Errorf("%s: a standard deviation of %v, want %v ms", name, v.SD, tt.sd)
		}
		if tt.d.Bounded() {
			t.Errorf("%s: is bounded", name)
		}
		s, _ := tt.d.Success()
		if v, ok := tt.d.Quantile(s.Hi * 0.999); !ok || v.Finite() {
			t.Errorf("%s: the quantile is %v", name, v)
		}
		if v, ok := tt.d.Deadline(); !ok || v.Finite() {
			t.Errorf("%s: the deadline is %v", name, v)
		}
	}
	for _, d := range []*DeltaQ{m(Timeout(x, x.Horizon())), m(Timeout(x, ms)), m(Retry(x, 20*ms, 2))} {
		if v, ok := d.Deadline(); !d.Bounded() || !ok || !v.Finite() {
			t.Errorf("%v has a timeout but no end: %v", d, v)
		}
	}
}

// A decimal share of the instances gives exactly that number, in spite of rounding. Half an
// instance more gives the next number.
func TestRankOfDecimals(t *testing.T) {
	g := mustGrid(t, ms, 1)
	for _, n := range []uint64{100, 700, 1e6, 1e9, 1e11} {
		o := mustCounts(t, g, []uint64{n}, 0, 0)
		for k := uint64(0); k <= 100; k++ {
			p, want := float64(k)/100, k*(n/100)
			if got, ok := o.rank(p); !ok || got != want {
				t.Errorf("rank %v of %d is %d, want %d", p, n, got, want)
			}
			if got, ok := o.rank(p + 0.5/float64(n)); k < 100 && (!ok || got != want+1) {
				t.Errorf("half an instance above rank %v of %d is %d, want %d", p, n, got, want+1)
			}
		}
	}
}

// Norms, and differences of twins, are sums of many squares or distances. Their bounds allow for
// the rounding of each addition, by 2^-53 of the sum, and for little more.
func TestRoomForSums(t *testing.T) {
	const n = MaxBins
	x := make([]float64, n)
	for i := range x {
		x[i] = 1. / 3
	}
	room := 1 + n*0x1p-53
	for name, tt := range map[string]struct{ got, exact float64 }{
		"pair": {packBoth(make([]complex128, n), x, x), math.Sqrt(2*n) / 3},
		"twin": {packEvenOdd(make([]complex128, n/2), x), math.Sqrt(n) / 3},
	} {
		if tt.got < tt.exact*room || tt.got > tt.exact*(1+1e-8) {
			t.Errorf("%s: a norm of %v, want %v and a share of %g more", name, tt.got, tt.exact, room-1)
		}
	}
	// Masses that differ by 2^-52 in every second bin, up and down.
	lo, hi := []float64{0}, []float64{0.5}
	for i := range 100 {
		v := 0.5 + float64(i)/256
		lo, hi = append(lo, v), append(hi, v+0x1p-8)
		if i%2 == 1 {
			lo[len(lo)-1] += 0x1p-52
		}
	}
	lo = append(lo, hi[len(hi)-1])
	hi = append(hi, hi[len(hi)-1])
	d := &DeltaQ{width: ms, lo: lo, hi: hi}
	exact := 0.0
	for i := 1; i < len(lo); i++ {
		exact += math.Abs((lo[i] - lo[i-1]) - (hi[i-1] - map[bool]float64{true: hi[max(0, i-2)]}[i > 1]))
	}
	if got, ok := twins([]*DeltaQ{d, d}); !ok || got < 2*exact*(1+200*0x1p-53) || got > 2*exact*(1+1e-8) || exact == 0 {
		t.Errorf("twins: a difference of %v, %v, want %v", got, ok, 2*exact)
	}
}

// An excess is an upper bound. Every operation on it rounds up, by no more than necessary.
func TestExcessInRationals(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for range 300 {
		e, x := excess{r.Float64() * 1e9, r.Float64() * 1e9}, excess{r.Float64(), r.Float64() * 1e5}
		p, n := r.Float64(), 1+r.IntN(MaxAttempts)
		above(t, "plus: mean", e.plus(x).mean, ratAdd(rat(e.mean), rat(x.mean)), 1)
		above(t, "plus: rms", e.plus(x).rms, ratAdd(rat(e.rms), rat(x.rms)), 1)
		above(t, "times: mean", e.times(n).mean, ratMul(rat(e.mean), big.NewRat(int64(n), 1)), 1)
		above(t, "times: rms", e.times(n).rms, ratMul(rat(e.rms), big.NewRat(int64(n), 1)), 1)
		square := ratMul(rat(e.rms), rat(e.rms))
		above(t, "scaled: mean", e.scaled(p).mean, ratMul(rat(e.mean), rat(p)), 1)
		above(t, "scaled: rms", e.scaled(p).rms, ratMul(square, rat(p)), 2)
		above(t, "given: mean", e.given(p).mean, ratQuo(rat(e.mean), rat(p)), 1)
		above(t, "given: rms", e.given(p).rms, ratQuo(square, rat(p)), 2)
		d := &DeltaQ{width: time.Duration(1 + r.Int64N(1e9)), lo: []float64{p / 2, p}, hi: []float64{1, 1}}
		width := big.NewRat(int64(d.width), 1)
		above(t, "in bins: mean", e.inBins(d).mean, ratQuo(rat(e.mean), ratMul(width, rat(p))), 1)
		above(t, "in bins: rms", e.inBins(d).rms, ratQuo(square, ratMul(ratMul(width, width), rat(p))), 2)
		distance := r.IntN(100)
		second := ratAdd(square, ratMul(rat(e.mean), big.NewRat(int64(2*distance), 1)))
		above(t, "second", e.second(distance), second, 1)

		h := time.Duration(r.Int64N(1e6))
		at := big.NewRat(int64(h), 1)
		m := partialMoments{{p, p * 1.5}, {2e6 * p, 3e6 * p}, {4e12 * p, 9e12 * p}}
		mean := ratSub(rat(m[1].Hi), ratMul(at, rat(m[0].Lo)))
		second = ratAdd(ratSub(rat(m[2].Hi), ratMul(ratAdd(at, at), rat(m[1].Lo))), ratMul(ratMul(at, at), rat(m[0].Hi)))
		above(t, "partial: mean", m.excess(h).mean, mean, 1)
		above(t, "partial: rms", m.excess(h).rms, second, 2)
	}
	for name, tt := range map[string]struct{ got, want excess }{
		"no excess under a condition":   {excess{}.given(0), excess{}},
		"given an impossible condition": {excess{1, 1}.given(0), unbounded()},
		"scaled by 0":                   {unbounded().scaled(0), excess{}},
		"scaled by 1":                   {excess{1, 2}.scaled(1), excess{1, 2}},
		"smallest":                      {excess{}.positive(), excess{math.SmallestNonzeroFloat64, math.SmallestNonzeroFloat64}},
		"no negative mean":              {partialMoments{{1, 1}, {1, 1}, {1, 1}}.excess(3), excess{0, 2}},
		"no negative square":            {partialMoments{{0.5, 0.5}, {1, 1}, {1, 1}}.excess(1), excess{0.5, 0}},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: %v, want %v", name, tt.got, tt.want)
		}
	}
}

// above fails unless x^power is at least want, and no more than rounding above it.
func above(t *testing.T, name string, x float64, want *big.Rat, power int) {
	t.Helper()
	got := rat(x)
	if power == 2 {
		got = ratMul(got, got)
	}
	if off := ratSub(got, want); off.Sign() < 0 || toFloat(off) > 0x1p-45*math.Abs(toFloat(want))+1e-300 {
		t.Fatalf("%s: %v to the power of %d is above %v by %v", name, x, power, toFloat(want), toFloat(off))
	}
}

// Far out in the tail of a normal delay, the excess is smaller than the margins of the functions.
// The bound on it still holds: with the density φ, E[(Z−z)^k; Z>z] is at least φ(z)·k!/z^(k+1)·(1
// − (k+1)(k+2)/2z²).
func TestExcessOfNormalTail(t *testing.T) {
	for _, z := range []float64{5, 9, 10.5, 12, 15, 30} {
		const mean, sd = ms, 1000
		bins := int(mean/1000) + int(z)
		d, err := Normal(mustGrid(t, 1000, bins), mean, sd)
		if err != nil {
			t.Fatal(err)
		}
		at := float64(d.Horizon()-mean) / sd
		density := math.Exp(-at*at/2) / math.Sqrt(2*math.Pi)
		first, second := density/(at*at)*(1-3/(at*at)), 2*density/(at*at*at)*(1-6/(at*at))
		if d.excess.mean < sd*first || d.excess.rms < sd*math.Sqrt(second) {
			t.Errorf("beyond %v: %+v, at least %g and %g", at, d.excess, sd*first, sd*math.Sqrt(second))
		}
		if d.excess.mean > 1.5*sd*first+sd*0x1p-80 || d.excess.rms > 1.5*sd*math.Sqrt(second)+sd*0x1p-37 {
			t.Errorf("beyond %v: %+v, about %g and %g", at, d.excess, sd*first, sd*math.Sqrt(second))
		}
	}
}

// A band is wider than the bounds by its half-width on either side, rounded outwards.
func TestBandInRationals(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	g := mustGrid(t, ms, 6)
	for range 50 {
		counts := make([]uint64, 6)
		for i := range counts {
			counts[i] = 1 + r.Uint64N(1000)
		}
		o := mustCounts(t, g, counts, r.Uint64N(100), 0)
		narrow := deltaQOf(t, o)
		alpha := r.Float64()
		wide, err := o.Confident(alpha)
		if err != nil {
			t.Fatal(err)
		}
		epsilon, err := Epsilon(o.Instances(), alpha)
		if err != nil || !(epsilon > 0) {
			t.Fatal(epsilon, err)
		}
		for k := range g.Bins() + 1 {
			a, b := narrow.At(k), wide.At(k)
			lo, hi := ratSub(rat(a.Lo), rat(epsilon)), ratAdd(rat(a.Hi), rat(epsilon))
			if b.Lo > 0 && rat(b.Lo).Cmp(lo) > 0 || b.Hi < 1 && rat(b.Hi).Cmp(hi) < 0 || b.Lo < toFloat(lo)-1e-15 || b.Hi > toFloat(hi)+1e-15 || b.Lo < 0 || b.Hi > 1 {
				t.Fatalf("edge %d: %v widened by %v is %v", k, a, epsilon, b)
			}
		}
	}
}

// If the horizon H of a Pareto delay is its least delay, the excess is H/(a−1) in the mean, and
// 2H²/((a−1)(a−2)) in the mean square.
func TestExcessOfPareto(t *testing.T) {
	for _, least := range []time.Duration{ms, 1000003 * 1000, 999999937, 3 * time.Hour} {
		for _, shape := range []float64{2.5, 3, 4.75, 20} {
			d, err := Pareto(mustGrid(t, 1e9, 1), least, shape)
			if err != nil {
				t.Fatal(err)
			}
			// If the horizon is later, only a share S = (least/H)^a of the delays exceeds it.
			h, s := big.NewRat(int64(d.Horizon()), 1), 1.0
			if d.Horizon() > least {
				s = math.Pow(float64(least)/float64(d.Horizon()), shape)
			}
			a := rat(shape)
			one, two := ratSub(a, big.NewRat(1, 1)), ratSub(a, big.NewRat(2, 1))
			mean := ratMul(rat(s), ratQuo(h, one))
			square := ratQuo(ratMul(rat(2*s), ratMul(h, h)), ratMul(one, two))
			near := func(name string, x float64, want float64) {
				if x < want*(1-1e-12) || x > want*(1+1e-12) || s == 1 && x < want {
					t.Errorf("%v of %v from %v: %v, want %v", name, shape, least, x, want)
				}
			}
			near("mean", d.excess.mean, toFloat(mean))
			if s == 1 {
				above(t, "mean", d.excess.mean, mean, 1)
				above(t, "rms", d.excess.rms, square, 2)
			} else {
				near("mean square", d.excess.rms*d.excess.rms, toFloat(square))
			}
		}
	}
	for shape, finite := range map[float64][2]bool{0.5: {}, 1: {}, 1.5: {true, false}, 2: {true, false}, 2.001: {true, true}} {
		d, err := Pareto(mustGrid(t, ms, 1), ms, shape)
		if err != nil || math.IsInf(d.excess.mean, 1) == finite[0] || math.IsInf(d.excess.rms, 1) == finite[1] {
			t.Errorf("shape %v: %+v, %v", shape, d.excess, err)
		}
	}
}

// Arithmetic of bounds gives the results that were worked out by hand, in cases without rounding.
func TestArithmeticOfBounds(t *testing.T) {
	b := Bounds{0.25, 0.75}
	for name, tt := range map[string]struct{ got, want Bounds }{
		"opposite":         {b.opposite(), Bounds{0.25, 0.75}},
		"opposite of 0":    {Bounds{}.opposite(), Bounds{1, 1}},
		"opposite of 1":    {Bounds{1, 1}.opposite(), Bounds{}},
		"product":          {b.product(Bounds{2, 4}), Bounds{0.5, 3}},
		"less":             {b.minus(0.5), Bounds{-0.25, 0.25}},
		"square":           {Bounds{-3, 2}.square(), Bounds{0, 9}},
		"square above 0":   {Bounds{2, 3}.square(), Bounds{4, 9}},
		"square below 0":   {Bounds{-3, -2}.square(), Bounds{4, 9}},
		"square from 0":    {Bounds{0, 3}.square(), Bounds{0, 9}},
		"square up to 0":   {Bounds{-3, 0}.square(), Bounds{0, 9}},
		"over":             {b.Over(2), Bounds{0.125, 0.375}},
		"width and middle": {Bounds{b.Width(), b.Mid()}, Bounds{0.5, 0.5}},
		"below":            {positiveAt(0, b), Bounds{}},
		"from the first":   {positiveAt(1, b), b},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: %v, want %v", name, tt.got, tt.want)
		}
	}
	third := Bounds{1. / 3, 1. / 3}
	if o := third.opposite(); rat(o.Lo).Cmp(ratSub(big.NewRat(1, 1), rat(1./3))) > 0 || rat(o.Hi).Cmp(ratSub(big.NewRat(1, 1), rat(1./3))) < 0 {
		t.Errorf("1 − 1/3 is in %v", o)
	}
	if p := third.product(third); rat(p.Lo).Cmp(ratMul(rat(1./3), rat(1./3))) > 0 || rat(p.Hi).Cmp(ratMul(rat(1./3), rat(1./3))) < 0 {
		t.Errorf("1/3 of 1/3 is in %v", p)
	}
	if b := (Bounds{1, 2}); !b.Contains(1) || !b.Contains(2) || b.Contains(math.Nextafter(1, 0)) || b.Contains(math.Nextafter(2, 3)) {
		t.Error("bounds contain their ends and nothing beyond")
	}
	if v := (Interval{1, 2}); !v.Contains(1) || !v.Contains(2) || v.Contains(0) || v.Contains(3) || !v.Finite() || (Interval{1, Unreached}).Finite() {
		t.Error("intervals contain their ends and nothing beyond")
	}
}

// Sums of MaxBins values have an error of one ulp, not of MaxBins ulps.
func TestSumUpIsExact(t *testing.T) {
	const p = 1. / 3 / MaxBins
	x := make([]float64, MaxBins)
	for i := range x {
		x[i] = p
	}
	sumUp(x)
	var a accumulator
	for k, got := range x {
		a.add(p)
		want := ratMul(rat(p), big.NewRat(int64(k+1), 1))
		for _, got := range []float64{got, a.sum()} {
			if k%97 == 0 && math.Abs(toFloat(ratSub(rat(got), want))) > 0x1p-52*toFloat(want) {
				t.Fatalf("%d values: %v, want %v", k+1, got, toFloat(want))
			}
		}
	}
}

// finish makes a bound level where rounding has made it fall.
func TestFinishMakesLevel(t *testing.T) {
	var c Calculator
	c.out = DeltaQ{width: ms, lo: []float64{0.1, 0, 0.5, 0.4, 0.6, 0.6}, hi: []float64{0.3, 0.7, 0.6, 0.65, 0.9, 0.8}}
	var d DeltaQ
	if err := c.finish(&d); err != nil {
		t.Fatal(err)
	}
	lo, hi := d.AppendBounds(nil, nil)
	for k, want := range []Bounds{{0.1, 0.3}, {0.1, 0.6}, {0.5, 0.6}, {0.5, 0.65}, {0.6, 0.8}, {0.6, 0.8}} {
		if lo[k] != want.Lo || hi[k] != want.Hi {
			t.Errorf("edge %d: %v to %v, want %v", k, lo[k], hi[k], want)
		}
	}
}

// A ΔQ without data has no bins and no figures.
func TestFiguresOfNoData(t *testing.T) {
	for name, d := range map[string]*DeltaQ{"nil": nil, "zero": new(DeltaQ)} {
		if !d.Empty() || d.Bins() != 0 || d.Width() != 0 || d.Horizon() != 0 || !d.Bounded() || d.At(0) != (Bounds{}) || d.At(-1) != (Bounds{}) {
			t.Errorf("%s: %d bins of %v", name, d.Bins(), d.Width())
		}
		_, within := d.ProbabilityWithin(ms)
		_, success := d.Success()
		_, failure := d.IntangibleMass()
		_, quantile := d.Quantile(0)
		_, earliest := d.Earliest()
		_, deadline := d.Deadline()
		_, moments := d.Moments()
		if within || success || failure || quantile || earliest || deadline || moments {
			t.Errorf("%s: has figures", name)
		}
		if d.String() != "no data" || !d.Equal(new(DeltaQ)) || d.Equal(Never()) || Never().Equal(d) || !d.Clone().Empty() {
			t.Errorf("%s: %v", name, d)
		}
		lo, hi := d.AppendBounds([]float64{1}, nil)
		if len(lo) != 1 || hi != nil {
			t.Errorf("%s: %v, %v", name, lo, hi)
		}
	}
	d := must(t)(Steps(mustGrid(t, ms, 1), []Step{{2 * ms, 0.25}, {5 * ms, 0.75}}))
	if v, ok := d.Earliest(); !ok || v != (Interval{2 * ms, 2 * ms}) {
		t.Errorf("the fastest takes %v", v)
	}
	if v, ok := d.Deadline(); !ok || v != (Interval{5 * ms, 5 * ms}) {
		t.Errorf("the slowest takes %v", v)
	}
	if d.At(-1) != (Bounds{}) || d.At(2) != (Bounds{0.25, 0.25}) || d.At(99) != (Bounds{0.75, 0.75}) || d.String() != "5 bins of 1ms, success 0.75 to 0.75" {
		t.Errorf("%v: %v, %v, %v", d, d.At(-1), d.At(2), d.At(99))
	}
	if b, ok := d.ProbabilityWithin(-1); !ok || b != (Bounds{}) {
		t.Errorf("within a negative time: %v", b)
	}
}
