// Package plot contains what a plot of outcomes shows: curves of the probability of success over the
// delay, requirements, dMax and the intangible mass, and the division of an axis of delays. So
// terminals and files show the same.
package plot

import (
	"time"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/engine/figures"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
)

// A Role is the role of a curve: observed, calculated, or a mean.
type Role uint8

// The roles of curves, in the order in which they are drawn: later ones lie on top.
const (
	Earlier        Role = iota // observed in an earlier window that was chosen
	Mean                       // of the observed ΔQs of the last windows, with its confidence bounds
	CalculatedMean             // of the calculated ones
	Calculated                 // in the window, between its bounds
	Observed                   // in the window
)

// Roles returns all roles, in the order in which they are drawn.
func Roles() []Role { return []Role{Earlier, Mean, CalculatedMean, Calculated, Observed} }

// String names the role for legends.
func (r Role) String() string {
	return [...]string{"earlier", "mean", "calculated mean", "calculated", "observed"}[r]
}

// A Curve is a distribution function as it is known at the edges of bins.
type Curve struct {
	Role  Role
	Width time.Duration // between edges

	// Y are the probabilities of success within k·Width, k = 0, 1, …; after the last one the
	// function is constant. If there are bounds, Y is the middle of them.
	Y []float64

	// Lo and Hi are bounds at the same edges: confidence bounds of a mean, guaranteed bounds of a
	// calculated curve. They are nil for an observed curve, which is exact at the edges, and for a
	// mean of one window. Between two edges, only the rise of the function from one value to the
	// other is known.
	Lo, Hi []float64

	label    string
	within   func(time.Duration) (dq.Bounds, bool)
	quantile func(float64) (dq.Interval, bool)
	reaches  func(float64) time.Duration // of a mean
}

// Name returns the name of the curve for legends: its role, or the label of an earlier window.
func (c *Curve) Name() string {
	if c.label != "" {
		return c.label
	}
	return c.Role.String()
}

// Within bounds the probability of success within t. It returns false if that is unknown.
func (c *Curve) Within(t time.Duration) (dq.Bounds, bool) { return c.within(t) }

// Read bounds the probability for a cursor at t. At an edge it is the drawn value, which does not
// contain instances of exactly that delay. Between edges it is Within.
func (c *Curve) Read(t time.Duration) (dq.Bounds, bool) {
	if t < 0 || t%c.Width != 0 || len(c.Y) == 0 {
		return c.Within(t)
	}
	k := min(int(t/c.Width), len(c.Y)-1)
	if c.Lo == nil {
		return dq.Bounds{Lo: c.Y[k], Hi: c.Y[k]}, true
	}
	return dq.Bounds{Lo: c.Lo[k], Hi: c.Hi[k]}, true
}

// Quantile bounds the delay within which a share p of all instances succeeds. For a mean the bounds
// are the edges at which its upper and its lower bound reach p. It returns false if p is never
// reached, or if that is unknown.
func (c *Curve) Quantile(p float64) (dq.Interval, bool) { return c.quantile(p) }

// Middle bounds the middle Y at t by the edges around it. At an edge it is exact.
func (c *Curve) Middle(t time.Duration) (dq.Bounds, bool) { return meanWithin(c.Y, c.Y, c.Width, t) }

// IsMean reports whether the curve is a mean.
func (c *Curve) IsMean() bool { return c.Role == Mean || c.Role == CalculatedMean }

// Reaches returns the delay at which a cursor on the curve reads a share p: for a mean the edge at
// which the mean itself reaches p, otherwise the end of the quantile. It returns false if there is
// none.
func (c *Curve) Reaches(p float64) (time.Duration, bool) {
	q, ok := c.Quantile(p)
	if ok && c.reaches != nil {
		q.Hi = c.reaches(p)
	}
	return q.Hi, ok && q.Finite()
}

// A Series is the data to draw for one outcome of one VM in one window.
type Series struct {
	Name   string
	Alias  string // from [outcome.Spec.Alias]
	VM     outcome.VM
	Curves []Curve // in drawing order; none without data

	DMax   time.Duration
	Fitted bool // beamscope chose dMax

	// Required are the steps of the QTA, sorted by delay, and MinSuccess is the share that must
	// succeed in the end. Judged reports whether there is a QTA.
	Required   []dq.Step
	MinSuccess float64
	Judged     bool

	// Failed is the share of the instances that failed or timed out: the distance
	// of the observed curve from 1 at dMax. HasFailed is false without instances.
	Failed    float64
	HasFailed bool
	TimedOut  float64 // share of the instances that timed out

	Instances uint64
	Inferred  bool   // some instances were paired by order
	Lost      uint64 // lost instances, which Instances does not include
	Late      uint64 // ends of instances that had timed out in an earlier window
	Caveat    string // why the window gives no verdict; "" if it gives one

	// Silent is the time without an end of an instance, up to the end of the window, for an outcome
	// that had some before; 0 if unknown, or if an instance ended.
	Silent time.Duration
}

// NameAmong returns the name of a series among others: with its VM, if another series has the same
// name.
func NameAmong(series []Series, i int) string {
	for j := range series {
		if j != i && series[j].Name == series[i].Name {
			return figures.Called(series[i].Name, series[i].Alias) + ", " + series[i].VM.String()
		}
	}
	return figures.Called(series[i].Name, series[i].Alias)
}

// Of returns the series of an outcome with a requirement, which may be nil. If earlier is not nil, it
// is the same outcome in an earlier window, whose curve is drawn too. label is the name of that curve
// for legends, or "" if it has none. The curves keep references to the outcomes, which must stay
// valid.
func Of(p *scope.Outcome, q *dq.QTA, earlier *scope.Outcome, label string) Series {
	s := Series{
		Name: p.Name, Alias: p.Spec.Alias(), VM: p.VM, DMax: p.Spec.DMax(), Fitted: p.Fitted, Instances: p.Counts.Instances(), Inferred: p.Inferred(),
		Lost: p.Counts.Loss.Total(), Late: p.Counts.Lates, Caveat: p.Insufficient,
	}
	if p.Seen {
		s.Silent = p.Silent
	}
	if q != nil {
		s.Required, s.MinSuccess, s.Judged = q.Steps(), q.MinSuccess(), true
	}
	if earlier != nil && !earlier.Observed.Empty() {
		c := observed(earlier.Observed, Earlier)
		c.label = label
		s.Curves = append(s.Curves, c)
	}
	if p.Mean.Windows > 0 {
		s.Curves = append(s.Curves, mean(p.Mean, Mean))
	}
	if p.CalculatedMean.Windows > 0 {
		s.Curves = append(s.Curves, mean(p.CalculatedMean, CalculatedMean))
	}
	if p.Calculated != nil && !p.Calculated.Empty() {
		s.Curves = append(s.Curves, calculated(p.Calculated))
	}
	if p.Observed != nil && !p.Observed.Empty() {
		s.Curves = append(s.Curves, observed(p.Observed, Observed))
		s.Failed, s.HasFailed = p.Observed.IntangibleMass()
		s.TimedOut = float64(p.Observed.Timeouts()) / float64(p.Observed.Instances())
	}
	return s
}

func observed(o *dq.Observed, r Role) Curve {
	return Curve{Role: r, Width: o.Grid().Width(), Y: o.AppendECDF(nil), within: o.ProbabilityWithin, quantile: o.Quantile}
}

// calculated returns the curve of a calculated ΔQ. At an edge, its lower bound is that of the bin
// that begins there, and its upper bound is that of the bin that ends there. From one edge to the
// next, the curve may rise from the lower bound of the first to the upper bound of the second.
func calculated(d *dq.DeltaQ) Curve {
	c := Curve{Role: Calculated, Width: d.Width(), within: d.ProbabilityWithin, quantile: d.Quantile}
	c.Lo, c.Hi = d.AppendBounds(nil, nil)
	last := len(c.Lo) - 1
	c.Lo, c.Hi = append(c.Lo, c.Lo[last]), append(c.Hi, c.Hi[last])
	copy(c.Hi[1:], c.Hi[:last+1])
	c.Hi[0] = c.Lo[0]
	c.Y = make([]float64, len(c.Lo))
	for k := range c.Y {
		c.Hi[k] = max(c.Lo[k], c.Hi[k]) // instances of exactly this delay are in the lower bound only
		c.Y[k] = dq.Bounds{Lo: c.Lo[k], Hi: c.Hi[k]}.Mid()
	}
	return c
}

// mean returns the curve of a mean. Between two edges, the mean and its bounds lie between their
// values at these edges.
func mean(m scope.Mean, r Role) Curve {
	c := Curve{Role: r, Width: m.Width, Y: m.Band.Mean}
	lo, hi := c.Y, c.Y
	if m.Bounded() {
		c.Lo, c.Hi = m.Band.Lo, m.Band.Hi
		lo, hi = c.Lo, c.Hi
	}
	c.within = func(t time.Duration) (dq.Bounds, bool) { return meanWithin(lo, hi, c.Width, t) }
	c.quantile = func(p float64) (dq.Interval, bool) {
		if !(p >= 0 && p <= 1) {
			return dq.Interval{}, false
		}
		_, within := m.Quantile(p)
		return within, within.Lo != dq.Unreached
	}
	c.reaches = func(p float64) time.Duration {
		at, _ := m.Quantile(p)
		return at
	}
	return c
}

func meanWithin(lo, hi []float64, width, t time.Duration) (dq.Bounds, bool) {
	if len(lo) == 0 || t < 0 {
		return dq.Bounds{}, false
	}
	last := len(lo) - 1
	k := min(int(t/width), last)
	next := k
	if t%width != 0 {
		next = min(k+1, last)
	}
	return dq.Bounds{Lo: lo[k], Hi: hi[next]}, true
}
