package ring

import "encoding/binary"

// A SpanID identifies a span within its VM: the class of its root, and the ring and the
// slot that its start took.
type SpanID uint64

// Class returns the class of the span's root, from 0 to 15.
func (s SpanID) Class() uint { return uint(s >> classShift & 0xf) }

func (s SpanID) ring() int    { return int(s >> ringShift & 0xff) }
func (s SpanID) slot() uint64 { return uint64(s) & slotMask }

// A kind says what a record records.
type kind uint8

const (
	start   kind = 1
	success kind = 2
	failure kind = 3
)

// A record is what happened to a span.
type record struct {
	kind    kind
	text    uint16 // of the name, or of the class of a failure; 0 is none
	time    int64  // nanoseconds of CLOCK_MONOTONIC, as we have it
	span    SpanID
	parent  SpanID // of a start; 0 where it has none
	process uint64 // of a start: number and serial of the pid
	name    uint16 // of an end: the text of the span's name
}

// A state says what a slot holds.
type state uint8

const (
	whole  state = iota
	torn         // its record is being written, or never will be
	lapped       // a later record has taken its place
)

// decode reads the record that slot number slot of a ring is to have. now is the present
// by the VM's clock, offset what that is ahead of ours.
func decode(data []byte, h header, ring int, slot uint64, now, offset int64) (record, state) {
	w0 := binary.LittleEndian.Uint64(data)
	w1 := binary.LittleEndian.Uint64(data[wordSize:])
	lap := slot >> h.logSlots
	if s := worse(stateOf(w0, lap), stateOf(w1, lap)); s != whole {
		return record{}, s
	}
	r := record{
		kind: kind(w1 >> kindShift & kindMask),
		text: uint16(w0 >> textShift & textMask),
		time: widen(int64(w0&timeMask), now) - offset,
		span: SpanID(w1 & spanMask),
	}
	if r.kind == 0 {
		return record{}, lapped // no program writes that
	}
	if r.kind == success {
		r.name = r.text
		return r, whole
	}
	w2 := binary.LittleEndian.Uint64(data[2*wordSize:])
	if s := stateOf(w2, lap); s != whole {
		return record{}, s
	}
	if r.kind == failure {
		r.name = uint16(w2 & textMask)
		return r, whole
	}
	if r.span.ring() != noRing {
		r.parent = r.span
	}
	r.span = SpanID(uint64(r.span)&^(1<<classShift-1) | uint64(ring)<<ringShift | slot&slotMask)
	r.process = w2 & (1<<lapShift - 1)
	return r, whole
}

// stateOf compares the lap of a word with the one it is to have.
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

// widen returns the time nearest to now that has these lower 40 bits.
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
