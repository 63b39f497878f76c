package ring

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/beamscope/beamscope/usdt"
)

// ErrNone says that no ring was found in the memory of a VM: no span has started in it
// yet, or it does not run the Erlang application that makes one.
var ErrNone = errors.New("no ring of spans")

const (
	pageSize  = 4096
	scanBytes = 256 << 10

	present = 1 << 63 // of an entry of the page map
	swapped = 1 << 62
)

// ErrTooLarge says that a process has more memory than is searched.
var ErrTooLarge = errors.New("the memory of this VM is too large to be searched for its ring of spans")

const (
	// alignment is that of the memory that the VM takes for large blocks, as it has them where
	// its allocators are not told otherwise.
	alignment = 256 << 10

	// maxPlaces and maxScan bound what is looked at of a process's memory.
	maxPlaces = 1 << 22
	maxScan   = 4 << 30
)

// A scanner looks for rings in the memory of a process.
type scanner struct {
	process usdt.Process
	memory  io.ReaderAt
	pages   *os.File
	buffer  []byte
	entries []byte
}

func newScanner(p usdt.Process, memory io.ReaderAt) (*scanner, error) {
	pages, err := p.Pages()
	if err != nil {
		return nil, err
	}
	return &scanner{process: p, memory: memory, pages: pages, buffer: make([]byte, scanBytes), entries: make([]byte, scanBytes/pageSize*8)}, nil
}

func (s *scanner) close() error { return s.pages.Close() }

// find returns the address of the ring whose header says that it is of a process with
// this PID, its own one in its PID namespace. It looks where the VM puts large blocks in
// memory that is not known, and where it is to be thorough everywhere. It returns what is
// known then. The error wraps [ErrNone] where there is no ring.
func (s *scanner) find(ctx context.Context, pid int, known []usdt.Range, thorough bool) (address uint64, looked []usdt.Range, err error) {
	all, err := s.process.Anonymous()
	if err != nil {
		return 0, nil, err
	}
	if thorough {
		address, err = s.findIn(ctx, pid, all, s.scan, thorough)
	} else {
		address, err = s.findIn(ctx, pid, without(all, known), s.glance, thorough)
	}
	return address, all, err
}

// without returns the ranges that are not known. A range that has grown is new.
func without(all, known []usdt.Range) []usdt.Range {
	was := make(map[usdt.Range]bool, len(known))
	for _, m := range known {
		was[m] = true
	}
	return slices.DeleteFunc(slices.Clone(all), func(m usdt.Range) bool { return was[m] })
}

// findIn looks for the ring in some ranges.
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

// glance looks for a ring at the beginning of a range, and where large blocks begin in it.
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

// scan looks for a ring in a range. The error wraps ErrNone, or ErrLayout where there is
// something like a ring.
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

// present returns the parts of a range whose pages are there.
func (s *scanner) present(start, end uint64) ([]usdt.Range, error) {
	entries := s.entries[:(end-start)/pageSize*8]
	n, err := s.pages.ReadAt(entries, int64(start/pageSize*8))
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("look for a ring: %w", err)
	}
	var runs []usdt.Range
	for i := 0; i+8 <= n; i += 8 {
		if binary.LittleEndian.Uint64(entries[i:])&(present|swapped) == 0 {
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

// search looks for the beginning of a ring in pages that are there.
func (s *scanner) search(run usdt.Range, pid int) (uint64, error) {
	data := s.buffer[:run.End-run.Start]
	n, err := s.memory.ReadAt(data, int64(run.Start))
	if err != nil && n == 0 {
		return 0, ErrNone // it is gone
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
		if n, _ := s.memory.ReadAt(header, int64(run.Start)+int64(at)); n < len(header) || binary.LittleEndian.Uint64(header[wordSize:]) != magic2 {
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
