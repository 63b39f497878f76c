package session

import (
	"fmt"
	"maps"
	"slices"

	"github.com/beamscope/beamscope/internal/config"
	"github.com/beamscope/beamscope/internal/monotonic"
	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/scope"
)

// missingAfter is after how many windows in which VMs were observed it is said that
// nothing was seen of an outcome.
const missingAfter = 5

// A missing says once of which spans nothing is seen: their names may be wrong. It is
// an observer, and used by the goroutine of the run alone.
type missing struct {
	session *Session
	waiting map[string]int // windows for which a span was not seen, by its name
	known   map[string]bool
	notices []outcome.Notice
}

func newMissing(s *Session) *missing {
	return &missing{session: s, waiting: make(map[string]int), known: make(map[string]bool)}
}

// A noticingSource is a source with the notices of a missing.
type noticingSource struct {
	outcome.Source
	missing *missing
}

// Watch implements [outcome.Source].
func (s *noticingSource) Watch() []outcome.Notice {
	notices := append(s.Source.Watch(), s.missing.notices...)
	s.missing.notices = nil
	return notices
}

// Configured implements [scope.Observer]: what is waited for are spans of outcomes that
// have an entry, or that the diagram does not define.
func (m *missing) Configured(s *scope.System, _ outcome.Plan) error {
	m.session.mu.Lock()
	c := m.session.config
	m.session.mu.Unlock()
	waiting := make(map[string]int)
	for _, p := range s.Probes {
		if asked(c, s, p.Spec.Name) && p.Spec.Span != "" && !m.known[p.Spec.Span] {
			waiting[p.Spec.Span] = m.waiting[p.Spec.Span]
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
	observed := make(map[string]bool)
	for i := range f.Probes {
		p := &f.Probes[i]
		if c := &p.Counts; c.Starts+c.Ends+c.Instances()+c.Loss.Total() > 0 {
			m.known[p.Spec.Span] = true
			delete(m.waiting, p.Spec.Span)
		} else if !c.Unobserved && p.VM != (outcome.VM{}) {
			observed[p.Spec.Span] = true
		}
	}
	var names []string
	for name := range observed {
		if _, ok := m.waiting[name]; !ok {
			continue
		}
		if m.waiting[name]++; m.waiting[name] == missingAfter {
			names = append(names, name)
			m.known[name] = true
			delete(m.waiting, name)
		}
	}
	if len(names) > 0 {
		slices.Sort(names)
		m.say(names)
	}
	return nil
}

// say says that spans were not seen, and which others there are, where it is known.
func (m *missing) say(names []string) {
	text := fmt.Sprintf("no span named %s has been seen: is that the name, and is it started in this VM?", listed(names))
	if f := m.session.finder; f != nil {
		m.session.mu.Lock()
		seen := slices.Sorted(maps.Keys(f.found))
		m.session.mu.Unlock()
		if len(seen) > 0 {
			text += " Discovered were " + listed(seen)
		}
	}
	m.notices = append(m.notices, outcome.Notice{Time: monotonic.Now(), Text: text})
}

// Noticed implements [scope.Observer].
func (m *missing) Noticed(outcome.Notice) error { return nil }
