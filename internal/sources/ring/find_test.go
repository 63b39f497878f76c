package ring

import (
	"encoding/binary"
	"errors"
	"io"
	"testing"
)

// A pageMap is the page map of a process: each page has the same bits.
type pageMap uint64

func (p pageMap) ReadAt(data []byte, _ int64) (int, error) {
	binary.LittleEndian.PutUint64(data, uint64(p))
	return len(data), nil
}

func (pageMap) Close() error { return nil }

// counted counts the reads of a memory.
type counted struct {
	io.ReaderAt
	reads int
}

func (c *counted) ReadAt(data []byte, address int64) (int, error) {
	c.reads++
	return c.ReaderAt.ReadAt(data, address)
}

// Wherever a ring begins, the table of texts contains a sample that is read.
func TestTableIsLongerThanTheStride(t *testing.T) {
	if size := maxTexts * textWords * wordSize; size < stride+sample-wordSize {
		t.Errorf("the table has %d bytes", size)
	}
}

// Each page of the table of texts leads to the beginning of the ring, but no other page does.
func TestMarkers(t *testing.T) {
	ring := newFakeRing(2, minLogSlots)
	first, end := ring.address+ring.header.texts*wordSize, ring.address+ring.header.slots*wordSize
	for page := ring.address &^ (pageSize - 1); page+pageSize <= ring.address+ring.header.words*wordSize; page += pageSize {
		s := scanner{memory: ring, pages: pageMap(present)}
		address, err := s.look(page, ring.header.pid)
		switch {
		case page >= first && page+sample <= end && (err != nil || address != ring.address):
			t.Errorf("page %#x of the table: %#x, %v", page, address, err)
		case (page+sample <= first || page >= end) && !errors.Is(err, ErrNone):
			t.Errorf("page %#x beside the table: %#x, %v", page, address, err)
		}
	}
}

// Markers may be anywhere in the memory of a VM. Few of those in a page are followed, and none to an
// address that does not exist.
func TestFalseMarkers(t *testing.T) {
	ring := newFakeRing(1, minLogSlots)
	page := ring.address + (ring.header.texts*wordSize+2*pageSize)&^(pageSize-1)
	word := func(i uint64) *uint64 { return &ring.words[(page-ring.address)/wordSize+i] }
	for i := range uint64(sample / wordSize) {
		*word(i) = 0
	}
	own := (page - ring.address) / wordSize
	for _, test := range []struct {
		name    string
		markers []uint64 // positions, by word of the page
		found   bool
	}{
		{"its own", []uint64{own}, true},
		{"after three others", []uint64{3, 2, 7, own + 3}, true},
		{"the same wrong one again and again", []uint64{2, 3, 4, 5, 6, 7, own + 6}, true},
		{"after four others", []uint64{3, 2, 7, 9, own + 4}, false},
		{"before the beginning of memory", []uint64{1<<markerPosition - 1}, false},
		{"behind the page", []uint64{0, 0, 0}, false},
	} {
		for i := range test.markers {
			*word(uint64(i)) = marker<<markerPosition | test.markers[i]
		}
		memory := &counted{ReaderAt: ring}
		s := scanner{memory: memory, pages: pageMap(present)}
		address, err := s.look(page, ring.header.pid)
		if found := err == nil && address == ring.address; found != test.found || err != nil && !errors.Is(err, ErrNone) {
			t.Errorf("%s: %#x, %v", test.name, address, err)
		}
		if memory.reads > 1+maxMarked {
			t.Errorf("%s: %d reads", test.name, memory.reads)
		}
		for i := range test.markers {
			*word(uint64(i)) = 0
		}
	}
}

// Pages that are not present are not read, because that would allocate memory in the VM. Swapped pages
// are read only if asked for.
func TestPagesThatAreNotThere(t *testing.T) {
	ring := newFakeRing(1, minLogSlots)
	page := ring.address + (ring.header.texts*wordSize+2*pageSize)&^(pageSize-1)
	for _, test := range []struct {
		bits          pageMap
		swapped       bool
		read, skipped bool
	}{
		{present, false, true, false},
		{swapped, false, false, true},
		{swapped, true, true, false},
		{0, true, false, false},
		{1 << 61, true, false, false},
	} {
		memory := &counted{ReaderAt: ring}
		s := scanner{memory: memory, pages: test.bits, area: area{swapped: test.swapped}}
		_, err := s.look(page, ring.header.pid)
		if (memory.reads > 0) != test.read || (err == nil) != test.read || s.skipped != test.skipped {
			t.Errorf("%#x, swapped %v: %d reads, skipped %v, %v", uint64(test.bits), test.swapped, memory.reads, s.skipped, err)
		}
	}
}

// The ring of another process, or of another version, is found and refused.
func TestMarkersOfForeignRings(t *testing.T) {
	ring := newFakeRing(1, minLogSlots)
	page := ring.address + (ring.header.texts*wordSize+2*pageSize)&^(pageSize-1)
	s := scanner{memory: ring, pages: pageMap(present)}
	if _, err := s.look(page, ring.header.pid+1); !errors.Is(err, ErrLayout) {
		t.Errorf("another process: %v", err)
	}
	ring.words[wordVersion] = 9
	if _, err := s.look(page, ring.header.pid); !errors.Is(err, ErrLayout) {
		t.Errorf("another version: %v", err)
	}
	ring.words[1] = 0
	if _, err := s.look(page, ring.header.pid); !errors.Is(err, ErrNone) || errors.Is(err, ErrLayout) {
		t.Errorf("no ring: %v", err)
	}
}
