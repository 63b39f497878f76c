package outcome

import (
	"fmt"

	"github.com/beamscope/beamscope/bpf"
)

// A Discoverer is a [Source] that finds out what there is to observe.
type Discoverer interface {
	// Discovered returns the names of spans that were seen since it was last called,
	// and were those of no spec when they first were. It is called from the goroutine
	// of the other methods.
	Discovered() []Discovery
}

// A Discovery is a name of spans, and the user of the VM where it was seen first.
type Discovery struct {
	Name string
	User int // id
}

var (
	_ Discoverer = (*VMSource)(nil)
	_ Discoverer = (*Joint)(nil)
)

// A discovery is what a source remembers of the names that it has passed on.
type discovery struct {
	users map[int]map[string]bool // names by user
	told  map[int]bool            // pids of VMs whose notice about too many names was given

	toldNameless, toldUnnoted, toldForeign bool
}

// unknownUser is the user of VMs that have gone before they were looked at, and of those that
// are not told apart.
const unknownUser = -1

// Discovered implements [Discoverer]: it returns up to [bpf.MaxNames] names of each user's
// VMs. A notice says once of a VM that there are more.
func (s *VMSource) Discovered() []Discovery {
	d := &s.discovery
	if d.users == nil {
		d.users, d.told = make(map[int]map[string]bool), make(map[int]bool)
	}
	var found []Discovery
	for _, o := range s.observations {
		names, beyond := o.collector.Discovered()
		for _, n := range names {
			if s.isLeftOut(n.PID) {
				continue
			}
			user := s.userOf(n.PID)
			switch {
			case d.has(n.Name): // in another VM, or by the observation before
			case len(d.users[user]) == bpf.MaxNames:
				s.noteBeyond(n.PID)
			default:
				if d.users[user] == nil {
					d.users[user] = make(map[string]bool)
				}
				d.users[user][n.Name] = true
				found = append(found, Discovery{n.Name, user})
			}
		}
		for pid := range beyond {
			s.noteBeyond(pid)
		}
	}
	return found
}

// has reports whether a name was passed on.
func (d *discovery) has(name string) bool {
	for _, names := range d.users {
		if names[name] {
			return true
		}
	}
	return false
}

// userOf returns the id of the user of a VM.
func (s *VMSource) userOf(pid int) int {
	if v := s.vms[pid]; v != nil && v.exe != "" {
		return v.process.User
	}
	return unknownUser
}

// noteBeyond says once of a VM that its spans have too many names.
func (s *VMSource) noteBeyond(pid int) {
	if s.discovery.told[pid] {
		return
	}
	s.discovery.told[pid] = true
	which := "VMs that are not told apart"
	if v := s.vms[pid]; v != nil {
		which = fmt.Sprintf("%s of user %d", v.id, s.userOf(pid))
	}
	s.note("spans of %s have too many names, more than %d with those of other VMs of that user: what came later is not discovered", which, bpf.MaxNames)
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
func (j *Joint) Discovered() []Discovery {
	var names []Discovery
	for _, p := range j.parts {
		if d, ok := p.Source.(Discoverer); ok && !p.ended {
			names = append(names, d.Discovered()...)
		}
	}
	return names
}
