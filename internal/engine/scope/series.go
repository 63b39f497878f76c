package scope

import (
	"fmt"
	"time"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/engine/outcome"
)

// Reasons why a ΔQ gives no verdict.
const (
	notObserved   = "not observed"
	withLoss      = "loss"
	noInstances   = "no instances"
	fewInstances  = "too few instances"
	notCalculable = "nothing to calculate from"
)

// A series is an outcome in one VM over time: the data that is kept from window to window, and
// memory for the results of the present window.
type series struct {
	outcome  *OutcomeSystem
	observed *dq.Observed
	deltaQ   dq.DeltaQ // of observed; empty without instances

	mean       history
	calculated *calculation // nil until something is calculated

	judgement           dq.Judgement
	calculatedJudgement dq.Judgement
	divergence          dq.Divergence

	incidents []incident
	active    []string
	instances []outcome.Instance
	explained explaining

	seen   sighting // the last window with a row
	begun  bool     // a window of the series has been observed
	lively bool     // the series is active: it has had an event, an instance or a loss
	quiet  bool     // silent is known: there was a window
	silent int64    // start of the silence, in which no instance ended
}

// updateSilence updates how long an outcome has been silent.
func (s *series) updateSilence(p *Outcome) {
	if c := &p.Counts; c.Unobserved || c.Loss.Total() > 0 || c.Instances() > 0 {
		s.endSilence(p)
		return
	}
	if !s.quiet {
		s.quiet, s.silent = true, p.Window.From
	}
	p.Silent = time.Duration(p.Window.To - s.silent)
}

// endSilence ends a silence. The next one begins at the end of the window.
func (s *series) endSilence(p *Outcome) { s.quiet, s.silent, p.Silent = true, p.Window.To, 0 }

// later reports whether the silence of a series began later than that of another one, or if it began at the same
// time, whether the series had a row later.
func (s *series) later(than *series) bool {
	return s.silent > than.silent || s.silent == than.silent && s.seen.number > than.seen.number
}

// succeed goes on with the silence of another series, and with the incidents of its silence triggers.
func (s *series) succeed(before *series) {
	s.quiet, s.silent = true, before.silent
	for i := range s.incidents {
		for _, b := range before.incidents {
			in := &s.incidents[i]
			if in.trigger.Kind() == (silence{}).Kind() && b.trigger.Kind() == in.trigger.Kind() && b.trigger.Setting() == in.trigger.Setting() {
				*in = b
			}
		}
	}
}

// A sighting is a window in which a series had a row.
type sighting struct {
	number uint64
	to     int64
}

func newSeries(p *OutcomeSystem, keep int) (*series, error) {
	s := &series{outcome: p}
	grid, err := p.Grid()
	if err == nil {
		s.observed, err = dq.NewObserved(grid)
	}
	if err == nil {
		s.mean, err = newHistory(grid, keep)
	}
	if err != nil {
		return nil, fmt.Errorf("outcome %s: %w", p.Spec.Name, err)
	}
	s.watch(p.Triggers)
	return s, nil
}

// watch sets the triggers. Unchanged triggers keep their incident.
func (s *series) watch(triggers []Trigger) {
	before := s.incidents
	s.incidents = make([]incident, len(triggers))
	for i, t := range triggers {
		s.incidents[i].trigger = t
		for _, b := range before {
			if b.trigger.Kind() == t.Kind() && b.trigger.Setting() == t.Setting() {
				s.incidents[i] = b
			}
		}
	}
}

// observe adds the counts of window n, and writes the results to p.
func (s *series) observe(p *Outcome, n, samples uint64, bounds MeanBounds) error {
	c := &p.Counts
	if c.Bins == nil { // the batch has no counts of it
		s.observed.Reset()
	} else if err := s.observed.Set(c.Bins, c.Failures, c.Timeouts); err != nil {
		return err
	}
	s.deltaQ.Clear()
	if !s.observed.Empty() {
		if err := s.observed.WriteDeltaQ(&s.deltaQ); err != nil {
			return err
		}
		if err := s.mean.observe(n, s.observed); err != nil {
			return err
		}
	}
	p.Observed = s.observed
	p.Insufficient = insufficient(c, samples)
	if err := s.mean.write(&p.Mean, n, bounds); err != nil {
		return err
	}
	return s.judge(&p.Judgement, &s.judgement, &s.deltaQ)
}

func insufficient(c *outcome.Counts, samples uint64) string {
	n := c.Instances()
	switch {
	case c.Unobserved:
		return notObserved
	case c.Loss.Total() > 0:
		return withLoss
	case n == 0:
		return noInstances
	case n < samples:
		return fewInstances
	}
	return ""
}

// A calculated is the diagram's result for a window.
type calculated struct {
	value    *dq.DeltaQ // may be empty
	width    time.Duration
	sampling dq.Sampling
}

// calculate adds the calculated ΔQ of window n, and writes the results to p. Usually its bins
// have the given width. They are narrower if some outcomes behind it happened to have no delays.
// They are wider if the algebra had to stay within its limits, and then the history begins anew.
func (s *series) calculate(p *Outcome, of calculated, n uint64, keep int, bounds MeanBounds) error {
	d, width := of.value, of.width
	p.Calculated = d
	if !d.Empty() {
		width = max(width, d.Width())
	}
	if s.calculated == nil || s.calculated.width() < width {
		var err error
		if s.calculated, err = newCalculation(width, s.observed.Grid().DMax(), keep); err != nil {
			return err
		}
	}
	c := s.calculated
	if !d.Empty() {
		if err := c.calculate(n, d, p.CalculatedFrom); err != nil {
			return err
		}
	}
	if p.comparable() {
		if err := c.compare(n, &s.deltaQ, s.observed.Instances(), d, of.sampling); err != nil {
			return err
		}
	}
	if s.divergence, p.DivergenceWindows = c.diverge(n); p.DivergenceWindows > 0 {
		p.Divergence = &s.divergence
	}
	if err := c.mean.write(&p.CalculatedMean, n, bounds); err != nil {
		return err
	}
	return s.judge(&p.CalculatedJudgement, &s.calculatedJudgement, d)
}

// comparable reports whether the observed and the calculated ΔQ of the window can be compared.
// Too few instances do not prevent this, because windows are compared together.
func (p *Outcome) comparable() bool {
	return isComparable(p.Insufficient) && isComparable(p.CalculatedInsufficient)
}

// isComparable reports whether a ΔQ can be compared, given the reason why it is insufficient.
func isComparable(why string) bool { return why == "" || why == fewInstances }

// judge writes the judgement on d, if there is one, and points dst to it.
func (s *series) judge(dst **dq.Judgement, memory *dq.Judgement, d *dq.DeltaQ) error {
	if s.outcome.QTA == nil || d.Empty() {
		return nil
	}
	*dst = memory
	return s.outcome.QTA.WriteJudgement(memory, d)
}

// trigger checks the triggers, and appends those that fire to fired.
func (s *series) trigger(p *Outcome, holdOff time.Duration, fired []Firing) []Firing {
	s.active = s.active[:0]
	if s.begun = s.begun || !p.Counts.Unobserved; !s.begun {
		return fired // what happens before the first observed window is not an incident
	}
	for i := range s.incidents {
		in := &s.incidents[i]
		if in.step(p, holdOff) {
			fired = append(fired, Firing{
				Trigger: in.trigger.Kind(),
				Setting: in.trigger.Setting(),
				Outcome: p.Name,
				VM:      p.VM,
				Cause:   in.trigger.Cause(p),
			})
		}
		if in.active {
			s.active = append(s.active, in.trigger.Kind())
		}
	}
	p.Active = s.active
	return fired
}
