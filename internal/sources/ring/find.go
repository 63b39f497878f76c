package ring

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/beamscope/beamscope/usdt"
)

// ErrNone means that no ring was found in the memory of a VM: no span has started in it
// yet, or it does not run the Erlang application that makes one.
var ErrNone = errors.New("no ring of spans")

// ErrTooLarge means that a process has more memory than is searched.
var ErrTooLarge = errors.New("the memory of this VM is too large to be searched for its ring of spans")

const (
	pageSize = 4096

	present = 1 << 63 // bit of an entry in the page map
	swapped = 1 << 62

	// stride is the distance of the pages that are searched, and sample the number of bytes that are read
	// of each. The table of texts is so long that it contains one of these samples as a whole, wherever
	// the ring is. A sample of the table has a marker.
	stride = 1 << 20
	sample = textWords * wordSize

	// maxScan limits the memory of a process that is searched, in bytes. Reading a sample in each stride
	// takes some seconds then.
	maxScan = 1 << 40

	// maxMarked limits the rings that the markers in a sample may belong to.
	maxMarked = 4
)

// An area is the part of a process's memory to search.
type area struct {
	swapped bool   // pages that are swapped out, too
	most    uint64 // more memory than this, in bytes, is not searched

	// pace, if not nil, is called again and again. It may wait, and ends the search with an error.
	pace func(context.Context) error
}

// paced is the number of samples between two calls of pace.
const paced = 32

// A scanner looks for rings in the memory of a process.
type scanner struct {
	process usdt.Process
	memory  io.ReaderAt
	pages   usdt.ReadableMemory
	sample  [sample]byte

	area
	skipped bool // a page was not searched because it is swapped out
}

func newScanner(p usdt.Process, memory io.ReaderAt, in area) (*scanner, error) {
	pages, err := p.Pages()
	if err != nil {
		return nil, err
	}
	return &scanner{process: p, memory: memory, pages: pages, area: in}, nil
}

func (s *scanner) close() error { return s.pages.Close() }

// find returns the address of the ring whose header contains this PID, which is the one in the
// process's own PID namespace, and the memory that it searched. It reads a sample in each stride: the
// markers in the table of texts lead to the header. The error wraps [ErrNone] if there is no ring.
func (s *scanner) find(ctx context.Context, pid int) (address uint64, all []usdt.Range, err error) {
	if all, err = s.process.Anonymous(); err != nil {
		return 0, nil, err
	}
	if sizeOf(all) > s.most {
		return 0, nil, fmt.Errorf("%w: %w", ErrNone, ErrTooLarge)
	}
	odd := ErrNone
	looks := 0
	for _, m := range all {
		for at := (m.Start + stride - 1) &^ (stride - 1); at+sample <= m.End; at += stride {
			if ctx.Err() != nil {
				return 0, nil, context.Cause(ctx)
			}
			if looks++; looks%paced == 0 && s.pace != nil {
				if err := s.pace(ctx); err != nil {
					return 0, nil, err
				}
			}
			address, err := s.look(at, pid)
			switch {
			case err == nil:
				return address, all, nil
			case errors.Is(err, ErrLayout):
				odd = fmt.Errorf("%w: %w", ErrNone, err)
			case !errors.Is(err, ErrNone):
				return 0, nil, err
			}
		}
	}
	return 0, all, odd
}

// sizeOf returns the total size of ranges in bytes.
func sizeOf(ranges []usdt.Range) (size uint64) {
	for _, m := range ranges {
		size += m.End - m.Start
	}
	return size
}

// contain reports whether ranges, sorted by address, cover size bytes from an address on without a
// gap.
func contain(ranges []usdt.Range, address, size uint64) bool {
	for _, m := range ranges {
		if m.Start <= address && address < m.End {
			if size <= m.End-address {
				return true
			}
			size -= m.End - address
			address = m.End
		}
	}
	return false
}

// look returns the address of the ring that the markers at the beginning of a page belong to. The error wraps ErrNone, or
// ErrLayout if there is something similar to a ring.
func (s *scanner) look(page uint64, pid int) (uint64, error) {
	switch there, err := s.isThere(page); {
	case err != nil:
		return 0, err
	case !there:
		return 0, ErrNone
	}
	if n, _ := s.memory.ReadAt(s.sample[:], int64(page)); n < len(s.sample) {
		return 0, ErrNone // the memory was unmapped
	}
	found, rings, last := ErrNone, 0, uint64(0)
	for at := uint64(0); at < sample && rings < maxMarked; at += wordSize {
		word := binary.LittleEndian.Uint64(s.sample[at:])
		if word>>markerPosition != marker {
			continue
		}
		address := page + at - word&(1<<markerPosition-1)*wordSize
		if address == last || address > page { // a position beyond the beginning of memory
			continue
		}
		last = address
		rings++
		err := s.check(address, pid)
		if err == nil {
			return address, nil
		}
		if errors.Is(err, ErrLayout) {
			found = err
		}
	}
	return 0, found
}

// isThere reports whether a page can be read without changing the memory of the process.
func (s *scanner) isThere(page uint64) (bool, error) {
	var entry [8]byte
	n, err := s.pages.ReadAt(entry[:], int64(page/pageSize*8))
	if err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("look for a ring: %w", err)
	}
	bits := binary.LittleEndian.Uint64(entry[:])
	switch {
	case n < len(entry):
		return false, nil
	case bits&present != 0:
		return true, nil
	case bits&swapped == 0:
		return false, nil
	}
	s.skipped = s.skipped || !s.swapped
	return s.swapped, nil
}

// check returns nil if the ring of a process begins at an address. The error wraps ErrNone or ErrLayout.
func (s *scanner) check(address uint64, pid int) error {
	var header [headerWords * wordSize]byte
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(header[i*wordSize:]) }
	if n, _ := s.memory.ReadAt(header[:], int64(address)); n < len(header) || !isMagic(word(0), word(1)) {
		return ErrNone
	}
	h, err := parseHeader(header[:])
	if err == nil && h.pid != pid {
		err = fmt.Errorf("%w: it is that of process %d, which this one was made of", ErrLayout, h.pid)
	}
	return err
}
