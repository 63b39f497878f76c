package session

import (
	"cmp"
	"slices"

	"github.com/beamscope/beamscope/internal/outcome"
	"github.com/beamscope/beamscope/internal/ring"
	"github.com/beamscope/beamscope/internal/wrapper"
)

// A Status says how a session stands with what it observes.
type Status struct {
	VMs      []outcome.VMStatus // whose spans are observed, and those that cannot be
	Wrappers *WrapperStatus     // nil where none are waited for

	// Spans reports whether spans have been discovered, also where none is an outcome yet.
	Spans bool

	// Beyond are the names of spans that were discovered and have no outcome, because
	// there were [MaxFound].
	Beyond []string
}

// A WrapperStatus says how it stands with wrappers, over TCP.
type WrapperStatus struct {
	Listen  string // address where they connect
	Started bool   // they are told to send
	Peers   []wrapper.Peer
	Refused uint64 // connections that were refused since the beginning
}

// Status returns how it stands with VMs and wrappers. It may be called from any
// goroutine, and does not wait for the run.
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

// withRings adds what is known of the VMs' rings.
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

// HasWrappers reports whether wrappers are waited for.
func (s *Session) HasWrappers() bool { return s.sources.wrappers != nil }

// StartWrappers tells the wrappers to send instances, as it is from the beginning.
func (s *Session) StartWrappers() {
	if s.HasWrappers() {
		s.sources.wrappers.Start()
	}
}

// StopWrappers tells the wrappers to send no instances.
func (s *Session) StopWrappers() {
	if s.HasWrappers() {
		s.sources.wrappers.Stop()
	}
}
