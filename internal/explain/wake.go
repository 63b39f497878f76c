package explain

import (
	"slices"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/explain/trace"
)

// A cause is what ends a wait.
type cause uint8

const (
	byMessage cause = iota
	byOneOf         // messages
	byUnseen        // message
	byTimer         // the timeout of the receive expired
	byExit          // an exit signal has ended the process
	bySignal        // another cause; no message was taken
	byUntold        // its timer or a signal; no message was taken
	byOpen          // it is ready, and no action shows the cause yet
	notYet
)

// A wake describes the end of a wait.
type wake struct {
	how    cause
	send   *send       // for byMessage
	mark   trace.Mark  // certainty of the message
	among  []trace.PID // possible senders, for byOneOf
	origin origin      // for byUnseen and byOneOf
	taken  int64       // time of the message, for byUnseen and byOneOf
	early  bool        // the message was sent before the process was tracked
	either bool        // its timer may have ended the wait, and so may a message that it took
}

// An episode is an interval in which a process waits for one message, although it may examine
// others in between. Its result is determined only once.
type episode struct {
	interval
	wake wake
}

// wakeOf returns the end of a wait of a process.
func (w *walk) wakeOf(p *process, s segment) wake {
	if e, ok := w.episodes[p]; ok && e.from <= s.at && s.at < e.to {
		return e.wake
	}
	e := p.episode(s.at, s.until)
	w.episodes[p] = e
	return e.wake
}

// inWait returns the time until which a process waits in a segment, and the certainty that it does
// not wait in the rest. A process that wakes, scans its mailbox and blocks again is still in the
// same wait. The scan belongs to the wait, and so does the time until a scheduler and a processor
// are free for it.
func (w *walk) inWait(p *process, s segment) (until int64, rest trace.Mark) {
	switch {
	case s.state == waits && s.pause.kind == trace.Root:
		return s.to, trace.Exact
	case !s.looks():
		return s.from, trace.Exact
	}
	i := after(p.changes, s.at, changedAt)
	for i < len(p.changes) && p.changes[i].at == s.at && p.changes[i].state != s.state {
		i++
	}
	if i >= len(p.changes) || p.changes[i].at != s.at {
		return s.from, trace.Exact
	}
	e, last, ok := w.episodeAt(p, i)
	if !ok {
		return s.from, trace.Exact
	}
	for _, c := range p.changes[i+1:] {
		if c.at >= e.to {
			break
		}
		if c.state == waits {
			return s.to, trace.Exact
		}
	}
	if s.state == running {
		return s.from, trace.Exact
	}
	until, rest = w.readyAfter(p, e, i, last, s)
	if e.wake.either {
		rest = max(rest, trace.Inferred)
	}
	return until, rest
}

// looks reports whether the segment may be one in which a waiting process is about to scan its
// mailbox, or is scanning it without a processor.
func (s segment) looks() bool {
	switch s.pause.kind {
	case trace.Root:
		return s.state == ready
	case trace.OSWait, trace.Blocked:
		return s.state == ready || s.state == running
	}
	return false
}

// many is the assumed maximum number of messages that a process has fetched, if the VM does not
// report fetches.
const many = 2

// readyAfter is inWait for a segment of the change i, in which the process is ready after an
// episode. last is the beginning of its last wait.
func (w *walk) readyAfter(p *process, e episode, i int, last int64, s segment) (until int64, rest trace.Mark) {
	c := p.changes[i]
	if c.by != nil && c.by.alias && e.wake.how != byOneOf && (e.wake.how != byMessage || e.wake.send != c.by) {
		// The alias was no longer active, and the process stayed in its wait.
		e.wake.mark = trace.Inferred
		w.episodes[p] = e
		return s.to, trace.Inferred
	}
	fetched := after(p.fetched, e.to, itself) - after(p.fetched, last, itself)
	if p.box.direct {
		fetched = many
	}
	switch k := e.wake; k.how {
	case byTimer, byOpen, notYet:
		if i+1 < len(p.changes) && p.changes[i+1].over {
			return s.to, trace.Exact
		}
		if !s.over {
			return s.from, trace.Inferred
		}
	case byMessage:
		at, mark := k.send.there(s.until), trace.Exact
		if fetched > 1 || k.send.at > s.from {
			mark = k.mark
		}
		if c.told != 0 && k.send.at <= c.told {
			// It may have made the process ready.
			if fetched > 1 && at > c.told {
				mark = max(mark, trace.Inferred)
			}
			at = k.send.at
		}
		return max(s.from, min(at, s.to)), mark
	case byExit:
	default:
		if k.how != byUnseen || fetched > 1 {
			return s.from, trace.Inferred
		}
	}
	return s.from, trace.Exact
}

// episodeAt returns the episode of a process that contains a change by which it becomes ready or
// runs after a wait. It also returns the beginning of that wait.
func (w *walk) episodeAt(p *process, i int) (e episode, since int64, ok bool) {
	j := i - 1
	for j > 0 && p.changes[j].interrupts() {
		j--
	}
	if j < 0 || p.changes[j].state != waits {
		return e, 0, false
	}
	at, since := p.changes[i].at, p.changes[j].at
	if e, ok = w.episodes[p]; ok && e.from <= at && at < e.to {
		return e, since, true
	}
	if e = p.episode(since, p.changes[j+1].at); at >= e.to {
		return e, 0, false
	}
	w.episodes[p] = e
	return e, since, true
}

// interrupts reports whether a process may be in the state during a wait without having run.
func (c change) interrupts() bool {
	return c.state == ready || c.state == collects || c.state == suspended
}

// episode determines the result of a wait that began at since and was first interrupted at until. A
// process leaves a receive when it takes a message, when the timeout of the receive expires, or
// when an exit signal ends it. After any other wake it scans its mailbox and blocks again.
func (p *process) episode(since, until int64) episode {
	e := episode{interval: interval{since, p.sure(since)}}
	var r *receipt
	if i := after(p.received, since+1, receivedAt); i < len(p.received) && p.received[i].at < e.to {
		r = &p.received[i]
		e.to = r.at
	}
	expired := first(p.timeouts, since, e.to)
	if expired < e.to {
		e.wake = p.expiry(since, expired, r)
	}
	if e.wake.how == byTimer {
		e.to, r = expired, nil
	}
	if first(p.untold, since, e.to) < e.to {
		p.guess(&e, r, interval{since, until})
		e.wake.mark = max(e.wake.mark, trace.Inferred)
		return e
	}
	if expired < forever {
		return e
	}
	if at := first(p.breaks, since, e.to); at < e.to {
		e.to = at
		e.wake = wake{how: bySignal, mark: trace.Inferred}
		return e
	}
	if r != nil {
		e.wake = r.wake()
		return e
	}
	e.wake = p.open(interval{since, until}, e.to)
	return e
}

// expiry returns the end of a wait that began at since, if the process continued at a time because
// the timeout of its receive had expired. r is the next message that it took, or nil. The expiry
// does not prove that the receive timed out: the process first looks at the messages that have come
// since it last looked, and takes one of them if the receive accepts it. If r may be such a message,
// and is from the process that it called, it is the answer. If r is from elsewhere, either it or the
// timer ended the wait: a later receive may have taken it.
func (p *process) expiry(since, at int64, r *receipt) wake {
	k := wake{how: byTimer}
	if r == nil || !p.mayEnd(r, at) {
		return k
	}
	if m := p.call(since); m != nil && r.mayBeFrom(m.to) {
		k = r.wake()
	}
	k.mark, k.either = max(k.mark, trace.Inferred), true
	return k
}

// mayEnd reports whether the message may have been taken by the receive whose timeout had expired
// when the process continued at a time. Then the process has neither blocked nor acted in between,
// and the message may have come after the process last looked.
func (p *process) mayEnd(r *receipt, at int64) bool {
	looked := p.looked(at)
	switch {
	case p.looked(r.at) > looked, first(p.breaks, at, r.at) < r.at:
		return false
	case !r.unfetched && first(p.fetched, looked, r.at) >= r.at:
		return false // it has fetched nothing since
	case r.since != 0 && r.since < looked && r.among == nil:
		return false
	case r.send == nil:
		return true
	case r.send.at > looked:
		return r.send.at <= at+near
	}
	return r.send.by() > looked && !p.wokenBefore(r.send, looked)
}

// looked returns the time before another one when the process last blocked after it had looked at
// all messages, or 0 if that is unknown.
func (p *process) looked(before int64) int64 {
	for i := after(p.changes, before, changedAt) - 1; i >= 0; i-- {
		if p.changes[i].state == waits && (i == 0 || !p.changes[i-1].interrupts()) {
			return p.changes[i].at
		}
	}
	return 0
}

// mayBeFrom reports whether a process is one of the known possible senders of the message.
func (r *receipt) mayBeFrom(pid trace.PID) bool {
	switch {
	case r.send != nil:
		return r.send.from == pid
	case r.origin.process() != 0:
		return r.origin.process() == pid
	}
	return slices.Contains(r.among, pid)
}

// wake returns the end of a wait after which the message was taken.
func (r *receipt) wake() wake {
	k := wake{origin: r.origin, taken: r.at, early: r.early}
	switch {
	case r.among != nil:
		k.how, k.among = byOneOf, r.among
	case r.send == nil:
		k.how = byUnseen
	default:
		k.how, k.send, k.mark = byMessage, r.send, r.send.mark
	}
	return k
}

// open returns the known result of a wait that has not ended up to a time.
func (p *process) open(last interval, to int64) wake {
	for i := after(p.changes, last.from+1, changedAt); i < len(p.changes) && p.changes[i].at < to; i++ {
		switch c := p.changes[i]; c.state {
		case exited:
			return wake{how: byExit}
		case waits:
			last = interval{c.at, forever}
			if i+1 < len(p.changes) {
				last.to = p.changes[i+1].at
			}
		}
	}
	if last.to >= to {
		return wake{how: notYet}
	}
	if i := after(p.changes, last.to, changedAt); i < len(p.changes) && p.changes[i].at == last.to {
		if s := p.changes[i].by; s != nil && !s.alias && s.fate == underway {
			return wake{how: byMessage, send: s, mark: trace.Inferred}
		}
	}
	return wake{how: byOpen}
}

// guess derives the result of a wait from the next actions of the process, if the VM did not report
// how the process left it. e already has the result if a later wake was reported as a timeout, or
// if the process took the message r.
func (p *process) guess(e *episode, r *receipt, last interval) {
	for i := after(p.changes, last.from+1, changedAt); i < len(p.changes) && p.changes[i].at < e.to; i++ {
		c := p.changes[i]
		if c.state != waits {
			continue
		}
		if !p.fetchedIn(last.from, c.at) && !p.glanced(c.at) {
			e.to = c.at
			e.wake = wake{how: byUntold}
			return
		}
		last = interval{c.at, forever}
		if i+1 < len(p.changes) {
			last.to = p.changes[i+1].at
		}
	}
	last.to = p.suspendedUntil(last.to)
	switch {
	case e.wake.how == byTimer:
	case r == nil:
		e.wake = p.open(last, e.to)
		if e.wake.how == byOpen && !p.fetchedIn(last.from, forever) {
			e.wake.how = byUntold
		}
	case p.tookLater(r, last):
		e.wake = wake{how: byUntold}
	default:
		e.wake = r.wake()
	}
}

// tookLater reports whether a message was taken by another receive than the one that waited last:
// it was there when that receive began, or came after it ended.
func (p *process) tookLater(r *receipt, last interval) bool {
	if r.since != 0 && r.since < last.from {
		return true
	}
	if r.send == nil {
		return false
	}
	if !r.send.alias && (r.send.by() < last.from || p.wokenBefore(r.send, last.from)) {
		return true // a process waits again only after it has fetched all messages
	}
	ran := p.runsAgain(last)
	return ran < forever && r.send.at > ran+near && !p.fetchedIn(last.from, r.send.at)
}

// wokenBefore reports whether a message woke the process, which then blocked again before a time.
func (p *process) wokenBefore(s *send, before int64) bool {
	i := after(p.changes, s.at, changedAt)
	return i < len(p.changes) && p.changes[i].at < before && p.changes[i].by == s
}

// runsAgain returns the time when the process runs again after a wait, or forever if it does not.
func (p *process) runsAgain(last interval) int64 {
	for _, c := range p.changes[after(p.changes, last.from+1, changedAt):] {
		if c.state == running {
			return c.at
		}
	}
	return forever
}

// sure returns the time until which the activity of a process is completely known from a time on.
func (p *process) sure(since int64) int64 {
	until := int64(forever)
	if i := after(p.lapses, since+1, seenAt); i < len(p.lapses) {
		until = max(since+1, p.lapses[i].last+1)
	}
	return min(until, first(p.blanks, since, forever))
}

// fetchedIn reports whether the process fetched a message in [from, to), or was sent one if the VM
// does not report when it fetches them.
func (p *process) fetchedIn(from, to int64) bool {
	if p.box.direct {
		i := after(p.arrived, from, sentAt)
		return i < len(p.arrived) && p.arrived[i].at < to
	}
	return first(p.fetched, from-1, to) < to
}

// glanced reports whether the process stopped running at a time without having been active.
func (p *process) glanced(at int64) bool {
	_, found := slices.BinarySearch(p.glances, at)
	return found
}

// An origin is the sender of a message, as reported by the VM at its receipt.
type origin struct {
	kind bpf.Origin
	of   uint64 // as [bpf.Event.Other]
	tag  uint32 // as [bpf.Event.Tag]
}

// process returns the sending process, or 0 if it is not a process of this node.
func (o origin) process() trace.PID {
	if o.kind == bpf.OriginProcess || o.kind == bpf.OriginDown {
		return trace.PID(o.of)
	}
	return 0
}

// sent reports whether a process may have sent a message with this origin.
func (o origin) sent(by trace.PID) bool {
	return o.kind == bpf.OriginUnknown || o.kind == bpf.OriginProcess && trace.PID(o.of) == by
}
