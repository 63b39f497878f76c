package procname

import (
	"errors"
	"fmt"
	"unicode/utf8"
)

// errAtom is the error for what is no atom.
var errAtom = errors.New("not an atom")

const (
	maxAtomChars = 255
	maxAtomBytes = 4 * maxAtomChars

	// pageShift is the logarithm of how many atoms a page of the atom table has
	// (index.h). An atom knows its index, so a table of other pages would show.
	pageShift = 10

	// maxTexts bounds the texts that are kept: more than most systems have modules
	// and functions to start processes with.
	maxTexts = 1 << 13
)

// atoms is the VM's atom table. An atom that is there stays there, so texts are kept.
type atoms struct {
	mem    memory
	layout atomLayout
	table  uint64 // address of the IndexTable

	count   uint64 // of the atoms, when it was last looked at
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
	text := quoted(string(raw))
	a.texts[index] = text
	return text, nil
}

// recount reads how many atoms there are.
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

// raw returns the characters of the atom at an index below the count, until it is
// called again.
func (a *atoms) raw(index uint64) ([]byte, error) {
	text, size, err := a.find(index)
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

// find returns where the characters of the atom at an index are, and how many bytes.
func (a *atoms) find(index uint64) (text, size uint64, err error) {
	const page = 1<<pageShift - 1

	address, err := a.mem.word(a.table + a.layout.pages)
	if err != nil {
		return 0, 0, err
	}
	if address, err = a.mem.word(address + index>>pageShift*wordSize); err != nil {
		return 0, 0, err
	}
	if address, err = a.mem.word(address + index&page*wordSize); err != nil {
		return 0, 0, err
	}
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
	return atom.u64(a.layout.text), size, nil
}

// A search looks for an atom, whose index is not known, among those that there are,
// and goes on where it was when there are more.
type search struct {
	text string
	next uint64 // index of the first atom not looked at
	term term   // of the atom, once it is found
}

const (
	// maxSearch is where a search ends: an atom that the VM's own applications use
	// is among its first.
	maxSearch = 1 << 16

	// searchStep bounds how much is looked at at once: one look at an atom takes
	// about three microseconds.
	searchStep = 1 << 14
)

// found tells whether the atom has been found.
func (s *search) found() bool { return s.term != 0 }

// goOn looks at more atoms.
func (s *search) goOn(a *atoms) error {
	if s.found() || s.next >= maxSearch {
		return nil
	}
	if err := a.recount(); err != nil {
		return err
	}
	for end := min(a.count, maxSearch, s.next+searchStep); s.next < end; s.next++ {
		text, size, err := a.find(s.next)
		if err != nil || size != uint64(len(s.text)) {
			continue // not every index has an atom
		}
		raw := a.scratch[:size]
		if a.mem.read(text, raw) == nil && string(raw) == s.text {
			s.term = term(s.next<<6 | 0x0b)
			return nil
		}
	}
	return nil
}
