package vmsource

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"github.com/beamscope/beamscope/bpf"
)

// The number of places is limited, and any user can start that many VMs. The first hits of a VM
// take a free place. If none is free, places go from the users with most places to VMs of users
// with fewer.

// A tenant is a VM, or a process that may be one, that has a place or wants one.
type tenant struct {
	pid, user int
	since     int64 // time when it was found
	observed  bool  // it is known to be a VM
	placed    bool
}

// An exchange is the transfer of a place from one VM to another.
type exchange struct{ old, heir tenant }

// exchanges returns how places change hands. Afterwards no VM lacks a place while another user
// has at least two places more than its own user. The user with most places loses places first:
// processes that are not VMs lose theirs before the newest VMs. VMs of users with the fewest
// places get places first, the oldest of them before others. beyond are the VMs that get none.
func exchanges(all []tenant) (moves []exchange, beyond []tenant) {
	held := make(map[int]int)
	var holders, wanting []tenant
	for _, t := range all {
		switch {
		case t.placed:
			held[t.user]++
			holders = append(holders, t)
		case t.observed:
			wanting = append(wanting, t)
		}
	}
	slices.SortFunc(holders, func(a, b tenant) int { // the first one gives up its place first
		return cmp.Or(compareBool(a.observed, b.observed), -cmp.Compare(a.since, b.since), -cmp.Compare(a.pid, b.pid))
	})
	slices.SortFunc(wanting, func(a, b tenant) int { return cmp.Or(cmp.Compare(a.since, b.since), cmp.Compare(a.pid, b.pid)) })
	for len(wanting) > 0 {
		poorest := 0
		for i, w := range wanting {
			if held[w.user] < held[wanting[poorest].user] {
				poorest = i
			}
		}
		heir := wanting[poorest]
		richest := richestOf(held)
		at := slices.IndexFunc(holders, func(h tenant) bool { return h.user == richest })
		if at < 0 || held[richest] < held[heir.user]+2 {
			break
		}
		moves = append(moves, exchange{holders[at], heir})
		held[richest]--
		held[heir.user]++
		holders = slices.Delete(holders, at, at+1)
		wanting = slices.Delete(wanting, poorest, poorest+1)
	}
	return moves, wanting
}

// richestOf returns the user with most places. Among several it returns the one with the highest
// id.
func richestOf(held map[int]int) int {
	richest := 0
	for _, user := range slices.Sorted(maps.Keys(held)) {
		if held[user] >= held[richest] {
			richest = user
		}
	}
	return richest
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// shareOut gives places to VMs without one as far as possible, and reports whose VMs have none.
func (s *Source) shareOut(o *observation, read []bpf.Counts) error {
	if !slices.ContainsFunc(read, func(c bpf.Counts) bool { return c.PID == 0 }) {
		return nil // there always was a free place
	}
	holders, places := o.collector.Holders()
	var errs []error
	var all []tenant
	placed := make(map[int]bool)
	for _, h := range holders {
		placed[h.PID] = true
		all = append(all, s.tenant(h.PID, s.finder.Account(h.User), true))
	}
	for pid, v := range s.vms {
		if placed[pid] || v.died != 0 || v.exe == "" {
			continue
		}
		err := o.collector.Place(pid, v.process.Account)
		if err != nil && !errors.Is(err, bpf.ErrNoPlace) {
			errs = append(errs, err)
		}
		all = append(all, s.tenant(pid, v.process.Account, err == nil))
	}
	moves, beyond := exchanges(all)
	for _, m := range moves {
		errs = append(errs, o.collector.Displace(m.old.pid, m.heir.pid, m.heir.user))
		if m.old.observed {
			beyond = append(beyond, m.old)
		}
	}
	s.noteCrowd(beyond, places)
	return errors.Join(errs...)
}

// tenant describes a process as a tenant.
func (s *Source) tenant(pid, user int, placed bool) tenant {
	t := tenant{pid: pid, user: user, placed: placed}
	if v := s.vms[pid]; v != nil && v.exe != "" {
		t.user, t.since, t.observed = v.process.Account, v.since, v.died == 0
	}
	return t
}

// noteCrowd adds a notice for each user whose VMs have no place, with their number. It adds
// another one each time the number has doubled.
func (s *Source) noteCrowd(beyond []tenant, places int) {
	users := make(map[int]int)
	s.placeless = make(map[int]bool)
	for _, t := range beyond {
		users[t.user]++
		s.placeless[t.pid] = true
	}
	for _, user := range slices.Sorted(maps.Keys(users)) {
		if n := users[user]; n >= 2*max(s.toldCrowd[user], 1) || s.toldCrowd[user] == 0 {
			s.toldCrowd[user] = n
			s.note("%d of the VMs of user %d %s not observed: there is room for %d VMs at a time, and users with fewer VMs have room first", n, user, isOrAre(n), places)
		}
	}
}

func isOrAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}
