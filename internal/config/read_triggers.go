package config

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/scope"
)

// triggers reads the triggers of an outcome, which is known but for these.
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

// trigger returns nil for one that is off.
func (r *reader) trigger(e entry) (scope.Trigger, error) {
	if kinds := scope.TriggerKinds(); !slices.Contains(kinds, e.key) {
		return nil, r.unknown(e, kinds)
	}
	setting, err := r.text(e.value)
	if err != nil {
		return nil, err
	}
	t, err := parseTrigger(e.key, setting)
	if err != nil {
		return nil, r.errorf(e.value, "%v", err)
	}
	return t, nil
}

// parseTrigger is [scope.ParseTrigger] for those who know which trigger it is about:
// the error does not repeat that.
func parseTrigger(kind, setting string) (scope.Trigger, error) {
	t, err := scope.ParseTrigger(kind, setting)
	if err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), scope.ErrTrigger.Error()+": "+kind+": "))
	}
	return t, nil
}

// possible refuses a trigger that makes no sense at the outcome.
func (r *reader) possible(e entry, t scope.Trigger, o Outcome) error {
	p := scope.ProbeSystem{Spec: outcome.Spec{Name: o.Name}}
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
