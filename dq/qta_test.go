package dq

import (
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// A judgement agrees with exact rational arithmetic: for exact ΔQs and for bounds, at points on
// edges and between them, at ties and elsewhere.
func TestJudgementInRationals(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	verdicts := map[Verdict]int{}
	for range 2000 {
		d := drawStairs(t, r)
		if r.IntN(8) == 0 {
			d.excess = unbounded()
		}
		q := drawQTA(t, r, d)
		j, err := q.Judge(d)
		if err != nil {
			t.Fatal(err)
		}
		verdicts[j.Met]++
		if len(j.Points) != len(q.Steps())+1 || q.Meets(d) != j.Met {
			t.Fatalf("%d points for %d steps, Meets %v, met %v", len(j.Points), len(q.Steps()), q.Meets(d), j.Met)
		}
		s, worst := stairOf(d), Yes
		for i, p := range j.Points {
			k, final := s.bins(), i == len(q.Steps())
			want := Step{P: 1 - q.MaxFailure()}
			if !final {
				want = q.Steps()[i]
				k = int(want.T / d.Width())
			}
			if p.Required != want || p.Final != final {
				t.Fatalf("point %d: %+v, want %+v", i, p, want)
			}
			// Overall success is checked by the failures, because 1 − 0.1 is not exactly 0.9.
			required := rat(want.P)
			if final {
				required = ratSub(big.NewRat(1, 1), rat(q.MaxFailure()))
			}
			checkMargin(t, p, ratSub(at(s.lo, k), required), ratSub(at(s.hi, k), required))
			met := refVerdict(at(s.lo, k), at(s.hi, k), want.P)
			if p.Met != met {
				t.Fatalf("point %+v: %v, want %v", p, p.Met, met)
			}
			if met == No || met == CannotTell && worst == Yes {
				worst = met
			}
			checkTime(t, d, s, p)
		}
		if j.Met != worst {
			t.Fatalf("%v, want %v: %+v", j.Met, worst, j)
		}
		checkSlack(t, j)
		checkHazard(t, j)
	}
	for _, v := range []Verdict{Yes, No, CannotTell} {
		if verdicts[v] < 100 {
			t.Errorf("%d judgements are %v: want many", verdicts[v], v)
		}
	}
}

// drawQTA draws a QTA with requirements close to the values of d.
func drawQTA(t testing.TB, r *rand.Rand, d *DeltaQ) QTA {
	steps := make([]Step, r.IntN(4))
	for i := range steps {
		at := time.Duration(r.Int64N(int64(d.Horizon()) + 2000))
		if r.IntN(2) == 0 {
			at -= at % d.Width()
		}
		b := d.At(d.index(at))
		p := []float64{r.Float64(), b.Lo, b.Hi, b.Lo * r.Float64(), b.Lo - 0.9*Tolerance, b.Hi + 1.1*Tolerance, 0}[r.IntN(7)]
		steps[i] = Step{at, max(0, min(1, p))}
	}
	failure, _ := d.IntangibleMass()
	most := []float64{r.Float64(), failure.Lo, failure.Hi, 1, math.Sqrt(failure.Hi)}[r.IntN(5)]
	q, err := NewQTA(max(0, min(1, most)), steps...)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// refVerdict resolves a tie as [AtLeast] documents.
func refVerdict(lo, hi *big.Rat, p float64) Verdict {
	level := p - min(Tolerance, p/2)
	switch {
	case lo.Cmp(rat(level)) >= 0:
		return Yes
	case hi.Cmp(rat(level)) < 0:
		return No
	}
	return CannotTell
}

func checkMargin(t *testing.T, p Point, lo, hi *big.Rat) {
	t.Helper()
	b := p.Probability
	if rat(b.Lo).Cmp(lo) > 0 || rat(b.Hi).Cmp(hi) < 0 {
		t.Fatalf("point %+v: want %v to %v", p, toFloat(lo), toFloat(hi))
	}
	const off = 0x1p-51
	if b.Lo < toFloat(lo)-off || b.Hi > toFloat(hi)+off {
		t.Fatalf("point %+v: wider than %v to %v", p, toFloat(lo), toFloat(hi))
	}
}

// checkTime checks the margin in time against the first edges at which both bounds reach
// the probability.
func checkTime(t *testing.T, d *DeltaQ, s stair, p Point) {
	t.Helper()
	reaches := func(f []*big.Rat, level float64) (time.Duration, bool) {
		k := slices.IndexFunc(f, func(x *big.Rat) bool { return x.Cmp(rat(level)) >= 0 })
		return time.Duration(k) * d.Width(), k >= 0
	}
	tie := p.Required.P - min(Tolerance, p.Required.P/2)
	level := tie
	if !d.Bounded() {
		level = p.Required.P
	}
	fast, possible := reaches(s.hi, tie)
	slow, sure := reaches(s.lo, level)
	switch {
	case p.Required.P == 0:
		fast, slow = 0, 0
	case p.Final || !possible || !sure:
		if p.HasTime || p.Time != (TimeMargin{}) {
			t.Fatalf("point %+v has a time", p)
		}
		return
	}
	if want := (TimeMargin{p.Required.T - slow, p.Required.T - fast}); p.Time != want && !p.Final || p.HasTime == p.Final {
		t.Fatalf("point %+v: want a margin in time of %v", p, want)
	}
}

// checkSlack checks that there is a slack exactly if the QTA is met, that each point has at least
// this margin, and that the point at the index has no more.
func checkSlack(t *testing.T, j Judgement) {
	t.Helper()
	if (j.Slack != nil) != (j.Met == Yes) {
		t.Fatalf("slack %+v of %v", j.Slack, j.Met)
	}
	if j.Slack == nil {
		return
	}
	m, some := *j.Slack, false
	for _, p := range j.Points {
		if m.Probability > max(0, p.Probability.Lo) || p.HasTime && m.Time > max(0, p.Time.Lo) {
			t.Fatalf("slack %+v, point %+v has less", m, p)
		}
		some = some || p.HasTime
	}
	if at := j.Points[m.ProbabilityAt]; m.Probability != max(0, at.Probability.Lo) {
		t.Fatalf("slack %+v, but there it is %+v", m, at)
	}
	if at := j.Points[m.TimeAt]; m.HasTime != some || some && (m.Time != max(0, at.Time.Lo) || !at.HasTime) {
		t.Fatalf("slack %+v, but there it is %+v", m, at)
	}
}

// checkHazard does the same for a hazard: no point has a larger deficit. The hazard has no time
// if a point that is not met, or may not be met, would not certainly be met after any time.
func checkHazard(t *testing.T, j Judgement) {
	t.Helper()
	if (j.Hazard != nil) != (j.Met != Yes) {
		t.Fatalf("hazard %+v of %v", j.Hazard, j.Met)
	}
	if j.Hazard == nil {
		return
	}
	m, mendable := *j.Hazard, true
	for _, p := range j.Points {
		if p.Met == Yes {
			continue
		}
		if m.Probability < -p.Probability.Lo || m.HasTime && m.Time < -p.Time.Lo {
			t.Fatalf("hazard %+v, point %+v lacks more", m, p)
		}
		mendable = mendable && p.HasTime
	}
	if at := j.Points[m.ProbabilityAt]; at.Met == Yes || m.Probability != -at.Probability.Lo || !(m.Probability > 0) {
		t.Fatalf("hazard %+v, but there it is %+v", m, at)
	}
	if at := j.Points[m.TimeAt]; m.HasTime != mendable || mendable && (at.Met == Yes || m.Time != -at.Time.Lo || m.Time <= 0) {
		t.Fatalf("hazard %+v, but there it is %+v", m, at)
	}
}

// A QTA keeps the values passed to NewQTA. It does not calculate the failures from the successes.
func TestQTAKeepsGivenValues(t *testing.T) {
	q, err := NewQTA(0.1, Step{5 * ms, 0.9}, Step{ms, 0.5}, Step{5 * ms, 0.25}, Step{0, 0})
	if err != nil {
		t.Fatal(err)
	}
	if want := []Step{{0, 0}, {ms, 0.5}, {5 * ms, 0.25}, {5 * ms, 0.9}}; !slices.Equal(q.Steps(), want) {
		t.Errorf("%v, want %v", q.Steps(), want)
	}
	if q.MaxFailure() != 0.1 || q.MinSuccess() != 0.9 {
		t.Errorf("failure %v, success %v", q.MaxFailure(), q.MinSuccess())
	}
	if q, err = NewQTA(1); err != nil || q.MaxFailure() != 1 || q.MinSuccess() != 0 {
		t.Errorf("%+v, %v", q, err)
	}
	if none := (QTA{}); none.MaxFailure() != 1 || none.MinSuccess() != 0 || len(none.Steps()) != 0 {
		t.Errorf("%+v", none)
	}
	if q, err = Quartiles(ms, ms, ms, 0); err != nil || q.MaxFailure() != 0 || !slices.Equal(q.Steps(), []Step{{ms, 0.25}, {ms, 0.5}, {ms, 0.75}}) {
		t.Errorf("%+v, %v", q, err)
	}
	for _, falling := range [][3]time.Duration{{2, 1, 3}, {1, 3, 2}} {
		if _, err := Quartiles(falling[0], falling[1], falling[2], 0); !errors.Is(err, ErrDelay) {
			t.Errorf("%v: %v", falling, err)
		}
	}
	for _, second := range []Step{{ms, 2}, {-ms, 0}} {
		if _, err := NewQTA(0, Step{}, second); err == nil || !strings.Contains(err.Error(), "point 2") {
			t.Errorf("%v: %v", second, err)
		}
	}
}

// A budget is as large as possible: with one more bin or another millionth of failure, the QTA is
// missed. The floor rises, and agrees with the inequality of Deconvolve in rational arithmetic.
func TestBudgetInRationals(t *testing.T) {
	m := must(t)
	r, grid := rand.New(rand.NewPCG(7, 8)), mustGrid(t, ms/1000, 1)
	refused, undecided, floors := 0, 0, 0
	for range 1500 {
		part := drawStairs(t, r)
		s := stairOf(part)
		q := drawQTA(t, r, part)
		b, err := BudgetFor(q, part)
		j, _ := q.Judge(part)
		if j.Met != Yes {
			if checkRefusal(t, err, j.Points, part, s) {
				refused++
			} else {
				undecided++
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if b.Failure < 0 || b.Failure > 1 || b.Delay < 0 || q.Meets(m(Scale(part, 1-b.Failure))) != Yes {
			t.Fatalf("a failure of %v misses", b.Failure)
		}
		if b.Failure < 1-1e-6 && q.Meets(m(Scale(part, 1-b.Failure-1e-6))) == Yes {
			t.Fatalf("more than a failure of %v is met", b.Failure)
		}
		late := func(t time.Duration) Verdict {
			return q.Meets(m(Sequential(part, m(Wait(grid, t)))))
		}
		edge := b.Delay - b.Delay%part.Width()
		if b.Delay == Unreached {
			edge = 100 * part.Width()
		} else if late(edge+part.Width()) == Yes {
			t.Fatalf("more than a delay of %v is met: %+v by %+v", b.Delay, q, part)
		}
		if late(edge) != Yes {
			t.Fatalf("a delay of %v misses: %+v by %+v", edge, q, part)
		}
		floors += checkFloor(t, b, q, part, s)
	}
	if refused < 100 || undecided < 100 || floors < 100 {
		t.Errorf("%d refused, %d undecided, %d points of floors: want many", refused, undecided, floors)
	}
}

// checkRefusal checks the error for a part that does not certainly meet all points of a QTA. If
// the upper bound of the part, a rational, is below some point, the error must be a
// NoResidualError. Otherwise it must be an UndecidedError. checkRefusal returns true for a
// NoResidualError.
func checkRefusal(t *testing.T, err error, points []Point, part *DeltaQ, s stair) bool {
	t.Helper()
	reached := func(f []*big.Rat, p Point) *big.Rat {
		if p.Final {
			return at(f, s.bins())
		}
		return at(f, int(p.Required.T/part.Width()))
	}
	missed := func(f []*big.Rat) int {
		return slices.IndexFunc(points, func(p Point) bool {
			return reached(f, p).Cmp(rat(lessTolerance(p.Required.P))) < 0
		})
	}
	var none *NoResidualError
	var open *UndecidedError
	if i := missed(s.hi); i >= 0 {
		p, most := points[i], toFloat(reached(s.hi, points[i]))
		if !errors.As(err, &none) || none.At != p.Required.T || none.Needs != p.Required.P || math.Abs(none.Possible-most) > 0x1p-50 || none.Possible < most {
			t.Fatalf("%v: %+v is missed, %v is possible", err, p, most)
		}
		return true
	}
	p := points[missed(s.lo)]
	lo, hi := toFloat(reached(s.lo, p)), toFloat(reached(s.hi, p))
	if errors.As(err, &none) || !errors.As(err, &open) || open.Required != p.Required || open.Final != p.Final || open.Reached != (Bounds{lo, hi}) {
		t.Fatalf("%v: %+v may be missed, %v to %v are reached", err, p, lo, hi)
	}
	return false
}

func checkFloor(t *testing.T, b Budget, q QTA, part *DeltaQ, s stair) int {
	t.Helper()
	next, last := 0, 0.0
	width := part.Width()
	for k := 0; len(q.Steps()) > 0 && time.Duration(k)*width <= q.Steps()[len(q.Steps())-1].T; k++ {
		most := new(big.Rat)
		for _, step := range q.Steps() {
			rest := step.T - time.Duration(k)*width
			if rest < 0 {
				continue
			}
			later, all := at(s.hi, int(rest/width)), at(s.hi, int(step.T/width))
			if need := ratSub(rat(step.P), later); toFloat(need) > Tolerance && all.Cmp(later) > 0 {
				if x := ratQuo(need, ratSub(all, later)); x.Cmp(most) > 0 {
					most = smaller(x, big.NewRat(1, 1))
				}
			}
		}
		want := toFloat(most)
		if next < len(b.Floor) && b.Floor[next].T == time.Duration(k)*width {
			got := b.Floor[next].P
			if rat(got).Cmp(most) > 0 || got < want-1e-12 || got <= last {
				t.Fatalf("floor %+v, want %v, and before %v", b.Floor[next], want, last)
			}
			next, last = next+1, got
		} else if want > last+1.01*Tolerance {
			t.Fatalf("floor %+v has no point at edge %d, want %v", b.Floor, k, want)
		}
	}
	if next != len(b.Floor) {
		t.Fatalf("floor %+v has more points than the inequality", b.Floor)
	}
	return next
}

// A floor does not repeat a point that is within the tolerance of the previous one. With a long
// QTA and short bins, it ends after MaxBins bins.
func TestBudgetOfALongQTA(t *testing.T) {
	part := must(t)(Uniform(mustGrid(t, MinWidth, 1), 0, 10*MinWidth))
	q, err := NewQTA(0, Step{MaxBins * MinWidth * 2, 1})
	if err != nil {
		t.Fatal(err)
	}
	b, err := BudgetFor(q, part)
	if err != nil || len(b.Floor) != 0 || b.Delay != (2*MaxBins-10)*MinWidth || b.Failure != 0 {
		t.Errorf("%+v, %v", b, err)
	}
}
