// Package ledger counts ended instances by outcome and window, for sources that receive each
// instance individually. It tracks the plan at each time, earlier ways in which outcomes were
// observed, and the windows that have room.
// Several goroutines must not use its values at once, except a [Schedule] that does not change.
package ledger

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/sources/intake"
)

// A Namer returns the name of an outcome's spans, or the reason why the source cannot observe the
// outcome.
type Namer func(outcome.Spec) (string, error)

// ErrPlan means that a plan cannot be followed.
var ErrPlan = errors.New("the plan cannot be followed")

// A Schedule defines what to observe and when, as successive eras. It is not changed after it is
// made.
type Schedule []Era

// An Era is the period of a plan.
type Era struct {
	Plan         outcome.Plan
	To           int64          // beginning of the next era
	Observations []*Observation // one for each spec
	byName       map[string]*Observation
}

// An Observation is a period in which an outcome is observed in the same way, possibly for several
// eras.
type Observation struct {
	Spec outcome.Spec
	Grid dq.Grid

	name     string // of its spans
	index    int    // index of the spec in its era
	from     int64  // its beginning
	learned  int64  // since then it is counted; 0: since its beginning. A plan may come late
	replaces bool   // the outcome was observed differently before
}

// With returns the schedule with another plan. The plan follows the last one or replaces it. It
// must not begin before next, the beginning of the next window to be collected. If it begins before now,
// windows of outcomes that were not observed in the same way before are not observed until now. The error
// wraps [ErrPlan].
func (s Schedule) With(p outcome.Plan, next, now int64, name Namer) (Schedule, error) {
	if p.Window <= 0 {
		return nil, fmt.Errorf("%w: windows of %v", ErrPlan, p.Window)
	}
	s = s.until(p.From)
	if len(s) > 0 && s[len(s)-1].Plan.At(s[len(s)-1].Plan.Number(p.From)).From != p.From {
		return nil, fmt.Errorf("%w: it begins within a window", ErrPlan)
	}
	if p.From < next {
		return nil, fmt.Errorf("%w: it begins in a window that was collected", ErrPlan)
	}
	e := Era{Plan: p, To: math.MaxInt64, byName: make(map[string]*Observation, len(p.Specs))}
	for i, spec := range p.Specs {
		c, err := newObservation(i, spec, name, p.From)
		if err != nil {
			return nil, err
		}
		if e.byName[c.name] != nil {
			return nil, fmt.Errorf("%w: two outcomes of the name %q", ErrPlan, c.name)
		}
		c.follow(s, now)
		e.Observations = append(e.Observations, c)
		e.byName[c.name] = c
	}
	return append(s, e), nil
}

// Observation returns the observation for spans with this name, or nil if the era has none.
func (e *Era) Observation(name []byte) *Observation { return e.byName[string(name)] }

// until returns a copy of the eras that begin before a time, shortened to end by then.
func (s Schedule) until(at int64) Schedule {
	var before Schedule
	for _, e := range s {
		if e.Plan.From < at {
			e.To = min(e.To, at)
			before = append(before, e)
		}
	}
	return before
}

// Since returns the eras that end after a time.
func (s Schedule) Since(at int64) Schedule {
	for len(s) > 0 && s[0].To <= at {
		s = s[1:]
	}
	return s
}

// At returns the era of a window, nil if the window belongs to none.
func (s Schedule) At(w outcome.Window) *Era {
	for i := range s {
		e := &s[i]
		if e.Plan.From <= w.From && w.From < e.To && e.Plan.At(e.Plan.Number(w.From)) == w {
			return e
		}
	}
	return nil
}

// Wants returns the outcome for spans with this name, or false if there is none.
func (s Schedule) Wants(name []byte) (outcome.Spec, bool) {
	for i := range s {
		if c := s[i].Observation(name); c != nil {
			return c.Spec, true
		}
	}
	return outcome.Spec{}, false
}

// Specs returns the specs of the last plan.
func (s Schedule) Specs() []outcome.Spec { return s[len(s)-1].Plan.Specs }

// Has reports whether the last plan observes an outcome.
func (s Schedule) Has(name string) bool {
	return slices.ContainsFunc(s.Specs(), func(spec outcome.Spec) bool { return spec.Name == name })
}

func newObservation(index int, spec outcome.Spec, namer Namer, from int64) (*Observation, error) {
	name, err := namer(spec)
	if err != nil {
		return nil, fmt.Errorf("%w: outcome %s: %w", ErrPlan, spec.Name, err)
	}
	grid, err := dq.NewGrid(spec.BinWidth, spec.Bins)
	if err != nil {
		return nil, fmt.Errorf("%w: outcome %s: %w", ErrPlan, spec.Name, err)
	}
	return &Observation{Spec: spec, Grid: grid, name: name, index: index, from: from}, nil
}

// follow connects an observation to the previous one. An observation continues even if the detail of its
// instances changes, because its counts mean the same.
func (c *Observation) follow(s Schedule, now int64) {
	if len(s) == 0 {
		return
	}
	before := s[len(s)-1].byName[c.name]
	if c.continues(before) {
		c.from, c.learned, c.replaces = before.from, before.learned, before.replaces
		return
	}
	c.learned, c.replaces = now, before != nil
}

// continues reports whether an observation has the same counts as an earlier one, which may be nil.
func (c *Observation) continues(before *Observation) bool {
	return before != nil && before.Spec.Name == c.Spec.Name && before.Grid == c.Grid
}

// From returns the time from which the outcome is observed in this way.
func (c *Observation) From() int64 { return c.from }

// End returns the time at which an instance ends, which is start + dMax at the latest.
func (c *Observation) End(start, end int64) int64 {
	if dMax := int64(c.Grid.DMax()); end-start > dMax {
		return start + dMax
	}
	return end
}

// Settle returns the instance with its real end and status: it ends after dMax at the latest.
func (c *Observation) Settle(i intake.Ended) intake.Ended {
	if dMax := int64(c.Grid.DMax()); i.End-i.Start > dMax {
		i.End, i.Status = i.Start+dMax, outcome.Timeout
	}
	return i
}

// early reports whether an instance was given up before dMax, so that its real end is unknown.
func (c *Observation) early(i *intake.Ended) bool {
	return i.Status == outcome.Timeout && i.End-i.Start < int64(c.Grid.DMax())
}
