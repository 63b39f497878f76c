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

	// chunk is how many slots are read at a time.
	chunk = 4096
)

// A reader reads the records of one array. It is used by one goroutine.
type reader struct {
	memory  Memory
	address uint64
	header  header
	offset  int64 // what the VM's clock is ahead of ours

	next  []uint64   // the slot of each ring that is to be read next
	holes [][]uint64 // slots of each ring before next that were not whole
	texts map[uint16]string
	heads []byte
	slots []byte
}

// open reads the header of the ring at an address.
func open(m Memory, address uint64, offset int64) (*reader, error) {
	r := &reader{memory: m, address: address, offset: offset, texts: make(map[uint16]string)}
	data := make([]byte, headerWords*wordSize)
	if err := r.read(data, 0); err != nil {
		return nil, err
	}
	var err error
	if r.header, err = parseHeader(data); err != nil {
		return nil, err
	}
	r.heads = make([]byte, r.header.headsEnd()*wordSize)
	r.slots = make([]byte, chunk*recordSize)
	r.next = make([]uint64, r.header.rings)
	r.holes = make([][]uint64, r.header.rings)
	if err := r.read(r.heads, 0); err != nil {
		return nil, err
	}
	for i := range r.next {
		r.next[i] = r.head(i) + 1
		if r.next[i] < r.header.slotsOfRing() || r.next[i] >= 1<<59 {
			return nil, fmt.Errorf("%w: ring %d is at %d", ErrLayout, i, r.next[i])
		}
	}
	return r, nil
}

// read reads words from a place on.
func (r *reader) read(data []byte, word uint64) error {
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

// records calls each for every record that was written since the last call, ring by
// ring, and returns how many were lost. now is the present, nanoseconds of CLOCK_MONOTONIC.
func (r *reader) records(now int64, each func(*record)) (lost uint64, err error) {
	if err := r.read(r.heads, 0); err != nil {
		return 0, err
	}
	if r.word(0) != magic1 || r.word(1) != magic2 || r.word(wordReady) != 1 {
		return 0, fmt.Errorf("%w: it does not begin as one", ErrBroken)
	}
	for ring := range r.next {
		filled, gone, err := r.fill(ring, now, each)
		lost += gone
		if err != nil {
			return lost, err
		}
		r.holes[ring] = filled
		gone, err = r.advance(ring, now, each)
		lost += gone
		if err != nil {
			return lost, err
		}
	}
	return lost, nil
}

// fill looks again at the slots that were not whole, and returns those that still are not.
func (r *reader) fill(ring int, now int64, each func(*record)) (still []uint64, lost uint64, err error) {
	still = r.holes[ring][:0]
	for _, slot := range r.holes[ring] {
		data := r.slots[:recordSize]
		if err := r.read(data, r.at(ring, slot)); err != nil {
			return r.holes[ring], lost, err
		}
		switch rec, s := decode(data, r.header, ring, slot, now+r.offset, r.offset); s {
		case whole:
			each(&rec)
		case lapped:
			lost++
		default:
			still = append(still, slot)
		}
	}
	return still, lost, nil
}

// advance reads what is new in a ring.
func (r *reader) advance(ring int, now int64, each func(*record)) (lost uint64, err error) {
	end := r.head(ring) + 1
	if end < r.next[ring] || end >= 1<<59 {
		return 0, fmt.Errorf("%w: ring %d went from %d to %d", ErrBroken, ring, r.next[ring], end)
	}
	if n := r.header.slotsOfRing(); end > n+r.next[ring] {
		lost = end - n - r.next[ring]
		r.next[ring] = end - n
	}
	for r.next[ring] < end {
		n := min(chunk, end-r.next[ring], r.header.slotsOfRing()-r.next[ring]%r.header.slotsOfRing())
		data := r.slots[:n*recordSize]
		if err := r.read(data, r.at(ring, r.next[ring])); err != nil {
			return lost, err
		}
		for ; len(data) > 0; data = data[recordSize:] {
			slot := r.next[ring]
			r.next[ring]++
			switch rec, s := decode(data, r.header, ring, slot, now+r.offset, r.offset); s {
			case whole:
				each(&rec)
			case lapped:
				lost++
			default:
				r.holes[ring] = append(r.holes[ring], slot)
			}
		}
	}
	if over := len(r.holes[ring]) - maxHoles; over > 0 {
		r.holes[ring] = r.holes[ring][over:]
		lost += uint64(over)
	}
	return lost, nil
}

// at returns the word where a slot begins.
func (r *reader) at(ring int, slot uint64) uint64 {
	index := uint64(ring)<<r.header.logSlots | slot&(r.header.slotsOfRing()-1)
	return r.header.slots + index*recordWords
}

// pending reports whether the record of a slot may still come: it was not read, or was not
// whole.
func (r *reader) pending(s SpanID) bool {
	ring := s.ring()
	if ring >= len(r.next) {
		return false
	}
	ahead := (s.slot() - r.next[ring]) & slotMask
	if ahead < slotMask/2 {
		return true
	}
	for _, hole := range r.holes[ring] {
		if hole&slotMask == s.slot() {
			return true
		}
	}
	return false
}

// holding reports whether there are slots that were taken and have no whole record.
func (r *reader) holding() bool {
	for _, holes := range r.holes {
		if len(holes) > 0 {
			return true
		}
	}
	return false
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
	if r.read(data, r.header.texts+uint64(number)*textWords) != nil {
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
