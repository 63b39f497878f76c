package usdt

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"slices"
)

// The limits on reading the code of a file as a whole, several times what the VMs of OTP 25 to 29 have.
const (
	maxCodeSegments = 32 << 20 // bytes together
	maxExported     = 1 << 16  // symbols
	maxRelocations  = 1 << 17
	maxFunctions    = 1 << 16
)

// A CodeSegment is a part of a file that becomes executable memory.
type CodeSegment struct {
	Address uint64 // as linked
	Bytes   []byte
}

// CodeSegments returns the parts of the file that become executable memory, at most 32 MiB. The
// error is ErrFormat if there is more, or if the file ends before.
func (f *File) CodeSegments() ([]CodeSegment, error) {
	var found []CodeSegment
	left := uint64(maxCodeSegments)
	for _, s := range f.image.segments {
		if s.kind != elf.PT_LOAD || s.flags&elf.PF_X == 0 {
			continue
		}
		if s.fileSize > left {
			return nil, fmt.Errorf("%w: more than %d bytes of code", ErrFormat, maxCodeSegments)
		}
		left -= s.fileSize
		code, err := readFull(f.image.r, s.offset, s.fileSize)
		if err != nil {
			return nil, err
		}
		found = append(found, CodeSegment{s.address, code})
	}
	return found, nil
}

// An ExportedSymbol is a function or variable that a file exports.
type ExportedSymbol struct {
	Name          string
	Address, Size uint64 // as linked, and in bytes
}

// Exported returns the functions and variables that the file exports: those in .dynsym, which
// stripping keeps. There are at most 65 536. The error is ErrFormat if there are more, or if the
// table is malformed.
func (f *File) Exported() ([]ExportedSymbol, error) {
	table, ok := f.image.dynamicSymbols()
	if !ok {
		return nil, nil
	}
	if table.size > maxExported*symbolSize {
		return nil, fmt.Errorf("%w: more than %d exported symbols", ErrFormat, maxExported)
	}
	var found []ExportedSymbol
	err := f.image.symbols(table, func(raw *[symbolSize]byte, name []byte) {
		le := binary.LittleEndian
		found = append(found, ExportedSymbol{string(name), le.Uint64(raw[8:]), le.Uint64(raw[16:])})
	})
	return found, err
}

func (img *image) dynamicSymbols() (section, bool) {
	i := slices.IndexFunc(img.sections, func(s section) bool { return s.kind == elf.SHT_DYNSYM })
	if i < 0 {
		return section{}, false
	}
	return img.sections[i], true
}

// A Relocation is a word that the loader writes.
type Relocation struct {
	Address uint64 // of the word, as linked
	Symbol  string // the symbol whose address the loader writes, or "" if it writes an address in the file
	Target  uint64 // the address in the file, as linked, if Symbol is ""
}

// Relocations returns the words that the loader writes, at most 131 072. The error is ErrFormat if
// there are more, or if a table is malformed.
func (f *File) Relocations() ([]Relocation, error) {
	names, err := f.image.dynamicNames()
	if err != nil {
		return nil, err
	}
	var found []Relocation
	for _, s := range f.image.sections {
		const size = 24 // of Elf64_Rela
		if s.kind != elf.SHT_RELA || s.flags&elf.SHF_ALLOC == 0 {
			continue
		}
		entries, err := f.image.readSection(s, uint64(maxRelocations-len(found))*size)
		if err != nil {
			return nil, fmt.Errorf("relocations %q: %w", s.name, err)
		}
		for ; len(entries) >= size; entries = entries[size:] {
			le := binary.LittleEndian
			r := Relocation{Address: le.Uint64(entries)}
			if symbol := le.Uint32(entries[12:]); symbol == 0 {
				r.Target = le.Uint64(entries[16:])
			} else {
				r.Symbol = names[symbol]
			}
			found = append(found, r)
		}
	}
	return found, nil
}

// dynamicNames returns the names in .dynsym by the index of the symbol, defined or not.
func (img *image) dynamicNames() (map[uint32]string, error) {
	table, ok := img.dynamicSymbols()
	if !ok {
		return nil, nil
	}
	if uint64(table.link) >= uint64(len(img.sections)) {
		return nil, fmt.Errorf("%w: strings are in section %d of %d", ErrFormat, table.link, len(img.sections))
	}
	text, err := img.readSection(img.sections[table.link], maxSymbolStrings)
	if err != nil {
		return nil, fmt.Errorf("strings: %w", err)
	}
	entries, err := img.readSection(table, maxExported*symbolSize)
	if err != nil {
		return nil, fmt.Errorf("symbols: %w", err)
	}
	names := make(map[uint32]string)
	for i := uint32(0); len(entries) >= symbolSize; i++ {
		if name, ok := cString(text, uint64(binary.LittleEndian.Uint32(entries))); ok && len(name) > 0 {
			names[i] = string(name)
		}
		entries = entries[symbolSize:]
	}
	return names, nil
}

// FunctionStarts returns the addresses, as linked, at which the functions of the file and the parts
// of them that the compiler has moved elsewhere begin. They are in order, and at most 65 536. They
// come from the section .eh_frame_hdr, which stripping keeps. The error is ErrFormat if the section
// is missing, malformed, or of another form than linkers write.
func (f *File) FunctionStarts() ([]uint64, error) {
	table, err := f.image.unwindTable()
	if err != nil {
		return nil, err
	}
	starts := make([]uint64, len(table))
	for i, e := range table {
		starts[i] = e.start
	}
	return starts, nil
}

// An unwindEntry is an entry of the section .eh_frame_hdr, with addresses as linked.
type unwindEntry struct {
	start  uint64 // of the code
	record uint64 // describes the frame of the code
}

// unwindTable reads the section .eh_frame_hdr, see [File.FunctionStarts].
func (img *image) unwindTable() ([]unwindEntry, error) {
	const (
		name       = ".eh_frame_hdr"
		headerSize = 12         // with the number of entries
		entrySize  = 8          // the two addresses, relative to the section
		form       = 0x3b031b01 // version 1, and the encodings of all fields
	)
	i := slices.IndexFunc(img.sections, func(s section) bool { return s.name == name })
	if i < 0 {
		return nil, fmt.Errorf("%w: there is no section %s", ErrFormat, name)
	}
	base := img.sections[i].address
	data, err := img.readSection(img.sections[i], headerSize+maxFunctions*entrySize)
	if err != nil {
		return nil, fmt.Errorf("section %s: %w", name, err)
	}
	le := binary.LittleEndian
	if len(data) < headerSize || le.Uint32(data) != form || uint64(le.Uint32(data[8:])) > uint64(len(data)-headerSize)/entrySize {
		return nil, fmt.Errorf("%w: the section %s has another form", ErrFormat, name)
	}
	table := make([]unwindEntry, le.Uint32(data[8:]))
	for i := range table {
		entry := data[headerSize+i*entrySize:]
		table[i].start = base + uint64(int64(int32(le.Uint32(entry))))
		table[i].record = base + uint64(int64(int32(le.Uint32(entry[4:]))))
	}
	if !slices.IsSortedFunc(table, func(a, b unwindEntry) int { return cmp.Compare(a.start, b.start) }) {
		return nil, fmt.Errorf("%w: the functions in section %s are not in order", ErrFormat, name)
	}
	return table, nil
}

// SectionAt returns the name of the section that contains an address, as linked, or "".
func (f *File) SectionAt(address uint64) string { return f.image.sectionAt(address) }

func (img *image) sectionAt(address uint64) string {
	for _, s := range img.sections {
		if s.flags&elf.SHF_ALLOC != 0 && address >= s.address && address-s.address < s.size {
			return s.name
		}
	}
	return ""
}
