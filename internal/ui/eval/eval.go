package eval

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/beamscope/beamscope/diagram"
	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/engine/figures"
)

// A Question is a question about a diagram.
type Question struct {
	Diagram   *diagram.File
	Models    map[string]string // by outcome, see [Model]
	Grid      dq.Grid           // bin width, and dMax for models without an end
	Open      Open              // opens files of samples; nil if there are none
	Quantiles []float64         // in [0, 1]
	Within    []time.Duration
	QTA       *dq.QTA // requirement on the last definition; nil for none

	Compare  Pair   // two names to compare
	Residual Pair   // a whole and a part of its sequence: the report gives what remains
	Budget   string // a part of a sequence; the report says what the QTA leaves for the other parts; "" for none
	SD       bool   // tables show the standard deviation
}

// A Report answers a Question. Its JSON is that of "beamscope eval --json".
type Report struct {
	Probes map[string]*Probe `json:"outcomes"` // definitions and operators

	Comparison *Comparison `json:"compare,omitempty"`
	Residual   *Residual   `json:"residual,omitempty"`
	Budget     *Budget     `json:"budget,omitempty"`

	// Names are the names of the probes in the order of the diagram. Values are their ΔQs, for
	// plots.
	Names  []string              `json:"-"`
	Base   time.Duration         `json:"-"` // requested width of bins
	SD     bool                  `json:"-"` // tables show the standard deviation
	Values map[string]*dq.DeltaQ `json:"-"`

	// Judgement is the judgement of the last definition, if there is a requirement: the verdict on
	// its QTA, and the places of the margins.
	Judgement *dq.Judgement `json:"-"`
	Judged    string        `json:"-"` // the name of that definition
}

// A Probe is the part of a Report about one definition or operator. All bounds contain the exact
// figures.
type Probe struct {
	Failure   Bounds       `json:"failure"`
	Mean      *Bounds      `json:"mean_s"` // on condition of success; null if nothing succeeds
	SD        *Bounds      `json:"sd_s"`   // standard deviation on condition of success; null if nothing succeeds
	Quantiles []Quantile   `json:"quantiles"`
	Within    []Within     `json:"within"`
	QTA       *figures.QTA `json:"qta,omitempty"`
	Bin       float64      `json:"bin_s"` // the width of the bins

	// Data for the table, which is exact, unlike seconds as floating-point numbers.
	failure dq.Bounds
	moments *dq.Moments // in nanoseconds; nil if nothing succeeds
	showSD  bool
}

// Bounds contain an exact figure. null means that the bound may be infinite.
type Bounds struct {
	Lo *float64 `json:"lo"`
	Hi *float64 `json:"hi"`
}

// A Quantile bounds, in seconds, the delay within which a fraction P of all executions succeeds.
// null means that it is in the intangible mass or may be.
type Quantile struct {
	P  float64  `json:"p"`
	Lo *float64 `json:"lo_s"`
	Hi *float64 `json:"hi_s"`

	interval dq.Interval
	reached  bool // it may lie outside the intangible mass
}

// Within bounds the probability of success within T seconds.
type Within struct {
	T  float64 `json:"t_s"`
	Lo float64 `json:"lo"`
	Hi float64 `json:"hi"`

	t time.Duration
}

// ErrQuestion means that a question is invalid: a model is missing or belongs to no outcome, or a
// figure is out of range.
var ErrQuestion = errors.New("invalid question")

// Answer evaluates the diagram and answers the question. It returns [ErrQuestion], [ErrModel], or
// errors of the packages dq and diagram.
func Answer(q Question) (*Report, error) {
	if err := q.check(); err != nil {
		return nil, err
	}
	models, err := q.models()
	if err != nil {
		return nil, err
	}
	program, err := diagram.Compile(q.Diagram)
	if err != nil {
		return nil, err
	}
	if err := program.Evaluate(func(name string) *dq.DeltaQ { return models[name] }); err != nil {
		return nil, err
	}
	r := &Report{Probes: map[string]*Probe{}, Names: program.Names(), Base: q.Grid.Width(), SD: q.SD, Values: map[string]*dq.DeltaQ{}}
	for _, name := range r.Names {
		d, _ := program.Value(name)
		r.Values[name] = d
		r.Probes[name] = q.probe(d)
	}
	if q.QTA != nil {
		r.Judged = q.Diagram.Definitions[len(q.Diagram.Definitions)-1].Name
		j, err := q.QTA.Judge(r.Values[r.Judged])
		if err != nil {
			return nil, err
		}
		r.Judgement, r.Probes[r.Judged].QTA = &j, figures.OfJudgement(&j)
	}
	return r, q.further(r, program)
}

func (q Question) check() error {
	if q.Diagram == nil || len(q.Diagram.Definitions) == 0 {
		return fmt.Errorf("%w: the diagram is empty", ErrQuestion)
	}
	for _, p := range q.Quantiles {
		if !(p >= 0 && p <= 1) {
			return fmt.Errorf("%w: quantile %v: want 0 to 1", ErrQuestion, p)
		}
	}
	for _, t := range q.Within {
		if t < 0 {
			return fmt.Errorf("%w: within %v", ErrQuestion, t)
		}
	}
	return nil
}

// models returns the ΔQs of all outcomes.
func (q Question) models() (map[string]*dq.DeltaQ, error) {
	models := map[string]*dq.DeltaQ{}
	var missing []string
	for _, name := range q.Diagram.Outcomes() {
		text, ok := q.Models[name]
		if !ok {
			missing = append(missing, name)
			continue
		}
		d, err := Model(text, q.Grid, q.Open)
		if err != nil {
			return nil, fmt.Errorf("model of %s: %w", name, err)
		}
		models[name] = d
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("%w: no model for %s", ErrQuestion, strings.Join(missing, ", "))
	}
	for _, name := range slices.Sorted(maps.Keys(q.Models)) {
		if models[name] == nil {
			return nil, fmt.Errorf("%w: the diagram has no outcome %s", ErrQuestion, name)
		}
	}
	return models, nil
}

func (q Question) probe(d *dq.DeltaQ) *Probe {
	failure, _ := d.IntangibleMass()
	p := &Probe{Failure: *bounds(failure), Quantiles: []Quantile{}, Within: []Within{}, Bin: d.Width().Seconds(), failure: failure, showSD: q.SD}
	if m, ok := d.Moments(); ok {
		p.moments = &m
		p.Mean, p.SD = seconds(m.Mean), seconds(m.SD)
	}
	for _, x := range q.Quantiles {
		p.Quantiles = append(p.Quantiles, quantile(d, x))
	}
	for _, t := range q.Within {
		b, _ := d.ProbabilityWithin(t)
		p.Within = append(p.Within, Within{T: t.Seconds(), Lo: b.Lo, Hi: b.Hi, t: t})
	}
	return p
}

func quantile(d *dq.DeltaQ, p float64) Quantile {
	q := Quantile{P: p}
	v, ok := d.Quantile(p)
	if !ok {
		return q
	}
	q.interval, q.reached = v, true
	q.Lo = figures.Number(v.Lo.Seconds())
	if v.Finite() {
		q.Hi = figures.Number(v.Hi.Seconds())
	}
	return q
}

// seconds converts bounds from nanoseconds to seconds.
func seconds(b dq.Bounds) *Bounds { return bounds(b.Over(1e9)) }

func bounds(b dq.Bounds) *Bounds { return &Bounds{figures.Number(b.Lo), figures.Number(b.Hi)} }
