package vmsource

import (
	"sync"

	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/usdt"
)

// A spanSight describes which spans of a VM the programs count.
type spanSight struct {
	since int64 // beginning of the attaching, nanoseconds of CLOCK_MONOTONIC; 0 if they count none
	calls bool  // they see spans that call a function, instead of spans that fire a probe
}

// spanSights are the sights of all VMs. Any goroutine may read them.
type spanSights struct {
	mu       sync.Mutex
	vms      map[usdt.Process]spanSight
	shared   map[file]spanSight    // of executables that are attached to for all processes
	excluded map[usdt.Process]bool // VMs that are not counted although their executable is shared
	users    map[int]bool          // users whose unobserved VMs may be excluded
}

// CountsSpans returns since when the programs count the spans of a VM, in nanoseconds of
// CLOCK_MONOTONIC, or 0 if they count none. That is the beginning of the attaching, during which they
// miss some spans. calls means that they see spans that call a function, as the application beamscope
// does in a VM without probes, instead of spans that fire a probe. Any goroutine may call it, and it
// does not wait.
func (s *Source) CountsSpans(v vm.VM) (since int64, calls bool) {
	sight := s.spanSight(v)
	return sight.since, sight.calls
}

func (s *Source) spanSight(v vm.VM) spanSight {
	all := &s.spanSights
	all.mu.Lock()
	defer all.mu.Unlock()
	if sight, known := all.vms[v.Process]; known || all.excluded[v.Process] || all.users[v.Account] {
		return sight
	}
	// The VM is new. Programs count its spans already, and it is found when they do.
	return all.shared[file{device: v.Exe.Device, inode: v.Exe.Inode}]
}

// updateSpanSights determines the sights again.
func (s *Source) updateSpanSights() {
	now := monotonic.Now()
	next := spanSights{vms: make(map[usdt.Process]spanSight), shared: make(map[file]spanSight), excluded: make(map[usdt.Process]bool), users: make(map[int]bool)}
	o := s.observations[len(s.observations)-1]
	for f, a := range o.files {
		if f.pid == 0 && a.SeesSpans() {
			next.shared[f] = spanSight{since: s.files[f].since, calls: a.Target().StandIns}
		}
	}
	for user := range s.leftUsers {
		next.users[user] = true
	}
	for process := range s.refused {
		next.excluded[process] = true
	}
	for _, l := range s.left {
		next.excluded[l.process.Process] = true
	}
	for pid, v := range s.vms {
		switch a := o.covering(v.file); {
		case v.exe == "":
		case a == nil || !a.SeesSpans() || s.placeless[pid]:
			next.excluded[v.process.Process] = true
		case s.spanSights.vms[v.process.Process].since != 0:
			next.vms[v.process.Process] = s.spanSights.vms[v.process.Process]
		default:
			sight, seen := next.shared[v.file.ofAll()]
			switch {
			case s.spanSights.excluded[v.process.Process]:
				sight = spanSight{since: now, calls: a.Target().StandIns}
			case !seen || next.users[v.process.Account]:
				sight = spanSight{since: v.begun, calls: a.Target().StandIns}
			}
			next.vms[v.process.Process] = sight
		}
	}
	s.spanSights.set(&next)
}

// set replaces the sights.
func (all *spanSights) set(next *spanSights) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.vms, all.shared, all.excluded, all.users = next.vms, next.shared, next.excluded, next.users
}
