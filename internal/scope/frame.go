// Package scope is the oscilloscope itself: it asks the sources for one window
// after the other, and turns what they counted into frames. Whoever shows or
// keeps anything reads frames, and nothing else.
package scope

import (
	"slices"
	"time"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/outcome"
)

// A Frame is everything that is known of one window. It belongs to the engine that
// made it and holds until the next: who keeps one makes a Clone.
type Frame struct {
	Number uint64 // of the window, from 0
	Window outcome.Window
	Time   time.Time // wall time of the window's end

	// Probes are in the order of the system; a probe of several VMs is there
	// once for each.
	Probes []Probe

	Fired    []Firing // triggers that fired in this window
	Notices  []string // what changed since the last frame, as where a new history begins
	Rejected outcome.Rejected
	Cost     outcome.Cost
}

// A Probe is what is known of one probe of one VM in one window.
type Probe struct {
	Name   string
	VM     outcome.VM
	Window outcome.Window
	Spec   outcome.Spec   // how it is observed
	Counts outcome.Counts // what was

	// Fitted tells that beamscope chose dMax. What took longer is slower than that, and
	// may have succeeded.
	Fitted bool

	// Silent is for how long no instance has ended, up to the end of the window: since
	// the window in which the last one did, or else since the first window that was
	// observed. It counts from zero again after a window that was not observed as a whole
	// or lost something, as instances may have ended in that.
	Silent time.Duration

	// Seen tells whether anything has ever happened: an event, an instance or a loss.
	Seen bool

	Observed *dq.Observed // without instances where there were none
	Mean     Mean         // of the observed ΔQs

	// Calculated is what the diagram makes of the observed ΔQs of its outcomes. It
	// is nil for a probe that is not calculated, and empty in a window where an
	// outcome behind it has no instances.
	Calculated     *dq.DeltaQ
	CalculatedMean Mean
	CalculatedFrom uint64 // instances of the outcome behind it that has the fewest, see weakest

	// Judgements on the QTA; nil where there is none, or nothing to judge.
	Judgement           *dq.Judgement
	CalculatedJudgement *dq.Judgement

	// Divergence of the observed ΔQ from the calculated one over the last
	// DivergenceWindows windows; nil where there is nothing to compare.
	Divergence        *dq.Divergence
	DivergenceWindows int

	// Insufficient says why the observed ΔQ of this window cannot bear a verdict,
	// CalculatedInsufficient why the calculated one cannot; "" where it can.
	Insufficient           string
	CalculatedInsufficient string

	// Instances are the single instances of the window, worst first.
	Instances []outcome.Instance

	// Explained says where the time of those of them went that have a trace; nil where
	// none has.
	Explained *Explained

	// Active are the kinds of the triggers whose incident is not over.
	Active []string
}

// A Mean is the mean of the ΔQs of the last windows that had instances, with its
// confidence bounds where it is Bounded.
type Mean struct {
	Width   time.Duration // between edges
	Windows int           // that it is of; 0: there is none
	Band    dq.Band
}

// Bounded tells that the band says anything: a single window does not tell how much
// others deviate, and has no bounds.
func (m *Mean) Bounded() bool { return m.Windows > 1 }

// Quantile returns the edge at which the mean reaches the probability p, and what its
// bounds allow: from the edge at which the upper one does to that at which the lower one
// does, of a mean without bounds that of the mean. What is not reached is
// [dq.Unreached].
func (m *Mean) Quantile(p float64) (at time.Duration, within dq.Interval) {
	reached := func(f []float64) time.Duration {
		// Bounds need not rise all the way.
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
	// The function that is higher reaches it earlier.
	return at, dq.Interval{Lo: reached(m.Band.Hi), Hi: reached(m.Band.Lo)}
}

// A Firing is a trigger that fired.
type Firing struct {
	Trigger string // its kind
	Setting string // and what it was set to
	Probe   string
	VM      outcome.VM
	Cause   string // what was seen, for people

	// Explanation says, for people, where the time of the probe's instances went; "" where
	// that is not known.
	Explanation string
}

// Rate returns instances a second.
func (p *Probe) Rate() float64 {
	return float64(p.Counts.Instances()) / p.Window.Duration().Seconds()
}

// LeastSuccess returns the share of the instances that succeeded if everything that was
// lost, and every instance that was [Probe.Slower], did not: it cannot be less. least is
// false where there was neither, and ok where there is nothing that a share could be of.
func (p *Probe) LeastSuccess() (share float64, least, ok bool) {
	n := p.Counts.Instances()
	all := n + p.Counts.Loss.Total()
	if all == 0 {
		return 0, false, false
	}
	return float64(p.Counts.Successes) / float64(all), all > n || p.Slower() > 0, true
}

// Slower returns how many instances took longer than a dMax that beamscope chose. Nothing
// tells whether they succeeded.
func (p *Probe) Slower() uint64 {
	if !p.Fitted {
		return 0
	}
	return p.Counts.Timeouts
}

// QuantileSlower reports whether a quantile may be a delay above a dMax that beamscope
// chose, rather than in the intangible mass.
func (p *Probe) QuantileSlower(q float64) bool {
	n := p.Counts.Instances()
	return p.Slower() > 0 && dq.AtLeast(float64(n-p.Counts.Failures)/float64(n), q)
}

// Quantiles returns the probabilities whose quantiles are shown everywhere.
func Quantiles() []float64 { return []float64{0.25, 0.5, 0.75, 0.99} }
