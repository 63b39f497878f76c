package procname

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/beamscope/beamscope/internal/beam/atom"
)

// errAtom is the error for a term that is no atom.
var errAtom = errors.New("not an atom")

const (
	maxAtomChars = 255
	maxAtomBytes = 4 * maxAtomChars

	// pageShift is the binary logarithm of the number of atoms in a page of the atom table
	// (index.h). Each atom contains its index, so pages of another size would be noticed.
	pageShift = 10

	// maxTexts bounds the number of cached texts. Most systems start processes with fewer modules
	// and functions.
	maxTexts = 1 << 13
)

// atoms is the VM's atom table. Atoms are never removed, so their texts are cached.
type atoms struct {
	mem    memory
	layout atomLayout
	table  uint64 // address of the IndexTable

	count   uint64 // number of atoms when the table was last read
	texts   map[uint64]string
	scratch [maxAtomBytes]byte
}

// text returns an atom as Erlang writes it.
func (a *atoms) text(t term) (string, error) {
	index, ok := t.atom()
	if !ok {
		return "", fmt.Errorf("%#x: %w", uint64(t), errAtom)
	}
	if text, ok := a.texts[index]; ok {
		return text, nil
	}
	if index >= a.count {
		if err := a.recount(); err != nil {
			return "", err
		}
	}
	if index >= a.count {
		return "", fmt.Errorf("%d of %d: %w", index, a.count, errAtom)
	}
	raw, err := a.raw(index)
	if err != nil {
		return "", fmt.Errorf("atom %d: %w", index, err)
	}
	if len(a.texts) >= maxTexts {
		clear(a.texts)
	}
	if a.texts == nil {
		a.texts = make(map[uint64]string)
	}
	text := atom.Write(string(raw), a.layout.maybe)
	a.texts[index] = text
	return text, nil
}

// recount reads the number of atoms.
func (a *atoms) recount() error {
	var count [4]byte
	if err := a.mem.read(a.table+a.layout.entries, count[:]); err != nil {
		return fmt.Errorf("number of atoms: %w", err)
	}
	n := view(count[:]).u32(0)
	if n > 1<<31-1 { // it is an int
		return fmt.Errorf("%d atoms: %w", int32(n), errAtom)
	}
	a.count = uint64(n)
	return nil
}

// raw returns the characters of the atom at an index below the count, valid until the next call.
func (a *atoms) raw(index uint64) ([]byte, error) {
	const inPage = 1<<pageShift - 1

	page, err := a.page(index)
	if err != nil {
		return nil, err
	}
	address, err := a.mem.word(page + index&inPage*wordSize)
	if err != nil {
		return nil, err
	}
	text, size, err := a.entry(address, index)
	if err != nil {
		return nil, err
	}
	raw := a.scratch[:size]
	if size > 0 {
		if err := a.mem.read(text, raw); err != nil {
			return nil, err
		}
	}
	if !utf8.Valid(raw) || utf8.RuneCount(raw) > maxAtomChars {
		return nil, fmt.Errorf("%q: %w", raw, errAtom)
	}
	return raw, nil
}

// page returns the address of the page with an index: an array of pointers to atoms.
func (a *atoms) page(index uint64) (uint64, error) {
	pages, err := a.mem.word(a.table + a.layout.pages)
	if err != nil {
		return 0, err
	}
	return a.mem.word(pages + index>>pageShift*wordSize)
}

// entry reads the atom at an address, which must have the index. It returns the address and the
// number of bytes of the text.
func (a *atoms) entry(address, index uint64) (text, size uint64, err error) {
	var data [maxStruct]byte
	atom := view(data[:a.layout.size])
	if err := a.mem.read(address, atom); err != nil {
		return 0, 0, err
	}
	if at := atom.u32(a.layout.index); uint64(at) != index {
		return 0, 0, fmt.Errorf("%w: its index is %d", errAtom, at)
	}
	size = uint64(atom.u16(a.layout.length))
	if size > maxAtomBytes {
		return 0, 0, fmt.Errorf("%w: %d bytes", errAtom, size)
	}
	if text = atom.u64(a.layout.text); a.layout.binary.known {
		text, err = a.binary(term(text), size)
	}
	return text, size, err
}

// onHeapMost is the size in bytes of the largest binary that is stored on a heap
// (ERL_ONHEAP_BINARY_LIMIT).
const onHeapMost = 64

// binary returns the address of the bytes of a binary, which must have the given size.
func (a *atoms) binary(t term, size uint64) (uint64, error) {
	const flags = 3 // of an address of bytes
	address, ok := t.boxed()
	if !ok {
		return 0, fmt.Errorf("%w: its text is no binary", errAtom)
	}
	var data [maxStruct]byte
	l := a.layout.binary
	v := view(data[:l.size])
	if err := a.mem.read(address, v); err != nil {
		return 0, err
	}
	bits, text := v.u64(l.heapBits), address+l.heapData
	if size > onHeapMost {
		bits, text = v.u64(l.end)-v.u64(l.start), v.u64(l.base)&^flags+v.u64(l.start)/8
	}
	if bits != size*8 {
		return 0, fmt.Errorf("%w: its text has %d bits, not %d bytes", errAtom, bits, size)
	}
	return text, nil
}

// A search looks for an atom with an unknown index among the existing atoms. It continues where it
// stopped when new atoms exist.
type search struct {
	text string
	next uint64 // index of the first atom that was not examined
	term term   // of the atom, once it is found
}

// maxSearch is the index at which a search ends: atoms of the VM's own applications have low
// indexes.
const maxSearch = 1 << 16

// found reports whether the atom has been found.
func (s *search) found() bool { return s.term != 0 }

// goOn examines new atoms, in a few pages at most.
func (s *search) goOn(a *atoms) error {
	const most = 16 // pages

	if s.found() || s.next >= maxSearch {
		return nil
	}
	if err := a.recount(); err != nil {
		return err
	}
	for range most {
		if s.found() || s.next >= a.count {
			return nil
		}
		if err := s.searchPage(a); err != nil {
			return err
		}
	}
	return nil
}

// searchPage examines the rest of the current page.
func (s *search) searchPage(a *atoms) error {
	address, err := a.page(s.next)
	if err != nil {
		return fmt.Errorf("page of atoms: %w", err)
	}
	end := min(a.count, s.next|(1<<pageShift-1)+1)
	from := s.next & (1<<pageShift - 1)
	var data [1 << pageShift * wordSize]byte
	page := view(data[:(end-s.next)*wordSize])
	if err := a.mem.read(address+from*wordSize, page); err != nil {
		return fmt.Errorf("page of atoms: %w", err)
	}
	for i := uint64(0); i < uint64(len(page)); i += wordSize {
		if a.is(page.u64(i), s.next, s.text) {
			s.term = term(s.next<<6) | atomTag
			return nil
		}
		s.next++
	}
	return nil
}

// is reports whether the atom at an address has an index and a text. Some indexes have no atom, so
// an error means no.
func (a *atoms) is(address, index uint64, want string) bool {
	text, size, err := a.entry(address, index)
	if err != nil || size != uint64(len(want)) {
		return false
	}
	raw := a.scratch[:size]
	return a.mem.read(text, raw) == nil && string(raw) == want
}
