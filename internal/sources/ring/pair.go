package ring

import (
	"maps"
	"math"
	"sync/atomic"
)

const (
	// recentSlots is the maximum number of places for open spans in the table of a ring, and
	// fewestSlots the minimum. Both are powers of two.
	recentSlots = 1 << 14
	fewestSlots = 1 << 6

	// maxOld limits the open spans of a VM that lost their place in the table to a later span.
	maxOld = 1 << 18

	// maxEarly limits the ends of a VM that wait for their start.
	maxEarly = 1 << 12

	// maxRoom limits the places, of 40 bytes each, of all VMs of a user, and maxAllRoom those of
	// all users. A displaced span counts as oldPlaces.
	maxRoom    = 1 << 20
	maxAllRoom = 4 * maxRoom
	oldPlaces  = 3
)

// A room limits the number of places for open spans. Several goroutines may use it.
type room struct {
	left atomic.Int64
	all  *room // the room of all users; nil if there is none
}

func newRoom(all *room, places int64) *room {
	r := &room{all: all}
	r.left.Store(places)
	return r
}

// take takes places, and reports whether enough were left.
func (r *room) take(places int) bool {
	if r.left.Add(-int64(places)) < 0 || r.all != nil && !r.all.take(places) {
		r.left.Add(int64(places))
		return false
	}
	return true
}

// giveBack returns places that were taken.
func (r *room) giveBack(places int) {
	r.left.Add(int64(places))
	if r.all != nil {
		r.all.giveBack(places)
	}
}

// A span is a span that has started.
type span struct {
	id      SpanID // 0 if the place is free
	parent  SpanID
	start   int64 // nanoseconds of CLOCK_MONOTONIC
	process uint64
	name    uint16
}

// An ended is a span and its end.
type ended struct {
	span
	end    int64
	class  uint16 // of a failure; 0 for none
	failed bool
}

// A sink receives the events of spans.
type sink interface {
	started(*span)
	ended(*ended)

	// timedOut receives a span without an end within its dMax. doubtful reports that the end may
	// have been lost.
	timedOut(s *span, doubtful bool)

	// stray receives an end of a span that is not open, and the fate of its start: if the start was
	// seen, the span has already ended.
	stray(*record, fate)

	// noRoom receives an open span that is dropped for lack of room.
	noRoom(*span)

	// deadline returns when a span times out. ok is false if no outcome includes the span.
	deadline(*span) (at int64, ok bool)
}

// A pairer pairs ends with their starts.
type pairer struct {
	recent []table // tables by ring
	most   int     // maximum number of places in a table
	old    map[SpanID]span
	oldDue int64 // earliest deadline in old, or before it
	taken  int   // number of spans for which old has taken room
	room   *room
	isFull bool     // a table could not grow since the last sweep
	early  []record // ends whose starts may still come
	fate   func(SpanID) fate
	sink   sink
	ended  ended // the last one passed to the sink
	doubt  int64 // spans that started before may have lost their ends
}

// A table has places for the open spans of a ring. The number of places is 0 or a power of two.
type table struct {
	places []span
	due    int64 // earliest deadline in the table, or before it
}

func (t *table) place(s SpanID) *span { return &t.places[s.slot()&uint64(len(t.places)-1)] }

// newPairer returns a pairer for rings with a number of slots.
func newPairer(fate func(SpanID) fate, s sink, r *room, slots uint64) *pairer {
	return &pairer{most: int(min(recentSlots, slots)), old: make(map[SpanID]span), oldDue: math.MaxInt64, room: r, fate: fate, sink: s, doubt: math.MinInt64}
}

// add processes a record.
func (p *pairer) add(r *record) {
	if r.kind == start {
		p.begin(r)
		return
	}
	if !p.take(r.span, &p.ended.span) {
		if f := p.fate(r.span); f == toCome && len(p.early) < maxEarly {
			p.early = append(p.early, *r)
		} else {
			p.sink.stray(r, f)
		}
		return
	}
	p.ended.end, p.ended.failed, p.ended.class = r.time, r.kind == failure, r.class
	p.sink.ended(&p.ended)
}

// begin processes a start.
func (p *pairer) begin(r *record) {
	place := p.place(r)
	if place == nil { // there is no room
		var s span
		s.set(r)
		p.sink.started(&s)
		p.displace(&s)
		return
	}
	if place.id != 0 {
		p.displace(place)
	}
	place.set(r)
	p.sink.started(place)
}

// set makes s the span that a record starts. It writes each field once: a composite literal is
// built first and copied then.
func (s *span) set(r *record) {
	s.id, s.parent, s.start, s.process, s.name = r.span, r.parent, r.time, r.process, r.name
}

// place returns the place for a span that starts, or nil if there is no room. If another span
// occupies the place, the table cannot grow.
func (p *pairer) place(r *record) *span {
	ring := r.span.ring()
	for len(p.recent) <= ring {
		p.recent = append(p.recent, table{due: math.MaxInt64})
	}
	t := &p.recent[ring]
	for len(t.places) == 0 || t.place(r.span).id != 0 {
		if !p.grow(t) {
			break
		}
	}
	if len(t.places) == 0 {
		return nil
	}
	t.due = min(t.due, r.time)
	return t.place(r.span)
}

// grow enlarges a table, and reports whether it did.
func (p *pairer) grow(t *table) bool {
	size := min(p.most, max(fewestSlots, 4*len(t.places)))
	if size == len(t.places) || p.isFull {
		return false
	}
	if p.isFull = !p.room.take(size - len(t.places)); p.isFull {
		return false
	}
	old := t.places
	t.places = make([]span, size)
	for i := range old {
		if old[i].id != 0 {
			*t.place(old[i].id) = old[i]
		}
	}
	return true
}

// displace frees the place of a span.
func (p *pairer) displace(s *span) {
	due, wanted := p.sink.deadline(s)
	if !wanted {
		return
	}
	if len(p.old) == p.taken {
		if p.taken >= maxOld || !p.room.take(oldPlaces) {
			p.sink.noRoom(s)
			return
		}
		p.taken++
	}
	p.old[s.id] = *s
	p.oldDue = min(p.oldDue, due)
}

// take removes an open span, and reports whether it was found.
func (p *pairer) take(id SpanID, s *span) bool {
	if id == 0 { // that of free places
		return false
	}
	if ring := id.ring(); ring < len(p.recent) && len(p.recent[ring].places) > 0 {
		if place := p.recent[ring].place(id); place.id == id {
			*s, place.id = *place, 0
			return true
		}
	}
	old, ok := p.old[id]
	if ok {
		*s = old
		delete(p.old, id)
	}
	return ok
}

// settle tries again to find the starts of early ends.
func (p *pairer) settle() {
	early := p.early
	p.early = nil
	for i := range early {
		p.add(&early[i])
	}
}

// sweep times out the spans that reach their dMax before the horizon. All records up to the horizon
// have been read.
func (p *pairer) sweep(horizon int64) {
	timeOut := func(s *span) (keep bool, due int64) {
		due, wanted := p.sink.deadline(s)
		switch {
		case !wanted:
			return true, math.MaxInt64
		case due >= horizon:
			return true, due
		}
		p.sink.timedOut(s, s.start < p.doubt)
		return false, 0
	}
	for i := range p.recent {
		if t := &p.recent[i]; t.due < horizon {
			p.sift(t, timeOut)
		}
	}
	if p.oldDue < horizon {
		p.siftOld(timeOut)
	}
	p.shrinkOld()
	p.isFull = false
}

// doubtful returns the number of open spans that may have lost their ends.
func (p *pairer) doubtful() (n uint64) {
	count := func(s *span) {
		if s.id == 0 || s.start >= p.doubt {
			return
		}
		if _, wanted := p.sink.deadline(s); wanted {
			n++
		}
	}
	for i := range p.recent {
		for k := range p.recent[i].places {
			count(&p.recent[i].places[k])
		}
	}
	for _, s := range p.old {
		count(&s)
	}
	return n
}

// abandon times out all open spans as doubtful: their ends can no longer be read.
func (p *pairer) abandon() {
	timeOut := func(s *span) (keep bool, due int64) {
		if _, wanted := p.sink.deadline(s); wanted {
			p.sink.timedOut(s, true)
		}
		return false, 0
	}
	for i := range p.recent {
		p.sift(&p.recent[i], timeOut)
	}
	p.siftOld(timeOut)
	p.shrinkOld()
}

// release drops all open spans.
func (p *pairer) release() {
	forget := func(*span) (keep bool, due int64) { return false, 0 }
	for i := range p.recent {
		p.sift(&p.recent[i], forget)
	}
	p.siftOld(forget)
	p.shrinkOld()
}

// replan makes the next sweep examine all open spans, because outcomes or deadlines have changed.
func (p *pairer) replan() {
	for i := range p.recent {
		p.recent[i].due = math.MinInt64
	}
	p.oldDue = math.MinInt64
}

// sift calls keep for the spans of a table, and drops those that keep rejects. It returns the room
// of an empty table. due is the deadline of a span that is kept.
func (p *pairer) sift(t *table, keep func(*span) (keep bool, due int64)) {
	t.due = math.MaxInt64
	open := false
	for i := range t.places {
		if t.places[i].id == 0 {
			continue
		}
		kept, due := keep(&t.places[i])
		if !kept {
			t.places[i].id = 0
			continue
		}
		open = true
		t.due = min(t.due, due)
	}
	if !open {
		p.room.giveBack(len(t.places))
		t.places = nil
	}
}

// siftOld is sift for displaced spans.
func (p *pairer) siftOld(keep func(*span) (keep bool, due int64)) {
	p.oldDue = math.MaxInt64
	for id, s := range p.old {
		kept, due := keep(&s)
		if !kept {
			delete(p.old, id)
			continue
		}
		p.oldDue = min(p.oldDue, due)
	}
}

// shrinkOld returns room that displaced spans no longer need. It copies the map, because a map does
// not shrink by itself.
func (p *pairer) shrinkOld() {
	if p.taken == len(p.old) || len(p.old) > p.taken/4 {
		return
	}
	old := make(map[SpanID]span, len(p.old))
	maps.Copy(old, p.old)
	p.room.giveBack((p.taken - len(old)) * oldPlaces)
	p.old, p.taken = old, len(old)
}
