package scope

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrTrigger is wrapped by the errors of ParseTrigger.
var ErrTrigger = errors.New("bad trigger")

// A State is what a trigger makes of a window.
type State uint8

// The states. A window that is insufficient neither fires a trigger nor ends its
// incident.
const (
	Quiet State = iota
	Alarm
	Insufficient
)

// A Trigger tells whether a window of a probe is an incident.
type Trigger interface {
	// Kind is the trigger's key in a scope file, such as "load".
	Kind() string

	// Setting is its value in a scope file, as ParseTrigger reads it.
	Setting() string

	// Possible says why the trigger can never fire, or never be quiet, at a probe that
	// is calculated or not; nil where it can.
	Possible(p *ProbeSystem, calculated bool) error

	// Patience is how many windows in a row have to be an alarm for the trigger to
	// fire: more than one where chance alone makes one fire now and then.
	Patience() int

	// Check looks at one window.
	Check(p *Probe) State

	// Cause says in a few words what was found in a window that is an alarm.
	Cause(p *Probe) string
}

// parsers are the triggers there are.
func parsers() map[string]func(setting string) (Trigger, error) {
	return map[string]func(string) (Trigger, error){
		"load":       parseLoad,
		"rate":       parseFall,
		"silence":    parseSilence,
		"qta":        parseQTA,
		"failure":    parseFailure,
		"hazard":     parseHazard,
		"divergence": parseDivergence,
		"loss":       parseLoss,
		"condition":  parseCondition,
	}
}

// TriggerKinds returns the kinds of triggers, in the order of the alphabet.
func TriggerKinds() []string {
	var kinds []string
	for kind := range parsers() {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	return kinds
}

// ParseTrigger returns the trigger of a kind with a setting as it is in a scope
// file. The setting "false" is no trigger: nil. Errors wrap [ErrTrigger].
func ParseTrigger(kind, setting string) (Trigger, error) {
	parse, ok := parsers()[kind]
	if !ok {
		return nil, fmt.Errorf("%w: %q: use one of %s", ErrTrigger, kind, strings.Join(TriggerKinds(), ", "))
	}
	if setting == "false" {
		return nil, nil
	}
	t, err := parse(setting)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrTrigger, kind, err)
	}
	return t, nil
}
