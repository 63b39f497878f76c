package usdt

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// The limits on reading a file. They are far above what linkers produce, and keep a hostile file
// from taking memory or time.
const (
	maxSegments      = 4096
	maxSections      = 1 << 16
	maxSectionNames  = 1 << 20 // bytes
	maxNameLength    = 256     // bytes, of sections, symbols, providers and probes
	maxSymbolTable   = 64 << 20
	maxSymbolStrings = 64 << 20
)

// The sizes of the structures of an ELF64 file in bytes; see elf(5).
const (
	headerSize        = 64
	programHeaderSize = 56
	sectionHeaderSize = 64
	symbolSize        = 24
)

// An image is the part of an ELF64 file's headers that the package needs. It is
// read here rather than by debug/elf because the latter trusts a file's sizes
// further than is good for files that come from other people's containers.
type image struct {
	r        io.ReaderAt
	kind     elf.Type // ET_EXEC: at fixed addresses; or ET_DYN
	machine  elf.Machine
	segments []segment
	sections []section
}

// A segment is a program header of type PT_LOAD or PT_NOTE.
type segment struct {
	kind     elf.ProgType
	flags    elf.ProgFlag
	offset   uint64
	address  uint64
	fileSize uint64
	align    uint64
}

// A section is a section header.
type section struct {
	name    string // "" if it is missing or longer than maxNameLength
	kind    elf.SectionType
	flags   elf.SectionFlag
	address uint64
	offset  uint64
	size    uint64
	link    uint32
	align   uint64
}

// A header contains the places of the two tables from the ELF header.
type header struct {
	segmentOffset, sectionOffset uint64
	segments, sections, names    uint64
}

// readImage reads and checks the headers of an ELF file.
func readImage(r io.ReaderAt) (*image, error) {
	raw, err := readFull(r, 0, headerSize)
	if err != nil {
		return nil, fmt.Errorf("ELF header: %w", err)
	}
	img := &image{r: r}
	if err := img.identify(raw); err != nil {
		return nil, err
	}
	h, err := img.readHeader(raw)
	if err != nil {
		return nil, err
	}
	if err := img.readSegments(h); err != nil {
		return nil, err
	}
	if err := img.readSections(h); err != nil {
		return nil, err
	}
	return img, nil
}

// identify checks that an ELF header is of a supported kind.
func (img *image) identify(raw []byte) error {
	if string(raw[:4]) != elf.ELFMAG {
		return fmt.Errorf("%w: no ELF magic number", ErrFormat)
	}
	if c := elf.Class(raw[elf.EI_CLASS]); c != elf.ELFCLASS64 {
		return fmt.Errorf("%w: %v, only 64-bit files are read", ErrMachine, c)
	}
	if d := elf.Data(raw[elf.EI_DATA]); d != elf.ELFDATA2LSB {
		return fmt.Errorf("%w: %v, only little-endian files are read", ErrMachine, d)
	}
	img.machine = elf.Machine(binary.LittleEndian.Uint16(raw[18:]))
	if img.machine != elf.EM_X86_64 && img.machine != elf.EM_AARCH64 {
		return fmt.Errorf("%w: %v", ErrMachine, img.machine)
	}
	img.kind = elf.Type(binary.LittleEndian.Uint16(raw[16:]))
	if img.kind != elf.ET_EXEC && img.kind != elf.ET_DYN {
		return fmt.Errorf("%w: %v is neither an executable nor a shared object", ErrFormat, img.kind)
	}
	return nil
}

// readHeader finds the two tables. Counts too large for their fields are in section header 0
// (elf(5): e_phnum, e_shnum, e_shstrndx).
func (img *image) readHeader(raw []byte) (header, error) {
	le := binary.LittleEndian
	h := header{
		segmentOffset: le.Uint64(raw[32:]),
		sectionOffset: le.Uint64(raw[40:]),
		segments:      uint64(le.Uint16(raw[56:])),
		sections:      uint64(le.Uint16(raw[60:])),
		names:         uint64(le.Uint16(raw[62:])),
	}
	const (
		manySegments = 0xffff // PN_XNUM
		manySections = 0xffff // SHN_XINDEX
	)
	if h.sectionOffset == 0 {
		if h.segments == manySegments || h.sections != 0 {
			return h, fmt.Errorf("%w: sections counted, but there is no section table", ErrFormat)
		}
	} else if h.sections == 0 || h.segments == manySegments || h.names == manySections {
		first, err := readFull(img.r, h.sectionOffset, sectionHeaderSize)
		if err != nil {
			return h, fmt.Errorf("section header 0: %w", err)
		}
		if h.sections == 0 {
			h.sections = le.Uint64(first[32:])
		}
		if h.segments == manySegments {
			h.segments = uint64(le.Uint32(first[44:]))
		}
		if h.names == manySections {
			h.names = uint64(le.Uint32(first[40:]))
		}
	}
	if size := le.Uint16(raw[54:]); h.segments > 0 && size != programHeaderSize {
		return h, fmt.Errorf("%w: program headers of %d bytes", ErrFormat, size)
	}
	if size := le.Uint16(raw[58:]); h.sections > 0 && size != sectionHeaderSize {
		return h, fmt.Errorf("%w: section headers of %d bytes", ErrFormat, size)
	}
	return h, nil
}

// readSegments reads the program headers of interest.
func (img *image) readSegments(h header) error {
	if h.segments > maxSegments {
		return fmt.Errorf("%w: %d program headers, at most %d are read", ErrFormat, h.segments, maxSegments)
	}
	raw, err := readFull(img.r, h.segmentOffset, h.segments*programHeaderSize)
	if err != nil {
		return fmt.Errorf("program headers: %w", err)
	}
	le := binary.LittleEndian
	for ; len(raw) > 0; raw = raw[programHeaderSize:] {
		s := segment{
			kind:     elf.ProgType(le.Uint32(raw)),
			flags:    elf.ProgFlag(le.Uint32(raw[4:])),
			offset:   le.Uint64(raw[8:]),
			address:  le.Uint64(raw[16:]),
			fileSize: le.Uint64(raw[32:]),
			align:    le.Uint64(raw[48:]),
		}
		if s.kind != elf.PT_LOAD && s.kind != elf.PT_NOTE {
			continue
		}
		if s.fileSize > math.MaxInt64 || s.offset > math.MaxInt64-s.fileSize || s.address > math.MaxUint64-s.fileSize {
			return fmt.Errorf("%w: %v segment at %#x, %#x bytes at file offset %#x, goes past the end of all files",
				ErrFormat, s.kind, s.address, s.fileSize, s.offset)
		}
		img.segments = append(img.segments, s)
	}
	return nil
}

// readSections reads the section headers and their names.
func (img *image) readSections(h header) error {
	if h.sections > maxSections {
		return fmt.Errorf("%w: %d section headers, at most %d are read", ErrFormat, h.sections, maxSections)
	}
	raw, err := readFull(img.r, h.sectionOffset, h.sections*sectionHeaderSize)
	if err != nil {
		return fmt.Errorf("section headers: %w", err)
	}
	le := binary.LittleEndian
	names := make([]uint32, 0, h.sections)
	img.sections = make([]section, 0, h.sections)
	for ; len(raw) > 0; raw = raw[sectionHeaderSize:] {
		names = append(names, le.Uint32(raw))
		img.sections = append(img.sections, section{
			kind:    elf.SectionType(le.Uint32(raw[4:])),
			flags:   elf.SectionFlag(le.Uint64(raw[8:])),
			address: le.Uint64(raw[16:]),
			offset:  le.Uint64(raw[24:]),
			size:    le.Uint64(raw[32:]),
			link:    le.Uint32(raw[40:]),
			align:   le.Uint64(raw[48:]),
		})
	}
	return img.nameSections(h.names, names)
}

// nameSections sets the names of the sections, which are in the section with this index.
func (img *image) nameSections(index uint64, offsets []uint32) error {
	if index == 0 { // SHN_UNDEF: the file names no sections
		return nil
	}
	if index >= uint64(len(img.sections)) {
		return fmt.Errorf("%w: section names are in section %d of %d", ErrFormat, index, len(img.sections))
	}
	table, err := img.readSection(img.sections[index], maxSectionNames)
	if err != nil {
		return fmt.Errorf("section names: %w", err)
	}
	for i, offset := range offsets {
		name, _ := cString(table, uint64(offset))
		img.sections[i].name = string(name)
	}
	return nil
}

// readSection returns the contents of a section of at most limit bytes.
func (img *image) readSection(s section, limit uint64) ([]byte, error) {
	if err := s.check(limit); err != nil {
		return nil, err
	}
	return readFull(img.r, s.offset, s.size)
}

// check returns an error if a section's contents cannot be read directly.
func (s section) check(limit uint64) error {
	switch {
	case s.kind == elf.SHT_NOBITS:
		return fmt.Errorf("%w: the section's contents are not in this file", ErrFormat)
	case s.flags&elf.SHF_COMPRESSED != 0:
		return fmt.Errorf("%w: the section is compressed", ErrFormat)
	case s.size > limit:
		return fmt.Errorf("%w: %d bytes, at most %d are read", ErrFormat, s.size, limit)
	}
	return nil
}

// fileOffset translates a linked address into the file offset of the size bytes there. It uses
// either only executable segments or only the others.
func (img *image) fileOffset(address, size uint64, executable bool) (uint64, error) {
	for _, s := range img.segments {
		if s.kind != elf.PT_LOAD || executable != (s.flags&elf.PF_X != 0) {
			continue
		}
		if address >= s.address && address-s.address < s.fileSize && s.fileSize-(address-s.address) >= size {
			return s.offset + (address - s.address), nil
		}
	}
	want := "executable"
	if !executable {
		want = "non-executable"
	}
	return 0, fmt.Errorf("%w: no %s segment of the file holds address %#x", ErrFormat, want, address)
}

// readFull reads size bytes at offset. It allocates only for bytes that the file contains, so a
// false size costs nothing.
func readFull(r io.ReaderAt, offset, size uint64) ([]byte, error) {
	if size == 0 {
		return nil, nil
	}
	part, err := sectionReader(r, offset, size)
	if err != nil {
		return nil, err
	}
	var last [1]byte
	if n, err := part.ReadAt(last[:], int64(size-1)); n == 0 && !errors.Is(err, io.EOF) {
		return nil, err
	} else if n == 0 {
		return nil, fmt.Errorf("%w: the file ends before %#x bytes at offset %#x do", ErrFormat, size, offset)
	}
	data := make([]byte, size)
	if _, err := io.ReadFull(part, data); err != nil {
		return nil, readError(err)
	}
	return data, nil
}

// sectionReader returns a reader of size bytes at offset.
func sectionReader(r io.ReaderAt, offset, size uint64) (*io.SectionReader, error) {
	if size > math.MaxInt64 || offset > math.MaxInt64-size {
		return nil, fmt.Errorf("%w: %#x bytes at offset %#x go past the end of all files", ErrFormat, size, offset)
	}
	return io.NewSectionReader(r, int64(offset), int64(size)), nil
}

// readError turns the end of the file into an ErrFormat.
func readError(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: the file ends early", ErrFormat)
	}
	return err
}

// cString returns the NUL-terminated string at an offset of a string table, and
// whether there is one of at most maxNameLength bytes.
func cString(table []byte, offset uint64) ([]byte, bool) {
	if offset >= uint64(len(table)) {
		return nil, false
	}
	tail := table[offset:]
	end := bytes.IndexByte(tail[:min(len(tail), maxNameLength+1)], 0)
	if end < 0 {
		return nil, false
	}
	return tail[:end], true
}
