package usdt

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// A sparseFile is an endless file that contains zeros after its data.
type sparseFile []byte

func (s sparseFile) ReadAt(p []byte, offset int64) (int, error) {
	clear(p)
	if offset < int64(len(s)) {
		copy(p, s[offset:])
	}
	return len(p), nil
}

// everything reads all that can be read of a file, and returns all errors.
func everything(r io.ReaderAt) (*File, []Probe, error) {
	f, err := NewFile(r)
	if err != nil {
		return nil, nil, err
	}
	f.BuildID()
	_, _, symbolErr := f.Symbol("symbol")
	if errors.Is(symbolErr, ErrNoSymbol) {
		symbolErr = nil
	}
	probes, err := f.Probes("")
	return f, probes, errors.Join(err, symbolErr)
}

// allocated returns how many bytes a function allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestHostileFiles(t *testing.T) {
	notes := func(notes ...[]byte) func(*elfFile) {
		return func(f *elfFile) {
			f.sections[0].data = bytes.Join(notes, nil)
			f.sections[0].Size = uint64(len(f.sections[0].data))
		}
	}
	section := func(change func(s *testSection)) func(*elfFile) {
		return func(f *elfFile) { change(&f.sections[0]) }
	}
	long := strings.Repeat("x", maxNameLength+1)
	good := probeNote(textAddress, 0, 0, "p", "n", "8@a(%rip)")
	tests := []struct {
		name   string
		change func(*elfFile)
		want   error
		says   string // in the error
	}{
		{"good", func(*elfFile) {}, nil, ""},
		{"class", func(f *elfFile) { f.header.Ident[elf.EI_CLASS] = byte(elf.ELFCLASS32) }, ErrMachine, "64-bit"},
		{"big-endian", func(f *elfFile) { f.header.Ident[elf.EI_DATA] = byte(elf.ELFDATA2MSB) }, ErrMachine, "little-endian"},
		{"machine", func(f *elfFile) { f.header.Machine = uint16(elf.EM_RISCV) }, ErrMachine, "EM_RISCV"},
		{"object file", func(f *elfFile) { f.header.Type = uint16(elf.ET_REL) }, ErrFormat, "ET_REL"},
		{"magic", func(f *elfFile) { f.header.Ident[0] = 1 }, ErrFormat, "magic"},
		{"program header size", func(f *elfFile) { f.header.Phentsize = 32 }, ErrFormat, "32 bytes"},
		{"section header size", func(f *elfFile) { f.header.Shentsize = 40 }, ErrFormat, "40 bytes"},
		{"program headers past the end", func(f *elfFile) { f.header.Phoff = fileSize - 1 }, ErrFormat, "program headers"},
		{"program headers overflow", func(f *elfFile) { f.header.Phoff = math.MaxUint64 }, ErrFormat, "program headers"},
		{"section headers past the end", func(f *elfFile) { f.header.Shoff = fileSize - 1 }, ErrFormat, "section headers"},
		{"section headers overflow", func(f *elfFile) { f.header.Shoff = math.MaxInt64 }, ErrFormat, "section headers"},
		{"many program headers", func(f *elfFile) { f.header.Phnum = 0xfffe }, ErrFormat, "65534"},
		{"extended program headers", func(f *elfFile) { f.header.Phnum = 0xffff }, nil, ""}, // section 0 means none
		{"many sections", func(f *elfFile) {
			f.header.Shoff = 0xa000
			f.header.Shnum = 0xffff
			f.header.Shstrndx = 0xffff
		}, ErrFormat, "section headers"},
		{"section names in no section", func(f *elfFile) { f.header.Shstrndx = 100 }, ErrFormat, "section 100"},
		{"section names elsewhere", func(f *elfFile) {
			f.header.Shstrndx = 1
			f.sections[0].Size = maxSectionNames + 1
		}, ErrFormat, "section names"},
		{"segment size overflow", func(f *elfFile) { f.segments[0].Filesz = math.MaxUint64 }, ErrFormat, "PT_LOAD"},
		{"segment offset overflow", func(f *elfFile) { f.segments[0].Off = math.MaxInt64 - 1 }, ErrFormat, "PT_LOAD"},
		{"segment address overflow", func(f *elfFile) { f.segments[0].Vaddr = math.MaxUint64 - 1 }, ErrFormat, "PT_LOAD"},

		{"section of 4 GiB", section(func(s *testSection) { s.Size = 4 << 30 }), ErrFormat, "4294967296 bytes"},
		{"section past the end", section(func(s *testSection) { s.Off = fileSize - 4 }), ErrFormat, "ends early"},
		{"section offset overflow", section(func(s *testSection) { s.Off = math.MaxUint64 - 4 }), ErrFormat, "past the end"},
		{"section compressed", section(func(s *testSection) { s.Flags = uint64(elf.SHF_COMPRESSED) }), ErrFormat, "compressed"},
		{"section of half a header", section(func(s *testSection) { s.Size = 11 }), ErrFormat, "note 0"},
		{"sections that add up", func(f *elfFile) {
			for range 100 {
				f.addSection(stapsdtSection, elf.Section64{Off: 1 << 40, Size: maxNoteBytes}, nil)
			}
		}, ErrFormat, "at most"},

		{"name too long for the section", notes(encode([]uint32{100, 4, 3})), ErrFormat, "100 bytes where 0 are left"},
		{"descriptor too long for the section", notes(encode([]uint32{0, 100, 3})), ErrFormat, "descriptor of 100"},
		{"name too long", notes(encode([]uint32{math.MaxUint32, 4, 3})), ErrFormat, "note name of 4294967295"},
		{"descriptor too long", notes(encode([]uint32{0, maxNoteField + 1, 3})), ErrFormat, "note descriptor of 1048577"},
		{"no addresses", notes(rawNote(stapsdtName, 3, make([]byte, 23))), ErrFormat, "23 bytes"},
		{"no provider", notes(rawNote(stapsdtName, 3, make([]byte, 24))), ErrFormat, "provider"},
		{"no name", notes(rawNote(stapsdtName, 3, append(make([]byte, 24), "p\x00n"...))), ErrFormat, "the name is not"},
		{"no arguments", notes(rawNote(stapsdtName, 3, append(make([]byte, 24), "p\x00n\x008@"...))), ErrFormat, "arguments is not"},
		{"empty provider", notes(probeNote(textAddress, 0, 0, "", "n", "")), ErrFormat, `"":"n"`},
		{"empty name", notes(probeNote(textAddress, 0, 0, "p", "", "")), ErrFormat, `"p":""`},
		{"control character", notes(probeNote(textAddress, 0, 0, "p", "\x1b[2J", "")), ErrFormat, `\x1b`},
		{"not UTF-8", notes(probeNote(textAddress, 0, 0, "\xff", "n", "")), ErrFormat, `\xff`},
		{"long provider", notes(probeNote(textAddress, 0, 0, long, "n", "")), ErrFormat, "provider of 257"},
		{"long name", notes(probeNote(textAddress, 0, 0, "p", long, "")), ErrFormat, "name of 257"},
		{"long arguments", notes(probeNote(textAddress, 0, 0, "p", "n", strings.Repeat(" ", maxArgsLength+1))), ErrFormat, "arguments of 4097"},
		{"many arguments", notes(good, probeNote(textAddress, 0, 0, "p", "n", strings.Repeat("8@%rax ", 13))), ErrFormat, "probe note 1 (p:n): arguments"},
		{"location nowhere", notes(probeNote(0, 0, 0, "p", "n", "")), ErrFormat, "location: "},
		{"location in data", notes(probeNote(dataAddress, 0, 0, "p", "n", "")), ErrFormat, "no executable segment"},
		{"location behind the segment", notes(probeNote(textAddress+areaSize, 0, 0, "p", "n", "")), ErrFormat, "location: "},
		{"semaphore in code", notes(probeNote(textAddress, 0, textAddress, "p", "n", "")), ErrFormat, "semaphore: "},
		{"semaphore not in the file", notes(probeNote(textAddress, 0, dataAddress+areaSize, "p", "n", "")), ErrFormat, "no non-executable segment"},
		{"semaphore half in the file", notes(probeNote(textAddress, 0, dataAddress+areaSize-1, "p", "n", "")), ErrFormat, "semaphore: "},
		{"other provider's fault", notes(good, probeNote(0, 0, 0, "q", "n", "")), ErrFormat, "(q:n)"},
	}
	for _, test := range tests {
		f := newELF(elf.EM_X86_64, good)
		f.addSymbols(elf.SHT_SYMTAB, 0x6000, symbol("a", elf.STB_GLOBAL, elf.STT_OBJECT, dataAddress))
		test.change(f)
		raw := f.bytes()
		var err error
		size := allocated(func() { _, _, err = everything(bytes.NewReader(raw)) })
		switch {
		case test.want == nil && test.name == "good":
			if err != nil {
				t.Errorf("%s: %v", test.name, err)
			}
		case test.want != nil && !errors.Is(err, test.want):
			t.Errorf("%s: error %v, want %v", test.name, err, test.want)
		case err != nil && !strings.Contains(err.Error(), test.says):
			t.Errorf("%s: error %v does not say %q", test.name, err, test.says)
		}
		if size > 4<<20 {
			t.Errorf("%s: %d bytes allocated for a file of %d", test.name, size, len(raw))
		}
	}
}

// A file may be truncated at any point.
func TestTruncatedFiles(t *testing.T) {
	f := newELF(elf.EM_X86_64, probeNote(textAddress, 0, 0, "p", "n", "8@a(%rip)"))
	f.addSymbols(elf.SHT_SYMTAB, 0x4000, symbol("a", elf.STB_GLOBAL, elf.STT_OBJECT, dataAddress))
	raw := f.bytes()
	const needed = 0x9000 + 5*sectionHeaderSize // the section table is last
	for size := 0; size < needed; size += max(1, size/50) {
		if _, _, err := everything(bytes.NewReader(raw[:size])); !errors.Is(err, ErrFormat) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	if _, _, err := everything(bytes.NewReader(raw[:needed])); err != nil {
		t.Error(err)
	}
}

// Huge files use no more memory than the limits allow.
func TestHugeFiles(t *testing.T) {
	million := bytes.Repeat(rawNote("x", 1, nil), 1_000_000)
	manyNotes := newELF(elf.EM_X86_64)
	manyNotes.sections[0].Off, manyNotes.sections[0].Size = fileSize, uint64(len(million))
	hugeNotes := newELF(elf.EM_X86_64)
	hugeNotes.sections[0].Off, hugeNotes.sections[0].Size = 1<<40, 4<<30
	zeroNotes := newELF(elf.EM_X86_64)
	zeroNotes.sections[0].Off, zeroNotes.sections[0].Size = 1<<40, maxNoteBytes
	manySections := newELF(elf.EM_X86_64)
	manySections.header.Shoff = 1 << 40
	manySections.header.Shnum = 0xffff
	tests := []struct {
		name string
		file io.ReaderAt
		want error
		size uint64
	}{
		{"a million notes", bytes.NewReader(append(manyNotes.bytes(), million...)), ErrFormat, 1 << 20},
		{"notes of 4 GiB", sparseFile(hugeNotes.bytes()), ErrFormat, 1 << 20},
		{"notes of zeros", sparseFile(zeroNotes.bytes()), ErrFormat, 1 << 20},
		{"sections of zeros", sparseFile(manySections.bytes()), ErrNoProbes, 32 << 20},
	}
	for _, test := range tests {
		var err error
		size := allocated(func() { _, _, err = everything(test.file) })
		if !errors.Is(err, test.want) {
			t.Errorf("%s: error %v", test.name, err)
		}
		if size > test.size {
			t.Errorf("%s: %d bytes allocated, at most %d expected", test.name, size, test.size)
		}
	}
}

// Section 0 holds the counts that do not fit into the header.
func TestExtendedCounts(t *testing.T) {
	f := newELF(elf.EM_X86_64, probeNote(textAddress, 0, 0, "p", "n", ""))
	raw := f.bytes()
	le := binary.LittleEndian
	first := raw[0x9000:]
	le.PutUint64(first[32:], uint64(le.Uint16(raw[60:])))
	le.PutUint32(first[40:], uint32(le.Uint16(raw[62:])))
	le.PutUint32(first[44:], uint32(le.Uint16(raw[56:])))
	le.PutUint16(raw[56:], 0xffff)
	le.PutUint16(raw[60:], 0)
	le.PutUint16(raw[62:], 0xffff)
	if _, got, err := everything(bytes.NewReader(raw)); err != nil || len(got) != 1 {
		t.Errorf("probes %v, error %v", got, err)
	}
	le.PutUint64(first[32:], 1<<63)
	if _, _, err := everything(bytes.NewReader(raw)); !errors.Is(err, ErrFormat) {
		t.Errorf("sections without number: %v", err)
	}
	le.PutUint64(raw[40:], 1<<62)
	if _, _, err := everything(bytes.NewReader(raw)); !errors.Is(err, ErrFormat) {
		t.Errorf("section 0 missing: %v", err)
	}
	le.PutUint64(raw[40:], 0)
	if _, _, err := everything(bytes.NewReader(raw)); !errors.Is(err, ErrFormat) {
		t.Errorf("no sections at all: %v", err)
	}
}

// A truncated symbol table is not used.
func TestTruncatedSymbolTable(t *testing.T) {
	f := newELF(elf.EM_X86_64, probeNote(textAddress, 0, 0, "p", "n", "8@a(%rip)"))
	f.addSymbols(elf.SHT_SYMTAB, fileSize-2*symbolSize, symbol("a", elf.STB_LOCAL, elf.STT_OBJECT, dataAddress))
	f.sections[1].Size += symbolSize
	f.sections[2].Off = 0x6000
	want := unknown("8@a(%rip)")
	if got := probes(t, f, "p")[0].Sites[0].Args[0]; got != want {
		t.Errorf("argument %#v, want %#v", got, want)
	}
}

// An error of the disk is not an ErrFormat.
func TestReadErrors(t *testing.T) {
	f := newELF(elf.EM_X86_64, probeNote(textAddress, 0, 0, "p", "n", "8@a(%rip)"))
	f.addSymbols(elf.SHT_SYMTAB, 0x4000, symbol("symbol", elf.STB_GLOBAL, elf.STT_FUNC, textAddress))
	raw := f.bytes()
	for _, bad := range []int64{0, 64, noteOffset, noteOffset + 20, 0x4000, 0x4030, 0x8000, 0x9000, 0x9040} {
		_, _, err := everything(failing{bytes.NewReader(raw), bad})
		if !errors.Is(err, errDisk) || errors.Is(err, ErrFormat) {
			t.Errorf("bad byte at %#x: %v", bad, err)
		}
	}
}

var errDisk = errors.New("disk error")

// failing is a reader of a file with one bad byte.
type failing struct {
	io.ReaderAt
	bad int64
}

func (f failing) ReadAt(p []byte, offset int64) (int, error) {
	if offset <= f.bad && f.bad < offset+int64(len(p)) {
		n, _ := f.ReaderAt.ReadAt(p[:f.bad-offset], offset)
		return n, errDisk
	}
	return f.ReaderAt.ReadAt(p, offset)
}

func FuzzNewFile(f *testing.F) {
	file := newELF(elf.EM_X86_64,
		probeNote(textAddress, 16, dataAddress, "p", "n", "8@a(%rip) -4@%eax"), probeNote(textAddress, 0, 0, "q", "n", ""))
	file.addSection(stapsdtBase, elf.Section64{Addr: 16}, nil)
	file.addSymbols(elf.SHT_SYMTAB, 0x4000, symbol("a", elf.STB_GLOBAL, elf.STT_OBJECT, dataAddress))
	f.Add(uint16(0), uint64(0), file.bytes()[:64])
	f.Add(uint16(0x9000+64+32), uint64(1<<40), []byte{})
	f.Add(uint16(noteOffset), uint64(0xffffffff), []byte("8@a+8(%rip)"))
	raw := file.bytes()
	f.Fuzz(func(t *testing.T, position uint16, number uint64, text []byte) {
		// The changes are a number at one position and text after it.
		data := bytes.Clone(raw)
		if int(position)+8 <= len(data) {
			binary.LittleEndian.PutUint64(data[position:], number)
			copy(data[position+8:], text)
		}
		check(t, bytes.NewReader(data))
		check(t, bytes.NewReader(text))
	})
}

// check checks properties of all files.
func check(t *testing.T, r io.ReaderAt) {
	checkCode(t, r)
	f, probes, err := everything(r)
	if err != nil {
		if !errors.Is(err, ErrFormat) && !errors.Is(err, ErrMachine) && !errors.Is(err, ErrNoProbes) {
			t.Errorf("error of no kind: %v", err)
		}
		return
	}
	for _, p := range probes {
		if p.Provider == "" || p.Name == "" || len(p.Sites) == 0 {
			t.Errorf("probe %v", p)
		}
		for _, s := range p.Sites {
			if len(s.Args) > MaxArgs || s.Offset > math.MaxInt64 || s.Semaphore > math.MaxInt64 {
				t.Errorf("site %v", s)
			}
			checkArgs(t, f.Machine(), s.Args)
		}
	}
}

// checkCode checks what is read of a file's code.
func checkCode(t *testing.T, r io.ReaderAt) {
	f, err := NewFile(r)
	if err != nil {
		return
	}
	_, codeErr := f.CodeSegments()
	_, exportedErr := f.Exported()
	_, relocationsErr := f.Relocations()
	starts, startsErr := f.FunctionStarts()
	for _, err := range []error{codeErr, exportedErr, relocationsErr, startsErr} {
		if err != nil && !errors.Is(err, ErrFormat) {
			t.Errorf("error of no kind: %v", err)
		}
	}
	if !slices.IsSorted(starts) {
		t.Errorf("functions begin at %#x", starts)
	}
}
