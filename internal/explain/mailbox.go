package explain

import (
	"slices"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/explain/trace"
)

// A token has the fields of a seq_trace token. The zero token means no token.
type token struct{ label, prev, cur int32 }

func tokenOf(e *bpf.Event) token { return token{e.Label, e.Prev, e.Cur} }

// A fate is the state of a sent message.
type fate uint8

const (
	underway fate = iota // not taken out of the mailbox yet
	taken                // by the recorded receive
	doubtful             // either this message or another one was taken
	lost                 // unknown when, if ever
)

// A send is a message whose send was seen.
type send struct {
	from, to  trace.PID
	at        int64
	size      uint32
	alias     bool
	unwatched bool // the sender was not watched
	token     token
	where     uint64 // address in the VM, if known at the send; 0 otherwise
	unfetched bool   // the VM does not report when processes fetch messages
	next      int64  // time of its sender's next seen action; 0: none yet

	fate     fate
	outlived bool        // the watch of its receiver ended while it was under way
	received int64       // if taken
	mark     trace.Mark  // of received
	among    []trace.PID // senders of messages that it may be confused with; 0 for an unseen one
	latest   int64       // time when the last of those messages was sent
	due      int64       // time when the last of them is in the mailbox at the latest
}

// stalled is the longest assumed delay of a sender during a send, in nanoseconds: its thread may
// not get a processor.
const stalled = 100_000_000

// by returns the time when the message was in the mailbox at the latest: a process completes a send
// before its next action. For a sender that is not watched, the next action is seen only if it is
// another send.
func (s *send) by() int64 {
	if by := s.at + stalled; s.next == 0 || by < s.next {
		return by
	}
	return s.next
}

// there returns the time when a message was in the mailbox at the latest, given that it was there
// at a time. The event of a message to an alias comes before the VM copies the message, which takes
// long if it is large. The copy is complete at the sender's next action.
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

// maySwap reports whether two messages may have arrived in the reverse order of sending, because
// both were on their way at the same time.
func (s *send) maySwap(o *send) bool { return s.at <= o.by() && o.at <= s.by() }

// precedes reports whether the message certainly came before another one that was sent later.
func (s *send) precedes(o *send) bool { return s.from == o.from || s.by() < o.at }

// fits reports whether the message may be the queued one. Its size at the send excludes literals,
// which are not copied, and counts shared terms once. Its size in the queue or at the receipt
// counts everything.
func (s *send) fits(q queued) bool {
	return s.carries(q.token) && (s.alias || s.size <= q.size)
}

// carries reports whether the token of the message may be t. For a message to an alias, only the
// label may be known.
func (s *send) carries(t token) bool {
	if s.alias && s.token.cur == 0 {
		return s.token.label == t.label
	}
	return s.token == t
}

// A queued is a message that a process fetched.
type queued struct {
	at     int64
	size   uint32
	token  token
	where  uint64      // address in the VM; 0 if unknown
	send   *send       // its send; nil if not seen
	among  []trace.PID // possible senders, if there are several
	latest int64       // time when the last of those messages was sent
	origin origin      // of a message that is searched for
	early  bool        // it was sent before the process was tracked
	rival  bool        // an equal message was taken, which is assumed to be an older one
}

// A receipt records that a process took a message. The message is known if send is not nil. It is
// one of several candidates if among is not nil.
type receipt struct {
	at     int64
	since  int64 // time of the fetch; 0: unknown
	label  int32 // of its token
	send   *send
	among  []trace.PID
	origin origin
	early  bool // it was sent before the process was tracked
	sure   bool // its token or its address identifies it among the fetched messages

	unfetched bool // the VM does not report when processes fetch messages
}

// by returns the time when the message was in the mailbox at the latest.
func (r *receipt) by() int64 {
	if r.unfetched {
		return r.at
	}
	return r.since
}

// A mailbox simulates the mailbox of a process: sent messages are fetched in the order of sending,
// and the oldest fetched one is taken, unless the size or the length of the queue show that it was
// another one.
//
// Some messages may not have been seen to be sent, and some may be older than all known ones.
type mailbox struct {
	pending []*send // sent, but not known to be fetched
	batch   []queued
	begun   int64    // the batch was fetched after this
	inner   int      // length of the queue after the batch
	private []queued // fetched, oldest first
	front   int      // known number of older ones
	synced  bool     // there are no further ones
	opened  bool     // something was fetched since it was reset
	tracked int64    // time since which all messages sent to it are known; forever if unknown
	exact   map[token][]*send

	collected  int64 // time of the last garbage collection since the last batch; 0 for none
	unfinished int64 // value of begun for a fetch that was not completely handed out; 0 for none
	since, ran int64 // times when it last began to wait in a receive, and when it then ran; 0: not, or not yet

	blocked  bool // it has waited in a receive since its last receipt
	rejected int  // number of messages of private that it rejected then
	choosy   bool // it has been seen to reject messages
	skips    bool // it has answered a message while it was assumed to take older ones first
	inTurn   int  // number of messages taken in turn while it had a distinguishable message that may be an answer
	lastAt   int64

	// If the VM does not report when processes fetch messages, all are pending until they are taken.
	direct bool
	places map[uint64]*send // pending messages by address, if known

	found []int // memory of alike
}

// reset drops everything except messages sent from a time on. It is called when messages to the
// mailbox may have been missed.
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
	*b = mailbox{choosy: b.choosy, skips: b.skips, inTurn: b.inTurn, direct: b.direct, tracked: forever}
	for _, s := range kept {
		b.arrive(s)
	}
}

// outlive marks messages that were sent before a time and are under way: the watch of their
// receiver has ended.
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
	b.direct = b.direct || s.unfetched
	b.place(s)
	if s.token.cur != 0 {
		if b.exact == nil {
			b.exact = make(map[token][]*send)
		}
		b.exact[s.token] = append(b.exact[s.token], s)
	}
}

// queue adds a message to the batch that is being fetched, after the process's previous action.
// inner is the length of the private queue after that.
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

// collect records a garbage collection: sent messages are fetched for it, and handed out later.
// Messages sent after it are not fetched until then. The VM may copy messages during the
// collection, so their addresses are no longer known.
func (b *mailbox) collect(at int64) {
	b.collected = at
	for _, all := range [][]queued{b.batch, b.private} {
		for i := range all {
			all[i].where = 0
		}
	}
}

// fetch puts the batch into the private queue. It returns the message of the batch that was sent
// first, or the last candidate if that is uncertain. It returns nil if no message was seen to be
// sent.
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

// markEarly marks the messages at the beginning of the batch that came before a message sent when
// the process began to be tracked.
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

// length corrects the known messages by the length of the private queue. The VM may not yet have
// handed out all fetched messages: then the queue is longer than its known part without having
// older messages.
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

// drop drops the oldest messages, whose receipts were not seen.
func (b *mailbox) drop(n int) {
	for i := range b.private[:n] {
		b.lose(&b.private[i])
	}
	b.private = b.private[n:]
	b.rejected = max(0, b.rejected-n)
}

// block records that the process waits in a receive: it has fetched all messages up to a time, and
// rejects those that it has.
func (b *mailbox) block(at, fetched int64) {
	b.fetch()
	if !b.direct {
		b.pending = b.lapse(b.pending, fetched)
	}
	b.collected, b.unfinished = 0, 0
	b.blocked = true
	b.since, b.ran = at, 0
	b.rejected = len(b.private)
	b.choosy = b.choosy || b.rejected+b.front > 0
}

// goOn records an action that is impossible in a receive: if the process waited in a receive, that
// ended without a message.
func (b *mailbox) goOn() { b.blocked, b.rejected = false, 0 }

// lapse removes messages that must have been there at a time if they came at all, where all
// messages that were there are known.
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

// receive takes a message out. sent contains the messages that the process has sent so far.
func (b *mailbox) receive(e *bpf.Event, sent []*send) receipt {
	if e.Unfetched {
		return b.claim(e)
	}
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
	if want.token != (token{}) && b.trace(&r, want.token) {
		// The message is known, or one of several.
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

// trace finds the received message by its token. It reports whether a message with that token was
// seen to be sent. For a message to an alias, only the label may be known.
func (b *mailbox) trace(r *receipt, t token) bool {
	sends := b.exact[t]
	delete(b.exact, t)
	switch len(sends) {
	case 0:
		return false
	case 1:
		if sends[0].fate != taken {
			r.send = sends[0]
			r.send.mark = trace.Exact
		}
	default:
		r.among, _ = confuse(sends...)
	}
	return true
}

// take removes a message from the private queue. It moves the messages before or after it,
// whichever are fewer.
func (b *mailbox) take(i int) {
	if i < len(b.private)/2 {
		copy(b.private[1:i+1], b.private[:i])
		b.private[0] = queued{}
		b.private = b.private[1:]
	} else {
		b.private = slices.Delete(b.private, i, i+1)
	}
}

// search is the maximum number of messages of a queue that are examined to find one.
const search = 1024

// pick returns the index of the message of the private queue that is taken, or -1 if it is none of
// the known ones.
func (b *mailbox) pick(want queued, sent []*send) int {
	if want.token != (token{}) {
		i := b.tokened(want.token)
		if i < 0 {
			b.front = max(0, b.front-1)
			return -1
		}
		b.correct(i, want)
		return i
	}
	if want.where != 0 {
		if i := b.at(want.where); i >= 0 {
			b.correct(i, want)
			return i
		}
	}
	if b.blocked && (b.rejected > 0 || b.front > 0) {
		// The process does not want messages that it has rejected, so the message came after them.
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

// correct records that a message of the private queue is the wanted one. If the wanted one is from
// another process than the assumed sender, its send was not seen.
func (b *mailbox) correct(i int, want queued) {
	if q := &b.private[i]; !q.same(want) {
		b.lose(q)
		q.send, q.among = nil, nil
	}
}

// tokened returns the index of the first message of the private queue with a token, or -1 if there
// is none.
func (b *mailbox) tokened(t token) int {
	n := min(len(b.private), search)
	return slices.IndexFunc(b.private[:n], func(q queued) bool { return q.token == t })
}

// at returns the index of the last message of the private queue with an address, or -1 if there is
// none.
func (b *mailbox) at(address uint64) int {
	for i := len(b.private) - 1; i >= max(0, len(b.private)-search); i-- {
		if b.private[i].where == address {
			return i
		}
	}
	return -1
}

// older records that the process took a message that is assumed to be older than all known ones. It
// may also be any known message that equals it. Once the assumption has turned out to be wrong, it
// is uncertain which message the process took.
func (b *mailbox) older(want queued) {
	for _, i := range b.alike(want, 0, len(b.private)) {
		b.private[i].rival = true
		if b.skips {
			b.private[i].doubt()
		}
	}
}

// answered records that the process has sent a message to another one. If it has a message from
// that process and may have taken it, it is now uncertain whether it has.
func (b *mailbox) answered(to trace.PID) {
	for i := range b.private[:min(len(b.private), search)] {
		if q := &b.private[i]; q.rival && q.send != nil && q.send.from == to {
			b.skips = true
			q.doubt()
		}
	}
}

// doubt records that it is uncertain whether the message is still there.
func (q *queued) doubt() {
	if q.send != nil && q.send.fate == underway {
		q.among, q.latest = confuse(q.send, nil)
	}
}

// same reports whether the queued message may be the wanted one, also by its origin.
func (q queued) same(want queued) bool {
	if q.size != want.size || q.token != want.token || q.where != 0 && want.where != 0 && q.where != want.where {
		return false
	}
	if q.among != nil {
		return slices.ContainsFunc(q.among, func(by trace.PID) bool { return by == 0 || want.origin.sent(by) })
	}
	return q.send == nil || want.origin.sent(q.send.from)
}

// only returns the index of the message that equals the wanted one, from an index on. If there are
// several, it marks each of them as uncertain.
func (b *mailbox) only(want queued, from int) int {
	alike := b.alike(want, from, len(b.private))
	if len(alike) == 0 {
		return -1
	}
	b.mistake(alike)
	return alike[0]
}

// alike returns the indices in [from, to) of the messages that equal the wanted one. The result is
// valid until the next call.
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

// habit is the number of times that a process must take the oldest message, although it had a
// possible answer to a question, before it is assumed to do so always. Only receipts count whose
// size shows that the message was the oldest.
const habit = 4

// answer looks for a possible answer to something that was sent since the last receive: an answer
// is taken out of turn. If it equals the oldest message, either may have been taken, and equal
// messages in between become uncertain too. A process that usually takes messages in turn, and has
// never waited with one left, is assumed to continue so.
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

// mayAnswer reports whether the queued message may be the answer to a message: the receiver of that
// message sent it, and not before it received that message.
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

// mistake records that some messages of the private queue may be confused with each other. This
// does not hold for equal messages of one process: they are assumed to be wanted in their order,
// except for answers to aliases.
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
		among = noted // most messages have it already if this happens repeatedly
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

// same reports whether two non-empty sets share their memory.
func same(a, b []trace.PID) bool { return len(a) > 0 && len(a) == len(b) && &a[0] == &b[0] }

// candidates is the maximum number of possible senders that are kept.
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

// confuse records that some messages may be confused with each other; nil stands for an unseen
// message. It returns their senders, and the time when the last was sent.
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

// forget drops messages that came before a time, so that only recent ones are kept, however long
// the mailbox is. Dropped messages are handled like those from before the process was watched.
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
		b.displace(b.pending[:n])
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
