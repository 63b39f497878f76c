package ring

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrBroken says that a ring is not what it was: its memory changed as no program that
// records spans changes it.
var ErrBroken = errors.New("the ring is broken")

// A Memory is that of a process, read and written by address.
type Memory interface {
	ReadAt(data []byte, address int64) (int, error)
	WriteAt(data []byte, address int64) (int, error)
}

const (
	// maxHoles bounds the slots of one ring that are looked at again as their records were
	// not whole.
	maxHoles = 1024

	// holePatience is how long a record may take to become whole. A writer that a signal has
	// stopped, or that was killed within a record, takes longer.
	holePatience = int64(10e9)

	// maxGone bounds the parts of one ring that are known to have been lost.
	maxGone = 64

	// chunk is how many slots are read at a time.
	chunk = 4096
)

// A hole is a slot that was taken and has no whole record yet.
type hole struct {
	slot  uint64
	since int64 // it was not taken before
}

// A fate says what became of the record of a slot.
type fate uint8

const (
	before fate = iota // it was there before the reader was
	seen               // it was read
	toCome             // it was not read yet, or was not whole
	gone               // it was lost
)

// A reader reads the records of one array. It is used by one goroutine.
type reader struct {
	memory  Memory
	address uint64
	header  header
	offset  int64 // what the VM's clock is ahead of ours

	parts  []part // one for each ring
	read   int64  // the heads that are in force were read after this time, by our clock
	texts  map[uint16]string
	heads  []byte
	buffer []byte // of slots
}

// A part is what a reader knows of one ring of an array.
type part struct {
	first uint64 // slot that was the first to be read
	next  uint64 // slot that is to be read next
	holes []hole // before next
	gone  []slotRange
}

// A slotRange are slots from one to another, which is not among them.
type slotRange struct{ from, to uint64 }

// open reads the header of the ring at an address. now is the present by our clock.
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
	r.buffer = make([]byte, chunk*recordSize)
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

// readWords reads words from a place on.
func (r *reader) readWords(data []byte, word uint64) error {
	n, err := r.memory.ReadAt(data, int64(r.address+word*wordSize))
	if n < len(data) {
		return fmt.Errorf("read a ring at %#x: %w", r.address+word*wordSize, err)
	}
	return nil
}

// head returns the slot of a ring that was taken last, when the heads were read.
func (r *reader) head(ring int) uint64 {
	return binary.LittleEndian.Uint64(r.heads[(wordHeads+ring*headStride)*wordSize:])
}

func (r *reader) word(i int) uint64 { return binary.LittleEndian.Uint64(r.heads[i*wordSize:]) }

// records calls each for records that were written since the last call, ring by ring, at
// most so many, and returns how many were lost: those beyond most are. now is the present,
// nanoseconds of CLOCK_MONOTONIC.
func (r *reader) records(now int64, most uint64, each func(*record)) (lost uint64, err error) {
	if err := r.readWords(r.heads, 0); err != nil {
		return 0, err
	}
	if r.word(0) != magic1 || r.word(1) != magic2 || r.word(wordReady) != 1 {
		return 0, fmt.Errorf("%w: it does not begin as one", ErrBroken)
	}
	since := r.read
	r.read = now
	for ring := range r.parts {
		n, err := r.fill(ring, now, each)
		lost += n
		if err != nil {
			return lost, err
		}
		n, err = r.advance(ring, now, since, &most, each)
		lost += n
		if err != nil {
			return lost, err
		}
	}
	return lost, nil
}

// fill looks again at the slots that were not whole.
func (r *reader) fill(ring int, now int64, each func(*record)) (lost uint64, err error) {
	p := &r.parts[ring]
	holes := p.holes
	p.holes = p.holes[:0]
	for i, h := range holes {
		data := r.buffer[:recordSize]
		if err := r.readWords(data, r.at(ring, h.slot)); err != nil {
			p.holes = append(p.holes, holes[i:]...)
			return lost, err
		}
		switch rec, s := decode(data, r.header, ring, h.slot, now+r.offset, r.offset); {
		case s == whole:
			each(&rec)
		case s == lapped, now-h.since > holePatience:
			lost++
			p.lose(h.slot, h.slot+1)
		default:
			p.holes = append(p.holes, h)
		}
	}
	return lost, nil
}

// advance reads what is new in a ring.
func (r *reader) advance(ring int, now, since int64, most *uint64, each func(*record)) (lost uint64, err error) {
	p := &r.parts[ring]
	end := r.head(ring) + 1
	if end < p.next || end >= 1<<59 {
		return 0, fmt.Errorf("%w: ring %d went from %d to %d", ErrBroken, ring, p.next, end)
	}
	if n := min(r.header.slotsOfRing(), *most); end > n+p.next {
		lost += end - n - p.next
		p.lose(p.next, end-n)
		p.next = end - n
	}
	*most -= end - p.next
	for p.next < end {
		n := min(chunk, end-p.next, r.header.slotsOfRing()-p.next%r.header.slotsOfRing())
		data := r.buffer[:n*recordSize]
		if err := r.readWords(data, r.at(ring, p.next)); err != nil {
			return lost, err
		}
		for ; len(data) > 0; data = data[recordSize:] {
			slot := p.next
			p.next++
			switch rec, s := decode(data, r.header, ring, slot, now+r.offset, r.offset); s {
			case whole:
				each(&rec)
			case lapped:
				lost++
				p.lose(slot, slot+1)
			default:
				p.holes = append(p.holes, hole{slot, since})
			}
		}
	}
	for len(p.holes) > maxHoles {
		lost++
		p.lose(p.holes[0].slot, p.holes[0].slot+1)
		p.holes = p.holes[1:]
	}
	return lost, nil
}

// lose notes that slots were lost. Of those before the ones that it has room for, all count
// as lost.
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

// at returns the word where a slot begins.
func (r *reader) at(ring int, slot uint64) uint64 {
	index := uint64(ring)<<r.header.logSlots | slot&(r.header.slotsOfRing()-1)
	return r.header.slots + index*recordWords
}

// fate returns what became of the record of a span's start.
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
	for _, h := range p.holes {
		if h.slot == slot {
			return toCome
		}
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

// horizon returns a time up to which all ends were read, but those that were lost: an end
// takes its slot before it reads the clock.
func (r *reader) horizon() int64 {
	at := r.read
	for i := range r.parts {
		for _, h := range r.parts[i].holes {
			at = min(at, h.since)
		}
	}
	return at
}

// text returns a text of the ring's table, and whether it is there.
func (r *reader) text(number uint16) (string, bool) {
	if t, ok := r.texts[number]; ok {
		return t, true
	}
	if number == 0 || int(number) >= maxTexts-1 {
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
	for i := 1; i < textWords; i++ {
		var word [8]byte
		binary.BigEndian.PutUint64(word[:], binary.LittleEndian.Uint64(data[i*wordSize:]))
		t = append(t, word[1:]...)
	}
	text := string(t[:w&0xff])
	r.texts[number] = text
	return text, true
}
