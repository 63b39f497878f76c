package vmsource

import (
	"cmp"
	"slices"
	"sync"

	"github.com/beamscope/beamscope/internal/engine/outcome"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/internal/engine/seen"
)

// goneMost is the largest number of ended VMs that are remembered.
const goneMost = 16

// A statusBoard contains the part of a source that other goroutines may read.
type statusBoard struct {
	mu  sync.Mutex
	vms []outcome.VMStatus
}

// Status returns the observed VMs, those that cannot be observed, and the last ones that have
// ended, sorted by pid. Any goroutine may call it, and it does not wait.
func (s *Source) Status() []outcome.VMStatus {
	s.status.mu.Lock()
	defer s.status.mu.Unlock()
	return s.status.vms // never modified, only replaced
}

// updateStatus replaces the status.
func (s *Source) updateStatus() {
	s.updateSpanSights()
	all := slices.Concat(s.gone, s.leftStatus())
	for _, r := range s.refused {
		all = append(all, r.VMStatus)
	}
	probes := make(map[file][]outcome.ProbeStatus)
	for _, v := range s.vms {
		st := outcome.VMStatus{VM: v.id, Exe: v.exe, Since: v.since, Ended: v.died != 0, Stopped: v.stopped}
		if s.placeless[v.id.PID] && !st.Ended {
			st.Refused = "no room: other VMs use it all"
		}
		if !st.Ended {
			if _, listed := probes[v.file]; !listed {
				probes[v.file] = s.probesOf(v.file)
			}
			st.Probes = probes[v.file]
		}
		all = append(all, st)
	}
	slices.SortStableFunc(all, func(a, b outcome.VMStatus) int { return cmp.Compare(a.VM.PID, b.VM.PID) })
	s.status.mu.Lock()
	defer s.status.mu.Unlock()
	s.status.vms = all
}

// probesOf returns the probes that are attached to in a file. Those of outcomes come before those
// that only serve discovery.
func (s *Source) probesOf(f file) []outcome.ProbeStatus {
	a := s.observations[len(s.observations)-1].covering(f)
	if a == nil {
		return nil
	}
	outcomes := make(map[string]string) // names by the kernel IDs of the outcomes
	for _, st := range s.stages {
		for _, spec := range st.specs {
			outcomes[kernelID(spec)] = spec.Name
		}
	}
	var probes []outcome.ProbeStatus
	rest := outcome.ProbeStatus{Name: outcome.DiscoveryProbes, Discover: true}
	for _, p := range a.Probes() {
		if len(p.Outcomes) == 0 && p.Discover {
			rest.Sites += p.Sites
			continue
		}
		st := outcome.ProbeStatus{Name: dtrace.Hyphened(p.Name), Sites: p.Sites, Discover: p.Discover, Seen: seen.Probe}
		if p.StandIn {
			st.Seen = seen.StandIn
		}
		for _, id := range p.Outcomes {
			st.Outcomes = append(st.Outcomes, cmp.Or(outcomes[id], id))
		}
		probes = append(probes, st)
	}
	if rest.Sites > 0 {
		probes = append(probes, rest)
	}
	return probes
}
