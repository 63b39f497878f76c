package dq

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestDeconvolveUndoes(t *testing.T) {
	m := must(t)
	g := mustGrid(t, ms, 1)
	part := m(Steps(g, []Step{{2 * ms, 0.7}, {3 * ms, 0.9}, {6 * ms, 0.95}}))
	rest := m(Steps(g, []Step{{ms, 0.2}, {4 * ms, 0.8}}))
	r, err := Deconvolve(m(Sequential(part, rest)), part)
	if err != nil {
		t.Fatal(err)
	}
	near1e9(t, r.Estimate, rest)
	if r.Error > 1e-9 {
		t.Errorf("error %v at %v", r.Error, r.At)
	}
}

func near1e9(t rapid.TB, got, want *DeltaQ) {
	t.Helper()
	eachStep(got, want, func(at time.Duration, a, b Bounds) bool {
		if a.Lo < b.Lo-1e-8 || a.Lo > b.Lo+1e-8 || a.Hi < b.Hi-1e-8 || a.Hi > b.Hi+1e-8 {
			t.Fatalf("at %v: %v, want %v", at, a, b)
		}
		return true
	})
}

// The bounds contain the true residual, and Deconvolve never wrongly reports that no residual
// exists.
func TestDeconvolveContains(t *testing.T) {
	m := must(t)
	rapid.Check(t, func(rt *rapid.T) {
		part, rest := drawLeaf(rt), drawLeaf(rt)
		whole := pair{m(Sequential(part.d, rest.d)), part.ref.seq(rest.ref)}
		r, err := Deconvolve(whole.d, part.d)
		if err != nil {
			rt.Fatal(err)
		}
		if part.ref.total().Sign() > 0 {
			pair{r.Bounds, rest.ref}.checkWithin(rt, 1e-9)
		}
	})
}

// checkWithin is check with a tolerance.
func (p pair) checkWithin(rt *rapid.T, tolerance float64) {
	rt.Helper()
	for _, t := range append(p.ref.times(), 0, 1<<60) {
		b, _ := p.d.ProbabilityWithin(time.Duration(t))
		f, _ := p.ref.within(t).Float64()
		if f < b.Lo-tolerance || f > b.Hi+tolerance {
			rt.Fatalf("at %d: %v does not contain %v", t, b, f)
		}
	}
}

func TestDeconvolveWithoutResidual(t *testing.T) {
	m := must(t)
	g := mustGrid(t, ms, 1)
	u := m(Uniform(g, 0, 10*ms))
	for _, tt := range []struct {
		name        string
		whole, part *DeltaQ
		at          time.Duration
	}{
		{"faster than the part", m(Wait(g, 2*ms)), m(Wait(g, 5*ms)), 2 * ms},
		{"fails less than the part", m(Wait(g, 5*ms)), m(Scale(m(Wait(g, 2*ms)), 0.5)), 5 * ms},
		{"less spread than the part", m(Wait(g, 5*ms)), u, 5 * ms},
		{"a gap that the part fills", m(Steps(g, []Step{{0, 0.5}, {20 * ms, 1}})), u, 0},
	} {
		_, err := Deconvolve(tt.whole, tt.part)
		var none *NoResidualError
		if !errors.As(err, &none) {
			t.Errorf("%s: %v, want none", tt.name, err)
			continue
		}
		if none.At != tt.at || none.Needs <= none.Possible {
			t.Errorf("%s: %v, want at %v", tt.name, err, tt.at)
		}
	}
	if _, err := Deconvolve(u, new(DeltaQ)); !errors.Is(err, ErrNoData) {
		t.Errorf("without data: %v", err)
	}
}

// If the whole is not a sequence of the part, but the bounds do not prove that, the residual is
// fitted. Error shows how bad the fit is.
func TestDeconvolveFits(t *testing.T) {
	m := must(t)
	g := mustGrid(t, ms, 1)
	part := m(Uniform(g, 0, 10*ms))
	whole := m(Uniform(g, ms, 20*ms))
	r, err := Deconvolve(whole, part)
	if err != nil {
		t.Fatal(err)
	}
	if s, _ := r.Estimate.Success(); s.Hi > 1 || s.Lo < 0.9 || r.Error > 0.1 || r.Error == 0 {
		t.Errorf("estimate %v, error %v", r.Estimate, r.Error)
	}
}
