// Package seen names the ways in which beamscope observes events and outcomes. The list of probes,
// the doctor, scope files and JSON use them.
package seen

import (
	"slices"
	"strings"
)

// A Way is a way in which events are seen.
type Way string

// The ways in which events are seen.
const (
	Probe   Way = "probe"    // a probe of the VM
	StandIn Way = "stand-in" // a function of the VM that stands in for a probe
	Ring    Way = "ring"     // records in the VM's memory
	Kernel  Way = "kernel"   // the kernel's scheduler
	TCP     Way = "tcp"      // messages of the published wrapper
	Script  Way = "script"   // output of a script
)

// NotAtAll is the text for events that are not seen.
const NotAtAll = "not at all"

// Unseen returns the text for events that are not seen for some reason.
func Unseen(why string) string { return NotAtAll + ": " + why }

// A Sight says how the events of an outcome are seen.
type Sight struct {
	By  []Way  // in the order of the constants; none if they are not seen
	Why string // why they are not seen; "" if they are
}

// By returns a sight of some ways.
func By(ways ...Way) Sight { return Sight{By: ways} }

// Not returns the sight of events that are not seen for some reason.
func Not(why string) Sight { return Sight{Why: why} }

// With returns the sight with another way.
func (s Sight) With(w Way) Sight {
	if !slices.Contains(s.By, w) {
		s.By = append(slices.Clone(s.By), w)
		slices.SortFunc(s.By, func(a, b Way) int { return order(a) - order(b) })
	}
	s.Why = ""
	return s
}

func order(w Way) int { return slices.Index([]Way{Probe, StandIn, Ring, Kernel, TCP, Script}, w) }

// String returns the ways, as in "probe, ring", or "not at all" with the reason.
func (s Sight) String() string {
	if len(s.By) == 0 {
		return Unseen(s.Why)
	}
	return s.Ways()
}

// Ways returns the ways, as in "probe, ring", or "not at all" without a reason.
func (s Sight) Ways() string {
	if len(s.By) == 0 {
		return NotAtAll
	}
	words := make([]string, len(s.By))
	for i, w := range s.By {
		words[i] = string(w)
	}
	return strings.Join(words, ", ")
}
