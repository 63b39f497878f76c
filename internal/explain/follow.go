package explain

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/beamscope/beamscope/internal/explain/trace"
)

// maxDepth is the maximum length of a chain of processes that wait for each other.
const maxDepth = 8

// Reasons for time that is not explained or not followed.
const (
	reasonNothing = "it waits for a message; no event tells from which process"
	reasonTimed   = "it waits in a receive with a time, which is not over"
	reasonAssumed = "assumed: it sent the last message there"
	reasonAsked   = "assumed: of the processes that it has sent to, only this one has ever answered"
	reasonRemote  = "a process of another node"
	reasonCopied  = "assumed: the VM had not yet delivered the message"
	reasonCycle   = "they wait for each other"
	reasonCircle  = "the messages that were seen lead back to this process; what it waits for is not certain"
	reasonOnWay   = "the messages that were seen lead back to this process; one of those in between had a message on its way or to look at"
	reasonExited  = "it had exited"
	reasonTaken   = "it is not certain when it took the message"
	reasonMissed  = "beamscope did not see when it took the message"
)

var reasonDepth = fmt.Sprintf("followed over %d processes", maxDepth)

// A node is a span with the spans below it.
type node struct {
	trace.Span
	children []node
}

// A path leads from the instance to a process. It has the processes between them and the certainty
// of the links.
type path struct {
	chain   []trace.PID
	mark    trace.Mark
	outside bool // not the instance's own process: even if its activity is unknown, it is known that it was waited for
}

// to returns the path extended to a process.
func (p path) to(pid trace.PID, mark trace.Mark) path {
	return path{append(slices.Clip(p.chain), pid), max(p.mark, mark), len(p.chain) > 0}
}

// A walk goes from process to process.
type walk struct {
	log   *Log
	pid   int // of the VM
	vm    *vm
	start int64 // of the instance
	end   int64
	owner *process // process that started it

	unscheduled string // why no events show when processes begin and stop running, or ""
	threadless  bool   // no events show when schedulers' threads do not run

	episodes map[*process]episode
}

// explain divides [from, to) by the activities of a process.
func (w *walk) explain(p *process, from, to int64, by path) []node {
	if from >= to {
		return nil
	}
	g := gatherer{limit: (w.end - w.start) / shortParts}
	var wait segment // the last one, not yet explained
	end := func() {
		if wait.from < wait.to {
			g.add(w.waits(p, wait, by)...)
		}
		wait = segment{}
	}
	for s := range w.segments(p, from, to) {
		until, mark := w.inWait(p, s)
		if s.from < until {
			if wait.from >= wait.to || wait.to != s.from || s.state == waits && s.guess != wait.guess {
				end()
				wait = s
			}
			wait.to = until
		}
		if until < s.to {
			end()
			n := leaf(p, s, by)
			n.Start, n.Mark = until, max(n.Mark, mark)
			g.add(n)
		}
	}
	end()
	return g.nodes
}

// waits explains a segment in which a process waits for a message, and may examine others
// meanwhile.
func (w *walk) waits(p *process, s segment, by path) []node {
	if s.guess == "" {
		return w.wait(p, s, by)
	}
	by.mark = max(by.mark, trace.Inferred)
	nodes := w.wait(p, s, by)
	for i := range nodes {
		nodes[i] = nodes[i].guessed(s.guess)
	}
	return nodes
}

// leaf makes a span of a segment in which the process did not wait for another one.
func leaf(p *process, s segment, by path) node {
	n := span(s.from, s.to, trace.Running, p.pid, by.mark)
	switch {
	case s.pause.kind == trace.Unexplained:
		n.Kind, n.Reason = trace.Unexplained, s.pause.detail
		if by.outside {
			n.Kind = trace.Waiting
		}
		return n
	case s.pause.kind != trace.Root:
		n.Kind, n.Detail = s.pause.kind, s.pause.detail
		return n
	case s.state == ready:
		n.Kind = trace.Ready
		n.Other = p.beside(s)
	case s.state == collects:
		n.Kind = trace.GC
	case s.state == native:
		n.Kind, n.Detail = trace.NIF, s.detail
	case s.state == suspended:
		s.why.tell(&n)
	case s.state == exited, s.state == unknown:
		n.Kind, n.Reason = trace.Unexplained, s.detail
		if s.state == exited {
			n.Reason = reasonExited
		}
		if by.outside {
			n.Kind = trace.Waiting
		}
	}
	return n.guessed(s.guess)
}

// guessed marks a span as guessed if there is a reason.
func (n node) guessed(reason string) node {
	if reason != "" && n.Mark < trace.Ambiguous && n.Kind != trace.Unexplained {
		n.Mark, n.Reason = trace.Inferred, also(reason, n.Reason)
	}
	return n
}

func span(from, to int64, kind trace.Kind, pid trace.PID, mark trace.Mark) node {
	return node{Span: trace.Span{Kind: kind, Start: from, End: to, Process: pid, Mark: mark}}
}

func unexplained(from, to int64, pid trace.PID, mark trace.Mark, reason string) node {
	n := span(from, to, trace.Unexplained, pid, mark)
	n.Reason = reason
	return n
}

// wait explains a segment in which a process waits for a message.
func (w *walk) wait(p *process, s segment, by path) []node {
	k := w.wakeOf(p, s)
	switch k.how {
	case byOneOf:
		if k.origin.process() != 0 {
			return []node{w.sender(p, s, k, by, trace.Inferred)}
		}
		n := span(s.from, s.to, trace.Waiting, 0, trace.Ambiguous)
		n.Reason = "it waited for a message " + between(k.among)
		return []node{n}
	case byTimer, byExit, bySignal, byUntold, byOpen:
		return []node{w.alone(p, s, k, by)}
	case byUnseen:
		return []node{w.unseen(p, s, k, by)}
	case notYet:
		return []node{w.assume(p, s, by)}
	}
	return w.delivered(p, s, k, by)
}

// delivered explains a segment in which a process waits for a message that it took. Until the
// message is in the mailbox, the time is its sender's; from then on the process waits to run. The
// message was certainly there at the sender's next action. It was certainly not there before the VM
// reported the process as ready. The second rule does not hold for messages to an alias, for which
// the VM reports this only when a scheduler turns to the process.
func (w *walk) delivered(p *process, s segment, k wake, by path) []node {
	var nodes []node
	from := s.from
	waits := func(to int64, mark trace.Mark, why string) {
		if from >= to {
			return
		}
		n := w.follow(wish{asker: p, of: k.send.from, from: from, to: to, link: linkOf(k.send, max(k.mark, mark)), by: by})
		n.Reason = also(why, n.Reason)
		nodes, from = append(nodes, n), to
	}
	there := s.to
	if k.send.alias && k.send.next != 0 {
		there = min(there, k.send.next)
	}
	switch told := p.saidReady(s.to); {
	case told && (!k.send.alias || there-k.send.at <= near):
	case told:
		waits(min(k.send.at, there), trace.Exact, "")
		waits(there, trace.Inferred, reasonCopied)
	default:
		there = min(k.send.there(s.to), s.to)
		waits(min(k.send.at, there), trace.Exact, "")
		waits(there, trace.Inferred, reasonCopied)
	}
	waits(there, trace.Exact, "")
	s.from = from
	by.mark = max(by.mark, k.mark)
	return append(nodes, w.readySince(p, s, by)...)
}

// readySince explains a segment of a wait in which the message has already come and no scheduler
// has turned to the process.
func (w *walk) readySince(p *process, s segment, by path) []node {
	if s.from >= s.to {
		return nil
	}
	s.change = change{at: s.from, state: ready}
	if i := after(p.changes, s.to, changedAt); i < len(p.changes) && p.changes[i].state == ready {
		s.thread = p.changes[i].thread
		if i+1 < len(p.changes) {
			s.until = p.changes[i+1].at
		}
	}
	var nodes []node
	w.vm.cutOut(s, func(part segment) bool {
		nodes = append(nodes, leaf(p, part, by))
		return true
	})
	return nodes
}

// saidReady reports whether the VM reported a process, which waits up to a time, as ready from that
// time or a later one on.
func (p *process) saidReady(at int64) bool {
	i := after(p.changes, at, changedAt)
	return i < len(p.changes) && p.changes[i].told != 0
}

// assume explains a segment in which a process waits and no message has come.
func (w *walk) assume(p *process, s segment, by path) node {
	asked, since := p.asked(s.at)
	if s.timed && p.call(s.at) == nil {
		asked = w.answerers(p, asked)
		if len(asked) == 0 {
			return unexplained(s.from, s.to, p.pid, by.mark, reasonTimed)
		}
	}
	if len(asked) == 0 {
		return unexplained(s.from, s.to, p.pid, by.mark, reasonNothing)
	}
	m, why := asked[0], reasonAssumed
	if len(asked) > 1 {
		why = reasonAsked
		if m = w.question(p, asked, since); m == nil {
			n := span(s.from, s.to, trace.Waiting, 0, trace.Ambiguous)
			n.Reason = "waits for one " + between(receivers(asked)) + ": it has sent to each since a message came"
			return n
		}
	}
	n := w.follow(wish{
		asker: p, of: m.to, from: s.from, to: s.to, link: linkOf(m, max(m.mark, trace.Inferred)), by: by,
	})
	n.Reason = also(why, n.Reason)
	return n
}

// answerers returns the messages whose receivers have ever sent one to p. If p is in a receive with
// a timeout and monitors no process, it can expect an answer only from these.
func (w *walk) answerers(p *process, asked []*send) []*send {
	return slices.DeleteFunc(asked, func(m *send) bool {
		q := w.vm.processes[m.to]
		return q == nil || len(q.sentTo[p.pid]) == 0
	})
}

// asked returns the last message that p sent to each process up to a time, since p's last receipt.
// It returns only a few, the last one first, and also the time of that receipt. A message to an
// alias is an answer, so p expects nothing in return.
func (p *process) asked(until int64) ([]*send, int64) {
	since := int64(math.MinInt64)
	if i := after(p.received, until, receivedAt); i > 0 {
		since = p.received[i-1].at
	}
	var asked []*send
	for i, n := after(p.sent, until+1, sentAt)-1, 0; i >= 0 && p.sent[i].at >= since && n < search; i, n = i-1, n+1 {
		to := func(s *send) bool { return s.to == p.sent[i].to }
		if len(asked) < candidates && !p.sent[i].alias && !slices.ContainsFunc(asked, to) {
			asked = append(asked, p.sent[i])
		}
	}
	return asked, since
}

// question returns the only message that may be a question, or nil if there is none. Its receiver
// has sent something to p. All other receivers never did, although p had sent them messages before
// a time.
func (w *walk) question(p *process, asked []*send, since int64) *send {
	var question *send
	for _, m := range asked {
		q := w.vm.processes[m.to]
		switch {
		case q != nil && len(q.sentTo[p.pid]) > 0:
			if question != nil {
				return nil
			}
			question = m
		case p.sentTo[m.to][0].at >= since:
			return nil
		}
	}
	return question
}

func receivers(sends []*send) []trace.PID {
	var pids []trace.PID
	for _, s := range sends {
		pids = append(pids, s.to)
	}
	return pids
}

// also joins two reasons. Each may be "".
func also(first, second string) string {
	if first == "" || second == "" {
		return first + second
	}
	return first + "; " + second
}

// linkOf returns the link of a message.
func linkOf(s *send, mark trace.Mark) trace.Link {
	l := trace.Link{From: s.from, To: s.to, Sent: s.at, Mark: mark}
	if s.fate == taken {
		l.Received = s.received
	}
	return l
}

// between names the possible senders.
func between(among []trace.PID) string {
	var known []string
	for _, pid := range among {
		if pid != 0 {
			known = append(known, pid.String())
		}
	}
	slices.Sort(known)
	text := "of " + strings.Join(known, " or ")
	if len(known) == 1 && len(among) == 1 {
		return text + ", but there is more than one that it may be"
	}
	if len(known) < len(among) {
		text += ", or of one whose sender was not seen"
	}
	return text
}

// A wish records that a process waits for another one.
type wish struct {
	asker    *process
	of       trace.PID
	from, to int64
	link     trace.Link // link to the other process
	by       path
}

// follow explains an interval in which a process waits for another one, by the activities of the
// other one.
func (w *walk) follow(h wish) node {
	n := span(h.from, h.to, trace.Waiting, h.of, max(h.by.mark, h.link.Mark))
	n.Link = h.link
	switch q := w.vm.processes[h.of]; {
	case len(h.by.chain) > maxDepth:
		n.Reason = reasonDepth
	case slices.Contains(h.by.chain, h.of):
		n.children = w.cycle(q, h.from, h.to, h.by.to(h.of, h.link.Mark))
	case h.of>>48 != 0:
		n.Reason = reasonRemote
	case q == nil:
		n.Reason = whyNotWatched
	default:
		by := h.by.to(h.of, h.link.Mark)
		if m := request(h.asker, q, h.from, h.to); m != nil {
			n.children = w.serve(q, m, h.from, h.to, by)
		} else if m := w.relayed(q, h.from, h.to); m != nil {
			relay := w.follow(wish{asker: h.asker, of: m.from, from: h.from, to: m.at, link: linkOf(m, m.mark), by: by})
			n.children = append([]node{relay}, w.serve(q, m, m.at, h.to, by)...)
		} else {
			n.children = w.explain(q, h.from, h.to, by)
		}
	}
	return n.simple()
}

// cycle explains an interval in which the awaited process itself seems to wait for a process that
// waits for it.
func (w *walk) cycle(q *process, from, to int64, by path) []node {
	g := gatherer{limit: (w.end - w.start) / shortParts}
	for s := range w.segments(q, from, to) {
		if s.state == waits && s.pause.kind == trace.Root {
			g.add(w.cycled(q, s, by)...)
			continue
		}
		until, mark := w.inWait(q, s)
		n := leaf(q, s, by)
		if until < s.to {
			n.Mark = max(n.Mark, mark)
		}
		g.add(n)
	}
	return joined(g.nodes)
}

// cycled explains a segment in which a process waits, for cycle. It reports that processes wait for
// each other only if that is certain. That is uncertain if the process was sent a message or may
// wait for another process. Then the process is not followed again.
func (w *walk) cycled(q *process, s segment, by path) []node {
	if !slices.Contains(by.chain, w.awaits(q, s)) {
		return w.waits(q, s, by)
	}
	if why := w.uncertain(q, s); why != "" {
		return []node{unexplained(s.from, s.to, q.pid, by.mark, why)}
	}
	n := span(s.from, s.to, trace.Waiting, q.pid, max(by.mark, trace.Inferred))
	n.Reason = reasonCycle
	return []node{n.guessed(s.guess)}
}

// uncertain returns why it is uncertain that a process waits in a segment for a process that waits
// for it, possibly through others. It returns "" if it is certain: each process has called the next
// one, has no answer, waits all the time, and has got no message since from the process that it
// called.
func (w *walk) uncertain(q *process, s segment) string {
	for p, n := q, 0; n < maxDepth; n++ {
		m := p.call(s.from)
		if m == nil {
			return reasonCircle
		}
		for part := range w.segments(p, s.from, s.to) {
			if part.state != waits || part.pause.kind != trace.Root {
				return reasonOnWay
			}
		}
		next := w.vm.processes[m.to]
		if next == nil {
			return reasonCircle
		}
		if next.onWay(p, m.at, s) {
			return reasonOnWay
		}
		if p = next; p == q {
			return ""
		}
	}
	return reasonCircle
}

// onWay reports whether a message that a process sent to p, at a time or later, may have been on
// its way in a segment in which p waits. If it was there before p began to wait, it was not on its
// way: a waiting process has examined all messages in its mailbox.
func (q *process) onWay(p *process, since int64, s segment) bool {
	began := int64(0)
	if i := after(p.changes, s.from+1, changedAt); i > 0 {
		began = p.changes[i-1].at
	}
	sends := q.sentTo[p.pid]
	return slices.ContainsFunc(sends[after(sends, since, sentAt):after(sends, max(since, s.to), sentAt)], func(m *send) bool { return m.by() > began })
}

// awaits returns the process for which another one waits in a segment, or 0 if that is unknown or
// there is none.
func (w *walk) awaits(q *process, s segment) trace.PID {
	switch k := w.wakeOf(q, s); k.how {
	case byMessage:
		return k.send.from
	case byTimer:
		if m := q.call(s.at); m != nil {
			return m.to
		}
	case notYet:
		if asked, _ := q.asked(s.at); len(asked) > 0 {
			return asked[0].to
		}
	}
	return 0
}

// simple turns a wait for a process about which only a reason is known into a single span.
func (n node) simple() node {
	if len(n.children) != 1 {
		return n
	}
	if c := n.children[0]; c.Kind == trace.Waiting && c.Process == n.Process && len(c.children) == 0 {
		n.children = nil
		n.Mark = max(n.Mark, c.Mark)
		n.Reason = c.Reason
	}
	return n
}

// relayed returns the message that gave a process the content of its answer at a time, if the
// process is tracked because of that message, or else nil. Until then, the sender of the message
// worked on the request.
func (w *walk) relayed(q *process, from, answered int64) *send {
	if w.state(q, from) != unknown {
		return nil
	}
	for _, m := range q.arrived[after(q.arrived, from+1, sentAt):] {
		if m.at >= answered {
			return nil
		}
		if w.state(q, m.at+near) == unknown {
			continue
		}
		if m.unwatched || m.fate != taken || m.received > answered || w.state(q, m.at-near) != unknown {
			return nil
		}
		return m
	}
	return nil
}

// exchanges is the number of messages that are searched back for the last answered one.
const exchanges = 64

// request returns the message from p to q that q's answer at a time may belong to, or nil if there
// is none. It is the last message, unless q has since sent something that p took before it began to
// wait.
func request(p, q *process, began, answered int64) *send {
	sends := p.sentTo[q.pid]
	i := after(sends, answered+1, sentAt)
	if i == 0 {
		return nil
	}
	m := sends[i-1]
	answers := q.sentTo[p.pid]
	for i, n := after(answers, began+1, sentAt)-1, 0; i >= 0 && n < exchanges; i, n = i-1, n+1 {
		if a := answers[i]; a.fate == taken && a.received <= began {
			if a.received > m.at {
				return nil
			}
			break
		}
	}
	return m
}

// serve explains [from, to), in which another process waits for the reaction to a message: the
// receiver is idle or busy until it takes the message, and then handles it.
func (w *walk) serve(q *process, m *send, from, to int64, by path) []node {
	switch m.fate {
	case taken:
		t := max(from, min(m.received, to))
		nodes := w.arrival(q, m, from, t, by)
		by.mark = max(by.mark, m.mark)
		return append(nodes, w.explain(q, t, to, by)...)
	case doubtful:
		n := span(from, to, trace.Waiting, q.pid, trace.Ambiguous)
		n.Reason = reasonTaken
		return []node{n}
	case lost:
		if m.outlived && q.sure(m.at) >= to {
			break // everything was seen until then, and the message was not taken
		}
		if w.state(q, from) == unknown {
			return w.explain(q, from, to, by)
		}
		n := span(from, to, trace.Waiting, q.pid, trace.Ambiguous)
		n.Reason = reasonMissed
		return []node{n}
	}
	return w.arrival(q, m, from, to, by)
}

// arrival explains [from, to), in which a message is on its way into a process or in its mailbox.
// An idle process has to wake up, which is its own time; a busy one lets the message wait.
func (w *walk) arrival(q *process, m *send, from, to int64, by path) []node {
	if from >= to {
		return nil
	}
	before := q.takenIn(m.at, to)
	if !q.setAside(m) {
		if now := w.state(q, from); now == unknown || now == exited || len(before) == 0 && !w.busy(q, m, to) {
			return w.explain(q, from, to, by)
		}
	}
	n := span(from, to, trace.Mailbox, q.pid, by.mark)
	var proven bool
	n.Behind, n.Overtaken, proven = w.ahead(q, m, before)
	if !proven {
		n.Mark = max(n.Mark, trace.Inferred)
	}
	n.Link = linkOf(m, m.mark)
	if m.fate == taken {
		n.Mark = max(n.Mark, m.mark)
	}
	return w.aroundHalts(n)
}

// aroundHalts divides a span into the intervals when the VM was stopped and the rest.
func (w *walk) aroundHalts(n node) []node {
	var nodes []node
	rest := n
	in := interval{n.Start, n.End}
	for _, p := range within(w.vm.absences.haltsIn(in), in) {
		if rest.End = p.from; rest.Start < rest.End {
			nodes = append(nodes, rest)
		}
		halt := span(p.from, p.to, p.kind, n.Process, n.Mark)
		halt.Detail = p.detail
		nodes = append(nodes, halt)
		rest.Start = p.to
	}
	if rest.End = n.End; rest.Start < rest.End {
		nodes = append(nodes, rest)
	}
	return nodes
}

// takenIn returns the receipts of a process in [from, to).
func (p *process) takenIn(from, to int64) []receipt {
	first := after(p.received, from, receivedAt)
	return p.received[first:max(first, after(p.received, to, receivedAt))]
}

// setAside reports whether a process, between the arrival of a message and its receipt, did
// something that a process waiting for the message cannot do: such a process takes it as soon as it
// runs. It stopped running, sent a message, or collected garbage more than once. The VM may collect
// garbage once for another process.
func (p *process) setAside(m *send) bool {
	if m.fate != taken {
		return false
	}
	collections := 0
	for i := after(p.changes, m.at+1, changedAt); i < len(p.changes) && p.changes[i].at < m.received; i++ {
		switch p.changes[i].state {
		case waits:
			return true
		case ready, suspended, native:
			if i > 0 && p.changes[i-1].state == running {
				return true
			}
		case collects:
			collections++
		}
	}
	i := after(p.sent, m.at+1, sentAt)
	return collections > 1 || i < len(p.sent) && p.sent[i].at < m.received
}

// busy reports whether a process did something else when it was sent a message and took no other
// message before. If the process is watched because of the message, its activity is known from the
// message on. If it was preempted then, it has had the message for long without taking it.
func (w *walk) busy(q *process, m *send, taken int64) bool {
	if before := w.state(q, m.at-1); before != unknown {
		return before != waits && !w.held(q, m.at-1)
	}
	i := after(q.changes, m.at-near, changedAt)
	for i < len(q.changes) && q.changes[i].state == unknown {
		i++
	}
	if i < len(q.changes) && q.changes[i].held() {
		return false
	}
	if n := after(q.fetched, m.at, func(at int64) int64 { return at }); n < len(q.fetched) && taken-q.fetched[n] > atOnce {
		return true
	}
	return i < len(q.changes) && q.changes[i].state != waits && q.changes[i].state != ready && q.changes[i].at <= m.at+near
}
