package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/diagram"
	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/internal/engine/outcome"
)

var (
	// ErrObserved means that the spans already belong to an outcome.
	ErrObserved = errors.New("observed already")

	// ErrBuiltin means that no outcome with this name is built into the VM.
	ErrBuiltin = errors.New("no outcome that is built into the VM")

	// ErrFull means that a scope file cannot have more outcomes, see [MaxOutcomes].
	ErrFull = fmt.Errorf("a scope file has at most %d outcomes", MaxOutcomes)

	// ErrSpan means that a scope file cannot have an outcome for these spans.
	ErrSpan = errors.New("no outcome can be made of spans with this name")
)

// WithSpan returns the configuration with another outcome, for the spans with a name. The outcome
// has the same name, but characters other than letters, digits and underscores become underscores,
// and if the name is taken, a number is added. The error wraps [ErrObserved], [ErrFull] or
// [ErrSpan].
func (c Config) WithSpan(span string, scale Scale) (Config, error) {
	all, _, err := c.outcomes()
	if err != nil {
		return c, err
	}
	onLabel := 0
	for _, o := range all {
		if !o.OfSpans() {
			continue
		}
		if o.Span == span {
			return c, fmt.Errorf("spans %q: %w, by %s", span, ErrObserved, o.Name)
		}
		if bpf.Label(o.Span) == bpf.Label(span) {
			onLabel++
		}
	}
	switch {
	case len(all) >= MaxOutcomes:
		return c, fmt.Errorf("spans %q: %w", span, ErrFull)
	case span == "" || len(span) > bpf.MaxNameLen || strings.ContainsRune(span, 0):
		return c, fmt.Errorf("%w: %q has not 1 to %d bytes without NUL", ErrSpan, span, bpf.MaxNameLen)
	case !utf8.ValidString(span):
		return c, fmt.Errorf("%w: %q is not UTF-8, which scope files are", ErrSpan, span)
	case onLabel >= bpf.NamesPerLabel:
		return c, fmt.Errorf("%w: %d outcomes already use the label of %q", ErrSpan, onLabel, span)
	}
	taken := func(name string) bool {
		return slices.ContainsFunc(all, func(o Outcome) bool { return o.Name == name })
	}
	c.Outcomes = append(slices.Clip(c.Outcomes), Outcome{Name: different(outcomeOf(span), taken), Span: span, Scale: scale})
	return c, nil
}

// BuiltinScale returns the default scale of a built-in outcome of the VM; false if there is no such
// outcome.
func BuiltinScale(builtin string) (Scale, bool) {
	b, ok := dtrace.LookupBuiltin(builtin)
	return Scale{DMax: b.DMax, Bins: b.Bins}, ok
}

// WithBuiltin returns the configuration with another outcome that is built into the VM, such as
// gc. The outcome has the same name, with a number added if the name is taken. The error wraps
// [ErrObserved], [ErrFull] or [ErrBuiltin].
func (c Config) WithBuiltin(builtin string, scale Scale) (Config, error) {
	all, _, err := c.outcomes()
	if err != nil {
		return c, err
	}
	if _, ok := dtrace.LookupBuiltin(builtin); !ok {
		return c, fmt.Errorf("%w: %q", ErrBuiltin, builtin)
	}
	if at := slices.IndexFunc(all, func(o Outcome) bool { return o.VM.Builtin == builtin }); at >= 0 {
		return c, fmt.Errorf("%s: %w, by %s", builtin, ErrObserved, all[at].Name)
	}
	if len(all) >= MaxOutcomes {
		return c, fmt.Errorf("%s: %w", builtin, ErrFull)
	}
	taken := func(name string) bool {
		return slices.ContainsFunc(all, func(o Outcome) bool { return o.Name == name })
	}
	added := Outcome{Name: different(outcomeOf(builtin), taken), VM: outcome.Events{Builtin: builtin}, Scale: scale}
	c.Outcomes = append(slices.Clip(c.Outcomes), added)
	return c, nil
}

// Spans returns the names of all spans that belong to outcomes, including names of the diagram
// without an entry.
func (c Config) Spans() []string {
	var spans []string
	for _, o := range c.ofSpans() {
		spans = append(spans, o.Span)
	}
	return spans
}

// SetsDMax reports whether the user has set the dMax of an outcome: it is neither the default of
// all outcomes nor that of a built-in outcome of the VM.
func (c Config) SetsDMax(name string) bool {
	for _, o := range c.Outcomes {
		if o.Name == name {
			if o.Scale.DMax != 0 {
				return o.Scale.DMax != builtinDMax(o)
			}
			return o.Scale.Exponent != 0 || o.Scale.Bins != DefaultBins
		}
	}
	return false
}

// builtinDMax returns the default dMax of an outcome that is built into the VM, and 0 for other
// outcomes.
func builtinDMax(o Outcome) time.Duration {
	scale, _ := BuiltinScale(o.VM.Builtin)
	return scale.DMax
}

// DiagramNames returns the names of the diagram.
func (c Config) DiagramNames() []string {
	if c.Diagram == "" {
		return nil
	}
	file, err := diagram.Parse(c.Diagram)
	if err != nil {
		return nil
	}
	composed, err := compose(file)
	if err != nil {
		return nil
	}
	return composed.names
}

// Explained returns the names of the outcomes whose slow instances are explained, including names
// of the diagram without an entry.
func (c Config) Explained() []string {
	var names []string
	for _, o := range c.ofSpans() {
		if o.Explain.Over(c.Explain) {
			names = append(names, o.Name)
		}
	}
	return names
}

// ObservesVMs reports whether any outcome is observed in VMs, by their probes or functions, or in their memory.
func (c Config) ObservesVMs() bool {
	all, _, err := c.outcomes()
	if err != nil {
		all = c.Outcomes
	}
	return slices.ContainsFunc(all, func(o Outcome) bool { return o.Wrapper == "" })
}

// OnlySpans reports whether all outcomes of VMs are spans, except built-in outcomes with these
// names.
func (c Config) OnlySpans(spare ...string) bool {
	all, _, err := c.outcomes()
	if err != nil {
		all = c.Outcomes
	}
	return !slices.ContainsFunc(all, func(o Outcome) bool {
		return o.Wrapper == "" && !o.OfSpans() && !slices.Contains(spare, o.VM.Builtin)
	})
}

// ofSpans returns the outcomes that consist of spans.
func (c Config) ofSpans() []Outcome {
	all, _, err := c.outcomes()
	if err != nil {
		all = c.Outcomes
	}
	return slices.DeleteFunc(slices.Clone(all), func(o Outcome) bool { return !o.OfSpans() })
}

// outcomeOf returns a valid name for an outcome, similar to the name of its spans.
func outcomeOf(span string) string {
	name := strings.Map(func(r rune) rune {
		if diagram.InName(r) {
			return r
		}
		return '_'
	}, span)
	if !diagram.IsName(name) { // it begins with a digit or a mark
		name = "_" + name
	}
	return cut(name, bpf.MaxNameLen)
}

// different returns the name, with a number added if it is taken.
func different(name string, taken func(string) bool) string {
	for n, try := 2, name; ; n++ {
		if !taken(try) {
			return try
		}
		number := fmt.Sprintf("_%d", n)
		try = cut(name, bpf.MaxNameLen-len(number)) + number
	}
}

// cut returns the longest beginning of a text that has at most most bytes, without splitting a
// character.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}
