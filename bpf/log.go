package bpf

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/beamscope/beamscope/internal/host/monotonic"
)

// Events passes on the events that were logged since the last call, sorted by time, in batches. It
// reuses the slice, so fn copies what it keeps. Events of the last millisecond come with the next
// call, because some may not be written yet.
//
// The log has room for the last [Options.Events], in one part for each processor, and each part
// overwrites its own oldest events. Events that were overwritten before they were read count as the
// loss. So do the oldest ones of a part with more than its share of most new events, which limits the time
// of a call. Without an outcome with Explain there are no events.
func (c *Collector) Events(most int, fn func([]Event)) (Loss, error) {
	return c.log.read(monotonic.Now()-int64(logLag), most, fn)
}

// DropEvents drops all events that were logged before the call. In the next call of [Collector.Events] they do
// not count as lost.
func (c *Collector) DropEvents() (dropped Loss, err error) { return c.log.drop(monotonic.Now()) }

// A Loss describes the events that are missing in a call of [Collector.Events], and in later ones.
// The zero Loss means that none are missing.
type Loss struct {
	// Events is the number of events lost since the previous call. It is 0 if From and To only show
	// that an earlier loss continued.
	Events uint64

	// From and To, in nanoseconds of CLOCK_MONOTONIC, are bounds of the lost events' times. Some
	// events in this interval are passed on, and others are missing.
	From, To int64
}

// Add adds another loss.
func (l *Loss) Add(m Loss) {
	switch {
	case m == Loss{}:
	case *l == Loss{}:
		*l = m
	default:
		*l = Loss{l.Events + m.Events, min(l.From, m.From), max(l.To, m.To)}
	}
}

// Explains reports whether any outcome of the current or the next plan has Explain, or may have it
// later because of [Options.Explain].
func (c *Collector) Explains() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.opts.Explain || c.explains()
}

// explains reports whether any outcome of the current or the next plan has Explain.
func (c *Collector) explains() bool {
	return slices.ContainsFunc(c.plans, func(p plan) bool { return explained(p.outcomes) })
}

func explained(outcomes []Outcome) bool {
	return slices.ContainsFunc(outcomes, func(o Outcome) bool { return o.Explain })
}

// hasLog reports whether there is room for events.
func (c *Collector) hasLog() bool { return c.fixed.logMask > 0 }

// logLag is the minimum age of events that are read. A program may still be writing an event with
// an older time, and another stripe may be ahead of it.
const logLag = 1_000_000 // ns

// An eventLog reads the log while the programs write it, see log.bpf.h.
type eventLog struct {
	mu      sync.Mutex
	closed  bool
	records []kernelRecord // by stripe
	heads   []kernelLogHead
	texts   textReader

	stripes []stripe       // read positions
	found   []kernelRecord // events that were read and not passed on
	batch   []Event
}

// A stripe is the read position in a stripe of the log.
type stripe struct {
	next    uint64 // place that is read next
	stuck   uint64 // 1 + the place that was missing at the last read
	read    int64  // time before which all losses have been reported
	missing bool   // the last events were lost: the loss continues up to the next record
}

func (l *eventLog) open(records []kernelRecord, heads []kernelLogHead, texts textReader) {
	l.records, l.heads, l.texts = records, heads, texts
	l.stripes = make([]stripe, len(heads))
}

func (l *eventLog) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.records, l.heads, l.found = nil, nil, nil
}

// drop drops everything that was logged before the present time, and returns it as a loss.
func (l *eventLog) drop(now int64) (dropped Loss, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return Loss{}, ErrClosed
	}
	for _, r := range l.found {
		dropped.Add(Loss{1, int64(r.Now), now})
	}
	l.found = l.found[:0]
	for i := range l.stripes {
		s := &l.stripes[i]
		head := atomic.LoadUint64(&l.heads[i].Next)
		if head > s.next || s.missing {
			dropped.Add(Loss{head - min(s.next, head), s.read, now})
		}
		*s = stripe{next: head, read: now}
	}
	return dropped, nil
}

// read passes on the events that were logged before a time, at most about this many.
func (l *eventLog) read(before int64, most int, fn func([]Event)) (loss Loss, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return Loss{}, ErrClosed
	}
	for i := range l.heads {
		loss.Add(l.readStripe(i, before, uint64(max(1, most/len(l.heads)))))
	}
	slices.SortStableFunc(l.found, func(a, b kernelRecord) int { return cmp.Compare(a.Now, b.Now) })
	n, _ := slices.BinarySearchFunc(l.found, uint64(max(before, 0)), func(r kernelRecord, t uint64) int { return cmp.Compare(r.Now, t) })
	l.pass(l.found[:n], fn)
	l.found = slices.Delete(l.found, 0, n)
	return loss, nil
}

// readStripe reads the new events of a stripe, up to those being written. Afterwards everything
// that was logged before a time has been read. It returns the lost events: overwritten ones, and
// those that are missing at the second read too, because a program found their place still being
// written a round later. If there are more than most, the oldest are lost too.
func (l *eventLog) readStripe(i int, before int64, most uint64) Loss {
	s := &l.stripes[i]
	size := uint64(len(l.records) / len(l.heads))
	records := l.records[uint64(i)*size:][:size]
	head := atomic.LoadUint64(&l.heads[i].Next)
	loss, some := Loss{From: s.read, To: s.read}, s.missing
	lose := func(n uint64) {
		loss.Events += n
		s.missing, some = true, true
	}
	if oldest := head - min(head, size, most); s.next < oldest {
		lose(oldest - s.next)
		s.next = oldest
	}
	for ; s.next < head; s.next++ {
		mine := s.next + 1
		r, place := copyRecord(&records[s.next%size])
		if place == mine {
			l.found = append(l.found, r)
			if s.missing {
				loss.To = max(loss.To, int64(r.Now))
				s.missing = false
			}
			continue
		}
		if place < mine && s.stuck != mine {
			s.stuck = mine
			break
		}
		lose(1)
	}
	if s.missing {
		loss.To = max(loss.To, before)
	}
	if s.next == head {
		s.read = max(s.read, before)
	}
	if !some {
		return Loss{}
	}
	return loss
}

// copyRecord copies a whole record, and returns its place, or 0 if it is being written.
func copyRecord(from *kernelRecord) (r kernelRecord, place uint64) {
	const words = unsafe.Sizeof(kernelRecord{}) / 8
	source := (*[words]uint64)(unsafe.Pointer(from))
	target := (*[words]uint64)(unsafe.Pointer(&r))
	for i := range source { // in this order: the place comes first
		target[i] = atomic.LoadUint64(&source[i])
	}
	if atomic.LoadUint64(&from.Place) != r.Place {
		return r, 0
	}
	return r, r.Place
}

// pass passes records on as events.
func (l *eventLog) pass(records []kernelRecord, fn func([]Event)) {
	for len(records) > 0 {
		l.batch = l.batch[:0]
		n := min(len(records), batchMost)
		for i := range records[:n] {
			if e, ok := decodeEvent(&records[i], &l.texts); ok {
				l.batch = append(l.batch, e)
			}
		}
		if len(l.batch) > 0 {
			fn(l.batch)
		}
		records = records[n:]
	}
}

// The flags of a record, as in log.bpf.h.
const (
	logAlias     = 1 << 0
	logStranger  = 1 << 1
	logAgain     = 1 << 2
	logPort      = 1 << 3
	logAddress   = 1 << 4
	logUnseen    = 1 << 5
	logUnfetched = 1 << 6
)

// decodeEvent returns the event of a record, or false if it is none.
func decodeEvent(r *kernelRecord, texts *textReader) (Event, bool) {
	e := Event{
		Time:    int64(r.Now),
		VM:      int(r.Pid),
		Thread:  int(r.Tid),
		Kind:    EventKind(r.Kind),
		Process: r.Process,
		Other:   r.Other,
	}
	switch e.Kind {
	case EventSpanStart, EventSpanEnd:
		e.Outcome, e.ID, e.Other = int(r.Size), r.Other, 0
		e.Unwatched = r.Flags&logStranger != 0
	case EventIn:
		e.Again = r.Flags&logAgain != 0
		e.State = uint8(r.Details[0])
	case EventReady:
		e.State, e.Other = uint8(r.Other), 0
	case EventOut:
		e.State, e.Reductions = uint8(r.Details[0]), int32(r.Details[1])
	case EventNIFStart:
		e.Text, e.Other = texts.text(r.Other), 0
	case EventSend, EventQueued, EventReceive:
		e.Size = r.Size
		e.Label, e.Prev = int32(r.Details[0]), int32(r.Details[0]>>32)
		e.Cur, e.Inner = int32(r.Details[1]), uint32(r.Details[1]>>32)
		e.Alias, e.Unwatched = r.Flags&logAlias != 0, r.Flags&logStranger != 0
		e.Unfetched = r.Flags&logUnfetched != 0
		e.Origin = Origin(r.Origin)
		if e.Origin == OriginAtom {
			e.Other, e.Tag = r.Other&math.MaxUint32, uint32(r.Other>>32)
		}
		if r.Flags&logAddress != 0 {
			e.Message, e.Label, e.Prev = r.Details[0], 0, 0
		}
	case EventOffCPU:
		e.From, e.To = int64(r.Details[0]), int64(r.Details[1])
		e.off(r.Size&0xffff, int16(r.Size>>16))
		e.Unseen = r.Flags&logUnseen != 0
	case EventNeighbour:
		e.From, e.To = int64(r.Details[0]), int64(r.Details[1])
	case EventSuspend:
		e.Port, e.Caller = r.Flags&logPort != 0, int64(r.Details[0])
	case EventWatch, EventUnwatched, EventGCStart, EventGCEnd, EventNIFEnd, EventExit, EventResume, EventHold, EventRelease, EventMonitor:
	default:
		return Event{}, false
	}
	return e, true
}
