package script

import (
	"errors"
	"fmt"
	"time"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/sources/pairing"
)

// ErrPlan means that a plan cannot be followed.
var ErrPlan = errors.New("a script cannot tell this")

// remember is how long instances that have timed out are remembered.
const remember = time.Minute

// An era is the period of a plan.
type era struct {
	outcome.Plan
	courses []*course // one for each spec
	byName  map[string]*course
}

// A course tracks one outcome during an era.
type course struct {
	index  int // index of the spec in its era
	spec   outcome.Spec
	grid   dq.Grid
	config pairing.Config
	doubt  int64 // ends of instances that started up to this time may be among missing lines
	silent bool  // it has no events
}

// newEra returns the era of a plan. The error wraps [ErrPlan].
func newEra(p outcome.Plan, room *pairing.Room) (*era, error) {
	if p.Window <= 0 {
		return nil, fmt.Errorf("%w: windows of %v", ErrPlan, p.Window)
	}
	e := &era{Plan: p, byName: make(map[string]*course, len(p.Specs))}
	for i, spec := range p.Specs {
		c, err := newCourse(spec, room)
		if err != nil {
			return nil, fmt.Errorf("outcome %s: %w", spec.Name, err)
		}
		if e.byName[spec.Name] != nil {
			return nil, fmt.Errorf("%w: two outcomes of the name %q", ErrPlan, spec.Name)
		}
		c.index = i
		e.courses = append(e.courses, c)
		e.byName[spec.Name] = c
	}
	return e, nil
}

func newCourse(spec outcome.Spec, room *pairing.Room) (*course, error) {
	grid, err := dq.NewGrid(spec.BinWidth, spec.Bins)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPlan, err)
	}
	c := &course{spec: spec, grid: grid}
	if spec.VM == (outcome.Events{}) {
		c.silent = true
		return c, nil
	}
	if err := Check(spec); err != nil {
		return nil, err
	}
	rule, err := spec.VM.Rule()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPlan, err)
	}
	c.config = pairing.ConfigOf(rule, grid.DMax())
	c.config.Remember, c.config.Room = remember, room
	return c, nil
}

// wants returns the outcome with a name if it has events, or nil.
func (e *era) wants(name string) *course {
	if c := e.byName[name]; c != nil && !c.silent {
		return c
	}
	return nil
}

// Check returns which part of an outcome a script cannot observe, or nil if it can observe all of
// it. The error wraps [ErrPlan].
func Check(spec outcome.Spec) error {
	rule, err := spec.VM.Rule()
	switch {
	case spec.Wrapper != "":
		return fmt.Errorf("%w: its instances come over TCP: take it out of the scope file, or observe without --from", ErrPlan)
	case spec.VM == outcome.Events{}:
		return fmt.Errorf("%w: its instances are spans: give vm, or start and end, or observe without --from", ErrPlan)
	case err == nil && rule.RunQueue:
		return fmt.Errorf("%w: no probe of the VM reports it: take it out of the scope file, or observe without --from", ErrPlan)
	case spec.Group != "":
		return fmt.Errorf("%w: it is grouped by %s, which the lines do not contain: take out group, or observe without --from", ErrPlan, spec.Group)
	case spec.ExitFails:
		return fmt.Errorf("%w: it fails with its process, which the lines do not contain: take out exit, or observe without --from", ErrPlan)
	}
	return nil
}

// same reports whether an outcome is observed in the same way. The detail of single instances
// does not matter.
func (c *course) same(d *course) bool {
	a, b := c.spec, d.spec
	a.Detail, b.Detail = 0, 0
	a.Explain, b.Explain = false, false
	return a == b
}
