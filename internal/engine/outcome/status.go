package outcome

import (
	"strings"

	"github.com/beamscope/beamscope/internal/engine/seen"
)

// A VMStatus is the status of a VM.
type VMStatus struct {
	VM       VM
	Exe      string // path of its executable, or "" if it was gone before it could be read
	Since    int64  // time when it was found, nanoseconds of CLOCK_MONOTONIC; 0 if it is refused
	Ended    bool
	Stopped  string // why the VM does not run, such as "stopped by a signal"; "" if it runs
	Refused  string // why it cannot be observed, "" if it can
	NoEvents bool   // it is refused because its executable reports no events that can be attached to
	Ring     bool   // its spans are read from its memory, whether it is refused or not

	Probes []ProbeStatus // probes that are attached to, none if the VM has ended
}

// Gone returns a text for people that reports that all VMs have exited, or names the stopped VMs,
// in which nothing happens. Otherwise it returns "".
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

// A ProbeStatus describes why a VM probe is attached to.
type ProbeStatus struct {
	Name     string   // user_trace-n123, process-exit; [DiscoveryProbes] for many together
	Sites    int      // places in the code
	Outcomes []string // names of the outcomes that need it
	Discover bool     // discovery needs it
	Seen     seen.Way // [seen.Probe] or [seen.StandIn]; "" for many together
}

// DiscoveryProbes is the common name of the probes that are attached to for discovery only.
const DiscoveryProbes = "user_trace-n*"
