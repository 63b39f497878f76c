package vmsource

import (
	"fmt"

	"github.com/beamscope/beamscope/internal/engine/outcome"

	"github.com/beamscope/beamscope/bpf"
)

var _ outcome.Discoverer = (*Source)(nil)

// A discovery records the names that a source has passed on.
type discovery struct {
	users map[int]map[string]bool // names by user
	told  map[int]bool            // pids of VMs whose notice about too many names was given

	toldNameless, toldUnnoted, toldForeign bool
}

// unknownUser is the user of VMs that exited before they could be examined, and of VMs without a
// slot.
const unknownUser = -1

// Discovered implements [outcome.Discoverer]: it returns up to [bpf.MaxNames] names for the VMs of each
// user. One notice per VM reports that there are more.
func (s *Source) Discovered() []outcome.Discovery {
	d := &s.discovery
	if d.users == nil {
		d.users, d.told = make(map[int]map[string]bool), make(map[int]bool)
	}
	var found []outcome.Discovery
	for _, o := range s.observations {
		names, beyond := o.collector.Discovered()
		for _, n := range names {
			if s.isLeftOut(n.PID) {
				continue
			}
			user := s.userOf(n.PID)
			switch {
			case d.users[user][n.Name]: // seen in another VM, or by the previous observation
			case len(d.users[user]) == bpf.MaxNames:
				s.noteBeyond(n.PID)
			default:
				if d.users[user] == nil {
					d.users[user] = make(map[string]bool)
				}
				d.users[user][n.Name] = true
				found = append(found, outcome.Discovery{Name: n.Name, User: user})
			}
		}
		for pid := range beyond {
			s.noteBeyond(pid)
		}
	}
	return found
}

// userOf returns the id of the user on whose account a VM counts.
func (s *Source) userOf(pid int) int {
	if v := s.vms[pid]; v != nil && v.exe != "" {
		return v.process.Account
	}
	return unknownUser
}

// owners returns the owners of all VMs.
func (s *Source) owners() map[outcome.VM]string {
	all := make(map[outcome.VM]string)
	for pid, v := range s.vms {
		all[v.id] = outcome.UserOwner(s.userOf(pid))
	}
	return all
}

// noteBeyond reports once for each VM that its spans have too many names.
func (s *Source) noteBeyond(pid int) {
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

// noteOthers reports events that belong to no outcome. With discovery every label is ours, so
// there may be many such events. Each kind is reported once.
func (s *Source) noteOthers(o bpf.Others) {
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
		s.note("spans have too many different names: some are not counted separately. Does a name contain a value that changes, such as an id?")
	}
}
