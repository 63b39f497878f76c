package ring

import (
	"bytes"
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

const (
	pageSize  = 4096
	scanBytes = 256 << 10

	present = 1 << 63 // bit of an entry in the page map
	swapped = 1 << 62
)

// ErrTooLarge means that a process has more memory than is searched.
var ErrTooLarge = errors.New("the memory of this VM is too large to be searched for its ring of spans")

const (
	// alignment is the alignment of large blocks in the VM with default allocator settings.
	alignment = 256 << 10

	// maxPlaces and maxScan limit how much of a process's memory is searched.
	maxPlaces = 1 << 22
	maxScan   = 4 << 30

	// maxFresh is the maximum size in bytes of new memory that is searched completely.
	maxFresh = 64 << 20
)

// A scanner looks for rings in the memory of a process.
type scanner struct {
	process usdt.Process
	memory  io.ReaderAt
	pages   usdt.ReadableMemory
	buffer  []byte
	entries []byte

	resident bool // skip pages that are swapped out
}

func newScanner(p usdt.Process, memory io.ReaderAt) (*scanner, error) {
	pages, err := p.Pages()
	if err != nil {
		return nil, err
	}
	return &scanner{process: p, memory: memory, pages: pages, buffer: make([]byte, scanBytes), entries: make([]byte, scanBytes/pageSize*8)}, nil
}

func (s *scanner) close() error { return s.pages.Close() }

// find returns the address of the ring whose header contains this PID, which is the one in the
// process's own PID namespace. It searches memory that is not known: all of it if that is not much,
// otherwise the places where the VM puts large blocks. If thorough is true, it searches all memory.
// It returns the memory that is known then. The error wraps [ErrNone] if there is no ring.
func (s *scanner) find(ctx context.Context, pid int, known []usdt.Range, thorough bool) (address uint64, looked []usdt.Range, err error) {
	all, err := s.process.Anonymous()
	if err != nil {
		return 0, nil, err
	}
	ranges, look := all, s.scan
	if !thorough {
		if ranges = without(all, known); sizeOf(ranges) > maxFresh {
			look = s.glance
		}
	}
	address, err = s.findIn(ctx, pid, ranges, look, thorough)
	return address, all, err
}

// without returns the parts of ranges that are not known. Both are sorted by address.
func without(all, known []usdt.Range) []usdt.Range {
	var fresh []usdt.Range
	for _, m := range all {
		for len(known) > 0 && known[0].End <= m.Start {
			known = known[1:]
		}
		for _, k := range known {
			if k.Start >= m.End {
				break
			}
			if m.Start < k.Start {
				fresh = append(fresh, usdt.Range{Start: m.Start, End: k.Start})
			}
			m.Start = min(k.End, m.End)
		}
		if m.Start < m.End {
			fresh = append(fresh, m)
		}
	}
	return fresh
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

// findIn searches ranges for the ring.
func (s *scanner) findIn(ctx context.Context, pid int, ranges []usdt.Range, look func(context.Context, usdt.Range, int) (uint64, error), thorough bool) (uint64, error) {
	odd := ErrNone
	var places, bytes uint64
	for _, m := range ranges {
		bytes += m.End - m.Start
		places += (m.End-m.Start)/alignment + 1
		if thorough && bytes > maxScan || places > maxPlaces {
			return 0, fmt.Errorf("%w: %w", ErrNone, ErrTooLarge)
		}
		address, err := look(ctx, m, pid)
		switch {
		case err == nil:
			return address, nil
		case errors.Is(err, ErrLayout):
			odd = fmt.Errorf("%w: %w", ErrNone, err)
		case !errors.Is(err, ErrNone):
			return 0, err
		}
	}
	return 0, odd
}

// glance searches for a ring at the beginning of a range, and at each address where a large block
// may begin.
func (s *scanner) glance(ctx context.Context, m usdt.Range, pid int) (uint64, error) {
	odd := ErrNone
	for at := m.Start; at < m.End; at = (at/alignment + 1) * alignment {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		runs, err := s.present(at, min(at+pageSize, m.End))
		if err != nil {
			return 0, err
		}
		for _, run := range runs {
			address, err := s.search(run, pid)
			if err == nil {
				return address, nil
			}
			if !errors.Is(err, ErrNone) {
				odd = err
			}
		}
	}
	return 0, odd
}

// scan searches a range for a ring. The error wraps ErrNone, or ErrLayout if it found something
// similar to a ring.
func (s *scanner) scan(ctx context.Context, m usdt.Range, pid int) (uint64, error) {
	var odd error
	for at := m.Start; at < m.End; at += scanBytes {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		end := min(at+scanBytes, m.End)
		runs, err := s.present(at, end)
		if err != nil {
			return 0, err
		}
		for _, run := range runs {
			address, err := s.search(run, pid)
			if err == nil {
				return address, nil
			}
			if !errors.Is(err, ErrNone) {
				odd = err
			}
		}
	}
	if odd != nil {
		return 0, odd
	}
	return 0, ErrNone
}

// present returns the parts of a range whose pages are present.
func (s *scanner) present(start, end uint64) ([]usdt.Range, error) {
	entries := s.entries[:(end-start)/pageSize*8]
	n, err := s.pages.ReadAt(entries, int64(start/pageSize*8))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("look for a ring: %w", err)
	}
	wanted := uint64(present | swapped)
	if s.resident {
		wanted = present
	}
	var runs []usdt.Range
	for i := 0; i+8 <= n; i += 8 {
		if binary.LittleEndian.Uint64(entries[i:])&wanted == 0 {
			continue
		}
		page := start + uint64(i)/8*pageSize
		if len(runs) > 0 && runs[len(runs)-1].End == page {
			runs[len(runs)-1].End += pageSize
		} else {
			runs = append(runs, usdt.Range{Start: page, End: page + pageSize})
		}
	}
	return runs, nil
}

// search searches present pages for the beginning of a ring.
func (s *scanner) search(run usdt.Range, pid int) (uint64, error) {
	data := s.buffer[:run.End-run.Start]
	n, err := s.memory.ReadAt(data, int64(run.Start))
	if err != nil && n == 0 {
		return 0, ErrNone // the memory was unmapped
	}
	data = data[:n]
	var magic [wordSize]byte
	binary.LittleEndian.PutUint64(magic[:], magic1)
	found := ErrNone
	for at := 0; ; at += wordSize {
		i := bytes.Index(data[at:], magic[:])
		if i < 0 {
			return 0, found
		}
		at += i
		if at%wordSize != 0 {
			at -= at % wordSize
			continue
		}
		header := make([]byte, headerWords*wordSize)
		if n, _ := s.memory.ReadAt(header, int64(run.Start)+int64(at)); n < len(header) || !isMagic(magic1, binary.LittleEndian.Uint64(header[wordSize:])) {
			continue
		}
		h, err := parseHeader(header)
		switch {
		case err != nil:
			found = err
		case h.pid != pid:
			found = fmt.Errorf("%w: it is that of process %d, which this one was made of", ErrLayout, h.pid)
		default:
			return run.Start + uint64(at), nil
		}
	}
}
