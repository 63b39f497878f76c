package config

import (
	"slices"
	"strings"
)

// Entry returns the entry of an outcome, to be changed. One that has none yet, as it
// is observed as by default, gets one.
func (c *Config) Entry(name string) *Outcome {
	at := slices.IndexFunc(c.Outcomes, func(o Outcome) bool { return o.Name == name })
	if at < 0 {
		at = len(c.Outcomes)
		c.Outcomes = append(slices.Clip(c.Outcomes), defaultOutcome(name))
	}
	return &c.Outcomes[at]
}

// Trigger returns the setting of a kind of triggers; false where it is off.
func (o *Outcome) Trigger(kind string) (setting string, on bool) {
	for _, t := range o.Triggers {
		if t.Kind == kind {
			return t.Setting, true
		}
	}
	return "", false
}

// SetTrigger sets a trigger as it would be in a scope file; "false" is off. Whether it
// makes sense at the outcome is found out by [Config.System].
func (o *Outcome) SetTrigger(kind, setting string) error {
	t, err := parseTrigger(kind, strings.TrimSpace(setting))
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
