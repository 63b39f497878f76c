package explain

import (
	"slices"

	"github.com/beamscope/beamscope/internal/trace"
)

// A cause is what ends a wait.
type cause uint8

const (
	byMessage cause = iota
	byOneOf         // messages
	byUnseen        // message
	bySignal        // or a timer: no message was taken
	notYet
)

// A wake is how a wait ended.
type wake struct {
	how   cause
	send  *send       // of byMessage
	mark  trace.Mark  // of send
	among []trace.PID // senders, of byOneOf
}

// An episode is a time in which a process waits for one message, though it may look at
// others in between. To what it came has to be found out only once.
type episode struct {
	interval
	wake wake
}

// wakeOf returns how a wait of a process ended.
func (w *walk) wakeOf(p *process, s segment) wake {
	if e, ok := w.episodes[p]; ok && e.from <= s.at && s.at < e.to {
		return e.wake
	}
	e := p.episode(s.at, s.until)
	w.episodes[p] = e
	return e.wake
}

// episode finds out what a wait that began at since, and was interrupted at until for
// the first time, came to. Who is woken and only looks at the messages that came, and
// goes on to wait, still waits for the same; so does, as is assumed, who is scheduled in
// and does nothing at all.
func (p *process) episode(since, until int64) episode {
	e := episode{interval: interval{since, p.sure(since)}}
	var r *receipt
	if i := after(p.received, since+1, receivedAt); i < len(p.received) && p.received[i].at < e.to {
		r = &p.received[i]
		e.to = r.at
	}
	last := interval{since, until} // wait
	mark := trace.Exact
	for i := after(p.changes, since+1, changedAt); i < len(p.changes) && p.changes[i].at < e.to; i++ {
		c := p.changes[i]
		if c.state != waits {
			continue
		}
		switch {
		case p.fetchedIn(last.from, c.at):
		case p.glanced(c.at):
			mark = trace.Inferred
		default:
			e.to = c.at
			e.wake = wake{how: bySignal}
			return e
		}
		last = interval{c.at, forever}
		if i+1 < len(p.changes) {
			last.to = p.changes[i+1].at
		}
	}
	switch {
	case r != nil:
		e.wake = p.wokenBy(r, since, last)
	case last.to >= e.to:
		e.wake = wake{how: notYet}
	default:
		e.wake = p.unfinished(last)
	}
	e.wake.mark = max(e.wake.mark, mark)
	return e
}

// sure returns until when all is known of what a process does from a time on.
func (p *process) sure(since int64) int64 {
	until := int64(forever)
	if i := after(p.lapses, since+1, seenAt); i < len(p.lapses) {
		until = max(since+1, p.lapses[i].last+1)
	}
	if i := after(p.blanks, since+1, func(at int64) int64 { return at }); i < len(p.blanks) {
		until = min(until, p.blanks[i])
	}
	return until
}

// wokenBy says what a wait came to after which a message was taken. One that was there
// before, or was sent only when the wait was over, was not waited for.
func (p *process) wokenBy(r *receipt, since int64, last interval) wake {
	switch {
	case r.since != 0 && r.since < since:
		return wake{how: bySignal}
	case r.among != nil:
		return wake{how: byOneOf, among: r.among}
	case r.send == nil:
		return wake{how: byUnseen}
	case last.to < forever && r.send.at > last.to+near && !p.fetchedIn(last.from, r.send.at):
		return wake{how: bySignal}
	}
	return wake{how: byMessage, send: r.send, mark: r.send.mark}
}

// unfinished says what a wait came to after which no message was taken, yet.
func (p *process) unfinished(last interval) wake {
	if i := after(p.arrived, last.to, sentAt); i < len(p.arrived) && p.arrived[i].at == last.to && p.arrived[i].fate == underway {
		return wake{how: byMessage, send: p.arrived[i], mark: trace.Inferred}
	}
	if p.fetchedIn(last.from, forever) {
		return wake{how: byUnseen}
	}
	return wake{how: bySignal}
}

// fetchedIn reports whether the process fetched a message in [from, to).
func (p *process) fetchedIn(from, to int64) bool {
	i := after(p.fetched, from, func(at int64) int64 { return at })
	return i < len(p.fetched) && p.fetched[i] < to
}

// glanced reports whether the process had done nothing when it stopped to run, at a time.
func (p *process) glanced(at int64) bool {
	_, found := slices.BinarySearch(p.glances, at)
	return found
}
