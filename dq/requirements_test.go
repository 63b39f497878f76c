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
func TestAtMostIsCorrect(t *testing.T) {
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

// Every ΔQ meets a QTA that was not set, even one that always fails. Without data the verdict is
// CannotTell.
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

// MaxFailure is a probability of failure. The implementation of the thesis showed the least
// success as "max allowed failure".
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

// The longest delay that a budget leaves meets the QTA, and a bin more does not. The part has no end
// and reaches the required probability only within the tolerance.
func TestBudgetWithinTolerance(t *testing.T) {
	m := must(t)
	g := mustGrid(t, ms, 100)
	part := m(Exponential(g, ms)) // from 28 ms on, fewer than 1e-12 of the delays are longer
	q, err := NewQTA(1, Step{40 * ms, 1})
	if err != nil {
		t.Fatal(err)
	}
	b, err := BudgetFor(q, part)
	if err != nil {
		t.Fatal(err)
	}
	if b.Delay != 12*ms {
		t.Errorf("a delay of %v, want 12 ms", b.Delay)
	}
	for delay, want := range map[time.Duration]Verdict{b.Delay: Yes, b.Delay + ms: No} {
		if got := q.Meets(m(Sequential(part, m(Wait(g, delay))))); got == Yes != (want == Yes) {
			t.Errorf("with a delay of %v: %v", delay, got)
		}
	}
}

// A point that a ΔQ without an end meets only within the Tolerance limits the slack in time.
func TestSlackWithinTolerance(t *testing.T) {
	part := must(t)(Exponential(mustGrid(t, ms, 100), ms)) // from 28 ms on, fewer than 1e-12 of the delays are longer
	q, err := NewQTA(0, Step{40 * ms, 1}, Step{100 * ms, 0.5})
	if err != nil {
		t.Fatal(err)
	}
	j, err := q.Judge(part)
	if err != nil {
		t.Fatal(err)
	}
	if j.Met != Yes || j.Slack == nil || !j.Slack.HasTime || j.Slack.Time != 12*ms {
		t.Errorf("%v, slack %+v; want 12 ms", j.Met, j.Slack)
	}
	for earlier, want := range map[time.Duration]Verdict{12 * ms: Yes, 13 * ms: No} {
		q, err := NewQTA(0, Step{40*ms - earlier, 1}, Step{100*ms - earlier, 0.5})
		if err != nil {
			t.Fatal(err)
		}
		if got := q.Meets(part); got == Yes != (want == Yes) {
			t.Errorf("%v earlier: %v", earlier, got)
		}
	}
}

// Every point of a floor must be reached: it is the second inequality of Deconvolve. The points are
// at edges up to the last required delay, and at most up to edge MaxBins.
func TestFloorEnds(t *testing.T) {
	m := must(t)
	g := mustGrid(t, ms, 1)
	// Half of the delays of the part are 0 and the others 1 ms. So within 1 ms of the end, the rest
	// must be done in a share x of the cases with x + (1 − x)/2 = 0.75.
	part := m(Steps(g, []Step{{0, 0.5}, {ms, 1}}))
	for _, tt := range []struct {
		within time.Duration
		want   []Step
	}{
		{ms, []Step{{ms, 0.5}}},
		{4 * ms, []Step{{4 * ms, 0.5}}},
		{MaxBins * ms, []Step{{MaxBins * ms, 0.5}}},
		{(MaxBins + 1) * ms, nil},
	} {
		q, err := NewQTA(1, Step{tt.within, 0.75})
		if err != nil {
			t.Fatal(err)
		}
		b, err := BudgetFor(q, part)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, b.Floor); diff != "" {
			t.Errorf("0.75 within %v: %s", tt.within, diff)
		}
	}
}

// Overwriting a judgement many times gives the same result as a new one, and allocates no memory.
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
