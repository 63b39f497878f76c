package session

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/seen"
	"github.com/beamscope/beamscope/internal/sources/ring"
)

// Sights say how the events of outcomes are seen at one moment.
type Sights struct {
	scripted bool
	attached bool  // whether programs can be attached to VMs
	lacking  error // why outcomes that need eBPF are not observed; nil if they are
	vms      []outcome.VMStatus
	rings    []ring.Status
}

// Sights returns how the events of outcomes are seen now. Any goroutine may call it, and it does not
// wait for the run.
func (s *Session) Sights() Sights {
	sights := Sights{scripted: s.sources.scripted, attached: s.sources.vms != nil}
	if s.sources.lacking != nil {
		sights.lacking = s.sources.lacking.why
	}
	if s.sources.vms != nil {
		sights.vms = s.sources.vms.Status()
	}
	if s.sources.rings != nil {
		sights.rings = s.sources.rings.Status()
	}
	return sights
}

// Seen returns how the events of each outcome of the configuration are seen in any VM, by its name.
func (s *Session) Seen() map[string]seen.Sight {
	s.mu.Lock()
	c := s.config
	s.mu.Unlock()
	system, err := c.System()
	if err != nil {
		return nil // it is in force, so this cannot be
	}
	sights, all := s.Sights(), make(map[string]seen.Sight)
	for _, p := range system.Outcomes {
		all[p.Spec.Name] = sights.Of(p.Spec, outcome.VM{})
	}
	return all
}

// Of returns how the events of an outcome are seen in a VM, or in any VM for the zero VM.
func (s Sights) Of(o outcome.Spec, v outcome.VM) seen.Sight {
	switch {
	case s.scripted:
		return seen.By(seen.Script)
	case o.Wrapper != "":
		return seen.By(seen.TCP)
	case s.lacking != nil && needsEBPF(o):
		return seen.Not(s.lacking.Error())
	}
	sight := s.inVMs(o, v)
	if isSpan(o) {
		sight = s.inRings(sight, v)
	}
	if len(sight.By) == 0 {
		sight.Why = cmp.Or(sight.Why, unseenBecause(o, v))
	}
	return sight
}

// inRings adds how the rings of a VM, or of any VM, show spans. A ring that is not read explains best why
// they are not seen.
func (s Sights) inRings(sight seen.Sight, v outcome.VM) seen.Sight {
	for _, r := range s.rings {
		switch {
		case r.Ended || v != outcome.VM{} && r.VM != v:
		case r.Refused != "" && len(sight.By) == 0:
			sight.Why = r.Refused
		case r.Refused == "" && r.Found:
			sight = sight.With(seen.Ring)
		}
	}
	return sight
}

// Unread returns why spans of some VM are not read, with the VM, or "" if there is no such VM.
func (s Sights) Unread() string {
	for _, r := range s.rings {
		if r.Refused != "" && !r.Ended {
			return fmt.Sprintf("the spans of %v are not read: %s", r.VM, r.Refused)
		}
	}
	return ""
}

// unseenBecause returns why the events of an outcome are not seen, if no source has a reason.
func unseenBecause(o outcome.Spec, v outcome.VM) string {
	switch {
	case isSpan(o):
		return "no span was recorded yet, and the VM has no probes"
	case v == outcome.VM{}:
		return "no VM is observed"
	}
	return "nothing is attached to in this VM for it"
}

// inVMs returns how programs in the kernel see the events of an outcome.
func (s Sights) inVMs(o outcome.Spec, v outcome.VM) (sight seen.Sight) {
	carries := carriersOf(o)
	for _, st := range s.vms {
		if v != (outcome.VM{}) && st.VM != v {
			continue
		}
		switch {
		case st.Ended:
			sight.Why = cmp.Or(sight.Why, "the VM has ended")
		case st.Refused != "":
			sight.Why = cmp.Or(sight.Why, st.Refused)
		}
		if len(sight.By) > 0 {
			sight.Why = ""
		}
		if s.attached && !st.Ended && st.Refused == "" && runQueue(o) {
			sight = sight.With(seen.Kernel)
		}
		for _, p := range st.Probes {
			if slices.Contains(p.Outcomes, o.Name) && carries(p.Name) {
				sight = sight.With(p.Seen)
			}
		}
	}
	return sight
}

// runQueue reports whether the kernel's scheduler makes the events of an outcome.
func runQueue(o outcome.Spec) bool {
	if isSpan(o) {
		return false
	}
	rule, err := o.VM.Rule()
	return err == nil && rule.RunQueue
}

// carriersOf returns a function that reports whether a probe makes the events of an outcome. Other
// probes of the outcome only help to explain or group its instances.
func carriersOf(o outcome.Spec) func(probe string) bool {
	if isSpan(o) {
		return func(probe string) bool { return strings.HasPrefix(probe, dtrace.Hyphened(dtrace.UserTrace)) }
	}
	rule, err := o.VM.Rule()
	if err != nil {
		return func(string) bool { return false }
	}
	probes := rule.Probes()
	return func(probe string) bool {
		return slices.ContainsFunc(probes, func(p dtrace.Probe) bool { return p.DTraceName() == probe })
	}
}
