package ring

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// ErrBroken means that a ring is damaged: its memory changed in a way that no program that records
// spans causes.
var ErrBroken = errors.New("the ring is broken")

// A Memory is the memory of a process, read and written by address.
type Memory interface {
	ReadAt(data []byte, address int64) (int, error)
	WriteAt(data []byte, address int64) (int, error)
}

const (
	// maxHoles limits the incomplete slots of a ring that are read again, and maxAllHoles those of
	// all rings of a VM.
	maxHoles    = 1024
	maxAllHoles = 4 * maxHoles

	// maxTorn is the maximum number of incomplete records in a ring at a time. Programs leave one
	// for each scheduler, and one for each process that is killed within a record.
	maxTorn = 8 * maxHoles

	// holePatience is the time that a record has to become complete. It takes longer if a signal
	// has stopped the writer, or if the writer was killed within the record.
	holePatience = int64(10e9)

	// maxGone limits the ranges of a ring's slots that are known to be lost.
	maxGone = 64

	// chunk is the number of slots that are read at a time.
	chunk = 4096

	// readCost is the overhead of a read, in slots of 15 ns: about 0.5 µs.
	readCost = 32
)

// A hole is a slot that was taken and does not contain a complete record yet.
type hole struct {
	slot  uint64
	since int64 // the slot was taken after this time
}

// A fate describes what happened to the record of a slot.
type fate uint8

const (
	before fate = iota // it was written before the reader opened the ring
	seen               // it was read
	toCome             // it was not read yet, or was incomplete
	gone               // it was lost
)

// A reader reads the records of an array of rings. It is used by one goroutine.
type reader struct {
	memory  Memory
	address uint64
	header  header
	offset  int64 // how far the VM's clock is ahead of ours

	parts  []part // one for each ring
	read   int64  // the heads were read after this time, by our clock
	filled bool   // the last call of records lost some that were overwritten, or were beyond the limit
	spent  uint64 // slots that the last call of records read, plus readCost for each read
	holes  int    // number in all parts
	texts  map[uint16]string
	heads  []byte // the words up to the end of the heads

	controls []byte // the words of the heads, including the control words, as last read
	buffer   []byte // slots
	extras   []byte // the extensions of these slots, if hasExtras

	record    record // the last decoded record
	inBuffer  slotRange
	hasExtras bool
}

// A part is the state of a reader for one ring of an array.
type part struct {
	first uint64 // first slot to read
	next  uint64 // next slot to read
	holes []hole // holes before next, sorted by slot
	gone  []slotRange
}

// A slotRange is the range of slots [from, to).
type slotRange struct{ from, to uint64 }

// open reads the header of the ring at an address. now is the present time of our clock.
func open(m Memory, address uint64, offset, now int64) (*reader, error) {
	r := &reader{memory: m, address: address, offset: offset, read: now, texts: make(map[uint16]string)}
	data := make([]byte, headerWords*wordSize)
	if err := r.readWords(data, 0); err != nil {
		return nil, err
	}
	var err error
	if r.header, err = parseHeader(data); err != nil {
		return nil, err
	}
	r.heads = make([]byte, r.header.headsEnd()*wordSize)
	r.controls = make([]byte, (r.header.headsEnd()-wordHeads)*wordSize)
	r.buffer = make([]byte, chunk*recordSize)
	r.extras = make([]byte, chunk*wordSize)
	if err := r.readWords(r.heads, 0); err != nil {
		return nil, err
	}
	for i := range r.header.rings {
		next := r.head(i) + 1
		if next < r.header.slotsOfRing() || next >= 1<<59 {
			return nil, fmt.Errorf("%w: ring %d is at %d", ErrLayout, i, next)
		}
		r.parts = append(r.parts, part{first: next, next: next})
	}
	return r, nil
}

// rewind makes the reader read all records from the first one on.
func (r *reader) rewind() {
	for i := range r.parts {
		r.parts[i].first, r.parts[i].next = r.header.slotsOfRing(), r.header.slotsOfRing()
	}
	r.read = r.born()
}

// born returns the time when the ring was made, by our clock.
func (r *reader) born() int64 { return r.header.birth - r.offset }

// readWords reads words into data, beginning with the one at index word.
func (r *reader) readWords(data []byte, word uint64) error {
	n, err := r.memory.ReadAt(data, int64(r.address+word*wordSize))
	if n < len(data) {
		return fmt.Errorf("read a ring at %#x: %w", r.address+word*wordSize, err)
	}
	return nil
}

// head returns the last slot of a ring that had been taken when the heads were read.
func (r *reader) head(ring int) uint64 {
	return binary.LittleEndian.Uint64(r.heads[wordHead(ring)*wordSize:])
}

func (r *reader) word(i int) uint64 { return binary.LittleEndian.Uint64(r.heads[i*wordSize:]) }

// records calls each for records written since the last call, ring by ring, and returns the number
// of lost records. quickly may remove records from the front of a batch instead. It may remove none. It spends at most a number of slots, including readCost, and loses the records
// beyond that. At most half of them are spent on holes. now is the present time, nanoseconds of
// CLOCK_MONOTONIC.
func (r *reader) records(now int64, most uint64, quickly func(*batch), each func(*record)) (lost uint64, err error) {
	r.spent = 0
	if err := r.readWords(r.heads, 0); err != nil {
		return 0, err
	}
	if r.word(0) != magic1 || r.word(1) != magic2 || r.word(wordReady) != 1 {
		return 0, fmt.Errorf("%w: it does not begin as one", ErrBroken)
	}
	since := r.read
	r.read, r.filled = now, false
	for ring := range r.parts {
		n, err := r.fill(ring, now, most/2, each)
		lost += n
		if err != nil {
			return lost, err
		}
	}
	for ring := range r.parts {
		n, err := r.advance(ring, now, since, most, quickly, each)
		lost += n
		r.filled = r.filled || n > 0
		if err != nil {
			return lost, err
		}
	}
	return lost, nil
}

// fill reads the holes of a ring again, while it has spent less than most. It reads neighbouring
// slots together.
func (r *reader) fill(ring int, now int64, most uint64, each func(*record)) (lost uint64, err error) {
	p := &r.parts[ring]
	holes, rest := p.holes, p.holes[:0]
	defer func() {
		p.holes = append(rest, holes...)
		r.holes += len(p.holes)
	}()
	r.holes -= len(holes)
	for len(holes) > 0 {
		n, slots := r.neighbours(holes)
		if r.spent+readCost+slots > most {
			break
		}
		first := holes[0].slot
		if err := r.readSlots(ring, first, slots); err != nil {
			return lost, err
		}
		for range n {
			h := holes[0]
			s, err := r.decode(ring, h.slot, h.slot-first, now)
			if err != nil {
				return lost, err
			}
			holes = holes[1:]
			switch {
			case s == whole:
				each(&r.record)
			case s == lapped, now-h.since > holePatience:
				lost++
				p.lose(h.slot, h.slot+1)
			default:
				rest = append(rest, h)
			}
		}
	}
	for len(holes) > 0 && now-holes[0].since > holePatience { // the oldest come first
		lost++
		p.lose(holes[0].slot, holes[0].slot+1)
		holes = holes[1:]
	}
	return lost, nil
}

// neighbours returns how many of the first holes to read together, and the number of slots that
// they span.
func (r *reader) neighbours(holes []hole) (n int, slots uint64) {
	first := holes[0].slot
	most := min(chunk, r.header.slotsOfRing()-first%r.header.slotsOfRing())
	slots = 1
	for n = 1; n < len(holes); n++ {
		to := holes[n].slot + 1 - first
		if to > most || to > slots+readCost {
			break
		}
		slots = to
	}
	return n, slots
}

// hold adds a hole. If there is no room, it returns the number of slots that are lost instead.
func (r *reader) hold(p *part, h hole) (lost uint64) {
	if len(p.holes) == maxHoles || r.holes == maxAllHoles {
		if len(p.holes) == 0 {
			p.lose(h.slot, h.slot+1)
			return 1
		}
		p.lose(p.holes[0].slot, p.holes[0].slot+1)
		p.holes = p.holes[1:]
		r.holes--
		lost = 1
	}
	p.holes = append(p.holes, h)
	r.holes++
	return lost
}

// advance reads new slots of a ring, while it has spent less than most.
func (r *reader) advance(ring int, now, since int64, most uint64, quickly func(*batch), each func(*record)) (lost uint64, err error) {
	p := &r.parts[ring]
	end := r.head(ring) + 1
	if end < p.next || end >= 1<<59 {
		return 0, fmt.Errorf("%w: ring %d went from %d to %d", ErrBroken, ring, p.next, end)
	}
	room := most - min(most, r.spent+readCost)
	if n := min(r.header.slotsOfRing(), room); end > n+p.next {
		lost += end - n - p.next
		p.lose(p.next, end-n)
		p.next = end - n
	}
	unfinished := len(p.holes)
	for p.next < end {
		n := min(chunk, end-p.next, r.header.slotsOfRing()-p.next%r.header.slotsOfRing())
		if err := r.readSlots(ring, p.next, n); err != nil {
			return lost, err
		}
		b := batch{r.buffer[:n*recordSize], ring, p.next, p.next >> r.header.logSlots & lapMask, now + r.offset, r.offset}
		for first := p.next; p.next < first+n; b.skip(1) {
			quickly(&b)
			if p.next = b.slot; p.next == first+n {
				break
			}
			slot := p.next
			s, err := r.decode(ring, slot, slot-first, now)
			if err != nil {
				return lost, err
			}
			p.next++
			switch s {
			case whole:
				each(&r.record)
			case lapped:
				lost++
				p.lose(slot, slot+1)
			case torn:
				if unfinished == maxTorn {
					return lost, fmt.Errorf("%w: more than %d records of ring %d are not whole", ErrBroken, maxTorn, ring)
				}
				unfinished++
				lost += r.hold(p, hole{slot, since})
			}
		}
	}
	return lost, nil
}

// lose records that slots were lost. If there are more than maxGone ranges, the oldest range is
// dropped, and all slots before the end of the next one count as lost.
func (p *part) lose(from, to uint64) {
	if n := len(p.gone); n > 0 && p.gone[n-1].to == from {
		p.gone[n-1].to = to
		return
	}
	p.gone = append(p.gone, slotRange{from, to})
	if len(p.gone) > maxGone {
		p.gone = p.gone[1:]
		p.gone[0].from = p.first
	}
}

// readSlots reads n consecutive slots of a ring into the buffer.
func (r *reader) readSlots(ring int, slot, n uint64) error {
	r.spent += readCost + n
	r.inBuffer = slotRange{slot, slot + n}
	r.hasExtras = false
	return r.readWords(r.buffer[:n*recordSize], r.header.slots+r.index(ring, slot)*recordWords)
}

// decode decodes slot i of the buffer, which is slot number slot of a ring, into r.record. Records
// with an extension are rare, so the extensions are read only when the first such record is found.
// A complete record already has its extension.
func (r *reader) decode(ring int, slot, i uint64, now int64) (state, error) {
	isExtended, s := r.record.decode(r.buffer[i*recordSize:], &r.header, ring, slot, now+r.offset, r.offset)
	if s != whole || !isExtended {
		return s, nil
	}
	if !r.hasExtras {
		b := r.inBuffer
		r.spent += readCost
		if err := r.readWords(r.extras[:(b.to-b.from)*wordSize], r.header.extensions+r.index(ring, b.from)); err != nil {
			return torn, err
		}
		r.hasExtras = true
	}
	return r.record.extend(r.extras[i*wordSize:], &r.header, slot), nil
}

// index returns the index of a slot among the slots of all rings.
func (r *reader) index(ring int, slot uint64) uint64 {
	return uint64(ring)<<r.header.logSlots | slot&(r.header.slotsOfRing()-1)
}

// fate returns the fate of the record of a span's start.
func (r *reader) fate(s SpanID) fate {
	ring := s.ring()
	if ring >= len(r.parts) {
		return before
	}
	p := &r.parts[ring]
	if ahead := (s.slot() - p.next) & slotMask; ahead < slotMask/2 {
		return toCome
	}
	slot := p.next - (p.next-s.slot())&slotMask
	if _, found := slices.BinarySearchFunc(p.holes, slot, func(h hole, slot uint64) int { return cmp.Compare(h.slot, slot) }); found {
		return toCome
	}
	for _, g := range p.gone {
		if g.from <= slot && slot < g.to {
			return gone
		}
	}
	if slot < p.first {
		return before
	}
	return seen
}

// horizon returns a time up to which all ends were read, except lost ones: an end takes its slot
// before it reads the clock.
func (r *reader) horizon() int64 {
	at := r.read
	for i := range r.parts {
		for _, h := range r.parts[i].holes {
			at = min(at, h.since)
		}
	}
	return at
}

// text returns a text of the ring's table, and whether it exists.
func (r *reader) text(number uint16) (string, bool) {
	if t, ok := r.texts[number]; ok {
		return t, true
	}
	if number == 0 || number >= noRoom {
		return "", false
	}
	data := make([]byte, textWords*wordSize)
	if r.readWords(data, r.header.texts+uint64(number)*textWords) != nil {
		return "", false
	}
	w := binary.LittleEndian.Uint64(data)
	if w&textReady == 0 || w >= 2*textReady {
		return "", false
	}
	t := make([]byte, 0, 7*textWords)
	for i := 1; i < wordMarker; i++ {
		var word [8]byte
		binary.BigEndian.PutUint64(word[:], binary.LittleEndian.Uint64(data[i*wordSize:]))
		t = append(t, word[1:]...)
	}
	text := string(t[:w&0xff])
	r.texts[number] = text
	return text, true
}
