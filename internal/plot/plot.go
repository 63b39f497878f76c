// Package plot says what there is to draw of probes: curves of the probability of
// success over the delay, requirements, dMax and the intangible mass; and how an axis
// of delays is divided. Whoever draws, on a terminal or into a file, draws the same.
package plot

import (
	"time"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/figures"
	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/scope"
)

// A Role says what a curve is of its probe.
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

	// Y are the probabilities of success within k·Width, k = 0, 1, …; after the last
	// the function stays what it is. It is the middle where there are bounds.
	Y []float64

	// Lo and Hi are bounds at the same edges: of confidence for a mean, guaranteed
	// ones for what is calculated. They are nil for what is observed, which is exact
	// at the edges, and for a mean of one window. Between two edges nothing is known but that the function rises
	// from what it is at one to what it is at the other.
	Lo, Hi []float64

	label    string
	within   func(time.Duration) (dq.Bounds, bool)
	quantile func(float64) (dq.Interval, bool)
	reaches  func(float64) time.Duration // of a mean
}

// Name names the curve for legends: by its role, or where it is of an earlier window
// by that.
func (c *Curve) Name() string {
	if c.label != "" {
		return c.label
	}
	return c.Role.String()
}

// Within bounds the probability of success within t. It is false where that is not
// known.
func (c *Curve) Within(t time.Duration) (dq.Bounds, bool) { return c.within(t) }

// Read bounds the probability as a cursor at t does: at an edge it is what is drawn
// there, which tells nothing of what takes exactly so long; between edges it is Within.
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

// Quantile bounds the delay within which a share p of all instances succeeds: of a
// mean it is from the edge at which its upper bound reaches p to that at which the lower
// one does. It is false where that is never, or not known.
func (c *Curve) Quantile(p float64) (dq.Interval, bool) { return c.quantile(p) }

// Middle bounds the middle Y at t by the edges around it. At an edge it is exact.
func (c *Curve) Middle(t time.Duration) (dq.Bounds, bool) { return meanWithin(c.Y, c.Y, c.Width, t) }

// IsMean tells whether the curve is a mean.
func (c *Curve) IsMean() bool { return c.Role == Mean || c.Role == CalculatedMean }

// Reaches returns the delay at which a cursor on the curve finds that a share p
// succeeds: of a mean the edge at which it does itself, else the end of the quantile.
// It is false where there is none.
func (c *Curve) Reaches(p float64) (time.Duration, bool) {
	q, ok := c.Quantile(p)
	if ok && c.reaches != nil {
		q.Hi = c.reaches(p)
	}
	return q.Hi, ok && q.Finite()
}

// A Series is what there is to draw of one probe of one VM in one window.
type Series struct {
	Name   string
	Alias  string // as of [outcome.Spec.Alias]
	VM     outcome.VM
	Curves []Curve // in the order in which they are drawn; none where nothing is known

	DMax   time.Duration
	Fitted bool // beamscope chose dMax

	// Required are the steps of the QTA, by delay, and MinSuccess the share that has
	// to succeed in the end. Judged says that there is a QTA.
	Required   []dq.Step
	MinSuccess float64
	Judged     bool

	// Failed is the share of the instances that failed or timed out: the distance
	// of the observed curve from 1 at dMax. HasFailed is false without instances.
	Failed    float64
	HasFailed bool
	TimedOut  float64 // share of the instances that timed out

	Instances uint64
	Inferred  bool   // some of them were paired by their order
	Lost      uint64 // and not among the instances
	Caveat    string // why the window cannot bear a verdict; "" where it can

	// Silent is for how long no instance has ended, up to the end of the window, of a
	// probe that had some before; 0 where that is not known, or one has.
	Silent time.Duration
}

// NameAmong names a series for those who see it together with others: with its VM, where
// another one has the same name.
func NameAmong(series []Series, i int) string {
	for j := range series {
		if j != i && series[j].Name == series[i].Name {
			return figures.Called(series[i].Name, series[i].Alias) + ", " + series[i].VM.String()
		}
	}
	return figures.Called(series[i].Name, series[i].Alias)
}

// SlowerOnly tells that the instances that did not succeed took longer than a dMax that
// beamscope chose.
func (s *Series) SlowerOnly() bool {
	return s.Fitted && s.TimedOut > 0 && dq.AtLeast(s.TimedOut, s.Failed)
}

// Of returns what there is to draw of a probe with a requirement, which may be nil.
// Where earlier is not nil, it is the same probe in an earlier window to be drawn
// as well, which label names for legends; "" for no name of its own. The series refers to the probes only for what its curves are asked.
func Of(p *scope.Probe, q *dq.QTA, earlier *scope.Probe, label string) Series {
	s := Series{
		Name: p.Name, Alias: p.Spec.Alias(), VM: p.VM, DMax: p.Spec.DMax(), Fitted: p.Fitted, Instances: p.Counts.Instances(), Inferred: p.Inferred(),
		Lost: p.Counts.Loss.Total(), Caveat: p.Insufficient,
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

// calculated returns the curve of a calculated ΔQ. Its bounds for the time from one edge
// to the next are as far apart as the curve may rise meanwhile; what is known at the
// edge itself is the lower one that begins there, and the upper one that ends there.
func calculated(d *dq.DeltaQ) Curve {
	c := Curve{Role: Calculated, Width: d.Width(), within: d.ProbabilityWithin, quantile: d.Quantile}
	c.Lo, c.Hi = d.AppendBounds(nil, nil)
	last := len(c.Lo) - 1
	c.Lo, c.Hi = append(c.Lo, c.Lo[last]), append(c.Hi, c.Hi[last])
	copy(c.Hi[1:], c.Hi[:last+1])
	c.Hi[0] = c.Lo[0]
	c.Y = make([]float64, len(c.Lo))
	for k := range c.Y {
		c.Hi[k] = max(c.Lo[k], c.Hi[k]) // a delay of exactly the edge is in the lower one alone
		c.Y[k] = dq.Bounds{Lo: c.Lo[k], Hi: c.Hi[k]}.Mid()
	}
	return c
}

// mean returns the curve of a mean. Between two edges it lies between its values
// there, and so do its bounds.
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
