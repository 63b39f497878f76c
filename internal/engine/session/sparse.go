package session

import (
	"fmt"
	"strings"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/host/monotonic"
)

// sparseAfter is the number of windows in a row with too few instances after which a notice reports
// them.
const sparseAfter = 5

// A sparse reports once for each outcome that its windows have too few instances for its triggers.
// It is an observer, and used by the goroutine of the run alone.
type sparse struct {
	system   *scope.System
	triggers map[string][]scope.Trigger // by name of the outcome
	windows  map[place]int              // in a row with too few instances
	said     map[string]bool            // names of outcomes
	notices  []outcome.Notice
}

// A place is an outcome in a VM.
type place struct {
	name string
	vm   outcome.VM
}

func newSparse() *sparse {
	return &sparse{windows: make(map[place]int), said: make(map[string]bool)}
}

// Configured implements [scope.Observer].
func (s *sparse) Configured(system *scope.System, _ outcome.Plan) error {
	s.system, s.triggers = system, make(map[string][]scope.Trigger)
	for _, p := range system.Outcomes {
		s.triggers[p.Spec.Name] = p.Triggers
	}
	return nil
}

// Noticed implements [scope.Observer].
func (s *sparse) Noticed(outcome.Notice) error { return nil }

// Framed implements [scope.Observer].
func (s *sparse) Framed(_ *outcome.Batch, f *scope.Frame) error {
	for i := range f.Outcomes {
		p := &f.Outcomes[i]
		c, at := &p.Counts, place{p.Name, p.VM}
		n := c.Instances()
		few := n > 0 && n < s.system.Samples && !c.Unobserved && c.Loss.Total() == 0
		kinds := undecided(s.triggers[p.Name], p)
		if !few || len(kinds) == 0 {
			delete(s.windows, at)
			continue
		}
		if s.windows[at]++; s.windows[at] < sparseAfter || s.said[p.Name] {
			continue
		}
		s.said[p.Name] = true
		s.notices = append(s.notices, outcome.Notice{Time: monotonic.Now(), Text: fmt.Sprintf(
			"%s: windows of %v have fewer than %d instances, the last one %d: no trigger of kind %s fires. Choose a longer window, or fewer samples",
			p.Name, s.system.Window, s.system.Samples, n, strings.Join(kinds, ", "))})
	}
	return nil
}

// undecided returns the kinds of the triggers that have no result for a window because its observed
// ΔQ is insufficient.
func undecided(triggers []scope.Trigger, p *scope.Outcome) (kinds []string) {
	sufficient := *p
	sufficient.Insufficient = ""
	for _, t := range triggers {
		if t.Check(p) == scope.Insufficient && t.Check(&sufficient) != scope.Insufficient {
			kinds = append(kinds, t.Kind())
		}
	}
	return kinds
}

// take returns the notices since the last call.
func (s *sparse) take() []outcome.Notice {
	notices := s.notices
	s.notices = nil
	return notices
}
