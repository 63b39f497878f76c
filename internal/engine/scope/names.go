package scope

import (
	"slices"

	"github.com/beamscope/beamscope/internal/explain/trace"
)

// maxNames is the largest number of processes with a known name. Beyond it all names are dropped.
// Later traces provide them again.
const maxNames = 4096

// names are the names of a VM's processes according to traces. A name that is learnt late also
// applies to earlier data, and to later traces without it.
type names map[trace.PID]string

// learn adds the names in a trace, and reports whether any of them is new.
func (n names) learn(t *trace.Trace) (learnt bool) {
	for i := range t.Spans {
		s := &t.Spans[i]
		if s.Process == 0 || s.Name == "" || n[s.Process] == s.Name {
			continue
		}
		if len(n) >= maxNames {
			clear(n)
		}
		n[s.Process] = s.Name
		learnt = true
	}
	return learnt
}

// named returns a cause with the name of its process, if that is known.
func (n names) named(c Cause) Cause {
	name := n[c.Process]
	if c.Own || c.Name != "" || name == "" {
		return c
	}
	return Cause{Kind: c.Kind, Name: name}
}

// rename replaces processes by their names in causes, and merges causes that become equal.
func (n names) rename(times []causeTime) []causeTime {
	for i := 0; i < len(times); {
		c := n.named(times[i].cause)
		if c == times[i].cause {
			i++
			continue
		}
		same := slices.IndexFunc(times, func(t causeTime) bool { return t.cause == c })
		if same < 0 {
			times[i].cause = c // the next round skips it
			continue
		}
		times[same].add(times[i])
		times = slices.Delete(times, i, i+1)
	}
	return times
}
