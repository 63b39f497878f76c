package config

import (
	"errors"
	"maps"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/diagram"
	"github.com/beamscope/beamscope/dtrace"
)

// outcomes reads the entries of outcomes. They may be missing if there is a diagram, because its
// names are outcomes by default. Without a diagram the key is required, and {} means that
// outcomes are still to be discovered. whole is the scope file.
func (r *reader) outcomes(whole, v value, base time.Duration) ([]Outcome, error) {
	if v.node == nil {
		if len(r.composition.names) == 0 {
			return nil, r.errorf(whole, "no outcomes: name what to observe, as in outcomes: {worker_1: {span: worker_1}}")
		}
		return nil, r.bounded(whole, len(r.composition.names))
	}
	entries, err := r.mapping(v)
	if err != nil {
		return nil, err
	}
	if err := r.bounded(v, len(entries)); err != nil {
		return nil, err
	}
	var out []Outcome
	for _, e := range entries {
		o, err := r.outcome(e, base)
		if err != nil {
			return nil, err
		}
		out = append(out, o)
	}
	if err := r.bounded(v, len(withDefaults(out, r.composition.names))); err != nil {
		return nil, err
	}
	return out, r.different(entries, out)
}

// bounded checks that a scope file has not too many outcomes.
func (r *reader) bounded(v value, outcomes int) error {
	if outcomes > MaxOutcomes {
		return r.errorf(v, "%d outcomes: at most %d, with the names of the diagram", outcomes, MaxOutcomes)
	}
	return nil
}

// different checks that no spans belong to two outcomes. Events may belong to several.
func (r *reader) different(entries []entry, outcomes []Outcome) error {
	spans, wrappers := make(map[string]string), make(map[string]string)
	for i, o := range outcomes {
		taken, name, what := spans, o.Span, "span"
		switch {
		case o.ofVM():
			continue
		case o.Wrapper != "":
			taken, name, what = wrappers, o.Wrapper, "wrapper"
		}
		if other, ok := taken[name]; ok {
			return r.errorf(entries[i].value, "%s %q is observed by %s already: an instance belongs to one outcome", what, name, other)
		}
		taken[name] = o.Name
	}
	for _, o := range withDefaults(outcomes, r.composition.names)[len(outcomes):] {
		other, ok := spans[o.Span]
		for i := range entries {
			if ok && entries[i].key == other {
				return r.errorf(entries[i].value, "span %q is that of %s in the diagram too: give %s an entry with a span of its own", o.Span, o.Name, o.Name)
			}
		}
	}
	return nil
}

func sentByWrapper(outcomes []Outcome) bool {
	for _, o := range outcomes {
		if o.Wrapper != "" {
			return true
		}
	}
	return false
}

func (r *reader) outcome(e entry, base time.Duration) (Outcome, error) {
	if !diagram.IsName(e.key) || len(e.key) > bpf.MaxNameLen {
		return Outcome{}, r.errorf(e.at(), "a name consists of letters, digits and underscores, has at most %d bytes, and does not begin with a digit", bpf.MaxNameLen)
	}
	if e.node.Kind == yaml.ScalarNode && e.node.Tag == "!!null" {
		return defaultOutcome(e.key), nil
	}
	o := Outcome{Name: e.key}
	var scale scaleForm
	var from origin
	var qta, triggers value
	fields := map[string]func(value) error{
		"exponent": func(v value) error { return r.optional(v, &scale.exponent, minExponent, maxExponent) },
		"bins":     func(v value) error { return r.optional(v, &scale.bins, 1, maxBins) },
		"dmax":     func(v value) (err error) { scale.dMax, err = r.duration(v, minWidth, maxDMax); return err },
		"fitted":   func(v value) (err error) { scale.fitted, err = r.boolean(v); return err },
		"qta":      func(v value) error { qta = v; return nil },
		"triggers": func(v value) error { triggers = v; return nil },
	}
	maps.Copy(fields, from.fields())
	if err := r.fields(e.value, fields); err != nil {
		return Outcome{}, err
	}
	if err := r.origin(e, &o, from); err != nil {
		return Outcome{}, err
	}
	if o.VM.Builtin != "" {
		scale.builtin, _ = dtrace.LookupBuiltin(o.VM.Builtin)
	}
	return r.required(e, o, scale, base, qta, triggers)
}

// required reads the keys that depend on the possible delays of an outcome.
func (r *reader) required(e entry, o Outcome, form scaleForm, base time.Duration, qta, triggers value) (Outcome, error) {
	scale, err := form.scale()
	if err != nil {
		return Outcome{}, r.atLine(e.value, err)
	}
	o.Scale = scale
	grid, err := scale.Grid(base)
	if err != nil {
		return Outcome{}, r.atLine(e.value, err)
	}
	if qta.node != nil {
		if o.QTA, err = r.qta(qta, grid.DMax()); err != nil {
			return Outcome{}, err
		}
	}
	if triggers.node != nil {
		o.Triggers, err = r.triggers(triggers, o)
	}
	return o, err
}

func (r *reader) optional(v value, to **int, low, high int) error {
	n, err := r.integer(v, low, high)
	*to = &n
	return err
}

func (r *reader) span(v value) (string, error) {
	name, err := r.text(v)
	if err == nil && (name == "" || len(name) > bpf.MaxNameLen || strings.ContainsRune(name, 0)) {
		return "", r.errorf(v, "a span's name has 1 to %d bytes and no NUL", bpf.MaxNameLen)
	}
	return name, err
}

// A scaleForm contains the keys of a scale in a scope file.
type scaleForm struct {
	exponent, bins *int
	dMax           time.Duration // 0 if not given
	fitted         bool

	builtin dtrace.Builtin // has its own scale; the zero Builtin has none
}

func (f scaleForm) scale() (Scale, error) {
	s := Scale{DMax: f.dMax, Bins: DefaultBins}
	if f.builtin.DMax != 0 && f.dMax == 0 && f.exponent == nil {
		s = Scale{DMax: f.builtin.DMax, Bins: f.builtin.Bins}
	}
	s.Fitted = f.fitted
	if f.bins != nil {
		s.Bins = *f.bins
	}
	if f.exponent == nil {
		return s, nil
	}
	if f.dMax != 0 {
		return Scale{}, errors.New("dmax and exponent contradict each other: give one of them")
	}
	s.Exponent = *f.exponent
	return s, nil
}
