package dq

import (
	"errors"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestUniform(t *testing.T) {
	m := must(t)
	d := m(Uniform(mustGrid(t, ms, 1), ms, 5*ms))
	wantLo, wantHi := []float64{0, 0, .25, .5, .75, 1}, []float64{0, .25, .5, .75, 1, 1}
	for k := range wantLo {
		if b := d.At(k); b != (Bounds{wantLo[k], wantHi[k]}) {
			t.Errorf("edge %d: %v, want %v, %v", k, b, wantLo[k], wantHi[k])
		}
	}
	if d.Bins() != 5 {
		t.Errorf("%d bins", d.Bins())
	}
}

// The sum of two uniform delays on [0, 4] is a triangle: F(t) = t²/32 up to 4 and
// 1 − (8−t)²/32 from there on.
func TestTriangle(t *testing.T) {
	m := must(t)
	for _, width := range []time.Duration{ms, ms / 10, ms / 100} {
		u := m(Uniform(mustGrid(t, width, 1), 0, 4*ms))
		d := m(Sequential(u, u))
		worst := 0.0
		for k := range d.Bins() + 1 {
			x := d.edge(k).Seconds() * 1000
			want := x * x / 32
			if x > 4 {
				want = 1 - (8-x)*(8-x)/32
			}
			b := d.At(k)
			if b.Lo > want+1e-15 || b.Hi < want-1e-15 {
				t.Errorf("width %v, t = %v ms: %v does not contain %v", width, x, b, want)
			}
			worst = max(worst, b.Width())
		}
		// With two operands of one bin each, the bounds are two bins apart. The upper bound
		// covers the whole of the next bin, which makes it three. The density is at most 1/4 per
		// millisecond.
		if limit := 0.25 * 3 * float64(width) / float64(ms); worst > limit {
			t.Errorf("width %v: bounds %v apart, want at most %v", width, worst, limit)
		}
	}
}

// The sum of three exponential delays of the same mean is an Erlang distribution.
func TestErlang(t *testing.T) {
	m := must(t)
	x := m(Exponential(mustGrid(t, ms/10, 1000), 5*ms))
	d := m(Sequential(x, x, x))
	for k := 0; k <= d.Bins(); k += 7 {
		r := float64(d.edge(k)) / float64(5*ms)
		want := 1 - math.Exp(-r)*(1+r+r*r/2)
		if b := d.At(k); b.Lo > want+1e-14 || b.Hi < want-1e-14 {
			t.Fatalf("at %v: %v does not contain %v", d.edge(k), b, want)
		}
	}
	if v, ok := d.Moments(); !ok || !v.Mean.Contains(15e6) || v.Mean.Width() > 4e5 {
		t.Errorf("mean %v, want 15 ms", v.Mean)
	}
	if s, _ := d.Success(); s.Hi != 1 || s.Lo > 1 || s.Lo < 0.9999 {
		t.Errorf("success %v", s)
	}
	if v, ok := d.Deadline(); !ok || v.Hi != Unreached {
		t.Errorf("deadline %v", v)
	}
}

// The faster of two exponential delays is exponential, with the sum of the rates.
func TestExponentialMinimum(t *testing.T) {
	m := must(t)
	g := mustGrid(t, ms/10, 1000)
	d := m(FirstToFinish(m(Exponential(g, 6*ms)), m(Exponential(g, 3*ms))))
	want := m(Exponential(g, 2*ms))
	for k := range d.Bins() + 1 {
		if a, b := d.At(k), want.At(k); math.Abs(a.Lo-b.Lo) > 1e-14 || math.Abs(a.Hi-b.Hi) > 1e-14 {
			t.Fatalf("edge %d: %v, want %v", k, a, b)
		}
	}
}

func TestWait(t *testing.T) {
	m := must(t)
	g := mustGrid(t, ms, 1)
	if v, _ := m(Wait(g, 3*ms)).Quantile(1); v != (Interval{3 * ms, 3 * ms}) {
		t.Errorf("on an edge: %v", v)
	}
	if v, _ := m(Wait(g, 3*ms+1)).Quantile(0.5); v != (Interval{3 * ms, 4 * ms}) {
		t.Errorf("off an edge: %v", v)
	}
	long := m(Wait(g, 100*time.Second))
	if long.Width() != 2*ms || long.Bins() != 50000 {
		t.Errorf("100 s: %v", long)
	}
}

func TestSamples(t *testing.T) {
	g := mustGrid(t, ms, 1)
	rapid.Check(t, func(rt *rapid.T) {
		delays := rapid.SliceOf(rapid.Map(rapid.Int64Range(0, 40), func(q int64) time.Duration {
			return time.Duration(q) * ms / 4
		})).Draw(rt, "delays")
		failures := rapid.Uint64Range(1, 5).Draw(rt, "failures")
		d, err := Samples(g, delays, failures)
		if err != nil {
			rt.Fatal(err)
		}
		n := float64(len(delays)) + float64(failures)
		for at := time.Duration(0); at < 12*ms; at += ms / 4 {
			within := 0
			for _, x := range delays {
				if x <= at {
					within++
				}
			}
			if b, _ := d.ProbabilityWithin(at); b.Lo > float64(within)/n || b.Hi < float64(within)/n {
				rt.Fatalf("within %v: %v does not contain %d/%v", at, b, within, n)
			}
		}
	})
}

func TestModelsRefuse(t *testing.T) {
	g := mustGrid(t, ms, 10)
	for name, tt := range map[string]struct{ err, want error }{
		"negative wait":       {second(Wait(g, -1)), ErrDelay},
		"endless wait":        {second(Wait(g, math.MaxInt64)), ErrDelay},
		"falling uniform":     {second(Uniform(g, 2*ms, ms)), ErrDelay},
		"negative uniform":    {second(Uniform(g, -ms, ms)), ErrDelay},
		"zero grid":           {second(Uniform(Grid{}, 0, ms)), ErrGrid},
		"mean of 0":           {second(Exponential(g, 0)), ErrDelay},
		"zero grid, exp":      {second(Exponential(Grid{}, ms)), ErrGrid},
		"no steps":            {second(Steps(g, nil)), ErrOperands},
		"falling steps":       {second(Steps(g, []Step{{ms, .5}, {2 * ms, .4}})), ErrProbability},
		"steps going back":    {second(Steps(g, []Step{{ms, .5}, {ms, .6}})), ErrDelay},
		"a step above 1":      {second(Steps(g, []Step{{ms, 1.5}})), ErrProbability},
		"no samples":          {second(Samples(g, nil, 0)), ErrNoData},
		"a negative sample":   {second(Samples(g, []time.Duration{-1}, 0)), ErrDelay},
		"too many failures":   {second(Samples(g, nil, math.MaxUint64)), ErrCounts},
		"observed, no data":   {second(mustCounts(t, g, make([]uint64, 10), 0, 0).DeltaQ()), ErrNoData},
		"confident, no data":  {second(mustCounts(t, g, make([]uint64, 10), 0, 0).Confident(0.05)), ErrNoData},
		"confident, α of 0":   {second(mustCounts(t, g, make([]uint64, 10), 1, 0).Confident(0)), ErrProbability},
		"confident, α is NaN": {second(mustCounts(t, g, make([]uint64, 10), 1, 0).Confident(math.NaN())), ErrProbability},
	} {
		if !errors.Is(tt.err, tt.want) {
			t.Errorf("%s: %v, want %v", name, tt.err, tt.want)
		}
	}
}

func TestObservedDeltaQ(t *testing.T) {
	o := mustCounts(t, mustGrid(t, ms, 4), []uint64{1, 0, 2, 1}, 3, 1)
	d, err := o.DeltaQ()
	if err != nil {
		t.Fatal(err)
	}
	for at := time.Duration(0); at <= 6*ms; at += ms / 2 {
		want, _ := o.ProbabilityWithin(at)
		if got, _ := d.ProbabilityWithin(at); got != want {
			t.Errorf("within %v: %v, want %v", at, got, want)
		}
	}
	for _, p := range []float64{0.1, 0.125, 0.3, 0.375, 0.5} {
		want, _ := o.Quantile(p)
		if got, ok := d.Quantile(p); !ok || got != want {
			t.Errorf("Quantile(%v) = %v, %v, want %v", p, got, ok, want)
		}
	}
	if _, ok := d.Quantile(0.51); ok {
		t.Error("a quantile in the intangible mass")
	}
}

// Four instances, α = 0.05: ε = √(ln 40 / 8).
func TestConfident(t *testing.T) {
	o := mustCounts(t, mustGrid(t, ms, 4), []uint64{4, 0, 0, 0}, 0, 0)
	d, err := o.Confident(0.05)
	if err != nil {
		t.Fatal(err)
	}
	epsilon := math.Sqrt(math.Log(40) / 8)
	if b := d.At(1); math.Abs(b.Lo-(1-epsilon)) > 1e-15 || b.Hi != 1 {
		t.Errorf("at 1 ms: %v, ε = %v", b, epsilon)
	}
	if b := d.At(0); b != (Bounds{0, 1}) {
		t.Errorf("at 0: %v", b)
	}
	if d.Horizon() != 4*ms || !d.Bounded() {
		t.Errorf("%v", d)
	}
}

// A model without an end never reaches its probability of success. The quantile at that
// probability is in the intangible mass, however close the bounds come.
func TestQuantileWithoutEnd(t *testing.T) {
	g, err := NewGrid(time.Millisecond, 10000)
	if err != nil {
		t.Fatal(err)
	}
	d, err := Exponential(g, 20*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	d, err = Scale(d, 0.99)
	if err != nil {
		t.Fatal(err)
	}
	if v, ok := d.Quantile(0.99); !ok || v.Finite() {
		t.Errorf("quantile 0.99 is %v, %v: want no finite upper bound", v, ok)
	}
	if v, ok := d.Quantile(0.98); !ok || !v.Finite() {
		t.Errorf("quantile 0.98 is %v, %v: want a finite one", v, ok)
	}
}
