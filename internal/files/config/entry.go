package config

import (
	"slices"
	"strings"

	"github.com/beamscope/beamscope/internal/engine/scope"
)

// Entry returns the entry of an outcome for modification. If there is none, it adds one with the
// defaults.
func (c *Config) Entry(name string) *Outcome {
	at := slices.IndexFunc(c.Outcomes, func(o Outcome) bool { return o.Name == name })
	if at < 0 {
		at = len(c.Outcomes)
		c.Outcomes = append(slices.Clip(c.Outcomes), defaultOutcome(name))
	}
	return &c.Outcomes[at]
}

// Trigger returns the setting of a kind of trigger; false if it is off.
func (o *Outcome) Trigger(kind string) (setting string, on bool) {
	for _, t := range o.Triggers {
		if t.Kind == kind {
			return t.Setting, true
		}
	}
	return "", false
}

// SetTrigger sets a trigger as in a scope file. "false" turns it off. [Config.System] checks
// whether it makes sense for the outcome.
func (o *Outcome) SetTrigger(kind, setting string) error {
	k, err := scope.LookupTriggerKind(kind)
	if err != nil {
		return err
	}
	t, err := k.Parse(strings.TrimSpace(setting))
	if err != nil {
		return err
	}
	o.Triggers = slices.DeleteFunc(slices.Clone(o.Triggers), func(t Trigger) bool { return t.Kind == kind })
	if t != nil {
		o.Triggers = append(o.Triggers, Trigger{t.Kind(), t.Setting()})
	}
	sortTriggers(o.Triggers)
	return nil
}
