package dq

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

func TestMomentsOfUniform(t *testing.T) {
	m := must(t)
	d := m(Scale(m(Uniform(mustGrid(t, ms/100, 1), 2*ms, 6*ms)), 0.9)) // moments ignore failures
	v, ok := d.Moments()
	if !ok {
		t.Fatal("no moments")
	}
	for name, tt := range map[string]struct {
		got    Bounds
		want   float64
		within float64
	}{
		"mean": {v.Mean, 4e6, 2e4},
		"sd":   {v.SD, 4e6 / math.Sqrt(12), 4e4},
	} {
		if !tt.got.Contains(tt.want) || tt.got.Width() > tt.within {
			t.Errorf("%s: %v, want %v within %v", name, tt.got, tt.want, tt.within)
		}
	}
}

func TestMomentsOfWait(t *testing.T) {
	m := must(t)
	v, ok := m(Wait(mustGrid(t, ms, 1), 7*ms)).Moments()
	if !ok || v != (Moments{Mean: Bounds{7e6, 7e6}}) {
		t.Errorf("%+v", v)
	}
	if _, ok := Never().Moments(); ok {
		t.Error("never has moments")
	}
	if _, ok := new(DeltaQ).Moments(); ok {
		t.Error("no data has moments")
	}
}

// The bounds contain the exact moments of random distributions.
func TestMomentsContainExact(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := drawTree(rt, new(Calculator), 1)
		v, ok := p.d.Moments()
		s := p.ref.total()
		if s.Sign() == 0 || s.Cmp(big.NewRat(1, 1<<40)) < 0 {
			return
		}
		if !ok {
			rt.Fatal("no moments")
		}
		mean := p.ref.moment(big.NewRat(0, 1), 1)
		contains(rt, "mean", v.Mean, mean)
		// sd.Lo² ≤ variance ≤ sd.Hi²
		variance := p.ref.moment(mean, 2)
		lo, hi := rat(v.SD.Lo), rat(v.SD.Hi)
		if lo.Mul(lo, lo).Cmp(variance) > 0 || hi.Mul(hi, hi).Cmp(variance) < 0 {
			f, _ := variance.Float64()
			rt.Fatalf("standard deviation: %v does not contain %v", v.SD, math.Sqrt(f))
		}
	})
}

// The moments of an exponential delay, with mean and standard deviation m, have finite bounds
// although the delay has no end. The same holds for results of operators on it.
func TestMomentsWithoutEnd(t *testing.T) {
	m := must(t)
	x := m(Exponential(mustGrid(t, ms/10, 400), 5*ms)) // 40 ms: a share of e⁻⁸ comes later
	for name, tt := range map[string]struct {
		d        *DeltaQ
		mean, sd float64
	}{
		"exponential":     {x, 5e6, 5e6},
		"scaled":          {m(Scale(x, 0.5)), 5e6, 5e6},
		"sum of two":      {m(Sequential(x, x)), 10e6, 5e6 * math.Sqrt2},
		"fastest of two":  {m(FirstToFinish(x, x)), 2.5e6, 2.5e6},
		"slowest of two":  {m(AllToFinish(x, x)), 7.5e6, 5e6 * math.Sqrt(1.25)},
		"choice":          {m(Choice([]float64{0.5, 0.5}, x, x)), 5e6, 5e6},
		"wider":           {m(Rebin(x, 3*ms/10)), 5e6, 5e6},
		"one of a retry":  {m(RetryOverlap(x, ms, 1)), 5e6, 5e6},
		"wait, then this": {m(Sequential(x, m(Wait(mustGrid(t, ms/10, 1), 7*ms)))), 12e6, 5e6},
	} {
		v, ok := tt.d.Moments()
		if !ok || !v.Mean.Contains(tt.mean) || !v.SD.Contains(tt.sd) {
			t.Errorf("%s: %+v do not contain %v and %v", name, v, tt.mean, tt.sd)
		}
		if v.Mean.Width() > 0.1*tt.mean || v.SD.Width() > 0.1*tt.sd {
			t.Errorf("%s: %+v are too wide", name, v)
		}
	}
}

// moment is E[(T−c)^m | success] in powers of nanoseconds.
func (r reference) moment(c *big.Rat, m int) *big.Rat {
	sum := new(big.Rat)
	for t, p := range r {
		term := new(big.Rat).Set(p)
		for range m {
			term.Mul(term, new(big.Rat).Sub(new(big.Rat).SetInt64(t), c))
		}
		sum.Add(sum, term)
	}
	return sum.Quo(sum, r.total())
}

func contains(rt *rapid.T, name string, b Bounds, exact *big.Rat) {
	rt.Helper()
	if rat(b.Lo).Cmp(exact) > 0 || rat(b.Hi).Cmp(exact) < 0 {
		f, _ := exact.Float64()
		rt.Fatalf("%s: %v does not contain %v", name, b, f)
	}
}
