package ring

// An ended is a span that has ended.
type ended struct {
	id, parent SpanID
	start, end int64 // nanoseconds of CLOCK_MONOTONIC
	name       uint16
	class      uint16 // of a failure; 0 is none
	failed     bool
	process    uint64 // that started it
}

// A span is one that has started.
type span struct {
	start    int64
	parent   SpanID
	process  uint64
	name     uint16
	over     bool // it was given up: an end is late
	doubtful bool // its end may be among what was lost
}

// A sink takes what becomes of spans.
type sink interface {
	started(name uint16, at int64)
	ended(*ended)
	late(name uint16, at int64)
	orphan(name uint16, at int64)
}

// A pairer finds the starts of ends.
type pairer struct {
	open    map[SpanID]span
	early   []record // ends whose start may still come
	pending func(SpanID) bool
	sink    sink
}

func newPairer(pending func(SpanID) bool, s sink) *pairer {
	return &pairer{open: make(map[SpanID]span), pending: pending, sink: s}
}

// add takes a record.
func (p *pairer) add(r *record) {
	if r.kind == start {
		p.open[r.span] = span{start: r.time, parent: r.parent, process: r.process, name: r.text}
		p.sink.started(r.text, r.time)
		return
	}
	s, ok := p.open[r.span]
	switch {
	case !ok && p.pending(r.span):
		p.early = append(p.early, *r)
	case !ok:
		p.sink.orphan(r.name, r.time)
	case s.over:
		delete(p.open, r.span)
		p.sink.late(s.name, r.time)
	default:
		delete(p.open, r.span)
		e := ended{id: r.span, parent: s.parent, start: s.start, end: r.time, name: s.name, failed: r.kind == failure, process: s.process}
		if e.failed {
			e.class = r.text
		}
		p.sink.ended(&e)
	}
}

// settle looks again for the starts of ends that came early.
func (p *pairer) settle() {
	early := p.early
	p.early = nil
	for i := range early {
		p.add(&early[i])
	}
}

// doubt notes that records were lost: any span that is open may have ended.
func (p *pairer) doubt() {
	for id, s := range p.open {
		s.doubtful = true
		p.open[id] = s
	}
}
