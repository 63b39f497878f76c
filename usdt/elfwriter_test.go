package usdt

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
)

// An elfFile writes ELF files for tests exactly as specified, even malformed ones. The structures
// are those of debug/elf.
type elfFile struct {
	header   elf.Header64
	segments []elf.Prog64
	sections []testSection // after section 0, which is added
	blobs    map[uint64][]byte
}

// A testSection is a section and its contents, which are written at the offset in its header.
type testSection struct {
	name string
	elf.Section64
	data []byte
}

// The layout of newELF's files.
const (
	textAddress = 0x401000
	textOffset  = 0x1000
	dataAddress = 0x403000 // has another distance from its offset than the code has
	dataOffset  = 0x2000
	areaSize    = 0x1000
	noteOffset  = 0x3000
	fileSize    = 0x10000
)

// newELF returns a file with an executable and a writable segment, and sections
// for the notes.
func newELF(machine elf.Machine, notes ...[]byte) *elfFile {
	f := &elfFile{blobs: make(map[uint64][]byte)}
	f.header.Type = uint16(elf.ET_DYN)
	f.header.Machine = uint16(machine)
	f.segments = []elf.Prog64{
		{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X), Off: textOffset, Vaddr: textAddress, Filesz: areaSize, Memsz: areaSize},
		{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_W), Off: dataOffset, Vaddr: dataAddress, Filesz: areaSize, Memsz: 2 * areaSize},
		{Type: uint32(elf.PT_DYNAMIC)},
	}
	f.addSection(stapsdtSection, elf.Section64{Type: uint32(elf.SHT_NOTE), Off: noteOffset, Addralign: 4}, bytes.Join(notes, nil))
	return f
}

func (f *elfFile) addSection(name string, header elf.Section64, data []byte) {
	if header.Size == 0 {
		header.Size = uint64(len(data))
	}
	f.sections = append(f.sections, testSection{name, header, data})
}

// addSymbols adds a symbol table, with its strings at the end of it.
func (f *elfFile) addSymbols(kind elf.SectionType, offset uint64, symbols ...testSymbol) {
	text := []byte{0}
	table := encode(elf.Sym64{})
	for _, s := range symbols {
		s.Name = uint32(len(text))
		text = append(append(text, s.name...), 0)
		table = append(table, encode(s.Sym64)...)
	}
	f.addSection("table", elf.Section64{Type: uint32(kind), Off: offset, Link: uint32(len(f.sections) + 2)}, table)
	f.addSection("strings", elf.Section64{Type: uint32(elf.SHT_STRTAB), Off: offset + uint64(len(table))}, text)
}

type testSymbol struct {
	name string
	elf.Sym64
}

// symbol returns a symbol in a section that exists.
func symbol(name string, bind elf.SymBind, kind elf.SymType, address uint64) testSymbol {
	return testSymbol{name, elf.Sym64{Info: elf.ST_INFO(bind, kind), Shndx: 1, Value: address}}
}

// bytes writes the file.
func (f *elfFile) bytes() []byte {
	const (
		segmentOffset = 64
		namesOffset   = 0x8000
		sectionOffset = 0x9000
	)
	h := f.header
	ident := [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)}
	for i, b := range ident {
		if h.Ident[i] == 0 {
			h.Ident[i] = b
		}
	}
	names := []byte{0}
	sections := []elf.Section64{{}}
	out := make([]byte, fileSize)
	put := func(offset uint64, data []byte) { copy(out[min(offset, fileSize):], data) }
	for _, s := range f.sections {
		s.Name = uint32(len(names))
		names = append(append(names, s.name...), 0)
		sections = append(sections, s.Section64)
		if s.data != nil {
			put(s.Off, s.data)
		}
	}
	sections = append(sections, elf.Section64{Type: uint32(elf.SHT_STRTAB), Off: namesOffset, Size: uint64(len(names))})
	set(&h.Phoff, segmentOffset)
	set(&h.Phentsize, programHeaderSize)
	set(&h.Phnum, uint16(len(f.segments)))
	set(&h.Shoff, sectionOffset)
	set(&h.Shentsize, sectionHeaderSize)
	set(&h.Shnum, uint16(len(sections)))
	set(&h.Shstrndx, uint16(len(sections)-1))
	put(0, encode(h))
	put(segmentOffset, encode(f.segments))
	put(namesOffset, names)
	put(sectionOffset, encode(sections))
	for offset, data := range f.blobs {
		put(offset, data)
	}
	return out
}

// set sets a field if the test has left it 0.
func set[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// encode returns the little-endian form of a structure.
func encode(v any) []byte {
	var b bytes.Buffer
	if err := binary.Write(&b, binary.LittleEndian, v); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// rawNote returns a note, padded to 4 bytes.
func rawNote(name string, kind uint32, descriptor []byte) []byte {
	b := encode([]uint32{uint32(len(name) + 1), uint32(len(descriptor)), kind})
	b = append(b, name...)
	b = append(b, make([]byte, 1+(-(len(name)+1))&3)...)
	b = append(b, descriptor...)
	return append(b, make([]byte, -len(descriptor)&3)...)
}

// probeNote returns a note of <sys/sdt.h>.
func probeNote(location, base, semaphore uint64, provider, name, args string) []byte {
	b := encode([]uint64{location, base, semaphore})
	return rawNote(stapsdtName, stapsdtType, append(b, provider+"\x00"+name+"\x00"+args+"\x00"...))
}
