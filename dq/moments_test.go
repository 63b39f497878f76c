package dq

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

func TestMomentsOfUniform(t *testing.T) {
	m := must(t)
	d := m(Scale(m(Uniform(mustGrid(t, ms/100, 1), 2*ms, 6*ms)), 0.9)) // failure does not matter
	v, ok := d.Moments()
	if !ok {
		t.Fatal("no moments")
	}
	for name, tt := range map[string]struct {
		got    Bounds
		want   float64
		within float64
	}{
		"mean":     {v.Mean, 4e-3, 2e-5},
		"variance": {v.Variance, 16e-6 / 12, 1e-7},
		"skewness": {v.Skewness, 0, 0.1},
		"kurtosis": {v.Kurtosis, 1.8, 0.2},
	} {
		if !tt.got.Contains(tt.want) || tt.got.Width() > tt.within {
			t.Errorf("%s: %v, want %v within %v", name, tt.got, tt.want, tt.within)
		}
	}
}

func TestMomentsOfWait(t *testing.T) {
	m := must(t)
	v, ok := m(Wait(mustGrid(t, ms, 1), 7*ms)).Moments()
	if !ok || math.Abs(v.Mean.Mid()-7e-3) > 1e-15 || v.Variance.Lo != 0 || v.Variance.Hi > 1e-18 {
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
		contains(rt, "mean", v.Mean, mean, 1e-9)
		variance := p.ref.moment(mean, 2)
		contains(rt, "variance", v.Variance, variance, 1e-18)
		f, _ := variance.Float64()
		third, _ := p.ref.moment(mean, 3).Float64()
		fourth, _ := p.ref.moment(mean, 4).Float64()
		if f > 1e-3 {
			inside(rt, "skewness", v.Skewness, third/math.Pow(f, 1.5))
			inside(rt, "kurtosis", v.Kurtosis, fourth/f/f)
		}
	})
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

func contains(rt *rapid.T, name string, b Bounds, exact *big.Rat, unit float64) {
	f, _ := exact.Float64()
	inside(rt, name, Bounds{b.Lo / unit, b.Hi / unit}, f)
}

func inside(rt *rapid.T, name string, b Bounds, f float64) {
	rt.Helper()
	if margin := 1e-9 * math.Abs(f); !(b.Lo <= f+margin && b.Hi >= f-margin) {
		rt.Fatalf("%s: %v does not contain %v", name, b, f)
	}
}
