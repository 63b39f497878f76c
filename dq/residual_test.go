package dq

import (
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// A stair holds the two bounds of a ΔQ on the edges of bins as exact rationals. After the last
// edge they stay level.
type stair struct{ lo, hi []*big.Rat }

func stairOf(d *DeltaQ) stair {
	var s stair
	lo, hi := d.AppendBounds(nil, nil)
	for k := range lo {
		s.lo, s.hi = append(s.lo, rat(lo[k])), append(s.hi, rat(hi[k]))
	}
	return s
}

func (s stair) bins() int { return len(s.lo) - 1 }

// at returns the value of a distribution function at edge k.
func at(f []*big.Rat, k int) *big.Rat {
	if k < 0 {
		return new(big.Rat)
	}
	return f[min(k, len(f)-1)]
}

func ratMul(a, b *big.Rat) *big.Rat { return new(big.Rat).Mul(a, b) }
func ratSub(a, b *big.Rat) *big.Rat { return new(big.Rat).Sub(a, b) }
func ratQuo(a, b *big.Rat) *big.Rat { return new(big.Rat).Quo(a, b) }
func ratAdd(a, b *big.Rat) *big.Rat { return new(big.Rat).Add(a, b) }
func toFloat(a *big.Rat) float64    { f, _ := a.Float64(); return f }
func smaller(a, b *big.Rat) *big.Rat {
	if a.Cmp(b) < 0 {
		return a
	}
	return b
}

// drawStairs draws a ΔQ with bins of a microsecond. It may be exact or bounded, have few or many
// digits, and have no success in its lower bound.
func drawStairs(t testing.TB, r *rand.Rand) *DeltaQ {
	n := 1 + r.IntN(6)
	lo, hi := make([]float64, n), make([]float64, n)
	for i := range n {
		lo[i], hi[i] = r.Float64(), r.Float64()
		if r.IntN(3) == 0 {
			lo[i] = math.Round(lo[i]*8) / 8
		}
	}
	slices.Sort(lo)
	slices.Sort(hi)
	kind := r.IntN(4)
	points, step := make([]BoundedStep, n), 0
	for i := range n {
		switch {
		case kind <= 1:
			hi[i] = lo[i]
		case kind == 2:
			lo[i] = 0
		}
		step += 1 + r.IntN(3)
		points[i] = BoundedStep{T: ms / 1000 * time.Duration(step-1), Lo: min(lo[i], hi[i]), Hi: max(lo[i], hi[i])}
	}
	// The last value is sometimes certain.
	if r.IntN(3) == 0 {
		points[n-1].Hi = 1
		if kind != 2 {
			points[n-1].Lo = 1
		}
	}
	d, err := Envelope(mustGrid(t, ms/1000, 1), points)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// The bounds on a residual agree with the two inequalities in rational arithmetic. They contain
// everything that the inequalities allow, and are no wider. Deconvolve reports that no residual
// exists exactly if the inequalities contradict each other.
func TestResidualBoundsMatchTheorem(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	refused, found := 0, 0
	for range 1500 {
		whole, part := drawStairs(t, r), drawStairs(t, r)
		if r.IntN(2) == 0 {
			whole = must(t)(Sequential(whole, part))
		}
		var c Calculator
		if _, err := c.align([]*DeltaQ{whole, part}, maxDeconvolved); err != nil {
			t.Fatal(err)
		}
		whole, part = c.aligned[0], c.aligned[1]
		got, err := Deconvolve(whole, part)
		w, p := stairOf(whole), stairOf(part)
		lower, upper, gap := theorem(w, p)
		var none *NoResidualError
		switch {
		case gap > 1.001*Tolerance && err == nil, gap < 0.999*Tolerance && err != nil:
			t.Fatalf("%v, the inequalities contradict each other by %g\nwhole %+v\npart %+v", err, gap, whole, part)
		case errors.As(err, &none):
			refused++
			checkNone(t, none, whole, w, p, upper)
			continue
		}
		found++
		lo, hi := got.Bounds.AppendBounds(nil, nil)
		b := Bounds{lo[len(lo)-1], hi[len(hi)-1]}
		for k := range w.bins() + 1 {
			if k < len(lo) {
				b = Bounds{lo[k], hi[k]}
			}
			if gap <= 0 && (rat(b.Lo).Cmp(lower[k]) > 0 || rat(b.Hi).Cmp(upper[k]) < 0) {
				t.Fatalf("edge %d: %v leaves out some of %v to %v\nwhole %+v\npart %+v", k, b, toFloat(lower[k]), toFloat(upper[k]), whole, part)
			}
			if b.Lo < toFloat(lower[k])-1e-11 || b.Hi > toFloat(upper[k])+1e-11 {
				t.Fatalf("edge %d: %v is wider than %v to %v\nwhole %+v\npart %+v", k, b, toFloat(lower[k]), toFloat(upper[k]), whole, part)
			}
		}
		if n := len(lo) - 1; n > 0 && lo[n-1] == hi[n] {
			t.Fatalf("nothing happens in the last bin: %v, %v", lo, hi)
		}
	}
	if refused < 100 || found < 100 {
		t.Errorf("%d residuals refused and %d found: want many of both", refused, found)
	}
}

// theorem applies the inequalities of Deconvolve at each edge of the whole, and makes the bounds
// monotone. It also returns the largest contradiction.
func theorem(w, p stair) (lower, upper []*big.Rat, gap float64) {
	n, success := w.bins(), big.NewRat(1, 1)
	if least := at(p.lo, p.bins()); least.Sign() > 0 {
		success = smaller(success, ratQuo(at(w.hi, n), least))
	}
	gap = toFloat(ratSub(at(w.lo, n), at(p.hi, p.bins())))
	for k := range n + 1 {
		hi, lo := success, new(big.Rat)
		for a := range p.bins() + 1 {
			if f := at(p.lo, a); f.Sign() > 0 {
				hi = smaller(hi, ratQuo(at(w.hi, k+a), f))
			}
		}
		for t := k; t <= n; t++ {
			later := at(p.hi, t-k-1)
			need, room := ratSub(at(w.lo, t), ratMul(success, later)), ratSub(at(p.hi, t), later)
			switch {
			case toFloat(need) <= Tolerance:
			case room.Sign() == 0:
				gap = math.Inf(1)
			case ratQuo(need, room).Cmp(lo) > 0:
				lo = ratQuo(need, room)
			}
		}
		lower, upper = append(lower, lo), append(upper, hi)
		gap = max(gap, toFloat(ratSub(lo, hi)))
	}
	for k := 1; k <= n; k++ {
		if lower[k].Cmp(lower[k-1]) < 0 {
			lower[k] = lower[k-1]
		}
	}
	for k := n - 1; k >= 0; k-- {
		upper[k] = smaller(upper[k], upper[k+1])
	}
	return lower, upper, gap
}

// checkNone checks the figures in an error: the whole needs the probability Needs, and Possible
// is at least what the part reaches with the fastest possible residual.
func checkNone(t *testing.T, none *NoResidualError, whole *DeltaQ, w, p stair, upper []*big.Rat) {
	t.Helper()
	b, _ := whole.ProbabilityWithin(none.At)
	if none.Needs != b.Lo || !(none.Possible < none.Needs) || none.Possible < 0 || none.At < 0 {
		t.Fatalf("%v: the whole reaches %v", none, b)
	}
	end := int(none.At / whole.Width())
	fastest := new(big.Rat) // the part and the residual together
	for k := range end + 1 {
		mass := ratSub(at(upper, k), at(upper, k-1))
		fastest = ratAdd(fastest, ratMul(mass, at(p.hi, end-k)))
	}
	if none.Needs < toFloat(at(w.lo, end)) || rat(none.Possible).Cmp(fastest) < 0 {
		t.Fatalf("%v: but %v is possible", none, toFloat(fastest))
	}
}

// The figures in the error match those calculated by hand.
func TestNoResidualFigures(t *testing.T) {
	m := must(t)
	g := mustGrid(t, ms, 1)
	for _, tt := range []struct {
		name        string
		whole, part *DeltaQ
		want        NoResidualError
	}{
		{"faster than the part", m(Wait(g, 2*ms)), m(Wait(g, 5*ms)), NoResidualError{2 * ms, 1, 0}},
		{"fails less", m(Scale(m(Wait(g, 5*ms)), 0.75)), m(Scale(m(Wait(g, 2*ms)), 0.5)), NoResidualError{5 * ms, 0.75, 0.5}},
		// The part always takes at most 1 ms, and the whole is done within 1 ms in half of the
		// cases. So the residual takes no time in at most half of the cases. The part takes no
		// time in one of eight cases.
		{"more at once than the part", m(Steps(g, []Step{{0, 0.5}, {4 * ms, 1}})), m(Steps(g, []Step{{0, 0.125}, {ms, 1}})),
			NoResidualError{0, 0.5, 0.0625}},
		// The residual takes no time in at most 1/4 of the cases. The part is done within 2 ms in
		// 1/2 of the cases, and always within 3 ms: 1/4·1 + 3/4·1/2.
		{"later too fast", m(Steps(g, []Step{{2 * ms, 0.125}, {3 * ms, 0.875}, {9 * ms, 1}})), m(Steps(g, []Step{{2 * ms, 0.5}, {3 * ms, 1}})),
			NoResidualError{3 * ms, 0.875, 0.625}},
	} {
		_, err := Deconvolve(tt.whole, tt.part)
		var none *NoResidualError
		if !errors.As(err, &none) || *none != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, err, &tt.want)
		}
	}
}

// A difference within the tolerance proves nothing, and never gives a probability above 1.
func TestResidualOfATie(t *testing.T) {
	m := must(t)
	g := mustGrid(t, ms, 1)
	part := m(Scale(m(Wait(g, 2*ms)), 1-0.5*Tolerance))
	r, err := Deconvolve(m(Wait(g, 5*ms)), part)
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := r.Bounds.Success(); b.Hi != 1 || !(b.Lo <= 1) || b.Lo < 1-2*Tolerance {
		t.Errorf("success %v", b)
	}
	if _, err := Deconvolve(m(Wait(g, 5*ms)), m(Scale(m(Wait(g, 2*ms)), 1-2*Tolerance))); err == nil {
		t.Error("a difference of twice the tolerance proves nothing")
	}
	if _, err := Deconvolve(m(Scale(Immediate(), Tolerance)), Never()); err != nil {
		t.Errorf("a difference of the tolerance: %v", err)
	}
	// A part that always fails, or may always fail, does not restrict the residual.
	if r, err = Deconvolve(m(Envelope(g, []BoundedStep{{3 * ms, 0, 1}})), m(Envelope(g, []BoundedStep{{ms, 0, 1}}))); err != nil {
		t.Fatal(err)
	}
	if b, _ := r.Bounds.Success(); b != (Bounds{0, 1}) {
		t.Errorf("success %v", b)
	}
	if s, _ := r.Estimate.Success(); s.Lo != 0 || math.Abs(s.Hi-1) > 1e-9 {
		t.Errorf("estimated success %v", s)
	}
	if r, err = Deconvolve(Never(), Never()); err != nil {
		t.Fatal(err)
	}
	if s, _ := r.Estimate.Success(); s != (Bounds{}) {
		t.Errorf("estimated success %v", s)
	}
}

// If the part may fail, the residual's delays beyond the horizon count only with the probability
// that the part succeeds.
func TestResidualWithoutEnd(t *testing.T) {
	m := must(t)
	rest := m(Exponential(mustGrid(t, ms/10, 100), 5*ms)) // 10 ms: e⁻² of them come later
	for _, share := range []float64{1, 0.5, 0.1} {
		part := m(Scale(Immediate(), share))
		r, err := Deconvolve(m(Scale(rest, share)), part)
		if err != nil {
			t.Fatal(err)
		}
		v, ok := r.Bounds.Moments()
		if !ok || !v.Mean.Contains(5e6) || math.IsInf(v.Mean.Hi, 1) || !v.SD.Contains(5e6) || math.IsInf(v.SD.Hi, 1) || r.Bounds.Bounded() {
			t.Errorf("behind a part that succeeds in %v: %+v, want 5 ms", share, v)
		}
	}
	part := m(Envelope(mustGrid(t, ms, 1), []BoundedStep{{0, 0, 1}}))
	r, err := Deconvolve(m(Sequential(part, rest)), part)
	if err != nil {
		t.Fatal(err)
	}
	if v, ok := r.Bounds.Moments(); !ok || !math.IsInf(v.Mean.Hi, 1) || !math.IsInf(v.SD.Hi, 1) {
		t.Errorf("behind a part that may always fail: %+v", v)
	}
}

// The estimate is the exact residual if there is one, for exact ΔQs and for bounds. This holds
// even if the mass is concentrated at the end or at the beginning, so that division is stable
// only from one end.
func TestEstimateIsTheQuotient(t *testing.T) {
	m := must(t)
	g := mustGrid(t, ms, 1)
	early, late := make([]Step, 60), make([]Step, 60)
	for i := range 60 {
		x := float64(i+1) / 60
		early[i] = Step{ms * time.Duration(i+1), 1 - (1-x)*(1-x)*(1-x)}
		late[i] = Step{ms * time.Duration(i+1), x * x * x}
	}
	within := m(Envelope(g, []BoundedStep{{0, 0.0625, 0.125}, {2 * ms, 0.25, 0.5}, {7 * ms, 0.5, 0.75}}))
	never := m(Envelope(g, []BoundedStep{{0, 0, 0.125}, {2 * ms, 0, 0.5}, {7 * ms, 0, 0.75}}))
	for name, tt := range map[string]struct{ part, rest *DeltaQ }{
		"heavy at the beginning": {m(Steps(g, early)), within},
		"heavy at the end":       {m(Steps(g, late)), within},
		"exact":                  {m(Steps(g, []Step{{ms, 0.5}, {3 * ms, 0.9}})), m(Steps(g, []Step{{ms, 0.25}, {2 * ms, 0.75}}))},
		"both within bounds":     {within, within},
		"may never succeed":      {within, never},
		"takes no time":          {within, m(Scale(Immediate(), 0.75))},
		"is one delay":           {within, m(Wait(g, 4*ms))},
		"of one delay":           {m(Wait(g, 4*ms)), within},
		"is nothing":             {within, Immediate()},
		"with a gap":             {m(Steps(g, []Step{{0, 0.5}, {10 * ms, 1}})), m(Steps(g, []Step{{ms, 0.5}, {20 * ms, 1}}))},
	} {
		r, err := Deconvolve(m(Sequential(tt.part, tt.rest)), tt.part)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if r.Error > 1e-8 {
			t.Errorf("%s: wrong by %v at %v", name, r.Error, r.At)
		}
		near1e9(t, r.Estimate, tt.rest)
		if n := r.Estimate.Bins(); n > 0 && r.Estimate.lo[n-1] == r.Estimate.hi[n] {
			t.Errorf("%s: nothing happens in the last bin", name)
		}
	}
}

// Error is the largest distance between the whole and the estimate in sequence with the part, and
// At is a time with that distance. The estimate is a distribution.
func TestErrorOfEstimate(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	fitted := 0
	for range 400 {
		whole, part := drawStairs(t, r), drawStairs(t, r)
		got, err := Deconvolve(whole, part)
		if err != nil {
			continue
		}
		pair{got.Estimate, nil}.checkEstimate(t)
		var c Calculator
		if _, err := c.align([]*DeltaQ{whole, part}, maxDeconvolved); err != nil {
			t.Fatal(err)
		}
		w, p, e := stairOf(c.aligned[0]), stairOf(c.aligned[1]), stairOf(got.Estimate)
		distance, there := 0.0, 0.0
		for k := range w.bins() + p.bins() + e.bins() + 2 {
			lo := math.Abs(toFloat(ratSub(sequenceAt(e.lo, p.lo, k), at(w.lo, k))))
			hi := math.Abs(toFloat(ratSub(sequenceAt(e.hi, p.hi, k), at(w.hi, k))))
			distance = max(distance, lo, hi)
			if time.Duration(k)*whole.Width() == got.At {
				there = max(lo, hi)
			}
		}
		if math.Abs(got.Error-distance) > 1e-12 || math.Abs(got.Error-there) > 1e-12 {
			t.Fatalf("wrong by %v at %v, where it is %v, want %v", got.Error, got.At, there, distance)
		}
		if distance > 1e-6 {
			fitted++
		}
	}
	m, g := must(t), mustGrid(t, ms, 1)
	if got, err := Deconvolve(m(Wait(g, 5*ms)), m(Wait(g, 2*ms))); err != nil || got.Error != 0 || got.At != 0 {
		t.Errorf("no error: %+v, %v", got, err)
	}
	if fitted < 20 {
		t.Errorf("%d were fitted: want many", fitted)
	}
}

// sequenceAt returns the distribution function of a sequence at edge k.
func sequenceAt(f, g []*big.Rat, k int) *big.Rat {
	sum := new(big.Rat)
	for i := range min(k+1, len(f)) {
		sum = ratAdd(sum, ratMul(ratSub(at(f, i), at(f, i-1)), at(g, k-i)))
	}
	return sum
}

func (p pair) checkEstimate(t testing.TB) {
	t.Helper()
	var before Bounds
	for k := range p.d.lo {
		b := p.d.At(k)
		if b.Lo > b.Hi || b.Lo < before.Lo || b.Hi < before.Hi || b.Lo < 0 || b.Hi > 1 {
			t.Fatalf("edge %d: %v after %v", k, b, before)
		}
		before = b
	}
}

// A fit is the mixture of greatest likelihood by the conditions of Kuhn and Tucker: the gradient
// Σ p(j)·w(i+j)/(p⊕r)(i+j), divided by the sum of p, is 1 where r has mass, and at most 1
// elsewhere. The check allows a small error, because fit stops before it has fully converged.
func TestFitHasGreatestLikelihood(t *testing.T) {
	m := must(t)
	g := mustGrid(t, ms, 1)
	for name, tt := range map[string]struct{ whole, part *DeltaQ }{
		"uniform": {m(Uniform(g, ms, 20*ms)), m(Uniform(g, 0, 10*ms))},
		"gaps":    {m(Steps(g, []Step{{2 * ms, 0.2}, {6 * ms, 0.5}, {13 * ms, 0.8}})), m(Steps(g, []Step{{0, 0.3}, {5 * ms, 0.9}}))},
		"short":   {m(Steps(g, []Step{{0, 0.2}, {ms, 0.3}, {3 * ms, 0.8}})), m(Steps(g, []Step{{0, 0.5}, {2 * ms, 0.75}, {12 * ms, 0.9}}))},
	} {
		w, p := appendAll(tt.whole.lo), appendAll(tt.part.lo)
		r := fit(w, p)
		var sumP, sumW, sumR float64
		product := make([]float64, len(w)+len(p))
		for j, b := range p {
			sumP += b
			for i, a := range r {
				if i+j < len(w) {
					product[i+j] += a * b
				}
			}
		}
		for _, v := range w {
			sumW += v
		}
		for i := range r {
			var gradient float64
			for j, b := range p {
				if i+j < len(w) && product[i+j] > 0 {
					gradient += b * w[i+j] / product[i+j] / sumP
				}
			}
			if gradient > 1.02 || r[i] > 0.01 && gradient < 0.98 || r[i] < 0 {
				t.Errorf("%s: the gradient at %d is %v, where the mass is %v", name, i, gradient, r[i])
			}
			sumR += r[i]
		}
		if want := min(1, sumW/sumP); math.Abs(sumR-want) > 1e-9 {
			t.Errorf("%s: a sum of %v, want %v", name, sumR, want)
		}
	}
}

// If the bounds of the whole are further apart than those of the part, the quotients of the
// bounds may exceed 1. They are scaled down to distributions.
func TestEstimateOfInconsistentBounds(t *testing.T) {
	m := must(t)
	g := mustGrid(t, ms, 1)
	known := func(lo, hi []float64) *DeltaQ { return &DeltaQ{width: ms, lo: lo, hi: hi} }
	// 0.5·r is 0.48 and 0.8 in the lower bounds, so r is 0.96 and 1.6. Scaled down to 1, this is
	// 0.6 and 1.
	whole := known([]float64{0, 0, 0.48, 0.8}, []float64{0, 0, 0.8, 0.8})
	r, err := Deconvolve(whole, known([]float64{0, 0.5}, []float64{0, 1}))
	if err != nil {
		t.Fatal(err)
	}
	near1e9(t, r.Estimate, known([]float64{0, 0.6, 0.8}, []float64{0, 0.8, 1}))

	// The upper bound of the whole begins before the part: half of it fits a wait of 1 ms.
	whole = known([]float64{0, 0, 0, 0, 0, 0, 0.5}, []float64{0, 0, 0, 0.5, 0.5, 0.5, 1})
	if r, err = Deconvolve(whole, m(Wait(g, 5*ms))); err != nil {
		t.Fatal(err)
	}
	near1e9(t, r.Estimate, m(Scale(m(Wait(g, ms)), 0.5)))
}

// A deconvolution keeps the width of the bins up to 2048 bins of both operands together.
func TestDeconvolveWidens(t *testing.T) {
	m := must(t)
	g := mustGrid(t, ms, 1)
	part := m(Wait(g, 48*ms))
	for bins, want := range map[time.Duration]time.Duration{2000: ms, 2001: 2 * ms} {
		r, err := Deconvolve(m(Wait(g, bins*ms)), part)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Bounds.Width(); got != want {
			t.Errorf("%d bins: a width of %v, want %v", bins+48, got, want)
		}
	}
}

// A whole that succeeds too rarely to prove anything may be shorter than the part. The estimate is
// then a distribution that is fitted.
func TestEstimateOfShortWhole(t *testing.T) {
	m := must(t)
	g := mustGrid(t, ms, 1)
	whole, part := m(Scale(Immediate(), Tolerance/2)), m(Steps(g, []Step{{0, 0.5}, {ms, 1}}))
	r, err := Deconvolve(whole, part)
	if err != nil {
		t.Fatal(err)
	}
	pair{d: r.Estimate}.checkEstimate(t)
	if r.Error > Tolerance {
		t.Errorf("wrong by %v at %v", r.Error, r.At)
	}
}
