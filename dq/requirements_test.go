package dq

import (
	"errors"
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestCompare(t *testing.T) {
	m := must(t)
	g := mustGrid(t, ms, 1)
	w2, w5 := m(Wait(g, 2*ms)), m(Wait(g, 5*ms))
	early := m(Scale(w2, 0.5)) // crosses w5
	u := m(Uniform(g, 0, 4*ms))
	for _, tt := range []struct {
		name string
		x, y *DeltaQ
		want Order
	}{
		{"2 and 5", w2, w5, Less},
		{"5 and 2", w5, w2, Greater},
		{"the same", w2, w2, Equal},
		{"crossing", early, w5, Incomparable},
		{"never", w5, Never(), Less},
		{"at once", Immediate(), w2, Less},
		{"bounds overlap", u, u, Unordered},
		{"bounds apart", u, w5, Less},
		{"no data", new(DeltaQ), w5, Unordered},
		{"two widths", m(Rebin(w2, 2*ms)), w2, Equal},
	} {
		if got := Compare(tt.x, tt.y); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// A verdict holds for the exact distributions: Yes up to the tolerance, No exactly.
func TestAtMostIsRight(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		x, y := drawLeaf(rt), drawLeaf(rt)
		worst := 0.0 // by how much x is below y
		for _, at := range append(append(x.ref.times(), y.ref.times()...), 1<<60) {
			f, _ := new(big.Rat).Sub(y.ref.within(at), x.ref.within(at)).Float64()
			worst = max(worst, f)
		}
		switch got := AtMost(x.d, y.d); {
		case got == Yes && worst > 1.1*Tolerance, got == No && worst == 0:
			rt.Fatalf("x ≤ y: %v, but x is below y by %v", got, worst)
		}
	})
}

func TestQTAOfTheThesis(t *testing.T) {
	m := must(t)
	g := mustGrid(t, ms, 1)
	q, err := Quartiles(15*ms, 25*ms, 35*ms, 0.05)
	if err != nil {
		t.Fatal(err)
	}
	good := m(Uniform(g, 0, 40*ms)) // quartiles 10, 20, 30
	j, err := q.Judge(good)
	if err != nil {
		t.Fatal(err)
	}
	if j.Met != Yes || j.Hazard != nil || j.Slack == nil {
		t.Fatalf("%+v", j)
	}
	if s := *j.Slack; s.Time != 5*ms || !s.HasTime || math.Abs(s.Probability-0.05) > 1e-12 || s.ProbabilityAt != 3 {
		t.Errorf("slack %+v", s)
	}
	slow := m(Sequential(m(Wait(g, 10*ms)), good)) // 20, 30, 40
	j, err = q.Judge(slow)
	if err != nil {
		t.Fatal(err)
	}
	if j.Met != No || j.Slack != nil || j.Hazard == nil {
		t.Fatalf("%+v", j)
	}
	if h := *j.Hazard; h.Time != 5*ms || !h.HasTime || math.Abs(h.Probability-0.125) > 1e-12 {
		t.Errorf("hazard %+v", h)
	}
	failing := m(Scale(good, 0.7)) // p75 is never reached
	j, err = q.Judge(failing)
	if err != nil {
		t.Fatal(err)
	}
	if j.Met != No || j.Hazard.HasTime || math.Abs(j.Hazard.Probability-0.25) > 1e-12 || j.Hazard.ProbabilityAt != 3 {
		t.Errorf("%+v", j.Hazard)
	}
	if q.Meets(good) != Yes || q.Meets(slow) != No || q.Meets(failing) != No {
		t.Error("Meets and Judge differ")
	}
}

func TestQTAWithinBounds(t *testing.T) {
	m := must(t)
	g := mustGrid(t, ms, 1)
	q, err := NewQTA(0, Step{2*ms + ms/2, 0.5})
	if err != nil {
		t.Fatal(err)
	}
	// Exactly 0.625 at 2.5 ms; the bounds are 0.5 and 0.75, and 0.5 is enough.
	u := m(Uniform(g, 0, 4*ms))
	if q.Meets(u) != Yes {
		t.Error("want yes")
	}
	q, err = NewQTA(0, Step{2*ms + ms/2, 0.6})
	if err != nil {
		t.Fatal(err)
	}
	if q.Meets(u) != CannotTell {
		t.Error("want cannot tell")
	}
	// 0.9·0.9 as a float64 is not 0.81.
	nine := m(Scale(m(Wait(g, ms)), 0.9))
	if q, err = NewQTA(0.19, Step{ms, 0.81}); err != nil {
		t.Fatal(err)
	}
	if q.Meets(m(AllToFinish(nine, nine))) != Yes {
		t.Error("rounding decided")
	}
}

// A QTA that was not set is met by anything, failure included; no data meets
// nothing and misses nothing.
func TestQTANotSet(t *testing.T) {
	var q QTA
	if q.Meets(Never()) != Yes {
		t.Error("a QTA that was not set is missed")
	}
	if q.Meets(new(DeltaQ)) != CannotTell {
		t.Error("a verdict without data")
	}
	if _, err := q.Judge(new(DeltaQ)); !errors.Is(err, ErrNoData) {
		t.Errorf("Judge: %v", err)
	}
}

// The thesis's implementation showed the least success as "max allowed failure".
func TestQTAFailureIsFailure(t *testing.T) {
	m := must(t)
	q, err := NewQTA(0.05)
	if err != nil {
		t.Fatal(err)
	}
	if q.MinSuccess() != 0.95 {
		t.Errorf("MinSuccess = %v", q.MinSuccess())
	}
	if q.Meets(m(Scale(Immediate(), 0.96))) != Yes || q.Meets(m(Scale(Immediate(), 0.94))) != No {
		t.Error("5 % of failures allowed, 4 % is fine, 6 % is not")
	}
}

func TestQTARefuses(t *testing.T) {
	for name, err := range map[string]error{
		"failure above 1":   second(NewQTA(1.1)),
		"failure is NaN":    second(NewQTA(math.NaN())),
		"probability":       second(NewQTA(0, Step{ms, -1})),
		"negative delay":    second(NewQTA(0, Step{-1, 0.5})),
		"falling quartiles": second(Quartiles(3, 2, 4, 0)),
	} {
		if !errors.Is(err, ErrProbability) && !errors.Is(err, ErrDelay) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDiverge(t *testing.T) {
	m := must(t)
	g := mustGrid(t, ms, 1)
	x, y := m(Uniform(g, 0, 4*ms)), m(Uniform(g, 2*ms, 6*ms))
	v, err := Diverge(y, x)
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(v.Nominal-0.5) > 1e-12 || !v.Slower || !v.Distance.Contains(0.5) || v.Chance != 1 {
		t.Errorf("%+v", v)
	}
	if v, _ = Diverge(x, x); v.Nominal != 0 || v.Distance.Lo != 0 {
		t.Errorf("of the same: %+v", v)
	}
	if _, err := Diverge(x, new(DeltaQ)); !errors.Is(err, ErrNoData) {
		t.Errorf("without data: %v", err)
	}
}

func TestBudget(t *testing.T) {
	m := must(t)
	g := mustGrid(t, ms, 1)
	q, err := NewQTA(0.1, Step{10 * ms, 0.5}, Step{20 * ms, 0.9})
	if err != nil {
		t.Fatal(err)
	}
	part := m(Uniform(g, 0, 10*ms)) // half within 5 ms, 0.9 within 9 ms
	b, err := BudgetFor(q, part)
	if err != nil {
		t.Fatal(err)
	}
	if b.Delay != 5*ms || math.Abs(b.Failure-0.1) > 1e-12 {
		t.Errorf("%+v", b)
	}
	rest := m(Wait(g, b.Delay))
	if q.Meets(m(Sequential(part, rest))) != Yes {
		t.Error("the delay of the budget misses")
	}
	if q.Meets(m(Scale(part, 1-b.Failure))) != Yes {
		t.Error("the failure of the budget misses")
	}
	for _, s := range b.Floor {
		if at, _ := rest.ProbabilityWithin(s.T); at.Hi < s.P-Tolerance {
			t.Errorf("the floor %v is above what suffices", s)
		}
	}
	var none *NoResidualError
	if _, err := BudgetFor(q, m(Wait(g, 30*ms))); !errors.As(err, &none) {
		t.Errorf("a part that alone is too slow: %v", err)
	}
}

// A judgement that is written again and again is the same as a new one, and allocates
// nothing.
func TestWriteJudgement(t *testing.T) {
	g, err := NewGrid(time.Millisecond, 6)
	if err != nil {
		t.Fatal(err)
	}
	q, err := Quartiles(time.Millisecond, 2*time.Millisecond, 3*time.Millisecond, 0.1)
	if err != nil {
		t.Fatal(err)
	}
	var j Judgement
	rapid.Check(t, func(t *rapid.T) {
		counts := rapid.SliceOfN(rapid.Uint64Range(0, 9), 6, 6).Draw(t, "counts")
		counts[0]++
		o, err := FromCounts(g, counts, rapid.Uint64Range(0, 9).Draw(t, "failures"), 0)
		if err != nil {
			t.Fatal(err)
		}
		d, err := o.DeltaQ()
		if err != nil {
			t.Fatal(err)
		}
		if err := q.WriteJudgement(&j, d); err != nil {
			t.Fatal(err)
		}
		fresh, err := q.Judge(d)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(fresh, j); diff != "" {
			t.Fatal(diff)
		}
		if diff := cmp.Diff(&j, j.Clone()); diff != "" {
			t.Fatal(diff)
		}
		if n := testing.AllocsPerRun(10, func() { _ = q.WriteJudgement(&j, d) }); n > 0 {
			t.Fatalf("%v allocations", n)
		}
		before := j.Clone()
		if err := q.WriteJudgement(&j, new(DeltaQ)); err != ErrNoData || !cmp.Equal(before, &j) {
			t.Fatalf("without data: %v, and the judgement has changed", err)
		}
	})
}
