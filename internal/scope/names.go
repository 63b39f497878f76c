package scope

import (
	"slices"

	"github.com/beamscope/beamscope/internal/trace"
)

// maxNames is how many processes are known by name. Beyond it all are forgotten; those
// that are still there tell their names again.
const maxNames = 4096

// names are what the processes of a VM are called, as far as traces told: what is learnt
// of a process late holds for its time before, and goes on where a trace does not tell.
type names map[trace.PID]string

// learn takes in what a trace tells, and appends the processes of which it is new.
func (n names) learn(t *trace.Trace, learnt []trace.PID) []trace.PID {
	for i := range t.Spans {
		s := &t.Spans[i]
		if s.Process == 0 || s.Name == "" || n[s.Process] == s.Name {
			continue
		}
		if len(n) >= maxNames {
			clear(n)
		}
		n[s.Process] = s.Name
		learnt = append(learnt, s.Process)
	}
	return learnt
}

// named returns a cause by the name of its process, if that is known.
func (n names) named(c Cause) Cause {
	name := n[c.Process]
	if c.Own || c.Name != "" || name == "" {
		return c
	}
	return Cause{Kind: c.Kind, Name: name}
}

// rename has the causes of processes go by their names, and makes one of those that are
// then the same.
func (n names) rename(times []causeTime) []causeTime {
	for i := 0; i < len(times); {
		c := n.named(times[i].cause)
		if c == times[i].cause {
			i++
			continue
		}
		same := slices.IndexFunc(times, func(t causeTime) bool { return t.cause == c })
		if same < 0 {
			times[i].cause = c // goes by its name from now on, and so it is passed over
			continue
		}
		times[same].add(times[i])
		times = slices.Delete(times, i, i+1)
	}
	return times
}
