package config

import (
	"cmp"
	"slices"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
)

// triggers reads the triggers of an outcome. The rest of the outcome is already known.
func (r *reader) triggers(v value, o Outcome) ([]Trigger, error) {
	entries, err := r.mapping(v)
	if err != nil {
		return nil, err
	}
	var triggers []Trigger
	for _, e := range entries {
		t, err := r.trigger(e)
		if err != nil {
			return nil, err
		}
		if t == nil {
			continue
		}
		if err := r.possible(e, t, o); err != nil {
			return nil, err
		}
		triggers = append(triggers, Trigger{t.Kind(), t.Setting()})
	}
	sortTriggers(triggers)
	return triggers, nil
}

func sortTriggers(ts []Trigger) {
	slices.SortFunc(ts, func(a, b Trigger) int { return cmp.Compare(a.Kind, b.Kind) })
}

// trigger reads a trigger. It returns nil if the trigger is off.
func (r *reader) trigger(e entry) (scope.Trigger, error) {
	kind, err := scope.LookupTriggerKind(e.key)
	if err != nil {
		return nil, r.unknown(e, scope.TriggerNames())
	}
	setting, err := r.text(e.value)
	if err != nil {
		return nil, err
	}
	t, err := kind.Parse(setting)
	if err != nil {
		return nil, r.errorf(e.value, "%v", err)
	}
	return t, nil
}

// possible rejects a trigger that makes no sense for the outcome.
func (r *reader) possible(e entry, t scope.Trigger, o Outcome) error {
	p := scope.OutcomeSystem{Spec: outcome.Spec{Name: o.Name}}
	if o.QTA != nil {
		qta, err := dq.NewQTA(o.QTA.Failure, o.QTA.Points...)
		if err != nil {
			return r.errorf(e.value, "%v", err)
		}
		p.QTA = &qta
	}
	if err := t.Possible(&p, r.composition.calculated[o.Name]); err != nil {
		return r.errorf(e.value, "%v", err)
	}
	return nil
}
