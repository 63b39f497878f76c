package explain

import (
	"slices"

	"github.com/beamscope/beamscope/internal/trace"
)

// ahead counts the messages that a process took since it was sent another one. behind is how
// many were in its mailbox before that one, and overtaken how many came after it. Answers to
// what the process asked meanwhile are in neither, nor are messages
// that it waited for while it left the others in its mailbox. proven is false if it is not certain that
// all that are counted as overtaken came after the message.
func (w *walk) ahead(q *process, m *send, before []receipt) (behind, overtaken int, proven bool) {
	own := q.receiptOf(m)
	fetched := max(m.at, own.since)
	proven = true
	since := m.at // it took something for the last time
	for i := range before {
		r := &before[i]
		awaited := q.waitedIn(since, r.at)
		since = r.at
		switch {
		case r.send == m:
		case r.send != nil && r.send.at < m.at || r.send == nil && r.since <= fetched:
			behind++
		case awaited || w.mayAnswer(q, r):
		default:
			overtaken++
			proven = proven && r.cameAfter(m, own)
		}
	}
	return behind, overtaken, proven
}

// waitedIn reports whether the process was seen to begin to wait in a receive in [from, to).
func (p *process) waitedIn(from, to int64) bool {
	i := after(p.changes, from, changedAt)
	for ; i < len(p.changes) && p.changes[i].at < to; i++ {
		if p.changes[i].state == waits {
			return true
		}
	}
	return false
}

// receiptOf returns how the process took a message. It is zero if it did not.
func (p *process) receiptOf(m *send) receipt {
	if m.fate == taken {
		if i := after(p.received, m.received, receivedAt); i < len(p.received) && p.received[i].send == m {
			return p.received[i]
		}
	}
	return receipt{}
}

// cameAfter reports whether it is certain that the message came into the mailbox after m, which
// was taken as own says. Messages are fetched in the order in which they came.
func (r *receipt) cameAfter(m *send, own receipt) bool {
	if r.sure && own.sure && r.since > own.since {
		return true
	}
	return r.send != nil && r.send.mark == trace.Exact && m.precedes(r.send)
}

// mayAnswer reports whether what q took may be an answer to something that q had asked. It may
// be where the sender is not known.
func (w *walk) mayAnswer(q *process, r *receipt) bool {
	switch {
	case r.send != nil:
		return r.send.alias || w.asked(q, r.send.from, r.send.at)
	case r.among != nil:
		return slices.ContainsFunc(r.among, func(from trace.PID) bool { return w.asked(q, from, r.since) })
	}
	return w.asked(q, r.origin.process(), r.since)
}

// asked reports whether the last message that q sent to a process before a time may be one to
// answer. It is not where it may itself be the answer to one of that process. Of a process that
// is not known it may be.
func (w *walk) asked(q *process, pid trace.PID, before int64) bool {
	p := w.vm.processes[pid]
	if p == nil {
		return true
	}
	sends := q.sentTo[pid]
	n := after(sends, before, sentAt)
	if n == 0 {
		return false
	}
	last, since := sends[n-1].at, int64(0)
	if n > 1 {
		since = sends[n-2].at
	}
	requests := p.sentTo[q.pid]
	i := after(requests, last, sentAt)
	if i == 0 {
		return true
	}
	request := requests[i-1]
	return request.fate != taken || request.received > last || request.received <= since
}
