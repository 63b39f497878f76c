package session

import (
	"cmp"
	"slices"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/sources/ring"
	"github.com/beamscope/beamscope/internal/sources/wrapper"
)

// A Status is the present state of a session's sources.
type Status struct {
	VMs      []outcome.VMStatus // VMs whose spans are observed, and VMs that cannot be observed
	Wrappers *WrapperStatus     // nil if the session uses no wrappers

	// Spans reports whether spans have been discovered, even if none belongs to an outcome yet.
	Spans bool

	// Beyond are the names of discovered spans without an outcome for lack of room, see
	// [MaxFound].
	Beyond []string
}

// A WrapperStatus is the status of wrappers, over TCP.
type WrapperStatus struct {
	Listen  string // address to which they connect
	Started bool   // the session has asked them to send
	Peers   []wrapper.Peer
	Refused uint64 // connections that were refused since the beginning
}

// Status returns the state of VMs and wrappers. Any goroutine may call it, and it does not wait
// for the run.
func (s *Session) Status() Status {
	var st Status
	if s.sources.vms != nil {
		st.VMs = s.sources.vms.Status()
	}
	if s.sources.rings != nil {
		st.VMs = withRings(st.VMs, s.sources.rings.Status())
	}
	if w := s.sources.wrappers; w != nil {
		st.Wrappers = &WrapperStatus{Listen: w.Addr().String(), Started: w.Started(), Peers: w.Peers(), Refused: w.Refused()}
	}
	if f := s.finder; f != nil {
		s.mu.Lock()
		st.Beyond = slices.Clone(f.beyond)
		s.mu.Unlock()
		st.Spans = f.spans.Load()
	}
	return st
}

// withRings adds the status of the VMs' rings.
func withRings(vms []outcome.VMStatus, rings []ring.Status) []outcome.VMStatus {
	all := slices.Clone(vms)
	for _, r := range rings {
		if !r.Found {
			continue
		}
		i := slices.IndexFunc(all, func(v outcome.VMStatus) bool { return v.VM == r.VM })
		if i < 0 {
			i = len(all)
			all = append(all, outcome.VMStatus{VM: r.VM, Exe: r.Exe, Since: r.Since, Stopped: r.Stopped, Ended: r.Ended, Refused: r.Refused})
		}
		all[i].Ring = r.Refused == ""
	}
	slices.SortStableFunc(all, func(a, b outcome.VMStatus) int { return cmp.Compare(a.VM.PID, b.VM.PID) })
	return all
}

// HasWrappers reports whether the session uses wrappers.
func (s *Session) HasWrappers() bool { return s.sources.wrappers != nil }

// StartWrappers makes the wrappers send instances. This is the initial state.
func (s *Session) StartWrappers() {
	if s.HasWrappers() {
		s.sources.wrappers.Start()
	}
}

// StopWrappers makes the wrappers stop sending instances.
func (s *Session) StopWrappers() {
	if s.HasWrappers() {
		s.sources.wrappers.Stop()
	}
}
