package pairing

import (
	"math"

	"github.com/beamscope/beamscope/dtrace"
)

// An Engine pairs the events of one outcome in one VM. Its methods append their results to facts
// and return it, as append does.
type Engine struct {
	cfg   Config
	now   int64
	lines map[string]*line     // state of each key
	exact map[ticket]*instance // instances with a token or a message
	fetch map[string]*fetching // by key; only if Synced
	kept  int                  // number of instances, notes and fetchings
	due   queue[*instance]     // by start; may contain instances that have ended
	past  queue[*instance]     // timed out instances, by start
	notes queue[noted]         // by time
	uses  queue[noted]         // uses of fetchings, by time
}

// An instance is an instance that has not ended yet, or that is remembered.
type instance struct {
	start  int64
	ticket ticket
	queued bool // in a queue from which ends take instances
	state  state
}

type state uint8

const (
	open    state = iota
	hollow        // stands for an instance whose start was not seen
	expired       // timed out, but its end has not come
	over          // no longer remembered
)

// A ticket identifies an instance by the key of an event and, if it has one, by its token or
// message.
type ticket struct {
	key     string
	token   Token
	message uint64
}

// A noted is a time at which a key got a note, or at which its first stage was used.
type noted struct {
	key string
	at  int64
}

// A line is the state of a key.
type line struct {
	first  queue[*instance] // instances that started, the oldest first
	second queue[*instance] // instances that passed a via
	busy   int64            // time since which the queue for ends has never been empty
	taken  bool             // an end has taken an instance since then
	late   *instance        // the last instance that timed out, if the pairing is not FIFO

	armed   bool
	note    string
	notedAt int64
}

// A fetching tracks when the receiver of a key fetched its messages, from the first start on.
type fetching struct {
	first int64 // time of the first fetch since the last sync; 0 if none
	floor int64 // instances that started before it and are still waiting can no longer be fetched
	known bool  // no sync since the fetch at first
	used  int64 // time of the last start or fetch
}

// New returns an engine without events.
func New(cfg Config) *Engine {
	return &Engine{
		cfg: cfg, now: math.MinInt64,
		lines: make(map[string]*line), exact: make(map[ticket]*instance), fetch: make(map[string]*fetching),
	}
}

// Idle reports whether the engine keeps no data.
func (e *Engine) Idle() bool { return e.kept == 0 }

// Open returns the number of open instances.
func (e *Engine) Open() int {
	n := 0
	for i := range e.due.all() {
		if i.state == open {
			n++
		}
	}
	return n
}

// Advance advances the time to now, after all earlier events have been added.
func (e *Engine) Advance(facts []Fact, now int64) []Fact {
	e.now = max(e.now, now)
	for e.due.len() > 0 {
		i := e.due.head()
		if i.state != over && e.now-i.start <= int64(e.cfg.DMax) {
			break
		}
		e.due.pop()
		facts = e.expire(facts, i)
	}
	e.forget()
	return facts
}

// expire ends an instance whose time is over, unless it has already ended.
func (e *Engine) expire(facts []Fact, i *instance) []Fact {
	switch i.state {
	case over:
		return facts
	case open:
		what := TimedOut
		if e.cfg.Selective && i.queued && e.lines[i.ticket.key].taken {
			what = Unpaired
		}
		facts = append(facts, Fact{What: what, Key: i.ticket.key, Time: i.start + int64(e.cfg.DMax), Start: i.start})
		i.state = expired
		if e.cfg.Pairing != dtrace.FIFO {
			l := e.lines[i.ticket.key]
			l.first.pop()
			if l.late != nil {
				e.end(l.late)
			}
			l.late = i
		}
	}
	if e.cfg.Remember > 0 {
		e.past.push(i)
	}
	return facts
}

// forget drops data that was remembered for long enough. With Remember 0 its queues are empty.
func (e *Engine) forget() {
	for e.past.len() > 0 {
		i := e.past.head()
		if i.state != over && e.now-i.start <= int64(e.cfg.DMax)+int64(e.cfg.Remember) {
			break
		}
		e.past.pop()
		e.end(i)
		e.tidy(i.ticket.key)
	}
	for e.notes.len() > 0 && e.now-e.notes.head().at > int64(e.cfg.Remember) {
		n := e.notes.pop()
		if l := e.lines[n.key]; l != nil && l.armed && l.notedAt == n.at {
			e.unnote(l)
			e.tidy(n.key)
		}
	}
	for e.uses.len() > 0 && e.now-e.uses.head().at > int64(e.cfg.DMax)+int64(e.cfg.Remember) {
		if n := e.uses.pop(); e.isLast(n) {
			delete(e.fetch, n.key)
			e.leave()
		}
	}
}

// Add adds an event. Events must come in the order of their times. An event that is earlier than
// the previous one, or than the time of Advance, is treated as if it happened then.
func (e *Engine) Add(facts []Fact, ev Event) []Fact {
	facts = e.Advance(facts, ev.Time)
	ev.Time = e.now
	switch ev.Kind {
	case Start:
		facts = e.start(facts, ev)
	case Via:
		facts = e.via(facts, ev)
	case Arm:
		facts = e.arm(facts, ev)
	case End:
		facts = e.finish(facts, ev)
		if e.cfg.Via {
			e.sync(ev.Key)
		}
	case Sync:
		e.sync(ev.Key)
	}
	e.tidy(ev.Key)
	return facts
}

func (e *Engine) arm(facts []Fact, ev Event) []Fact {
	if !e.cfg.Arm {
		return facts
	}
	if !e.note(ev) {
		return append(facts, Fact{What: NoRoom, Key: ev.Key, Time: ev.Time})
	}
	return facts
}

// note stores a note for the next start of the key. It returns false if there is no room.
func (e *Engine) note(ev Event) bool {
	l := e.line(ev.Key)
	if !l.armed && e.full() {
		return false
	}
	e.unnote(l)
	l.armed, l.note, l.notedAt = true, ev.Text, ev.Time
	e.enter()
	if e.cfg.Remember > 0 {
		e.notes.push(noted{ev.Key, ev.Time})
		e.compact()
	}
	return true
}

// unnote removes the note of a key, if it has one.
func (e *Engine) unnote(l *line) {
	if l.armed {
		l.armed, l.note = false, ""
		e.leave()
	}
}

func (e *Engine) start(facts []Fact, ev Event) []Fact {
	l := e.line(ev.Key)
	if e.cfg.Arm {
		matches := l.armed && l.note == ev.Text
		e.unnote(l)
		if !matches {
			return append(facts, Fact{What: Dropped, Key: ev.Key, Time: ev.Time})
		}
	}
	facts = append(facts, Fact{What: Started, Key: ev.Key, Time: ev.Time})
	if e.cfg.Overtaken && l.armed {
		ended := ev.Time - l.notedAt
		e.unnote(l)
		if ended <= int64(Overtaking) {
			return append(facts, Fact{What: Succeeded, Key: ev.Key, Time: ev.Time, Start: ev.Time})
		}
	}
	switch {
	case e.exactly(ev):
		t := e.ticket(ev)
		if old := e.exact[t]; old != nil && t.message != 0 {
			facts = e.giveUp(facts, old, Unpaired) // the VM has reused the address
		} else if old != nil && old.state == open {
			// Two messages have the same token, so it is unknown to which of them an end belongs.
			facts = e.giveUp(facts, old, Unpaired)
			return append(facts, Fact{What: Unpaired, Key: ev.Key, Time: ev.Time, Start: ev.Time})
		} else if old != nil {
			facts = e.giveUp(facts, old, Unpaired)
		}
	case e.cfg.Pairing == dtrace.First && l.first.len() > 0:
		return facts
	case e.cfg.Pairing == dtrace.Last && l.first.len() > 0:
		facts = e.giveUp(facts, l.first.pop(), Unpaired)
	}
	if e.cfg.Synced && !e.exactly(ev) {
		e.attend(ev.Key)
	}
	i, ok := e.keep(ev, open)
	switch {
	case !ok:
		return append(facts, Fact{What: NoRoom, Key: ev.Key, Time: ev.Time})
	case e.exactly(ev):
		i.ticket = e.ticket(ev)
		e.exact[i.ticket] = i
	default:
		if !e.cfg.Via {
			l.join(&l.first, i, e.now)
			break
		}
		l.first.push(i)
	}
	return facts
}

// via moves the head of the first stage to the second.
func (e *Engine) via(facts []Fact, ev Event) []Fact {
	if !e.cfg.Via || e.cfg.Pairing == dtrace.FIFO && ev.Token != (Token{}) {
		return facts
	}
	l := e.line(ev.Key)
	if ev.Message != 0 {
		return e.viaMessage(facts, l, ev)
	}
	facts, i, ok := e.take(facts, l, ev.Key)
	if !ok {
		if i, ok = e.keep(ev, hollow); !ok {
			return append(facts, Fact{What: NoRoom, Key: ev.Key, Time: ev.Time})
		}
	}
	l.join(&l.second, i, e.now)
	return facts
}

// viaMessage moves the head of the first stage on as a message, which identifies it.
func (e *Engine) viaMessage(facts []Fact, l *line, ev Event) []Fact {
	t := e.ticket(ev)
	if old := e.exact[t]; old != nil {
		facts = e.giveUp(facts, old, Unpaired)
	}
	facts, i, ok := e.take(facts, l, ev.Key)
	if ok {
		i.ticket = t
		e.exact[t] = i
	}
	return facts
}

// finish pairs an end.
func (e *Engine) finish(facts []Fact, ev Event) []Fact {
	var i *instance
	var ok bool
	l := e.line(ev.Key)
	switch {
	case e.exactly(ev):
		i, ok = e.exact[e.ticket(ev)]
	case e.cfg.Pairing == dtrace.FIFO && e.cfg.Via:
		i, ok = l.next(&l.second)
	case e.cfg.Pairing == dtrace.FIFO:
		facts, i, ok = e.take(facts, l, ev.Key)
	default:
		if i, ok = l.next(&l.first); !ok {
			i, ok = l.late, l.isLate()
		}
	}
	if !ok {
		return e.orphan(facts, ev)
	}
	was := i.state
	e.end(i)
	l.taken = l.taken || i.queued
	if was == hollow {
		return e.orphan(facts, ev)
	}
	facts = append(facts, Fact{What: Ended, Key: ev.Key, Time: ev.Time})
	if was == expired {
		return append(facts, Fact{What: Late, Key: ev.Key, Time: ev.Time})
	}
	if e.cfg.Selective && !e.exactly(ev) && ev.Time-l.busy > int64(e.cfg.DMax) {
		return append(facts, Fact{What: Unpaired, Key: ev.Key, Time: ev.Time, Start: i.start})
	}
	return append(facts, Fact{
		What: Succeeded, Key: ev.Key, Time: ev.Time, Start: i.start, Amount: ev.Amount,
		Inferred: e.cfg.Pairing == dtrace.FIFO && (!e.exactly(ev) || e.cfg.Via && ev.Token == Token{}),
	})
}

// orphan returns the facts of an end without a start.
func (e *Engine) orphan(facts []Fact, ev Event) []Fact {
	if e.cfg.Loose {
		return append(facts, Fact{What: Dropped, Key: ev.Key, Time: ev.Time})
	}
	if e.cfg.Overtaken {
		e.note(ev) // without room the start will time out, as if the end had been lost
	}
	return append(facts, Fact{What: Ended, Key: ev.Key, Time: ev.Time}, Fact{What: Orphaned, Key: ev.Key, Time: ev.Time})
}

// take takes the oldest instance that can be fetched now from the first stage of a key. It gives
// up instances that can no longer end. A receiver fetches everything at once, so an instance that
// was already there at the previous fetch and still waits will never be fetched.
func (e *Engine) take(facts []Fact, l *line, key string) ([]Fact, *instance, bool) {
	floor := e.floor(key)
	for range staleMost {
		i, ok := l.next(&l.first)
		if !ok || i.start >= floor {
			return facts, i, ok
		}
		facts = e.giveUp(facts, i, Unpaired)
	}
	return facts, nil, false
}

// floor returns a time. Instances that started before it can no longer be fetched.
func (e *Engine) floor(key string) int64 {
	f := e.fetch[key]
	if f == nil {
		return math.MinInt64
	}
	if !f.known {
		f.floor = f.first - int64(Grace)
		f.first, f.known = e.now, true
	}
	e.use(key, f)
	return f.floor
}

// sync records that the receiver of a key begins to process what it fetched.
func (e *Engine) sync(key string) {
	if f := e.fetch[key]; f != nil {
		f.known = false
	}
}

// attend begins to track the fetches of a key's receiver. If there is no room for that, there is no
// room for the starting instance either.
func (e *Engine) attend(key string) {
	f := e.fetch[key]
	if f == nil {
		if e.full() {
			return
		}
		e.enter()
		f = &fetching{used: math.MinInt64}
		e.fetch[key] = f
	}
	e.use(key, f)
}

// use records a use of the first stage of a key: an instance entered it, or should have left it.
func (e *Engine) use(key string, f *fetching) {
	if f.used == e.now || e.cfg.Remember == 0 {
		return
	}
	f.used = e.now
	e.uses.push(noted{key, e.now})
	if e.uses.len() > 2*len(e.fetch)+few {
		e.uses.filter(e.isLast)
	}
}

// isLast reports whether this is the last use of a key.
func (e *Engine) isLast(n noted) bool {
	f := e.fetch[n.key]
	return f != nil && f.used == n.at
}

// giveUp gives up an instance, and adds a fact unless it has ended.
func (e *Engine) giveUp(facts []Fact, i *instance, why What) []Fact {
	if i.state == open {
		facts = append(facts, Fact{What: why, Key: i.ticket.key, Time: e.now, Start: i.start})
	}
	e.end(i)
	return facts
}

// Cut gives up all open instances at a time and drops everything, because events are missing or
// no more will come. Ends that come later are orphans.
func (e *Engine) Cut(facts []Fact, at int64) []Fact {
	facts = e.Advance(facts, at)
	for i := range e.due.all() {
		facts = e.giveUp(facts, i, Cut)
	}
	e.give(e.kept)
	now := e.now
	*e = *New(e.cfg)
	e.now = now
	return facts
}

// Lose gives up the open instances of a key because an event was lost: with a token, only the
// instance with that token, and otherwise all without a token.
func (e *Engine) Lose(facts []Fact, key string, t Token) []Fact {
	if e.exactly(Event{Token: t}) {
		if i := e.exact[ticket{key: key, token: t}]; i != nil {
			facts = e.giveUp(facts, i, Cut)
		}
		return facts
	}
	l := e.lines[key]
	if l == nil {
		return facts
	}
	for _, q := range []*queue[*instance]{&l.first, &l.second} {
		for q.len() > 0 {
			facts = e.giveUp(facts, q.pop(), Cut)
		}
	}
	if l.late != nil {
		e.end(l.late)
	}
	e.unnote(l)
	e.tidy(key)
	return facts
}

// exactly reports whether a token or a message identifies the instance of an event.
func (e *Engine) exactly(ev Event) bool {
	return e.cfg.Pairing == dtrace.FIFO && (ev.Token != Token{} || ev.Message != 0)
}

// ticket returns the ticket of an event. With Via a start may have a token, but no message.
func (e *Engine) ticket(ev Event) ticket {
	if ev.Message != 0 && !(e.cfg.Via && ev.Token != Token{}) {
		return ticket{key: ev.Key, message: ev.Message}
	}
	return ticket{key: ev.Key, token: ev.Token}
}

// full reports whether there is no more room.
func (e *Engine) full() bool { return e.cfg.Room != nil && e.cfg.Room.left <= 0 }

// enter takes room for one more item, and leave returns it.
func (e *Engine) enter() { e.kept++; e.give(-1) }
func (e *Engine) leave() { e.kept--; e.give(1) }

func (e *Engine) give(n int) {
	if e.cfg.Room != nil {
		e.cfg.Room.left += n
	}
}

// keep adds an instance that starts with an event. It returns false if there is no room.
func (e *Engine) keep(ev Event, s state) (*instance, bool) {
	if e.full() {
		return nil, false
	}
	e.enter()
	i := &instance{start: ev.Time, ticket: ticket{key: ev.Key}, state: s}
	e.due.push(i)
	e.compact()
	return i, true
}

// end removes an instance. Queues skip it.
func (e *Engine) end(i *instance) {
	if i.state == over {
		return
	}
	i.state = over
	e.leave()
	if i.ticket.token != (Token{}) || i.ticket.message != 0 {
		delete(e.exact, i.ticket)
	}
}

// few is the number of stale entries that a queue may contain in addition to twice the number of
// valid ones.
const few = 1024

// compact removes ended instances and old notes from a queue if it consists mostly of them.
func (e *Engine) compact() {
	for _, q := range []*queue[*instance]{&e.due, &e.past} {
		if q.len() > 2*e.kept+few {
			q.filter(func(i *instance) bool { return i.state != over })
		}
	}
	if e.notes.len() > 2*e.kept+few {
		e.notes.filter(func(n noted) bool {
			l := e.lines[n.key]
			return l != nil && l.armed && l.notedAt == n.at
		})
	}
}

// line returns the state of a key, and creates it if necessary.
func (e *Engine) line(key string) *line {
	l := e.lines[key]
	if l == nil {
		l = new(line)
		e.lines[key] = l
	}
	return l
}

// tidy drops the state of a key if it is empty.
func (e *Engine) tidy(key string) {
	l := e.lines[key]
	if l == nil || l.armed || l.isLate() {
		return
	}
	for _, q := range []*queue[*instance]{&l.first, &l.second} {
		if _, some := l.peek(q); some {
			return
		}
	}
	delete(e.lines, key)
}

// isLate reports whether a timed out instance is remembered outside the queues.
func (l *line) isLate() bool { return l.late != nil && l.late.state == expired }

// peek returns the oldest instance of a queue, and removes ended ones before it.
func (l *line) peek(q *queue[*instance]) (*instance, bool) {
	for q.len() > 0 {
		if i := q.head(); i.state != over {
			return i, true
		}
		q.pop()
	}
	return nil, false
}

// join adds an instance to the queue from which ends take instances.
func (l *line) join(q *queue[*instance], i *instance, now int64) {
	if _, ok := l.peek(q); !ok {
		l.busy, l.taken = now, false
	}
	i.queued = true
	q.push(i)
}

// next removes the oldest instance from a queue and returns it.
func (l *line) next(q *queue[*instance]) (*instance, bool) {
	i, ok := l.peek(q)
	if ok {
		q.pop()
	}
	return i, ok
}
