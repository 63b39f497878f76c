package ring

import "math"

const (
	// recentSlots is how many slots of a ring have a place of their own among the open
	// spans. It is a power of two.
	recentSlots = 1 << 14

	// maxOld bounds the open spans of a VM that lost that place to a later one.
	maxOld = 1 << 18

	// maxEarly bounds the ends of a VM that wait for their start.
	maxEarly = 1 << 12
)

// A span is one that has started.
type span struct {
	id      SpanID // 0: there is none
	parent  SpanID
	start   int64 // nanoseconds of CLOCK_MONOTONIC
	process uint64
	name    uint16
}

// An ended is a span that has ended.
type ended struct {
	span
	end    int64
	class  uint16 // of a failure; 0 is none
	failed bool
}

// A sink takes what becomes of spans.
type sink interface {
	started(*span)
	ended(*ended)

	// timedOut takes a span that has no end within its dMax. doubtful says that its end may
	// be among records that were lost.
	timedOut(s *span, doubtful bool)

	// stray takes an end of a span that is not open, and what became of its start: one that
	// was seen has ended before.
	stray(*record, fate)

	// noRoom takes a span that is forgotten though it is open.
	noRoom(*span)

	// deadline returns when a span has timed out; ok is false where nobody wants it.
	deadline(*span) (at int64, ok bool)
}

// A pairer finds the starts of ends.
type pairer struct {
	recent [][]span // by ring: the places of slots
	old    map[SpanID]span
	early  []record // ends whose start may still come
	fate   func(SpanID) fate
	sink   sink
	doubt  int64 // spans that started before may have lost their ends
}

func newPairer(fate func(SpanID) fate, s sink) *pairer {
	return &pairer{old: make(map[SpanID]span), fate: fate, sink: s, doubt: math.MinInt64}
}

// add takes a record.
func (p *pairer) add(r *record) {
	if r.kind == start {
		p.begin(r)
		return
	}
	s, ok := p.take(r.span)
	if !ok {
		if f := p.fate(r.span); f == toCome && len(p.early) < maxEarly {
			p.early = append(p.early, *r)
		} else {
			p.sink.stray(r, f)
		}
		return
	}
	e := ended{span: s, end: r.time, failed: r.kind == failure}
	if e.failed {
		e.class = r.text
	}
	p.sink.ended(&e)
}

// begin takes a start.
func (p *pairer) begin(r *record) {
	place := p.place(r.span)
	if place.id != 0 {
		p.displace(place)
	}
	*place = span{id: r.span, parent: r.parent, start: r.time, process: r.process, name: r.text}
	p.sink.started(place)
}

// place returns the place of a span.
func (p *pairer) place(s SpanID) *span {
	ring := s.ring()
	for len(p.recent) <= ring {
		p.recent = append(p.recent, nil)
	}
	if p.recent[ring] == nil {
		p.recent[ring] = make([]span, recentSlots)
	}
	return &p.recent[ring][s.slot()%recentSlots]
}

// displace makes the place of a span free.
func (p *pairer) displace(s *span) {
	if _, wanted := p.sink.deadline(s); !wanted {
		return
	}
	if len(p.old) >= maxOld {
		p.sink.noRoom(s)
		return
	}
	p.old[s.id] = *s
}

// take takes a span out that has started.
func (p *pairer) take(id SpanID) (s span, ok bool) {
	if ring := id.ring(); ring < len(p.recent) && p.recent[ring] != nil {
		if place := &p.recent[ring][id.slot()%recentSlots]; place.id == id {
			s, place.id = *place, 0
			return s, true
		}
	}
	if s, ok = p.old[id]; ok {
		delete(p.old, id)
	}
	return s, ok
}

// settle looks again for the starts of ends that came early.
func (p *pairer) settle() {
	early := p.early
	p.early = nil
	for i := range early {
		p.add(&early[i])
	}
}

// sweep times out spans that reach their dMax before the horizon. All records up to the horizon
// were read.
func (p *pairer) sweep(horizon int64) {
	p.each(func(s *span) (keep bool) {
		deadline, wanted := p.sink.deadline(s)
		if !wanted || deadline >= horizon {
			return true
		}
		p.sink.timedOut(s, s.start < p.doubt)
		return false
	})
}

// abandon times out all open spans, as doubtful: their ends cannot be read any more.
func (p *pairer) abandon() {
	p.each(func(s *span) (keep bool) {
		if _, wanted := p.sink.deadline(s); wanted {
			p.sink.timedOut(s, true)
		}
		return false
	})
}

// each calls keep for all spans that are open, and forgets those that it does not keep.
func (p *pairer) each(keep func(*span) bool) {
	for _, places := range p.recent {
		for i := range places {
			if places[i].id != 0 && !keep(&places[i]) {
				places[i].id = 0
			}
		}
	}
	for id, s := range p.old {
		if !keep(&s) {
			delete(p.old, id)
		}
	}
}
