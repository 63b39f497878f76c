package ring

import "encoding/binary"

// A SpanID identifies a span within its VM: the class of its root, and the ring and the
// slot that its start took.
type SpanID uint64

// Class returns the class of the span's root, from 0 to 15.
func (s SpanID) Class() uint { return uint(s >> classShift & 0xf) }

func (s SpanID) ring() int    { return int(s >> ringShift & 0xff) }
func (s SpanID) slot() uint64 { return uint64(s) & slotMask }

// The record of a start contains the ID of the parent, or of no ring if there is none, with the class
// of the span.

// ofStart returns the ID of the span whose start has taken a slot, if its record contains s.
func (s SpanID) ofStart(ring int, slot uint64) SpanID {
	return SpanID(uint64(s)&^(1<<classShift-1) | uint64(ring)<<ringShift | slot&slotMask)
}

// parent returns the ID of the parent, if the record of a start contains s. It returns 0 for none.
func (s SpanID) parent() SpanID {
	if s.ring() == noRing {
		return 0
	}
	return s
}

// A kind is the kind of event in a record.
type kind uint8

const (
	explainedStart kind = 0 // becomes a start
	start          kind = 1
	success        kind = 2
	failure        kind = 3
)

// A record is an event of a span.
type record struct {
	kind    kind
	name    uint16 // text of the span's name
	time    int64  // nanoseconds of our CLOCK_MONOTONIC
	span    SpanID
	parent  SpanID // of a start; 0 for none
	process uint64 // of a start: number and serial of the pid; 0 if not requested
	class   uint16 // of a failure: text of its class; 0 for none

	explained bool // programs in the kernel could see the event too
}

// A state is the state of a slot's record.
type state uint8

const (
	whole  state = iota
	torn         // the record is incomplete, maybe forever
	lapped       // a later record has replaced it
)

// decode decodes the record of slot number slot of a ring, without its extension. now is the
// present time of the VM's clock, and offset is how far that is ahead of ours.
func (r *record) decode(data []byte, h *header, ring int, slot uint64, now, offset int64) (isExtended bool, s state) {
	w0 := binary.LittleEndian.Uint64(data)
	w1 := binary.LittleEndian.Uint64(data[wordSize:])
	lap := slot >> h.logSlots
	if s := worse(stateOf(w0, lap), stateOf(w1, lap)); s != whole {
		return false, s
	}
	if !r.set(w0, w1, ring, slot, now, offset) {
		return false, lapped // no program writes such a word
	}
	return w1&extended != 0, whole
}

// set decodes the two words of a record. It returns false for words that were never written: a start
// has a parent, or states that it has none.
func (r *record) set(w0, w1 uint64, ring int, slot uint64, now, offset int64) bool {
	if w1&(kindMask<<kindShift|spanMask) == 0 {
		return false
	}
	r.kind = kind(w1 >> kindShift & kindMask)
	if r.explained = r.kind == explainedStart; r.explained {
		r.kind = start
	}
	r.name = uint16(w0 >> textShift & textMask)
	r.time = widen(int64(w0&timeMask), now) - offset
	r.span = SpanID(w1 & spanMask)
	r.parent, r.process, r.class = 0, 0, 0
	if r.kind == start {
		r.span, r.parent = r.span.ofStart(ring, slot), r.span.parent()
	}
	return true
}

// extend adds the extension of slot number slot of a ring.
func (r *record) extend(data []byte, h *header, slot uint64) state {
	w := binary.LittleEndian.Uint64(data)
	if s := stateOf(w, slot>>h.logSlots); s != whole {
		return s
	}
	if r.kind == start {
		r.process = w & (1<<lapShift - 1)
		return whole
	}
	r.class, r.explained = uint16(w&textMask), w&explained != 0
	return whole
}

// stateOf compares the lap of a word with the expected lap.
func stateOf(word, lap uint64) state {
	switch ahead := (word>>lapShift - lap) & lapMask; {
	case ahead == 0:
		return whole
	case ahead <= lapMask/2:
		return lapped
	}
	return torn
}

func worse(a, b state) state { return max(a, b) }

// widen returns the time nearest to now with these lower 40 bits.
func widen(low, now int64) int64 {
	const half = 1 << (timeBits - 1)
	t := now&^timeMask | low
	switch {
	case t > now+half:
		t -= 1 << timeBits
	case t <= now-half:
		t += 1 << timeBits
	}
	return t
}
