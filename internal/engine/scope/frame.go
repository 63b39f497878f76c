// Package scope turns the counts of each window into a frame. A [Scope] requests window after window
// from the sources, and its [Engine] makes the frame. Consumers that show or store data read only
// frames.
package scope

import (
	"slices"
	"time"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/engine/outcome"
)

// A Frame is the complete result of one window. It belongs to the engine that made it and is valid
// until the next frame; use Clone to keep it.
type Frame struct {
	Number uint64 // number of the window, from 0
	Window outcome.Window
	Time   time.Time // wall time of the window's end

	// Outcomes are in the order of the system. An outcome has an entry for each of its VMs.
	Outcomes []Outcome

	// Omitted is the number of outcomes of VMs that are not in Outcomes, because they have no room.
	Omitted int

	Fired    []Firing         // triggers that fired in this window
	Notices  []outcome.Notice // what changed since the last frame, for example that a new history begins
	Rejected outcome.Rejected
	Cost     outcome.Cost

	// Attaching means that no outcome has been observed for a whole window yet, including this
	// one: nothing is known.
	Attaching bool
}

// NoticeTexts returns the texts of the notices, in their order.
func (f *Frame) NoticeTexts() []string {
	var texts []string
	for _, n := range f.Notices {
		texts = append(texts, n.Text)
	}
	return texts
}

// Unpriced reports whether Cost does not include what the window cost. This is the case if
// something was counted although no program of ours ran in a VM: VMs recorded it in their memory,
// applications sent it over TCP, or a script reported it.
func (f *Frame) Unpriced() bool {
	counted := func(p Outcome) bool { return p.Counts.Starts+p.Counts.Ends+p.Counts.Instances() > 0 }
	return f.Cost.Events == 0 && slices.ContainsFunc(f.Outcomes, counted)
}

// An Outcome is the result of an outcome in one VM and one window.
type Outcome struct {
	Name   string
	VM     outcome.VM
	Window outcome.Window
	Spec   outcome.Spec   // how it is observed
	Counts outcome.Counts // the counts of the observed outcome

	// Fitted means that beamscope chose dMax. Slower instances took longer than dMax, and may
	// have succeeded.
	Fitted bool

	// Required says that the outcome has a QTA.
	Required bool

	// Silent is the time without an ended instance, up to the end of the window. It counts from
	// the window in which the last instance ended, or from the first observed window. It counts
	// from zero again after a window that was not completely observed or lost something, because
	// instances may have ended then. The silence of a VM that has ended goes on in a new row of the
	// outcome, if that is of the same node or if no VM of the outcome goes on.
	Silent time.Duration

	// Seen reports whether the outcome has ever had an event, an instance or a loss.
	Seen bool

	Observed *dq.Observed // empty if there were no instances
	Mean     Mean         // of the observed ΔQs

	// Calculated is the ΔQ that the diagram calculates from the observed ΔQs of its outcomes. It is
	// nil for an outcome that is not calculated, and empty in a window in which one of these outcomes
	// has no instances.
	Calculated     *dq.DeltaQ
	CalculatedMean Mean
	CalculatedFrom uint64 // number of instances of the outcome with the fewest, see Engine.fewestInstances

	// Judgements on the QTA; nil without a QTA, or without data.
	Judgement           *dq.Judgement
	CalculatedJudgement *dq.Judgement

	// Divergence is that of the observed ΔQ from the calculated one over the last
	// DivergenceWindows windows. It is nil if there is nothing to compare.
	Divergence        *dq.Divergence
	DivergenceWindows int

	// Insufficient is the reason why the observed ΔQ of this window gives no verdict, and
	// CalculatedInsufficient that of the calculated one. It is "" if there is a verdict.
	Insufficient           string
	CalculatedInsufficient string

	// Instances are the single instances of the window, worst first.
	Instances []outcome.Instance

	// Explained describes where the time of the instances with a trace went. It is nil if none
	// has a trace.
	Explained *Explained

	// Active are the kinds of the triggers whose incident continues.
	Active []string
}

// A Mean is the mean of the ΔQs of the last windows with instances, and its confidence bounds if it
// is Bounded.
type Mean struct {
	Width   time.Duration // between edges
	Windows int           // number of windows in the mean; 0 if there is no mean
	Band    dq.Band
}

// Bounded reports whether the band contains information. A single window does not show how much
// others differ, so it has no bounds.
func (m *Mean) Bounded() bool { return m.Windows > 1 }

// Quantile returns the edge at which the mean reaches the probability p, and its bounds: the edges
// at which the upper and the lower bound reach p. A mean without bounds has its own edge for both.
// If p is not reached, the edge is [dq.Unreached].
func (m *Mean) Quantile(p float64) (at time.Duration, within dq.Interval) {
	reached := func(f []float64) time.Duration {
		// Bounds may fall in places.
		k := slices.IndexFunc(f, func(x float64) bool { return dq.AtLeast(x, p) })
		if k < 0 {
			return dq.Unreached
		}
		return time.Duration(k) * m.Width
	}
	at = reached(m.Band.Mean)
	if !m.Bounded() {
		return at, dq.Interval{Lo: at, Hi: at}
	}
	// The higher function reaches it earlier.
	return at, dq.Interval{Lo: reached(m.Band.Hi), Hi: reached(m.Band.Lo)}
}

// A Firing is a trigger that fired.
type Firing struct {
	Trigger string // its kind
	Setting string // its setting
	Outcome string
	VM      outcome.VM
	Cause   string // the observation that made the trigger fire, as text

	// Explanation describes where the time of the outcome's instances went, as text. It is "" if
	// unknown.
	Explanation string
}

// Rate returns instances a second.
func (p *Outcome) Rate() float64 {
	return float64(p.Counts.Instances()) / p.Window.Duration().Seconds()
}

// LeastSuccess returns a lower bound of the share of successes. It assumes that all lost
// instances, and all instances in [Outcome.Slower], did not succeed. least is false if there were
// none of these, so that the share is exact. ok is false if no instance ended: the lost ones alone
// say nothing.
func (p *Outcome) LeastSuccess() (share float64, least, ok bool) {
	n := p.Counts.Instances()
	if n == 0 {
		return 0, false, false
	}
	all := n + p.Counts.Loss.Total()
	return float64(p.Counts.Successes) / float64(all), all > n || p.Slower() > 0, true
}

// Slower returns the number of instances that took longer than a dMax that beamscope chose.
// Whether they succeeded is unknown.
func (p *Outcome) Slower() uint64 {
	if !p.Fitted {
		return 0
	}
	return p.Counts.Timeouts
}

// QuantileSlower reports whether a quantile may be a delay above a dMax that beamscope
// chose, rather than in the intangible mass.
func (p *Outcome) QuantileSlower(q float64) bool {
	n := p.Counts.Instances()
	return p.Slower() > 0 && dq.AtLeast(float64(n-p.Counts.Failures)/float64(n), q)
}

// QuantileMayBeLonger reports whether a quantile of the observed ΔQ would be longer if all lost
// instances had failed. It does so for each quantile of a window that was not observed as a whole.
func (p *Outcome) QuantileMayBeLonger(q float64) bool {
	d, ok := p.Observed.QuantileFigure(q)
	if !ok || p.Counts.Unobserved {
		return ok
	}
	n := float64(p.Observed.Instances())
	worst, ok := p.Observed.QuantileFigure(q * (n + float64(p.Counts.Loss.Total())) / n)
	return !ok || worst > d
}

// GroupQuantileSlower is QuantileSlower for one of the outcome's groups.
func (p *Outcome) GroupQuantileSlower(g *outcome.Group, q float64) bool {
	n := g.Instances()
	return p.Fitted && g.Timeouts > 0 && dq.AtLeast(float64(n-g.Failures)/float64(n), q)
}

// Quantiles returns the probabilities whose quantiles are shown everywhere.
func Quantiles() []float64 { return []float64{0.25, 0.5, 0.75, 0.99} }
