package outcome

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/beamscope/beamscope/dtrace"
)

// A VMStatus says how it stands with a VM.
type VMStatus struct {
	VM      VM
	Exe     string // path of its executable, "" where it was gone before it could be looked at
	Since   int64  // when it was found, nanoseconds of CLOCK_MONOTONIC; 0 where it is refused
	Ended   bool
	Stopped string // why nothing happens in it, such as "stopped by a signal"; "" where it runs
	Refused string // why it cannot be observed, "" where it can
	Ring    bool   // its spans are read from its memory, whether or not it is refused

	Probes []ProbeStatus // that are attached to, none where it has ended
}

// Gone says, for people, that all VMs have exited, or which of them are stopped: nothing
// happens in those. It is "" otherwise.
func Gone(all []VMStatus) string {
	var exited, stopped []string
	running := false
	for _, v := range all {
		switch {
		case v.Ended:
			exited = append(exited, v.VM.String()+" exited")
		case v.Refused != "":
		case v.Stopped != "":
			stopped = append(stopped, v.VM.String()+" stopped")
		default:
			running = true
		}
	}
	switch {
	case len(stopped) > 0:
		return strings.Join(stopped, ", ")
	case len(exited) > 0 && !running:
		return "no VM: " + exited[len(exited)-1]
	}
	return ""
}

// A ProbeStatus says what a VM probe is attached to for.
type ProbeStatus struct {
	Name     string   // user_trace-n123, process-exit; [DiscoveryProbes] for many together
	Sites    int      // places in the code
	Outcomes []string // that need it
	Discover bool     // discovery needs it
}

// DiscoveryProbes is what the probes are called together that are attached to for
// discovery alone.
const DiscoveryProbes = "user_trace-n*"

// goneMost is how many VMs that have ended are remembered.
const goneMost = 16

// A statusBoard is what other goroutines may know of a source.
type statusBoard struct {
	mu  sync.Mutex
	vms []VMStatus
}

// Status returns the VMs that are observed, those that cannot be, and the last ones
// that have ended, in the order of their pids. It may be called from any goroutine,
// and waits for nothing.
func (s *VMSource) Status() []VMStatus {
	s.status.mu.Lock()
	defer s.status.mu.Unlock()
	return s.status.vms // never changed: replaced
}

// updateStatus writes the status anew.
func (s *VMSource) updateStatus() {
	all := slices.Concat(s.gone, slices.Collect(maps.Values(s.refused)), s.leftStatus())
	probes := make(map[file][]ProbeStatus)
	for _, v := range s.vms {
		st := VMStatus{VM: v.id, Exe: v.exe, Since: v.since, Ended: v.died != 0, Stopped: v.stopped}
		if s.placeless[v.id.PID] && !st.Ended {
			st.Refused = "other VMs have all the room"
		}
		if !st.Ended {
			if _, listed := probes[v.file]; !listed {
				probes[v.file] = s.probesOf(v.file)
			}
			st.Probes = probes[v.file]
		}
		all = append(all, st)
	}
	slices.SortStableFunc(all, func(a, b VMStatus) int { return cmp.Compare(a.VM.PID, b.VM.PID) })
	s.status.mu.Lock()
	defer s.status.mu.Unlock()
	s.status.vms = all
}

// probesOf returns the probes that are attached to in a file: those of outcomes, and
// behind them what is only there for discovery.
func (s *VMSource) probesOf(f file) []ProbeStatus {
	a := s.observations[len(s.observations)-1].covering(f)
	if a == nil {
		return nil
	}
	outcomes := make(map[string]string) // by the IDs of what is counted for them
	for _, st := range s.stages {
		for _, spec := range st.specs {
			outcomes[spec.kernelID()] = spec.Name
		}
	}
	var probes []ProbeStatus
	rest := ProbeStatus{Name: DiscoveryProbes, Discover: true}
	for _, p := range a.Probes() {
		if len(p.Outcomes) == 0 && p.Discover {
			rest.Sites += p.Sites
			continue
		}
		st := ProbeStatus{Name: dtrace.Hyphened(p.Name), Sites: p.Sites, Discover: p.Discover}
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
