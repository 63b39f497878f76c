// Package plot says what there is to draw of probes: curves of the probability of
// success over the delay, requirements, dMax and the intangible mass; and how an axis
// of delays is divided. Whoever draws, on a terminal or into a file, draws the same.
package plot

import (
	"time"

	"github.com/beamscope/beamscope/dq"
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
	// at the edges. Between two edges nothing is known but that the function rises
	// from what it is at one to what it is at the other.
	Lo, Hi []float64

	within   func(time.Duration) (dq.Bounds, bool)
	quantile func(float64) (dq.Interval, bool)
}

// Within bounds the probability of success within t. It is false where that is not
// known.
func (c *Curve) Within(t time.Duration) (dq.Bounds, bool) { return c.within(t) }

// Quantile bounds the delay within which a share p of all instances succeeds. It is
// false where that is never, or not known.
func (c *Curve) Quantile(p float64) (dq.Interval, bool) { return c.quantile(p) }

// A Series is what there is to draw of one probe of one VM in one window.
type Series struct {
	Name   string
	VM     outcome.VM
	Curves []Curve // in the order in which they are drawn; none where nothing is known

	DMax time.Duration

	// Required are the steps of the QTA, by delay, and MinSuccess the share that has
	// to succeed in the end. Judged says that there is a QTA.
	Required   []dq.Step
	MinSuccess float64
	Judged     bool

	// Failed is the share of the instances that failed or timed out: the distance
	// of the observed curve from 1 at dMax. HasFailed is false without instances.
	Failed    float64
	HasFailed bool

	Instances uint64
	Lost      uint64 // and not among the instances
	Caveat    string // why the window cannot bear a verdict; "" where it can
}

// NameAmong names a series for those who see it together with others: with its VM, where
// another one has the same name.
func NameAmong(series []Series, i int) string {
	for j := range series {
		if j != i && series[j].Name == series[i].Name {
			return series[i].Name + ", " + series[i].VM.String()
		}
	}
	return series[i].Name
}

// Of returns what there is to draw of a probe with a requirement, which may be nil.
// Where earlier is not nil, it is the same probe in an earlier window to be drawn
// as well. The series refers to the probes only for what its curves are asked.
func Of(p *scope.Probe, q *dq.QTA, earlier *scope.Probe) Series {
	s := Series{Name: p.Name, VM: p.VM, DMax: p.Spec.DMax(), Instances: p.Counts.Instances(), Lost: p.Counts.Loss.Total(), Caveat: p.Insufficient}
	if q != nil {
		s.Required, s.MinSuccess, s.Judged = q.Steps(), q.MinSuccess(), true
	}
	if earlier != nil && !earlier.Observed.Empty() {
		s.Curves = append(s.Curves, observed(earlier.Observed, Earlier))
	}
	if p.Mean.Windows > 0 {
		s.Curves = append(s.Curves, mean(p.Mean, Mean))
	}
	if p.CalculatedMean.Windows > 0 {
		s.Curves = append(s.Curves, calculatedMean(p.CalculatedMean))
	}
	if p.Calculated != nil && !p.Calculated.Empty() {
		s.Curves = append(s.Curves, calculated(p.Calculated))
	}
	if p.Observed != nil && !p.Observed.Empty() {
		s.Curves = append(s.Curves, observed(p.Observed, Observed))
		s.Failed, s.HasFailed = p.Observed.IntangibleMass()
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

// calculatedMean returns the curve of a mean of calculated ΔQs. What it is a mean of
// are the middles of bounds that hold from one edge to the next, so half a bin later.
func calculatedMean(m scope.Mean) Curve {
	m.Band = dq.Band{Mean: atEdges(m.Band.Mean), Lo: atEdges(m.Band.Lo), Hi: atEdges(m.Band.Hi)}
	return mean(m, CalculatedMean)
}

// atEdges returns the values at edges of a function that is known halfway between them.
func atEdges(between []float64) []float64 {
	out := make([]float64, len(between)+1)
	before := 0.0
	for k, v := range between {
		out[k] = (before + v) / 2
		before = v
	}
	out[len(between)] = before
	return out
}

// mean returns the curve of a mean. Between two edges it lies between its values
// there, and so do its bounds.
func mean(m scope.Mean, r Role) Curve {
	c := Curve{Role: r, Width: m.Width, Y: m.Band.Mean, Lo: m.Band.Lo, Hi: m.Band.Hi}
	c.within = func(t time.Duration) (dq.Bounds, bool) { return meanWithin(c.Lo, c.Hi, c.Width, t) }
	c.quantile = func(p float64) (dq.Interval, bool) { return meanQuantile(c.Y, c.Width, p) }
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

func meanQuantile(y []float64, width time.Duration, p float64) (dq.Interval, bool) {
	if !(p >= 0 && p <= 1) {
		return dq.Interval{}, false
	}
	for k, v := range y {
		if v >= p-dq.Tolerance {
			return dq.Interval{Lo: time.Duration(max(k-1, 0)) * width, Hi: time.Duration(k) * width}, true
		}
	}
	return dq.Interval{}, false
}
