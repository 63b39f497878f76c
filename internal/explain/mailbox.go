package explain

import (
	"slices"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/trace"
)

// A token is what a seq_trace token says. The zero token is none.
type token struct{ label, prev, cur int32 }

func tokenOf(e *bpf.Event) token { return token{e.Label, e.Prev, e.Cur} }

// A fate is what has become of a message.
type fate uint8

const (
	underway fate = iota // not taken out of the mailbox yet
	taken                // by the receive that is noted
	doubtful             // it, or another one
	lost                 // it is not known when, if ever
)

// A send is a message that was seen to be sent.
type send struct {
	from, to  trace.PID
	at        int64
	size      uint32
	alias     bool
	unwatched bool // who sent it was not watched
	token     token
	next      int64 // when its sender was seen to do the next thing, 0: not yet

	fate     fate
	outlived bool        // its receiver was no longer watched while it was under way
	received int64       // where taken
	mark     trace.Mark  // of received
	among    []trace.PID // senders that it may be mistaken for one of, 0 for one not seen
	latest   int64       // when the last of those messages was sent
	due      int64       // when the last of them is in the mailbox at the latest
}

// stalled is for how long at most, in nanoseconds, a sender is taken to be held up while it
// sends: its thread may not get a processor.
const stalled = 100_000_000

// by returns when the message was in the mailbox at the latest: a process has sent one
// before it does the next thing. Of one that is not watched that is only seen where it is to
// send another message.
func (s *send) by() int64 {
	if by := s.at + stalled; s.next == 0 || by < s.next {
		return by
	}
	return s.next
}

// there returns when a message was in the mailbox at the latest that is known to be there at a
// time. The event of one to an alias comes before the VM copies the message, which takes long
// if it is large: that is over when the sender does the next thing.
func (s *send) there(known int64) int64 {
	if !s.alias {
		return s.at
	}
	if s.next != 0 {
		known = min(known, s.next)
	}
	if known-s.at <= near {
		return s.at
	}
	return known
}

// maySwap reports whether two messages may have come in the other order than they were
// sent: each was still on its way when the other one was.
func (s *send) maySwap(o *send) bool { return s.at <= o.by() && o.at <= s.by() }

// precedes reports whether the message came before another one that was sent later.
func (s *send) precedes(o *send) bool { return s.from == o.from || s.by() < o.at }

// fits reports whether the message may be what was queued. The size as it is sent is
// without literals, which are not copied, and has once what is in it several times; when
// it is queued or received everything counts.
func (s *send) fits(q queued) bool {
	return s.carries(q.token) && (s.alias || s.size <= q.size)
}

// carries reports whether the token of the message may be t: where it was sent to an
// alias its serial may not be known.
func (s *send) carries(t token) bool {
	if s.alias && s.token != (token{}) && s.token.cur == 0 {
		t.cur = 0
	}
	return s.token == t
}

// A queued is a message that a process fetched.
type queued struct {
	at     int64
	size   uint32
	token  token
	where  uint64      // the VM has it, 0 where that is not known
	send   *send       // that it is, nil where that was not seen
	among  []trace.PID // senders that are possible, where there is more than one
	latest int64       // when the last of those messages was sent
	origin origin      // of one that is looked for
	early  bool        // it was sent before the process was tracked
	rival  bool        // a message that is like it was taken, and it is assumed that it was an older one
}

// A receipt is that a process took a message. What it is is known if send is not nil,
// and known to be one of several if among is not.
type receipt struct {
	at     int64
	since  int64 // when it was fetched, 0: unknown
	label  int32 // of its token
	send   *send
	among  []trace.PID
	origin origin
	early  bool // it was sent before the process was tracked
	sure   bool // its token or its address identifies it among the fetched messages
}

// A mailbox simulates that of a process: what was sent is fetched in the order of
// sending, and of that the oldest is taken, unless its size or the length of the queue
// say that it was another one.
//
// There may be messages that were not seen to be sent, and older ones than what is known.
type mailbox struct {
	pending []*send // sent, and not known to be fetched
	batch   []queued
	begun   int64    // the batch was fetched after this
	inner   int      // length of the queue after the batch
	private []queued // fetched, oldest first
	front   int      // how many older ones there are, as far as is known
	synced  bool     // there are no others than those
	opened  bool     // something was fetched since it was reset
	tracked int64    // since when all that was sent to it is known; forever where that is not known
	exact   map[token][]*send

	collected  int64 // the last garbage collection since the last batch, 0 for none
	unfinished int64 // what begun was of a fetch of which not all was handed out, 0 for none
	since, ran int64 // when it began to wait in a receive for the last time, and ran after that; 0 for not, or not yet

	blocked  bool // it waited in a receive since the last one
	rejected int  // how many of private it did not want then
	choosy   bool // it has been seen not to want what it had
	skips    bool // it has answered a message while it was assumed to take older ones first
	inTurn   int  // how many it has taken in turn, while it had what may be an answer and is not like them
	lastAt   int64

	found []int // of alike
}

// reset forgets all, as when it is not known what came to the mailbox, but for what was
// sent from a time on.
func (b *mailbox) reset(from int64) {
	n := after(b.pending, from, sentAt)
	kept := slices.Clone(b.pending[n:])
	b.lapse(b.pending[:n], forever)
	for i := range b.batch {
		b.lose(&b.batch[i])
	}
	for i := range b.private {
		b.lose(&b.private[i])
	}
	*b = mailbox{choosy: b.choosy, skips: b.skips, inTurn: b.inTurn, tracked: forever}
	for _, s := range kept {
		b.arrive(s)
	}
}

// outlive says of what was sent before a time and is under way that its receiver has not
// been watched any more.
func (b *mailbox) outlive(from int64) {
	for _, s := range b.pending[:after(b.pending, from, sentAt)] {
		s.outlived = s.outlived || s.fate == underway
	}
	for _, q := range slices.Concat(b.batch, b.private) {
		if q.send != nil {
			q.send.outlived = q.send.outlived || q.send.fate == underway
		}
	}
}

func (b *mailbox) lose(q *queued) {
	if q.send != nil && q.send.fate == underway {
		q.send.fate = lost
	}
}

// arrive puts a message into the outer queue.
func (b *mailbox) arrive(s *send) {
	b.pending = append(b.pending, s)
	if s.token != (token{}) {
		if b.exact == nil {
			b.exact = make(map[token][]*send)
		}
		b.exact[s.token] = append(b.exact[s.token], s)
	}
}

// queue adds to what is fetched now, after the last thing the process did before; inner
// is how long the private queue is after that.
func (b *mailbox) queue(q queued, last int64, inner int) {
	if len(b.batch) == 0 {
		b.begun = last
		for _, earlier := range []int64{b.collected, b.unfinished} {
			if earlier != 0 {
				b.begun = min(b.begun, earlier)
			}
		}
	}
	b.batch = append(b.batch, q)
	b.inner = inner
}

// collect says that garbage is collected: what has been sent is fetched for that, and
// handed out later. What is sent after it is not fetched until that has been.
// The VM may copy messages then: where they are is not known any more.
func (b *mailbox) collect(at int64) {
	b.collected = at
	for _, all := range [][]queued{b.batch, b.private} {
		for i := range all {
			all[i].where = 0
		}
	}
}

// fetch puts what was fetched into the private queue. It returns the message that was sent
// first of it, or the last one that this may be; nil where none was seen to be sent.
func (b *mailbox) fetch() *send {
	if len(b.batch) == 0 {
		return nil
	}
	p, first := b.align()
	b.markEarly()
	b.collected = 0
	b.private = append(b.private, b.batch...)
	b.batch = b.batch[:0]
	b.pending = p
	b.opened = true
	b.length(b.inner)
	return first
}

// markEarly marks those of the batch that were fetched first, and came before something that
// was sent when the process began to be tracked.
func (b *mailbox) markEarly() {
	if b.opened || b.blocked {
		return
	}
	seen := slices.IndexFunc(b.batch, func(q queued) bool { return q.send != nil || q.among != nil })
	if seen < 0 || b.batch[seen].send == nil || b.batch[seen].send.at > b.tracked+near {
		return
	}
	for i := range b.batch[:seen] {
		b.batch[i].early = true
	}
}

// length corrects what is known by the length of the private queue. The VM may not yet
// have handed out all that it fetched: then it is more than what is known, and not
// because of older ones.
func (b *mailbox) length(inner int) {
	known := len(b.private)
	if !b.synced {
		b.front = max(0, inner-known)
		b.synced = b.front == 0
	}
	if inner <= 0 || inner >= b.front+known {
		return
	}
	missed := b.front + known - inner
	older := min(missed, b.front)
	b.front -= older
	b.drop(missed - older)
}

// drop drops the oldest messages: that they were taken was not seen.
func (b *mailbox) drop(n int) {
	for i := range b.private[:n] {
		b.lose(&b.private[i])
	}
	b.private = b.private[n:]
	b.rejected = max(0, b.rejected-n)
}

// block says that the process waits in a receive: it has fetched all there was up to a
// time, and does not want what it has.
func (b *mailbox) block(at, fetched int64) {
	b.fetch()
	b.pending = b.lapse(b.pending, fetched)
	b.collected, b.unfinished = 0, 0
	b.blocked = true
	b.since, b.ran = at, 0
	b.rejected = len(b.private)
	b.choosy = b.choosy || b.rejected+b.front > 0
}

// goOn says that the process does something that it cannot do in a receive: if it waited
// in one, that came to its end without a message.
func (b *mailbox) goOn() { b.blocked, b.rejected = false, 0 }

// lapse removes what was there at a time, if it came at all, of which all is known that was
// there.
func (b *mailbox) lapse(pending []*send, known int64) []*send {
	return slices.DeleteFunc(pending, func(s *send) bool {
		if s.by() > known || s.fate == doubtful && s.due > known {
			return false
		}
		if s.fate == underway {
			s.fate = lost
		}
		return true
	})
}

// receive takes a message out; sent is what the process has sent up to now.
func (b *mailbox) receive(e *bpf.Event, sent []*send) receipt {
	b.length(int(e.Inner))
	r := receipt{at: e.Time, label: e.Label, origin: origin{e.Origin, e.Other, e.Tag}}
	want := queued{size: e.Size, token: tokenOf(e), where: e.Message, origin: r.origin}
	var q queued
	older := b.front
	if i := b.pick(want, sent); i >= 0 {
		q = b.private[i]
		b.take(i)
		r.since, r.early = q.at, q.early
		r.sure = want.token != (token{}) || want.where != 0 && q.where == want.where
	} else {
		r.early = b.front < older && b.tracked < forever
	}
	if want.token != (token{}) {
		b.trace(&r, want.token)
	} else if q.among != nil {
		r.among = q.among
	} else if q.send != nil && q.send.fate == underway {
		r.send = q.send
		r.send.mark = trace.Inferred
	}
	if r.send != nil {
		r.send.fate, r.send.received = taken, e.Time
	}
	b.goOn()
	b.lastAt = e.Time
	return r
}

// trace finds the message that was received by its token.
func (b *mailbox) trace(r *receipt, t token) {
	// The serial of what was sent to an alias may not be known.
	half := token{t.label, t.prev, 0}
	sends := b.exact[t]
	delete(b.exact, t)
	if half != t {
		sends = append(sends, b.exact[half]...)
		delete(b.exact, half)
	}
	switch len(sends) {
	case 0:
	case 1:
		if sends[0].fate != taken {
			r.send = sends[0]
			r.send.mark = trace.Exact
		}
	default:
		r.among, _ = confuse(sends...)
	}
}

// take removes one from the private queue. There may be very many after one near the
// head, or before one near the end: the fewer move.
func (b *mailbox) take(i int) {
	if i < len(b.private)/2 {
		copy(b.private[1:i+1], b.private[:i])
		b.private[0] = queued{}
		b.private = b.private[1:]
	} else {
		b.private = slices.Delete(b.private, i, i+1)
	}
}

// search is how many messages of a queue are looked at, at most, to find one.
const search = 1024

// pick returns which message of the private queue is taken, -1 if none that is known.
func (b *mailbox) pick(want queued, sent []*send) int {
	if want.token != (token{}) {
		for i := range b.private[:min(len(b.private), search)] {
			if b.private[i].token == want.token {
				return i
			}
		}
		b.front = max(0, b.front-1)
		return -1
	}
	if want.where != 0 {
		if i := b.at(want.where); i >= 0 {
			if q := &b.private[i]; !q.same(want) { // it is from another one than was taken for its sender
				b.lose(q)
				q.send, q.among = nil, nil
			}
			return i
		}
	}
	if b.blocked && (b.rejected > 0 || b.front > 0) {
		// What it has rejected it did not want: it is one that came after.
		if i := b.only(want, b.rejected); i >= 0 {
			return i
		}
	}
	if b.front > 0 {
		b.front--
		b.older(want)
		return -1
	}
	if len(b.private) == 0 {
		return -1
	}
	if !b.private[0].same(want) {
		b.inTurn = 0
		return b.only(want, 1)
	}
	b.answer(want, sent)
	return 0
}

// at returns the index of the last of the private queue that is at an address, -1 if none is.
func (b *mailbox) at(address uint64) int {
	for i := len(b.private) - 1; i >= max(0, len(b.private)-search); i-- {
		if b.private[i].where == address {
			return i
		}
	}
	return -1
}

// older notes that the process took a message, which is assumed to be older than all known
// ones. It may be any known message that is like it. Once the assumption has turned out to be
// wrong, it is uncertain which message the process took.
func (b *mailbox) older(want queued) {
	for _, i := range b.alike(want, 0, len(b.private)) {
		b.private[i].rival = true
		if b.skips {
			b.private[i].doubt()
		}
	}
}

// answered says that the process has sent a message to another one. If it has a message of
// that one, and may have taken it, it is uncertain whether it has.
func (b *mailbox) answered(to trace.PID) {
	for i := range b.private[:min(len(b.private), search)] {
		if q := &b.private[i]; q.rival && q.send != nil && q.send.from == to {
			b.skips = true
			q.doubt()
		}
	}
}

// doubt says that it is uncertain whether the message is still there.
func (q *queued) doubt() {
	if q.send != nil && q.send.fate == underway {
		q.among, q.latest = confuse(q.send, nil)
	}
}

// same reports whether what was queued may be what is wanted, by where that is from too.
func (q queued) same(want queued) bool {
	if q.size != want.size || q.token != want.token || q.where != 0 && want.where != 0 && q.where != want.where {
		return false
	}
	if q.among != nil {
		return slices.ContainsFunc(q.among, func(by trace.PID) bool { return by == 0 || want.origin.sent(by) })
	}
	return q.send == nil || want.origin.sent(q.send.from)
}

// only returns the index of the message that is like the wanted one, from an index on;
// where there are several of them, it is uncertain of each which it is.
func (b *mailbox) only(want queued, from int) int {
	alike := b.alike(want, from, len(b.private))
	if len(alike) == 0 {
		return -1
	}
	b.mistake(alike)
	return alike[0]
}

// alike returns the indices of the messages that are like the wanted one, of some, until
// it is called again.
func (b *mailbox) alike(want queued, from, to int) []int {
	alike := b.found[:0]
	for i := from; i < min(to, from+search); i++ {
		if b.private[i].same(want) {
			alike = append(alike, i)
		}
	}
	b.found = alike
	return alike
}

// habit is how often a process has to take the oldest message, where it had what may be
// the answer to something it asked, to be said to do so always. Only those count of which
// the sizes tell that it was the oldest.
const habit = 4

// answer looks for what may be the answer to something that was sent since the last
// receive: it is taken out of turn. If it is like the oldest message, either may be the
// one; and so it is uncertain which ones those in between are, when their turn comes. A
// process that has the habit of taking them in turn, and has never waited with one left,
// is taken to go on so.
func (b *mailbox) answer(want queued, sent []*send) {
	if !b.choosy && b.inTurn >= habit {
		return
	}
	asked := len(sent)
	for asked > 0 && sent[asked-1].at >= b.lastAt && len(sent)-asked < search {
		asked--
	}
	if asked == len(sent) {
		return
	}
	passed := false
	for i := len(b.private) - 1; i > 0 && b.private[i].at >= sent[asked].at; i-- {
		q := &b.private[i]
		if !slices.ContainsFunc(sent[asked:], q.mayAnswer) {
			continue
		}
		if q.same(want) {
			b.mistake(append(b.alike(want, 0, i), i))
			return
		}
		passed = true
	}
	if passed {
		b.inTurn++
	}
}

// mayAnswer reports whether what was queued may be the answer to a message: it was sent by
// the one who got that, and not before.
func (q queued) mayAnswer(question *send) bool {
	got := question.at
	if question.fate == taken {
		got = question.received
	}
	if q.among != nil {
		return slices.Contains(q.among, question.to) && got < q.latest
	}
	return q.send != nil && q.send.from == question.to && got < q.send.at
}

// mistake says that some of the private queue may each be any other one of them; not so
// of messages of one process: alike, they are taken to be wanted in their order, but for
// answers to aliases.
func (b *mailbox) mistake(alike []int) {
	if len(alike) < 2 {
		return
	}
	var among, noted []trace.PID
	latest := int64(0)
	for _, i := range alike {
		q := &b.private[i]
		latest = max(latest, q.latest)
		if q.send != nil {
			latest = max(latest, q.send.at)
		}
		switch {
		case same(q.among, noted):
		case q.among != nil:
			noted = q.among
			among = join(among, q.among...)
		case q.send != nil:
			among = join(among, q.send.from)
		default:
			among = join(among, 0)
		}
	}
	special := func(i int) bool { return b.private[i].among != nil || b.private[i].send.alias }
	if len(among) == 1 && among[0] != 0 && !slices.ContainsFunc(alike, special) {
		return
	}
	if len(among) == len(noted) {
		among = noted // so that most have it already, should this come again and again
	}
	for _, i := range alike {
		q := &b.private[i]
		if same(q.among, among) {
			continue
		}
		q.among, q.latest = among, latest
		if q.send != nil {
			q.send.fate, q.send.among, q.send.latest = doubtful, among, latest
		}
	}
}

// same reports whether two sets that are not empty are one in memory.
func same(a, b []trace.PID) bool { return len(a) > 0 && len(a) == len(b) && &a[0] == &b[0] }

// candidates is how many possible senders are kept, at most.
const candidates = 8

// join adds to a set of senders.
func join(set []trace.PID, more ...trace.PID) []trace.PID {
	for _, pid := range more {
		if len(set) < candidates && !slices.Contains(set, pid) {
			set = append(set, pid)
		}
	}
	return set
}

// confuse says that each of some messages may be any other one of them, nil for one that
// was not seen. It returns their senders, and when the last was sent.
func confuse(sends ...*send) (among []trace.PID, latest int64) {
	due := int64(0)
	for _, s := range sends {
		if s == nil {
			among = join(among, 0)
			continue
		}
		among = join(among, s.from)
		among = join(among, s.among...)
		latest, due = max(latest, s.at, s.latest), max(due, s.by(), s.due)
	}
	for _, s := range sends {
		if s != nil {
			s.fate, s.among, s.latest, s.due = doubtful, among, latest, due
		}
	}
	return among, latest
}

// forget forgets what came before a time, so that no more is kept than what is recent,
// however long the mailbox is: it is as with what was there before it was watched.
func (b *mailbox) forget(before int64) {
	for t, sends := range b.exact {
		sends = slices.DeleteFunc(sends, func(s *send) bool { return s.at < before })
		if len(sends) == 0 {
			delete(b.exact, t)
			continue
		}
		b.exact[t] = sends
	}
	if n := after(b.pending, before, sentAt); n > 0 {
		b.lapse(b.pending[:n:n], forever)
		b.pending = cut(b.pending, n)
		b.opened = false
	}
	if n := after(b.private, before, func(q queued) int64 { return q.at }); n > 0 {
		b.drop(n)
		b.private = slices.Clone(b.private)
		b.front += n
		b.synced = false
	}
}
