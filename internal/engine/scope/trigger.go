package scope

import (
	"errors"
	"fmt"
	"strings"
)

// ErrTrigger is wrapped by the errors of ParseTrigger.
var ErrTrigger = errors.New("bad trigger")

// A State is a trigger's result for a window.
type State uint8

// The states. An insufficient window neither fires a trigger nor ends its incident.
const (
	Quiet State = iota
	Alarm
	Insufficient
)

// A Trigger decides whether a window of an outcome is an incident.
type Trigger interface {
	// Kind is the trigger's key in a scope file, such as "load".
	Kind() string

	// Setting is the trigger's value in a scope file, as ParseTrigger accepts it.
	Setting() string

	// Possible returns an error if the trigger can never fire, or always fires, for this outcome.
	// calculated means that the diagram calculates the outcome.
	Possible(p *OutcomeSystem, calculated bool) error

	// Patience returns the number of alarms in a row for which the trigger fires. It is more than
	// one for triggers that chance alone makes fire now and then.
	Patience() int

	// Check returns the state of one window.
	Check(p *Outcome) State

	// Cause explains in a few words why a window is an alarm.
	Cause(p *Outcome) string
}

// A TriggerKind describes one kind of triggers. This is all that beamscope knows of it beside its
// [Trigger].
type TriggerKind struct {
	Name  string // the key in a scope file, such as "load"
	Short string // the purpose in a few words, such as "more instances end"
	Help  string // the purpose and the possible settings, without a full stop

	// Default is the setting of a trigger that is turned on without one, or "" if it needs one.
	Default string

	// Share means that the setting is a share, which people may write in percent.
	Share bool

	parse func(setting string) (Trigger, error)
}

// TriggerKinds returns the kinds of triggers, sorted by name.
func TriggerKinds() []TriggerKind {
	return []TriggerKind{
		{
			Name: "condition", Short: "an expression",
			Help:  "an expression over the figures of a window holds, as in p99 > 20*ms && n > 100",
			parse: parseCondition,
		},
		{
			Name: "divergence", Short: "off the calculated",
			Help:    "observed and calculated ΔQ are apart by more than bins and chance explain, three windows in a row. `true` means a distance of 0.05 in probability; a number is another distance",
			Default: isTrue, Share: true, parse: parseDivergence,
		},
		{
			Name: "failure", Short: "fewer succeed",
			Help:  "a larger share of the instances fails or times out, as in 0.05 or 5%",
			Share: true, parse: parseFailure,
		},
		{
			Name: "hazard", Short: "QTA nearly missed",
			Help:    "the observed or the calculated ΔQ violates the QTA, or has less slack in probability than this share, as in 0.1, two windows in a row. `true` means no slack",
			Default: isTrue, Share: true, parse: parseHazard,
		},
		{
			Name: "load", Short: "more instances end",
			Help:  "more instances end in a window, as in 5000",
			parse: parseLoad,
		},
		{
			Name: "loss", Short: "something is lost",
			Help:    "a window loses more instances than this number, as in 10, or is not observed as a whole. `true` means 0",
			Default: isTrue, parse: parseLoss,
		},
		{
			Name: "qta", Short: "QTA is violated",
			Help:    "the observed ΔQ violates the QTA for sure. It is true or false",
			Default: isTrue, parse: parseQTA,
		},
		{
			Name: "rate", Short: "fewer instances end",
			Help:  "fewer instances end a second, three windows in a row, as in < 50",
			parse: parseFall,
		},
		{
			Name: "silence", Short: "nothing ends",
			Help:    "no instance has ended for this time, as in 10s. `true` means three windows",
			Default: isTrue, parse: parseSilence,
		},
	}
}

// TriggerNames returns the names of the kinds of triggers, sorted.
func TriggerNames() []string {
	var names []string
	for _, k := range TriggerKinds() {
		names = append(names, k.Name)
	}
	return names
}

// Parse returns the trigger for a setting from a scope file, or nil for "false".
func (k TriggerKind) Parse(setting string) (Trigger, error) {
	if setting == "false" {
		return nil, nil
	}
	return k.parse(setting)
}

// LookupTriggerKind returns the kind of triggers of a name. The error wraps [ErrTrigger].
func LookupTriggerKind(name string) (TriggerKind, error) {
	for _, k := range TriggerKinds() {
		if k.Name == name {
			return k, nil
		}
	}
	return TriggerKind{}, fmt.Errorf("%w: %q: use one of %s", ErrTrigger, name, strings.Join(TriggerNames(), ", "))
}

// ParseTrigger returns the trigger of a kind for a setting, as [TriggerKind.Parse] does. Errors wrap
// [ErrTrigger].
func ParseTrigger(kind, setting string) (Trigger, error) {
	k, err := LookupTriggerKind(kind)
	if err != nil {
		return nil, err
	}
	t, err := k.Parse(setting)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrTrigger, kind, err)
	}
	return t, nil
}
