package dq

import (
	"errors"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func must(t testing.TB) func(*DeltaQ, error) *DeltaQ {
	return func(d *DeltaQ, err error) *DeltaQ {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
}

// same fails unless the two ΔQs have exactly the same bounds.
func same(t rapid.TB, law string, got, want *DeltaQ) {
	t.Helper()
	if !got.Equal(want) {
		t.Fatalf("%s: %v and %v", law, got, want)
	}
}

// near fails unless the bounds are equal within the tolerance. It is for laws that rounding makes
// inexact.
func near(t rapid.TB, law string, got, want *DeltaQ) {
	t.Helper()
	eachStep(got, want, func(at time.Duration, a, b Bounds) bool {
		if math.Abs(a.Lo-b.Lo) > Tolerance || math.Abs(a.Hi-b.Hi) > Tolerance {
			t.Fatalf("%s: at %v: %v and %v", law, at, a, b)
		}
		return true
	})
}

// below fails unless the bounds of x are at least those of y everywhere: x ≤ y, that is, x is at
// least as good as y.
func below(t rapid.TB, law string, x, y *DeltaQ) {
	t.Helper()
	eachStep(x, y, func(at time.Duration, a, b Bounds) bool {
		if a.Lo < b.Lo-Tolerance || a.Hi < b.Hi-Tolerance {
			t.Fatalf("%s: at %v: %v and %v", law, at, a, b)
		}
		return true
	})
}

// drawSame draws ΔQs of the same width, because rebinning would break exact laws.
func drawSame(rt *rapid.T, label string) *DeltaQ {
	g, err := NewGrid(1000, 1)
	if err != nil {
		rt.Fatal(err)
	}
	n := rapid.IntRange(1, 6).Draw(rt, label)
	steps := make([]Step, n)
	for i := range steps {
		steps[i].T = time.Duration(700*i + rapid.IntRange(0, 600).Draw(rt, "t"))
		steps[i].P = min(1, (float64(i)+rapid.Float64Range(0, 0.99).Draw(rt, "p"))/float64(n))
	}
	d, err := Steps(g, steps)
	if err != nil {
		rt.Fatal(err)
	}
	return d
}

func TestFailureLaws(t *testing.T) {
	m := must(t)
	never, at0 := Never(), Immediate()
	rapid.Check(t, func(rt *rapid.T) {
		x := drawTree(rt, new(Calculator), 1).d
		same(rt, "X⊕never", m(Sequential(x, never)), never)
		same(rt, "never⊕X", m(Sequential(never, x)), never)
		same(rt, "FTF(X,never)", m(FirstToFinish(x, never)), x)
		same(rt, "FTF(never,X)", m(FirstToFinish(never, x)), x)
		same(rt, "FTF(X,wait 0)", m(FirstToFinish(x, at0)), at0)
		same(rt, "ATF(X,never)", m(AllToFinish(x, never)), never)
		same(rt, "ATF(never,X)", m(AllToFinish(never, x)), never)
		same(rt, "ATF(X,wait 0)", m(AllToFinish(x, at0)), x)
		same(rt, "X⊕wait 0", m(Sequential(x, at0)), x)
		same(rt, "wait 0⊕X", m(Sequential(at0, x)), x)
		same(rt, "choice(X,X)", m(Choice([]float64{0.3, 0.7}, x, x)), x)
		same(rt, "choice(1:X)", m(Choice([]float64{1, 0}, x, never)), x)
		same(rt, "1·X", m(Scale(x, 1)), x)
		same(rt, "0·X", m(Scale(x, 0)), never)
		same(rt, "retry of never", m(Retry(never, ms, 3)), never)
		same(rt, "overlapping retry of never", m(RetryOverlap(never, ms, 3)), never)
		same(rt, "one attempt", m(RetryOverlap(x, ms, 1)), x)
		same(rt, "one attempt within t", m(Retry(x, 2000, 1)), m(Timeout(x, 2000)))
	})
}

func TestAlgebraicLaws(t *testing.T) {
	m := must(t)
	rapid.Check(t, func(rt *rapid.T) {
		x, y, z := drawSame(rt, "x"), drawSame(rt, "y"), drawSame(rt, "z")
		for name, op := range map[string]func(...*DeltaQ) (*DeltaQ, error){
			"sequential": Sequential, "FTF": FirstToFinish, "ATF": AllToFinish,
		} {
			near(rt, name+" commutes", m(op(x, y)), m(op(y, x)))
			near(rt, name+" associates", m(op(m(op(x, y)), z)), m(op(x, m(op(y, z)))))
			near(rt, name+" of three", m(op(x, y, z)), m(op(x, m(op(y, z)))))
			w := []float64{0.25, 0.75}
			near(rt, name+" over a choice", m(op(m(Choice(w, x, y)), z)), m(Choice(w, m(op(x, z)), m(op(y, z)))))
		}
		near(rt, "choice commutes", m(Choice([]float64{0.25, 0.75}, x, y)), m(Choice([]float64{0.75, 0.25}, y, x)))
	})
}

// The first-to-finish of three at 0.5 is 0.875; the sum minus the product, right
// for two only, would be 1.375.
func TestFirstToFinishOfThree(t *testing.T) {
	m := must(t)
	half := m(Scale(Immediate(), 0.5))
	d := m(FirstToFinish(half, half, half))
	if s, _ := d.Success(); s != (Bounds{0.875, 0.875}) {
		t.Errorf("success %v, want 0.875", s)
	}
}

// A sequence of five components, each done within one bin, takes up to five bins. A convolution
// of densities at lower edges alone would be up to five bins too early.
func TestSequentialIsNotEarly(t *testing.T) {
	m := must(t)
	x := m(mustCounts(t, mustGrid(t, ms, 3), []uint64{7, 0, 0}, 0, 0).DeltaQ())
	d := m(Sequential(x, x, x, x, x))
	if v, ok := d.Quantile(0.5); !ok || v != (Interval{0, 5 * ms}) {
		t.Errorf("Quantile(0.5) = %v, %v", v, ok)
	}
}

func TestOrderLaws(t *testing.T) {
	m := must(t)
	rapid.Check(t, func(rt *rapid.T) {
		x, y := drawSame(rt, "x"), drawSame(rt, "y")
		wait := m(Wait(mustGrid(t, 1000, 1), time.Duration(rapid.IntRange(0, 5000).Draw(rt, "wait"))))
		below(rt, "X ≤ wait⊕X", x, m(Sequential(wait, x)))
		below(rt, "X ≤ ATF(X,Y)", x, m(AllToFinish(x, y)))
		below(rt, "FTF(X,Y) ≤ X", m(FirstToFinish(x, y)), x)
		below(rt, "X ≤ timeout X", x, m(Timeout(x, 2000)))
		below(rt, "X ≤ p·X", x, m(Scale(x, 0.7)))

		// Every operator is monotonic in every argument.
		z, worse := drawSame(rt, "z"), m(AllToFinish(x, y))
		below(rt, "⊕ rises", m(Sequential(x, z)), m(Sequential(worse, z)))
		below(rt, "⊕ rises", m(Sequential(z, x)), m(Sequential(z, worse)))
		below(rt, "FTF rises", m(FirstToFinish(x, z)), m(FirstToFinish(worse, z)))
		below(rt, "ATF rises", m(AllToFinish(z, x)), m(AllToFinish(z, worse)))
		below(rt, "choice rises", m(Choice([]float64{0.3, 0.7}, x, z)), m(Choice([]float64{0.3, 0.7}, worse, z)))
		below(rt, "timeout rises", m(Timeout(x, 1500)), m(Timeout(worse, 1500)))
		below(rt, "retry rises", m(Retry(x, 1500, 3)), m(Retry(worse, 1500, 3)))
		below(rt, "overlapping retry rises", m(RetryOverlap(x, 1500, 3)), m(RetryOverlap(worse, 1500, 3)))
		below(rt, "rebinning rises", m(Rebin(x, 3000)), m(Rebin(worse, 3000)))
	})
}

func TestRebinCommutes(t *testing.T) {
	m := must(t)
	rapid.Check(t, func(rt *rapid.T) {
		x, y := drawSame(rt, "x"), drawSame(rt, "y")
		same(rt, "rebin twice", m(Rebin(m(Rebin(x, 2000)), 6000)), m(Rebin(x, 6000)))
		same(rt, "rebin and FTF", m(Rebin(m(FirstToFinish(x, y)), 2000)), m(FirstToFinish(m(Rebin(x, 2000)), m(Rebin(y, 2000)))))
		same(rt, "rebin and ATF", m(Rebin(m(AllToFinish(x, y)), 2000)), m(AllToFinish(m(Rebin(x, 2000)), m(Rebin(y, 2000)))))
		if y.isConstant() {
			return // has no width
		}
		same(rt, "operands of two widths", m(AllToFinish(x, m(Rebin(y, 4000)))), m(AllToFinish(m(Rebin(x, 4000)), m(Rebin(y, 4000)))))
	})
	x := m(Uniform(mustGrid(t, ms, 1), 0, 4*ms))
	if _, err := Rebin(x, ms/2); !errors.Is(err, ErrGrid) {
		t.Errorf("rebinning downwards: %v", err)
	}
}

func TestOperatorsRefuse(t *testing.T) {
	m := must(t)
	x := m(Uniform(mustGrid(t, ms, 1), 0, 4*ms))
	kept := x.Clone()
	c := new(Calculator)
	for name, tt := range map[string]struct{ err, want error }{
		"no operand":            {c.Sequential(x), ErrOperands},
		"no operand FTF":        {c.FirstToFinish(x), ErrOperands},
		"an empty operand":      {c.AllToFinish(x, x, new(DeltaQ)), ErrNoData},
		"a nil operand":         {c.Sequential(x, x, nil), ErrNoData},
		"an empty one to scale": {c.Scale(x, new(DeltaQ), 1), ErrNoData},
		"fewer weights":         {c.Choice(x, []float64{1}, x, x), ErrOperands},
		"more weights":          {c.Choice(x, []float64{0.5, 0.5}, x), ErrOperands},
		"no weight":             {c.Choice(x, nil), ErrProbability},
		"a sum below 1":         {c.Choice(x, []float64{0.5, 0.4}, x, x), ErrProbability},
		"a negative weight":     {c.Choice(x, []float64{1.5, -0.5}, x, x), ErrProbability},
		"NaN weights":           {c.Choice(x, []float64{math.NaN(), 1}, x, x), ErrProbability},
		"a factor above 1":      {c.Scale(x, x, 1.01), ErrProbability},
		"a negative timeout":    {c.Timeout(x, x, -1), ErrDelay},
		"no attempt":            {c.Retry(x, x, ms, 0), ErrOperands},
		"no time to retry":      {c.Retry(x, x, 0, 2), ErrDelay},
		"too many attempts":     {c.RetryOverlap(x, x, ms, MaxAttempts+1), ErrOperands},
		"too narrow":            {c.Rebin(x, x, 1), ErrGrid},
		"too wide":              {c.Rebin(x, x, MaxWidth+1), ErrGrid},
	} {
		if !errors.Is(tt.err, tt.want) {
			t.Errorf("%s: %v, want %v", name, tt.err, tt.want)
		}
	}
	same(t, "after errors", x, kept)
}

// Ten weights of 0.1 do not sum to 1 in float64.
func TestChoiceOfTenths(t *testing.T) {
	m := must(t)
	weights, xs := make([]float64, 10), make([]*DeltaQ, 10)
	for i := range weights {
		weights[i], xs[i] = 0.1, m(Wait(mustGrid(t, ms, 1), time.Duration(i)*ms))
	}
	d := m(Choice(weights, xs...))
	if s, _ := d.Success(); s != (Bounds{1, 1}) {
		t.Errorf("success %v, want exactly 1", s)
	}
	if v, ok := d.Quantile(0.3); !ok || v != (Interval{2 * ms, 2 * ms}) {
		t.Errorf("Quantile(0.3) = %v, %v", v, ok)
	}
}

// An operator may overwrite its operands, and one call does not affect the next.
func TestCalculatorReuse(t *testing.T) {
	m := must(t)
	c := new(Calculator)
	rapid.Check(t, func(rt *rapid.T) {
		x, y := drawTree(rt, c, 1).d, drawTree(rt, c, 1).d
		want := m(Sequential(x, y, x))
		for range 2 {
			d := x.Clone()
			if err := c.Sequential(d, d, y, d); err != nil {
				rt.Fatal(err)
			}
			same(rt, "in place", d, want)
		}
	})
}
