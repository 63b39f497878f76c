package config

import (
	"github.com/beamscope/beamscope/diagram"
	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
)

// System converts the configuration for an oscilloscope. Its outcomes are the entries in their
// order, and then the names of the diagram without an entry: definitions and operators, then
// the others, in the order of the diagram. System returns an error for a configuration that no
// scope file could contain. That never happens to a configuration that was read and not changed.
func (c Config) System() (*scope.System, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	outcomes, file, err := c.outcomes()
	if err != nil {
		return nil, err
	}
	s := &scope.System{
		Window:  c.Window,
		Diagram: file,
		History: c.History,
		Bounds:  scope.MeanBounds{Confidence: c.Confidence, StandardErrors: c.StandardErrors},
		Samples: c.Samples,
		HoldOff: c.HoldOff,
		Source:  c.selfContained().Format(),
	}
	for _, o := range outcomes {
		outcome, err := o.outcome(c)
		if err != nil {
			return nil, err
		}
		s.Outcomes = append(s.Outcomes, outcome)
	}
	return s, nil
}

// selfContained returns the configuration with its diagram included, even if that comes from a
// separate file. It removes the folder of snapshots, which is meaningless elsewhere.
func (c Config) selfContained() Config {
	c.DiagramFile = ""
	c.Snapshots.Dir = DefaultSnapshotsDir
	return c
}

// outcomes returns all outcomes, with or without an entry, and the diagram.
func (c Config) outcomes() ([]Outcome, *diagram.File, error) {
	if c.Diagram == "" {
		return c.Outcomes, nil, nil
	}
	file, err := diagram.Parse(c.Diagram)
	if err != nil {
		return nil, nil, err
	}
	composed, err := compose(file)
	return withDefaults(c.Outcomes, composed.names), file, err
}

// withDefaults returns the entries, followed by default outcomes for the names without an entry.
func withDefaults(entries []Outcome, names []string) []Outcome {
	all := append([]Outcome(nil), entries...)
	has := make(map[string]bool)
	for _, o := range entries {
		has[o.Name] = true
	}
	for _, name := range names {
		if !has[name] {
			all = append(all, defaultOutcome(name))
		}
	}
	return all
}

func (o Outcome) outcome(c Config) (scope.OutcomeSystem, error) {
	grid, err := o.Scale.Grid(c.Base)
	if err != nil {
		return scope.OutcomeSystem{}, err
	}
	p := scope.OutcomeSystem{Spec: outcome.Spec{
		Name:      o.Name,
		Span:      o.Span,
		Wrapper:   o.Wrapper,
		VM:        o.VM,
		Group:     o.Group,
		BinWidth:  grid.Width(),
		Bins:      grid.Bins(),
		ExitFails: o.ExitFails,
		Explain:   o.OfSpans() && o.Explain.Over(c.Explain),
	}, Fitted: o.Scale.Fitted}
	if o.QTA != nil {
		qta, err := dq.NewQTA(o.QTA.Failure, o.QTA.Points...)
		if err != nil {
			return scope.OutcomeSystem{}, err
		}
		p.QTA = &qta
	}
	for _, t := range o.Triggers {
		trigger, err := scope.ParseTrigger(t.Kind, t.Setting)
		if err != nil {
			return scope.OutcomeSystem{}, err
		}
		p.Triggers = append(p.Triggers, trigger)
	}
	return p, nil
}
