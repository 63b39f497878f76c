package explain

import (
	"cmp"
	"iter"
	"slices"

	"github.com/beamscope/beamscope/internal/trace"
)

// Edges returns what is known of the messages that the processes of a VM took, for each
// process in the order of time: an exact or inferred link is from whom it was and when it
// was sent; of an ambiguous one From and Sent are 0. Messages of which nothing is known
// are left out.
func (l *Log) Edges(vm int) iter.Seq[trace.Link] {
	return func(yield func(trace.Link) bool) {
		v := l.vms[vm]
		if v == nil {
			return
		}
		for _, pid := range v.pids() {
			for _, r := range v.processes[pid].received {
				link := trace.Link{To: pid, Received: r.at, Mark: trace.Ambiguous}
				switch {
				case r.send != nil:
					link = linkOf(r.send, r.send.mark)
				case r.among == nil:
					continue
				}
				if !yield(link) {
					return
				}
			}
		}
	}
}

// pids returns the processes in order.
func (v *vm) pids() []trace.PID {
	pids := make([]trace.PID, 0, len(v.processes))
	for pid := range v.processes {
		pids = append(pids, pid)
	}
	slices.SortFunc(pids, func(a, b trace.PID) int { return cmp.Compare(a, b) })
	return pids
}
