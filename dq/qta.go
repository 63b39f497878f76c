package dq

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// A QTA is a quantitative timeliness agreement: a requirement for a ΔQ (thesis, 2.1.6). At each
// step at least P of all executions must succeed within T, and in the end at least a given fraction
// must succeed. The zero QTA requires nothing; its verdict is always Yes.
type QTA struct {
	steps   []Step
	success float64 // at least
	failure float64 // at most: 1 − success, as passed to NewQTA
}

// NewQTA returns the QTA of any number of steps, in any order, and of a largest
// probability of failure. A step that another one implies is kept. It returns
// [ErrDelay] for a negative delay and [ErrProbability] for a probability outside
// [0, 1].
func NewQTA(maxFailure float64, steps ...Step) (QTA, error) {
	if err := checkProbability(maxFailure); err != nil {
		return QTA{}, fmt.Errorf("failure: %w", err)
	}
	for i, s := range steps {
		if err := checkProbability(s.P); err != nil {
			return QTA{}, fmt.Errorf("point %d: %w", i+1, err)
		}
		if s.T < 0 {
			return QTA{}, fmt.Errorf("point %d: %w: %v", i+1, ErrDelay, s.T)
		}
	}
	q := QTA{steps: slices.Clone(steps), success: 1 - maxFailure, failure: maxFailure}
	slices.SortFunc(q.steps, func(a, b Step) int { return cmp.Or(cmp.Compare(a.T, b.T), cmp.Compare(a.P, b.P)) })
	return q, nil
}

// Quartiles returns the QTA in the form of the thesis (4.1.3): a quarter of the executions succeeds
// within p25, a half within p50, three quarters within p75, and at most maxFailure fail. The errors
// are those of NewQTA, and [ErrDelay] unless p25 ≤ p50 ≤ p75.
func Quartiles(p25, p50, p75 time.Duration, maxFailure float64) (QTA, error) {
	if p25 > p50 || p50 > p75 {
		return QTA{}, fmt.Errorf("%w: quartiles %v, %v, %v fall", ErrDelay, p25, p50, p75)
	}
	return NewQTA(maxFailure, Step{p25, 0.25}, Step{p50, 0.5}, Step{p75, 0.75})
}

// Steps are the required points, in order of T and then of P.
func (q QTA) Steps() []Step { return slices.Clone(q.steps) }

// MinSuccess is the smallest fraction of all executions that must succeed.
func (q QTA) MinSuccess() float64 { return q.success }

// MaxFailure is the fraction of all executions that may fail.
func (q QTA) MaxFailure() float64 {
	if q.success == 0 {
		return 1 // as in the zero QTA
	}
	return q.failure
}

// A Point is the result for a ΔQ at one point of a QTA. Margins above 0 are slack, margins below 0
// are hazard.
type Point struct {
	Required Step
	Final    bool // the point is the requirement on success at all; it has no T

	Met         Verdict
	Probability Bounds // F(T) − P

	// Time is T minus the delay within which P of the executions succeed. It is absent for Final,
	// and if that delay may be infinite: then the hazard is unlimited in time.
	Time    TimeMargin
	HasTime bool
}

// A TimeMargin bounds a difference of delays, which may be negative.
type TimeMargin struct{ Lo, Hi time.Duration }

// A Margin is a slack or a hazard, in time and in probability, each with an index into the Points
// of the judgement. If several points have the same margin, the index is that of any of them.
// Both are guaranteed: a slack is at least this value and a hazard at most. Neither is negative.
type Margin struct {
	Probability   float64
	ProbabilityAt int

	// Time is valid only if HasTime is true. HasTime is false if no point has a delay. It is also
	// false for a hazard that more time would not remove, or would not certainly remove.
	Time    time.Duration
	TimeAt  int
	HasTime bool
}

// A Judgement describes whether a ΔQ meets a QTA, and by how much.
type Judgement struct {
	Met    Verdict
	Points []Point // the points of the QTA in order, and then the requirement on success at all

	// Slack is the smallest margin of all points if the QTA is met. Hazard is the largest deficit
	// if it is not met, or may not be met.
	Slack  *Margin
	Hazard *Margin
}

// Judge reports whether d meets the QTA, and by how much. [AtLeast] decides whether a point is met;
// the margins are exact bounds. It returns [ErrNoData] without data.
func (q QTA) Judge(d *DeltaQ) (Judgement, error) {
	var j Judgement
	err := q.WriteJudgement(&j, d)
	return j, err
}

// WriteJudgement is like Judge, but writes to dst, and uses the memory of dst, its Points, Slack
// and Hazard. On an error dst does not change.
func (q QTA) WriteJudgement(dst *Judgement, d *DeltaQ) error {
	if d.Empty() {
		return ErrNoData
	}
	margin := cmp.Or(dst.Slack, dst.Hazard)
	if margin == nil {
		margin = new(Margin)
	}
	j := Judgement{Met: Yes, Points: dst.Points[:0]}
	for _, s := range q.steps {
		j.add(pointAt(d, s))
	}
	j.add(q.final(d))
	if j.Met == Yes {
		*margin = j.slack()
		j.Slack = margin
	} else {
		*margin = j.hazard()
		j.Hazard = margin
	}
	*dst = j
	return nil
}

// Clone returns a copy of j that shares nothing with it.
func (j *Judgement) Clone() *Judgement {
	c := *j
	c.Points = slices.Clone(j.Points)
	c.Slack, c.Hazard = j.Slack.clone(), j.Hazard.clone()
	return &c
}

func (m *Margin) clone() *Margin {
	if m == nil {
		return nil
	}
	c := *m
	return &c
}

// Meets returns the verdict of Judge without its allocations. Without data it returns CannotTell.
func (q QTA) Meets(d *DeltaQ) Verdict {
	if d.Empty() {
		return CannotTell
	}
	verdict := reaches(d.At(d.Bins()), q.success)
	for _, s := range q.steps {
		verdict = verdict.and(reaches(d.At(d.index(s.T)), s.P))
	}
	return verdict
}

func (v Verdict) and(x Verdict) Verdict {
	switch {
	case v == No || x == No:
		return No
	case v == CannotTell || x == CannotTell:
		return CannotTell
	}
	return Yes
}

// reaches returns whether a probability within b is at least p.
func reaches(b Bounds, p float64) Verdict {
	switch {
	case AtLeast(b.Lo, p):
		return Yes
	case !AtLeast(b.Hi, p):
		return No
	}
	return CannotTell
}

func pointAt(d *DeltaQ, s Step) Point {
	b := d.At(d.index(s.T))
	p := Point{Required: s, Met: reaches(b, s.P), Probability: b.minus(s.P)}
	v, ok := d.Quantile(s.P)
	switch {
	case ok && v.Finite():
		p.Time, p.HasTime = TimeMargin{s.T - v.Hi, s.T - v.Lo}, true
	case ok && p.Met == Yes: // within the Tolerance, which the quantile ignores if d has no end
		p.Time, p.HasTime = TimeMargin{s.T - metFrom(d, s.P), s.T - v.Lo}, true
	}
	return p
}

// final returns the point for the requirement on success at all. Its margin is calculated from
// the failures: it is the same margin, but exact if nothing fails.
func (q QTA) final(d *DeltaQ) Point {
	success := d.At(d.Bins())
	failure := Bounds{subDown(1, success.Hi), subUp(1, success.Lo)}
	most := q.MaxFailure()
	return Point{
		Required:    Step{P: q.success},
		Final:       true,
		Met:         reaches(success, q.success),
		Probability: Bounds{subDown(most, failure.Hi), subUp(most, failure.Lo)},
	}
}

func (j *Judgement) add(p Point) {
	j.Points = append(j.Points, p)
	j.Met = j.Met.and(p.Met)
}

func (j *Judgement) slack() Margin {
	m := Margin{Probability: 1}
	for i, p := range j.Points {
		if p.Probability.Lo <= m.Probability {
			m.Probability, m.ProbabilityAt = max(0, p.Probability.Lo), i
		}
		if p.HasTime && (!m.HasTime || p.Time.Lo < m.Time) {
			m.Time, m.TimeAt, m.HasTime = max(0, p.Time.Lo), i, true
		}
	}
	return m
}

func (j *Judgement) hazard() Margin {
	m, endless := Margin{}, false
	for i, p := range j.Points {
		if p.Met == Yes {
			continue
		}
		if lack := -p.Probability.Lo; lack > m.Probability {
			m.Probability, m.ProbabilityAt = lack, i
		}
		if !p.HasTime {
			endless = true
		} else if lack := -p.Time.Lo; lack >= m.Time {
			m.Time, m.TimeAt, m.HasTime = lack, i, true
		}
	}
	m.HasTime = m.HasTime && !endless
	return m
}
