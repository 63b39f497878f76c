// Package ledger counts instances that have ended, by outcome and window, for sources that
// learn of each of them: it knows which plan holds when, what was observed in another way
// before, and in which windows there is room.
//
// Nothing in it may be used by several goroutines at a time, but a [Schedule] that is not
// changed.
package ledger

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/intake"
	"github.com/beamscope/beamscope/internal/outcome"
)

// A Namer returns the name of the spans that are instances of an outcome, and why there can
// be none of it.
type Namer func(outcome.Spec) (string, error)

// ErrPlan says that a plan cannot be followed.
var ErrPlan = errors.New("the plan cannot be followed")

// A Schedule is what to observe, and when: eras that follow each other. It is not changed
// once it was made.
type Schedule []Era

// An Era is the time of a plan.
type Era struct {
	Plan    outcome.Plan
	To      int64     // where the next begins
	Courses []*Course // one for each spec
	byName  map[string]*Course
}

// A Course is the time in which an outcome is observed in the same way, perhaps
// for several eras.
type Course struct {
	Spec outcome.Spec
	Grid dq.Grid

	name     string // of its spans
	index    int    // of the spec in its era
	from     int64  // when it began
	replaces bool   // the outcome was observed in another way before
}

// With returns the schedule with a plan that begins when the last one has ended, or replaces
// it, and not before next, the beginning of the window that is collected next. The error
// wraps [ErrPlan].
func (s Schedule) With(p outcome.Plan, next int64, name Namer) (Schedule, error) {
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
	e := Era{Plan: p, To: math.MaxInt64, byName: make(map[string]*Course, len(p.Specs))}
	for i, spec := range p.Specs {
		c, err := newCourse(i, spec, name, p.From)
		if err != nil {
			return nil, err
		}
		if e.byName[c.name] != nil {
			return nil, fmt.Errorf("%w: two outcomes of the name %q", ErrPlan, c.name)
		}
		c.follow(s)
		e.Courses = append(e.Courses, c)
		e.byName[c.name] = c
	}
	return append(s, e), nil
}

// Course returns the one of spans of this name, nil where the era has none.
func (e *Era) Course(name []byte) *Course { return e.byName[string(name)] }

// until returns a copy of the eras that begin before a time, and end by then.
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

// At returns the era of a window, nil where it is a window of none.
func (s Schedule) At(w outcome.Window) *Era {
	for i := range s {
		e := &s[i]
		if e.Plan.From <= w.From && w.From < e.To && e.Plan.At(e.Plan.Number(w.From)) == w {
			return e
		}
	}
	return nil
}

// Wants returns the outcome of spans of this name, false where there is none.
func (s Schedule) Wants(name []byte) (outcome.Spec, bool) {
	for i := range s {
		if c := s[i].Course(name); c != nil {
			return c.Spec, true
		}
	}
	return outcome.Spec{}, false
}

// Specs returns what is observed in the end.
func (s Schedule) Specs() []outcome.Spec { return s[len(s)-1].Plan.Specs }

// Has reports whether an outcome is observed in the end.
func (s Schedule) Has(name string) bool {
	return slices.ContainsFunc(s.Specs(), func(spec outcome.Spec) bool { return spec.Name == name })
}

func newCourse(index int, spec outcome.Spec, namer Namer, from int64) (*Course, error) {
	name, err := namer(spec)
	if err != nil {
		return nil, fmt.Errorf("%w: outcome %s: %w", ErrPlan, spec.Name, err)
	}
	grid, err := dq.NewGrid(spec.BinWidth, spec.Bins)
	if err != nil {
		return nil, fmt.Errorf("%w: outcome %s: %w", ErrPlan, spec.Name, err)
	}
	return &Course{Spec: spec, Grid: grid, name: name, index: index, from: from}, nil
}

// follow says what a course has to do with the one before. One in which other
// single instances are wanted goes on, because its counts mean the same.
func (c *Course) follow(s Schedule) {
	if len(s) == 0 {
		return
	}
	before := s[len(s)-1].byName[c.name]
	switch {
	case before == nil:
	case before.Spec.Name == c.Spec.Name && before.Grid == c.Grid:
		c.from, c.replaces = before.from, before.replaces
	default:
		c.replaces = true
	}
}

// Settle returns when and how an instance ends: after dMax at the latest.
func (c *Course) Settle(i intake.Ended) intake.Ended {
	if dMax := int64(c.Grid.DMax()); i.End-i.Start > dMax {
		i.End, i.Status = i.Start+dMax, outcome.Timeout
	}
	return i
}

// early reports whether somebody gave an instance up before dMax, so that how it
// would have ended is not known.
func (c *Course) early(i intake.Ended) bool {
	return i.Status == outcome.Timeout && i.End-i.Start < int64(c.Grid.DMax())
}
