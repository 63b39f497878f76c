package explain

import (
	"slices"

	"github.com/beamscope/beamscope/internal/explain/trace"
)

// ahead counts the messages that a process took after another message was sent to it. behind is the
// number that were in its mailbox before that message, and overtaken the number that came after it.
// Neither includes answers to what the process asked meanwhile, nor messages that it waited for
// while others stayed in its mailbox. proven is false if it is uncertain whether all overtaken
// messages came later.
func (w *walk) ahead(q *process, m *send, before []receipt) (behind, overtaken int, proven bool) {
	own := q.receiptOf(m)
	fetched := max(m.at, own.since)
	proven = true
	since := m.at // time of its last receipt
	for i := range before {
		r := &before[i]
		awaited := q.waitedIn(since, r.at)
		since = r.at
		switch {
		case r.send == m:
		case r.send != nil && r.send.at < m.at || r.send == nil && r.since <= fetched:
			behind++
			proven = proven && !(r.unfetched && r.send == nil)
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

// receiptOf returns the receipt of a message, or the zero receipt if the process did not take it.
func (p *process) receiptOf(m *send) receipt {
	if m.fate == taken {
		if i := after(p.received, m.received, receivedAt); i < len(p.received) && p.received[i].send == m {
			return p.received[i]
		}
	}
	return receipt{}
}

// cameAfter reports whether the message certainly entered the mailbox after m, whose receipt is
// own. Messages are fetched in the order in which they came.
func (r *receipt) cameAfter(m *send, own receipt) bool {
	if r.sure && own.sure && r.since > own.since {
		return true
	}
	return r.send != nil && r.send.mark == trace.Exact && m.precedes(r.send)
}

// mayAnswer reports whether the message that q took may be an answer to a question of q. If its
// sender is unknown, it may be.
func (w *walk) mayAnswer(q *process, r *receipt) bool {
	switch {
	case r.send != nil:
		return r.send.alias || w.asked(q, r.send.from, r.send.at)
	case r.among != nil:
		return slices.ContainsFunc(r.among, func(from trace.PID) bool { return w.asked(q, from, r.by()) })
	}
	return w.asked(q, r.origin.process(), r.by())
}

// asked reports whether the last message that q sent to a process before a time may be a question.
// It is none if it may itself be an answer to that process. For an unknown process it may be one.
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
