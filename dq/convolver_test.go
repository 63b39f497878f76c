package dq

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/beamscope/beamscope/dq/internal/quad"
)

func TestTransform(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for size := 1; size <= 512; size *= 2 {
		x, want := make([]complex128, size), make([]complex128, size)
		roots := quad.Roots(size)
		for i := range x {
			x[i] = complex(r.NormFloat64(), r.NormFloat64())
		}
		for f := range want {
			for i := range x {
				want[f] += x[i] * roots[f*i%size]
			}
		}
		got := append([]complex128(nil), x...)
		plan := newTransform(size)
		plan.forward(got)
		for f := range want {
			if d := got[reversed(f, size)] - want[f]; math.Hypot(real(d), imag(d)) > 1e-11 {
				t.Fatalf("size %d, frequency %d: %v, want %v", size, f, got[reversed(f, size)], want[f])
			}
		}
		plan.backward(got)
		for i := range x {
			if d := got[i]/complex(float64(size), 0) - x[i]; math.Hypot(real(d), imag(d)) > 1e-12 {
				t.Fatalf("size %d: position %d does not come back", size, i)
			}
		}
	}
}

func reversed(i, size int) int {
	out := 0
	for ; size > 1; size /= 2 {
		out, i = out<<1|i&1, i>>1
	}
	return out
}

// random returns a ΔQ of n bins like an observed one, with mass in all bins.
func random(t testing.TB, r *rand.Rand, n int) *DeltaQ {
	t.Helper()
	counts := make([]uint64, n)
	for i := range counts {
		counts[i] = 1 + r.Uint64N(1000)
	}
	d, err := mustCounts(t, mustGrid(t, ms, n), counts, uint64(n), 3).DeltaQ()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestFastEqualsDirect(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, 3, 50, 200, 1000, 4000} {
		x, y := random(t, r, n), random(t, r, n)
		checkFastIsDirect(t, x, y)
	}
	wait, err := Wait(mustGrid(t, ms, 1), 1000*ms+1)
	if err != nil {
		t.Fatal(err)
	}
	checkFastIsDirect(t, wait, random(t, r, 1000))
	checkFastIsDirect(t, wait, wait, wait)
}

func checkFastIsDirect(t rapid.TB, xs ...*DeltaQ) {
	t.Helper()
	fast, direct := &Calculator{conv: convolver{force: forceFast}}, &Calculator{conv: convolver{force: forceDirect}}
	var f, d DeltaQ
	if err := fast.Sequential(&f, xs...); err != nil {
		t.Fatal(err)
	}
	if err := direct.Sequential(&d, xs...); err != nil {
		t.Fatal(err)
	}
	near(t, "fast and direct", &f, &d)
	total := Bounds{1, 1}
	for _, x := range xs {
		s, _ := x.Success()
		total = Bounds{total.Lo * s.Lo, total.Hi * s.Hi}
	}
	got, _ := f.Success()
	if math.Abs(got.Lo-total.Lo) > 1e-15 || math.Abs(got.Hi-total.Hi) > 1e-15 {
		t.Errorf("mass %v, want %v", got, total)
	}
}

// At the largest size, the error bound of the fast method stays below the tolerance for typical
// large data.
func TestFastErrorBound(t *testing.T) {
	x := random(t, rand.New(rand.NewPCG(1, 2)), MaxBins/2)
	var v convolver
	for name, d := range map[string]density{
		"pairs": v.fast([]*DeltaQ{x, x}, 2*x.Bins()-1, MaxBins),
		"twins": v.fastTwins([]*DeltaQ{x, x}, 2*x.Bins()-1, MaxBins/2),
	} {
		if d.err.absolute > Tolerance {
			t.Errorf("%s: absolute error up to %v", name, d.err.absolute)
		}
	}
}

func TestSpectraAreReusedUnlessChanged(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	x, y, d := random(t, r, 1000), random(t, r, 1000), new(DeltaQ)
	c := &Calculator{conv: convolver{force: forceFast}}
	if err := c.Sequential(d, x, y); err != nil {
		t.Fatal(err)
	}
	n := testing.AllocsPerRun(10, func() {
		x.lo[3] = x.lo[2] // the calculator must detect this change
		if err := c.Sequential(d, x, y); err != nil {
			t.Fatal(err)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations in the steady state", n)
	}
	want, err := Sequential(x, y)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "after a change", d, want)
}

// A sequence that would need more than MaxBins bins has wider bins.
func TestSequentialWidens(t *testing.T) {
	m := must(t)
	x := random(t, rand.New(rand.NewPCG(1, 2)), 40000)
	d := m(Sequential(x, x, x))
	if d.Bins() > MaxBins || d.Width() != 2*ms {
		t.Errorf("%v", d)
	}
	if d.Horizon() != 120000*ms {
		t.Errorf("horizon %v", d.Horizon())
	}
}
