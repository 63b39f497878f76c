package outcome

import (
	"github.com/beamscope/beamscope/bpf"
)

// A Discoverer is a [Source] that finds out what there is to observe.
type Discoverer interface {
	// Discovered returns the names of spans that were seen since it was last called,
	// and were those of no spec when they first were. It is called from the goroutine
	// of the other methods.
	Discovered() []string
}

var (
	_ Discoverer = (*VMSource)(nil)
	_ Discoverer = (*Joint)(nil)
)

// A discovery is what a source remembers of the names that it has passed on.
type discovery struct {
	names map[string]bool

	toldBeyond, toldNameless, toldUnnoted, toldForeign bool
}

// Discovered implements [Discoverer]: it returns up to [bpf.MaxNames] names in all. A
// notice says once that there are more.
func (s *VMSource) Discovered() []string {
	d := &s.discovery
	if d.names == nil {
		d.names = make(map[string]bool)
	}
	var found []string
	beyond := false
	for _, o := range s.observations {
		names, more := o.collector.Discovered()
		beyond = beyond || more > 0
		for _, n := range names {
			switch {
			case d.names[n.Name]: // by the observation before
			case len(d.names) == bpf.MaxNames:
				beyond = true
			default:
				d.names[n.Name] = true
				found = append(found, n.Name)
			}
		}
	}
	if beyond && !d.toldBeyond {
		d.toldBeyond = true
		s.note("spans have more than %d names: what came later is not discovered", bpf.MaxNames)
	}
	return found
}

// noteOthers says what became of events that are no outcome's. Where every label is
// ours that may be much, and is said once.
func (s *VMSource) noteOthers(o bpf.Others) {
	d := &s.discovery
	if o.Foreign > 0 && !d.toldForeign {
		d.toldForeign = s.cfg.Discover
		s.note("%d user_trace events on our labels were not from version 1 of the wrapper: ignored", o.Foreign)
	}
	if o.Nameless > 0 && !d.toldNameless {
		d.toldNameless = true
		s.note("%d spans have no name that can be read, of 1 to %d bytes: they are not discovered", o.Nameless, bpf.MaxNameLen)
	}
	if o.Unnoted > 0 && !d.toldUnnoted {
		d.toldUnnoted = true
		s.note("spans have so many names that not all are told apart: is something in them that is another each time?")
	}
}

// Discovered implements [Discoverer]: it returns what the parts have discovered.
func (j *Joint) Discovered() []string {
	var names []string
	for _, p := range j.parts {
		if d, ok := p.Source.(Discoverer); ok && !p.ended {
			names = append(names, d.Discovered()...)
		}
	}
	return names
}
