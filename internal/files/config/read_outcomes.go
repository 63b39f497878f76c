package config

import (
	"errors"
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
			return r.errorf(entries[i].value, "%s %q is observed by %s already: an instance belongs to one outcome", what, shortened(name), shortened(other))
		}
		taken[name] = o.Name
	}
	for _, o := range withDefaults(outcomes, r.composition.names)[len(outcomes):] {
		other, ok := spans[o.Span]
		for i := range entries {
			if ok && entries[i].key == other {
				return r.errorf(entries[i].value, "span %q is that of %s in the diagram too: give %s an entry with a span of its own", shortened(o.Span), shortened(o.Name), shortened(o.Name))
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
	o := Outcome{Name: e.key, Scale: Scale{Bins: DefaultBins}}
	given, err := readFields(r, e.value, outcomeFields(), &o)
	if err != nil {
		return Outcome{}, err
	}
	if err := r.origin(e, &o, given); err != nil {
		return Outcome{}, err
	}
	if o.Scale, err = o.scale(given); err != nil {
		return Outcome{}, r.atLine(e.value, err)
	}
	return r.required(e, o, base, given)
}

// required reads the keys that depend on the possible delays of an outcome.
func (r *reader) required(e entry, o Outcome, base time.Duration, given map[string]value) (Outcome, error) {
	grid, err := o.Scale.Grid(base)
	if err != nil {
		return Outcome{}, r.atLine(e.value, err)
	}
	if v, ok := given["qta"]; ok {
		if o.QTA, err = r.qta(v, grid.DMax()); err != nil {
			return Outcome{}, err
		}
	}
	if v, ok := given["triggers"]; ok {
		o.Triggers, err = r.triggers(v, o)
	}
	return o, err
}

func (r *reader) span(v value) (string, error) {
	name, err := r.text(v)
	if err == nil && (name == "" || len(name) > bpf.MaxNameLen || strings.ContainsRune(name, 0)) {
		return "", r.errorf(v, "a span's name has 1 to %d bytes and no NUL", bpf.MaxNameLen)
	}
	return name, err
}

// scale returns the scale of an outcome with the given keys. Without dmax and exponent, a built-in outcome
// has its own.
func (o Outcome) scale(given map[string]value) (Scale, error) {
	s := o.Scale
	_, dMax := given["dmax"]
	_, exponent := given["exponent"]
	if dMax && exponent {
		return Scale{}, errors.New("dmax and exponent contradict each other: give one of them")
	}
	builtin, _ := dtrace.LookupBuiltin(o.VM.Builtin)
	if builtin.DMax == 0 || dMax || exponent {
		return s, nil
	}
	s.DMax = builtin.DMax
	if _, ok := given["bins"]; !ok {
		s.Bins = builtin.Bins
	}
	return s, nil
}
