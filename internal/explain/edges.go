package explain

import (
	"cmp"
	"iter"
	"slices"

	"github.com/beamscope/beamscope/internal/explain/trace"
)

// Edges returns the known links of the messages that the processes of a VM took, sorted by time for
// each process. An exact or inferred link has the sender and the time of the send. For an ambiguous
// link, From and Sent are 0. Messages without any link are left out.
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
