package dq

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/beamscope/beamscope/dq/internal/quad"
)

// The bound on the error of the fast method is that of the theorem it names, within a
// factor of three. Real errors are far smaller, so no result shows that it is needed.
func TestFastErrorIsThatOfTheTheorem(t *testing.T) {
	const u = 0x1p-53
	gamma := func(n float64) float64 { return n * u / (1 - n*u) }
	eta := u + gamma(4)*(math.Sqrt2+u) // with twiddle factors within u
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
		// Sums are compensated, but the mass is a product of the operands', and it is
		// multiplied with the sum.
		if least := float64(tt.operands+2) * u; got.relative < least || got.relative > 16*least {
			t.Errorf("%+v: relative error %g, want at least %g", tt, got.relative, least)
		}
	}
}

// The method for twins has two products where the other has one, and transforms of half
// the length.
func TestTwinErrorIsTwice(t *testing.T) {
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

// Functions of package quad are right within [quad.Error]: bounds have room for that, also
// around what is a float64.
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

// A tie is decided by the tolerance, and what is further apart is none.
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

// Probabilities of exactly 0 and 1 are probabilities.
func TestProbabilitiesAtTheEnds(t *testing.T) {
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
			t.Errorf("%v is taken for a probability", p)
		}
		if _, err := Scale(Immediate(), p); err == nil {
			t.Errorf("%v is taken for a factor", p)
		}
	}
}

// A delay without an end keeps none through each operator, where its horizon leaves out a
// seventh of the successes: nothing that is known of it is claimed to be later.
func TestNoOperatorEndsWhatHasNoEnd(t *testing.T) {
	m := must(t)
	const mean = 5 * ms
	x := m(Exponential(mustGrid(t, ms/50, 500), mean)) // 10 ms: e⁻² of them come later
	short := m(Wait(mustGrid(t, ms/50, 1), ms))
	e := func(t float64) float64 { return math.Exp(-t / 5) }
	for name, tt := range map[string]struct {
		d        *DeltaQ
		mean, sd float64 // in milliseconds
	}{
		"itself":              {x, 5, 5},
		"scaled":              {m(Scale(x, 0.3)), 5, 5},
		"wider":               {m(Rebin(x, ms)), 5, 5},
		"in sequence":         {m(Sequential(x, x, x)), 15, 5 * math.Sqrt(3)},
		"behind a delay":      {m(Sequential(short, x)), 6, 5},
		"fastest":             {m(FirstToFinish(x, x)), 2.5, 2.5},
		"fastest, or never":   {m(FirstToFinish(Never(), x)), 5, 5},
		"slowest":             {m(AllToFinish(x, x)), 7.5, 5 * math.Sqrt(1.25)},
		"slowest, or at once": {m(AllToFinish(Immediate(), x)), 5, 5},
		"one of two":          {m(Choice([]float64{0.2, 0.8}, Never(), x)), 5, 5},
		"the other of two":    {m(Choice([]float64{0.5, 0.5}, x, Immediate())), 2.5, 5 * math.Sqrt(0.75)},
		"given up later":      {m(Timeout(x, 30*ms)), (5 - 35*e(30)) / (1 - e(30)), math.Sqrt(25 - 900*e(30)/(1-e(30))/(1-e(30)))},
		"overlapping":         {m(RetryOverlap(x, 2*ms, 2)), 5*(1-e(2)) + 2.5*e(2), math.NaN()},
	} {
		v, ok := tt.d.Moments()
		if !ok || !v.Mean.Contains(tt.mean*1e6) || v.Mean.Width() > 1.2*tt.mean*1e6 {
			t.Errorf("%s: a mean of %v, want %v ms", name, v.Mean, tt.mean)
		}
		if !math.IsNaN(tt.sd) && (!v.SD.Contains(tt.sd*1e6) || math.IsInf(v.SD.Hi, 1)) {
			t.Errorf("%s: a standard deviation of %v, want %v ms", name, v.SD, tt.sd)
		}
		if tt.d.Bounded() {
			t.Errorf("%s: has an end", name)
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
			t.Errorf("%v was given up and has no end: %v", d, v)
		}
	}
}

// A decimal share of the instances is that many of them, however it is rounded; half an
// instance more asks for the next one.
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
