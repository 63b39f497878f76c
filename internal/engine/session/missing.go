package session

import (
	"context"
	"fmt"
	"slices"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/files/config"
	"github.com/beamscope/beamscope/internal/host/monotonic"
)

// missingAfter is the number of windows with observed VMs after which a notice reports that an
// outcome has not been seen.
const missingAfter = 5

// A missing reports spans and outcomes of the VM that are never seen, once each, because their
// names may be wrong. It is an observer, and only the goroutine of the run uses it.
type missing struct {
	session *Session
	waiting map[sight]int // number of windows without it
	known   map[sight]bool
	defined map[sight]bool // whether the diagram defines it
	notices []outcome.Notice
}

// A sight is something that can be seen: spans, or an outcome of the VM.
type sight struct{ span, outcome string }

// sightOf returns what can be seen of a spec. It returns false if the spec belongs to another
// source.
func sightOf(s outcome.Spec) (seen sight, ok bool) {
	switch {
	case s.Span != "":
		return sight{span: s.Span}, true
	case s.OfVM():
		return sight{outcome: s.Name}, true
	}
	return sight{}, false
}

func newMissing(s *Session) *missing {
	return &missing{session: s, waiting: make(map[sight]int), known: make(map[sight]bool)}
}

// A noticingSource is a source that adds the notices of observers.
type noticingSource struct {
	outcome.Source
	missing *missing
	unset   *unset
	sparse  *sparse
}

// Watch implements [outcome.Source].
func (s *noticingSource) Watch(ctx context.Context) []outcome.Notice {
	notices := append(s.Source.Watch(ctx), s.missing.notices...)
	s.missing.notices = nil
	notices = append(notices, s.unset.take()...)
	return append(notices, s.sparse.take()...)
}

// Configured implements [scope.Observer]: it waits for instances of outcomes that have an entry, or
// that the diagram does not define.
func (m *missing) Configured(s *scope.System, _ outcome.Plan) error {
	m.session.mu.Lock()
	c := m.session.config
	m.session.mu.Unlock()
	waiting := make(map[sight]int)
	m.defined = make(map[sight]bool)
	for _, p := range s.Outcomes {
		if what, ok := sightOf(p.Spec); ok && asked(c, s, p.Spec.Name) && !m.known[what] && !m.session.added(p.Spec) {
			waiting[what] = m.waiting[what]
			m.defined[what] = s.Defines(p.Spec.Name)
		}
	}
	m.waiting = waiting
	return nil
}

// asked reports whether the user requested the instances of a probe: it has an entry, or the
// diagram uses it as an outcome.
func asked(c config.Config, s *scope.System, name string) bool {
	hasEntry := slices.ContainsFunc(c.Outcomes, func(o config.Outcome) bool { return o.Name == name })
	return hasEntry || s.Diagram != nil && slices.Contains(s.Diagram.Outcomes(), name)
}

// Framed implements [scope.Observer].
func (m *missing) Framed(_ *outcome.Batch, f *scope.Frame) error {
	if len(m.waiting) == 0 {
		return nil
	}
	observed := make(map[sight]bool)
	for i := range f.Outcomes {
		p := &f.Outcomes[i]
		what, ok := sightOf(p.Spec)
		if !ok {
			continue
		}
		if c := &p.Counts; c.Starts+c.Ends+c.Instances()+c.Loss.Total() > 0 {
			m.known[what] = true
			delete(m.waiting, what)
		} else if !c.Unobserved && p.VM != (outcome.VM{}) {
			observed[what] = true
		}
	}
	for _, span := range m.discovered() {
		m.known[sight{span: span}] = true // otherwise it would have no name
		delete(m.waiting, sight{span: span})
	}
	m.count(observed)
	return nil
}

// count counts a window for the observed spans and VMs that have not been seen yet, and reports
// those missing for too long.
func (m *missing) count(observed map[sight]bool) {
	var spans, definitions, outcomes []string
	for what := range observed {
		if _, ok := m.waiting[what]; !ok {
			continue
		}
		if m.waiting[what]++; m.waiting[what] < missingAfter {
			continue
		}
		m.known[what] = true
		delete(m.waiting, what)
		switch {
		case what.span != "" && m.defined[what]:
			definitions = append(definitions, what.span)
		case what.span != "":
			spans = append(spans, what.span)
		default:
			outcomes = append(outcomes, what.outcome)
		}
	}
	slices.Sort(spans)
	slices.Sort(definitions)
	slices.Sort(outcomes)
	if len(spans) > 0 {
		m.saySpans(spans)
	}
	for _, span := range definitions {
		m.say(fmt.Sprintf("no span named %q has started yet: the diagram defines it, so it is calculated only", span))
	}
	if len(outcomes) > 0 {
		m.say(fmt.Sprintf("outcome %s has no instances yet: the VM does nothing of the kind, or lacks the probes, see beamscope probes", listed(outcomes)))
	}
}

// saySpans reports spans that were not seen, and lists the known names of others.
func (m *missing) saySpans(names []string) {
	text := fmt.Sprintf("no span named %s has started yet: check the name, and that this VM runs the code", listed(names))
	if len(names) > 1 {
		text = fmt.Sprintf("spans named %s have not started yet: check the names, and that this VM runs the code", listed(names))
	}
	if seen := m.discovered(); len(seen) > 0 {
		text += "; spans that started: " + listed(seen)
	}
	m.say(text)
}

// discovered returns the sorted names of the discovered spans.
func (m *missing) discovered() []string {
	f := m.session.finder
	if f == nil {
		return nil
	}
	m.session.mu.Lock()
	defer m.session.mu.Unlock()
	var spans []string
	for at := range f.found {
		if at.span != "" {
			spans = append(spans, at.span)
		}
	}
	slices.Sort(spans)
	return spans
}

func (m *missing) say(text string) {
	m.notices = append(m.notices, outcome.Notice{Time: monotonic.Now(), Text: text})
}

// Noticed implements [scope.Observer].
func (m *missing) Noticed(outcome.Notice) error { return nil }
