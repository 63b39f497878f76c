package wrapper

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/intake"
	"github.com/beamscope/beamscope/internal/outcome"
)

// ErrPlan says that a plan cannot be followed.
var ErrPlan = errors.New("the plan cannot be followed")

// A schedule is what to observe, and when: eras that follow each other. It is
// not changed once it was made.
type schedule []era

// An era is the time of a plan.
type era struct {
	plan    outcome.Plan
	to      int64     // where the next begins
	courses []*course // one for each spec
	byName  map[string]*course
}

// A course is the time in which an outcome is observed in the same way, perhaps
// for several eras.
type course struct {
	index    int // of the spec in its era
	spec     outcome.Spec
	grid     dq.Grid
	from     int64 // when it began
	replaces bool  // the outcome was observed in another way before
}

// with returns the schedule with a plan that begins when the last one has ended,
// or replaces it, and not before next.
func (s schedule) with(p outcome.Plan, next int64) (schedule, error) {
	if p.Window <= 0 {
		return nil, fmt.Errorf("%w: windows of %v", ErrPlan, p.Window)
	}
	s = s.until(p.From)
	if len(s) > 0 && s[len(s)-1].plan.At(s[len(s)-1].plan.Number(p.From)).From != p.From {
		return nil, fmt.Errorf("%w: it begins within a window", ErrPlan)
	}
	if p.From < next {
		return nil, fmt.Errorf("%w: it begins in a window that was collected", ErrPlan)
	}
	e := era{plan: p, to: math.MaxInt64, byName: make(map[string]*course, len(p.Specs))}
	for i, spec := range p.Specs {
		c, err := newCourse(i, spec, p.From)
		if err != nil {
			return nil, err
		}
		if e.byName[spec.Wrapper] != nil {
			return nil, fmt.Errorf("%w: two outcomes of the name %q", ErrPlan, spec.Wrapper)
		}
		c.follow(s)
		e.courses = append(e.courses, c)
		e.byName[spec.Wrapper] = c
	}
	return append(s, e), nil
}

// until returns a copy of the eras that begin before a time, and end by then.
func (s schedule) until(at int64) schedule {
	var before schedule
	for _, e := range s {
		if e.plan.From < at {
			e.to = min(e.to, at)
			before = append(before, e)
		}
	}
	return before
}

// since returns the eras that end after a time.
func (s schedule) since(at int64) schedule {
	for len(s) > 0 && s[0].to <= at {
		s = s[1:]
	}
	return s
}

// at returns the era of a window, nil where it is a window of none.
func (s schedule) at(w outcome.Window) *era {
	for i := range s {
		e := &s[i]
		if e.plan.From <= w.From && w.From < e.to && e.plan.At(e.plan.Number(w.From)) == w {
			return e
		}
	}
	return nil
}

// wants returns the outcome of spans of this name, false where there is none.
func (s schedule) wants(name []byte) (outcome.Spec, bool) {
	for i := range s {
		if c := s[i].byName[string(name)]; c != nil {
			return c.spec, true
		}
	}
	return outcome.Spec{}, false
}

// specs returns what is observed in the end.
func (s schedule) specs() []outcome.Spec { return s[len(s)-1].plan.Specs }

// has reports whether an outcome is observed in the end.
func (s schedule) has(name string) bool {
	return slices.ContainsFunc(s.specs(), func(spec outcome.Spec) bool { return spec.Name == name })
}

func newCourse(index int, spec outcome.Spec, from int64) (*course, error) {
	if err := checkName(spec.Wrapper); err != nil {
		return nil, fmt.Errorf("%w: outcome %s: %w", ErrPlan, spec.Name, err)
	}
	grid, err := dq.NewGrid(spec.BinWidth, spec.Bins)
	if err != nil {
		return nil, fmt.Errorf("%w: outcome %s: %w", ErrPlan, spec.Name, err)
	}
	return &course{index: index, spec: spec, grid: grid, from: from}, nil
}

// follow says what a course has to do with the one before. One in which other
// single instances are wanted goes on, because its counts mean the same.
func (c *course) follow(s schedule) {
	if len(s) == 0 {
		return
	}
	before := s[len(s)-1].byName[c.spec.Wrapper]
	switch {
	case before == nil:
	case before.spec.Name == c.spec.Name && before.grid == c.grid:
		c.from, c.replaces = before.from, before.replaces
	default:
		c.replaces = true
	}
}

// settle returns when and how an instance ends: after dMax at the latest.
func (c *course) settle(i intake.Ended) intake.Ended {
	if dMax := int64(c.grid.DMax()); i.End-i.Start > dMax {
		i.End, i.Status = i.Start+dMax, outcome.Timeout
	}
	return i
}

// early reports whether a wrapper gave an instance up before dMax, so that how it
// would have ended is not known.
func (c *course) early(i intake.Ended) bool {
	return i.Status == outcome.Timeout && i.End-i.Start < int64(c.grid.DMax())
}
