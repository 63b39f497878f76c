package session

import (
	"slices"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/files/config"
)

// An origin identifies outcomes that a session may add by itself: the name of spans, or an
// outcome that is built into the VM. All other outcomes have the zero origin.
type origin struct{ span, builtin string }

// originOf returns the origin of an outcome.
func originOf(o config.Outcome) origin {
	switch {
	case o.OfSpans():
		return origin{span: o.Span}
	case o.VM.Builtin != "":
		return origin{builtin: o.VM.Builtin}
	}
	return origin{}
}

// originOfSpec is originOf for a spec.
func originOfSpec(s outcome.Spec) origin {
	return originOf(config.Outcome{Span: s.Span, Wrapper: s.Wrapper, VM: s.VM})
}

// origins returns the origins of all outcomes, including names in the diagram without an entry.
func origins(c config.Config) []origin {
	var all []origin
	for _, o := range c.Outcomes {
		if at := originOf(o); at.builtin != "" {
			all = append(all, at)
		}
	}
	for _, span := range c.Spans() {
		all = append(all, origin{span: span})
	}
	return all
}

// outcomeAt returns the entry of the outcome with an origin, or nil.
func outcomeAt(c config.Config, at origin) *config.Outcome {
	i := slices.IndexFunc(c.Outcomes, func(o config.Outcome) bool { return originOf(o) == at })
	if i < 0 {
		return nil
	}
	return &c.Outcomes[i]
}

// with returns the configuration with an outcome of this origin, unless it already has one. It
// puts spans before outcomes that are built into the VM.
func (at origin) with(c config.Config, scale config.Scale) (config.Config, error) {
	if at.builtin != "" {
		return c.WithBuiltin(at.builtin, scale)
	}
	with, err := c.WithSpan(at.span, scale)
	if err != nil {
		return c, err
	}
	last := len(with.Outcomes) - 1
	first := slices.IndexFunc(with.Outcomes, func(o config.Outcome) bool { return o.VM.Builtin != "" })
	if first >= 0 {
		added := with.Outcomes[last]
		with.Outcomes = slices.Insert(slices.Clone(with.Outcomes[:last]), first, added)
	}
	return with, nil
}
