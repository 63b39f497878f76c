package session

import (
	"context"
	"fmt"
	"slices"

	"github.com/beamscope/beamscope/internal/config"
	"github.com/beamscope/beamscope/internal/monotonic"
	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/scope"
)

// missingAfter is after how many windows in which VMs were observed it is said that
// nothing was seen of an outcome.
const missingAfter = 5

// A missing says once of which spans and outcomes of the VM nothing is seen: names may be
// wrong. It is an observer, and used by the goroutine of the run alone.
type missing struct {
	session *Session
	waiting map[sight]int // windows for which one was not seen
	known   map[sight]bool
	notices []outcome.Notice
}

// A sight is what may be seen, or not: spans, or an outcome of the VM.
type sight struct{ span, outcome string }

// sightOf returns what there is to see of a spec; ok is false where it is another
// source's.
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

// A noticingSource is a source with the notices of a missing.
type noticingSource struct {
	outcome.Source
	missing *missing
}

// Watch implements [outcome.Source].
func (s *noticingSource) Watch(ctx context.Context) []outcome.Notice {
	notices := append(s.Source.Watch(ctx), s.missing.notices...)
	s.missing.notices = nil
	return notices
}

// Configured implements [scope.Observer]: what is waited for are outcomes that have an
// entry, or that the diagram does not define.
func (m *missing) Configured(s *scope.System, _ outcome.Plan) error {
	m.session.mu.Lock()
	c := m.session.config
	m.session.mu.Unlock()
	waiting := make(map[sight]int)
	for _, p := range s.Probes {
		if what, ok := sightOf(p.Spec); ok && asked(c, s, p.Spec.Name) && !m.known[what] && !m.session.added(p.Spec) {
			waiting[what] = m.waiting[what]
		}
	}
	m.waiting = waiting
	return nil
}

// asked reports whether somebody asked for the instances of a probe: it has an entry,
// or the diagram does not define it.
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
	for i := range f.Probes {
		p := &f.Probes[i]
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
		m.known[sight{span: span}] = true // or it would have no name
		delete(m.waiting, sight{span: span})
	}
	m.count(observed)
	return nil
}

// count counts a window in which nothing was seen of what was observed, and says of what
// that was so for long enough.
func (m *missing) count(observed map[sight]bool) {
	var spans, outcomes []string
	for what := range observed {
		if _, ok := m.waiting[what]; !ok {
			continue
		}
		if m.waiting[what]++; m.waiting[what] < missingAfter {
			continue
		}
		m.known[what] = true
		delete(m.waiting, what)
		if what.span != "" {
			spans = append(spans, what.span)
		} else {
			outcomes = append(outcomes, what.outcome)
		}
	}
	slices.Sort(spans)
	slices.Sort(outcomes)
	if len(spans) > 0 {
		m.saySpans(spans)
	}
	if len(outcomes) > 0 {
		m.say(fmt.Sprintf("outcome %s has no instances yet: the VM does not do it, or it lacks the probes, see beamscope probes", listed(outcomes)))
	}
}

// saySpans says that spans were not seen, and which others there are, where it is known.
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

// discovered returns the names of the spans that were discovered, in their order.
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
