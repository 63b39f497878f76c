package usdt

import (
	"bytes"
	"debug/elf"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func open(t *testing.T, f *elfFile) *File {
	t.Helper()
	file, err := NewFile(bytes.NewReader(f.bytes()))
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func probes(t *testing.T, f *elfFile, provider string) []Probe {
	t.Helper()
	got, err := open(t, f).Probes(provider)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestProbesGrouping(t *testing.T) {
	f := newELF(elf.EM_X86_64,
		probeNote(textAddress+8, 0, 0, "a", "two", ""),
		rawNote("stapsdt", 4, []byte("another type")),
		probeNote(textAddress+4, 0, dataAddress+2, "a", "one", "8@%rax"),
		rawNote("stap", 3, nil),
		probeNote(textAddress, 0, 0, "b", "two", ""),
		probeNote(textAddress+12, 0, dataAddress+4, "a", "two", "-4@$1"),
	)
	// A second section of the same name, of type PROGBITS, without final padding.
	last := probeNote(textAddress+16, 0, 0, "c", "three", "8@%rax 4@%bx")
	last = bytes.TrimRight(last, "\x00")
	f.addSection(stapsdtSection, elf.Section64{Type: uint32(elf.SHT_PROGBITS), Off: noteOffset + 0x1000}, append(last, 0))
	rax := reg(8, false, 10)
	rax.Spec = "8@%rax"
	bx := reg(4, false, 5)
	bx.Spec = "4@%bx"
	one := num(4, true, 1)
	one.Spec = "-4@$1"
	a := []Probe{
		{"a", "two", []Site{{Offset: textOffset + 8, Address: textAddress + 8},
			{Offset: textOffset + 12, Address: textAddress + 12, Semaphore: dataOffset + 4, Args: []Arg{one}}}},
		{"a", "one", []Site{{Offset: textOffset + 4, Address: textAddress + 4, Semaphore: dataOffset + 2, Args: []Arg{rax}}}},
	}
	b := Probe{"b", "two", []Site{{Offset: textOffset, Address: textAddress}}}
	c := Probe{"c", "three", []Site{{Offset: textOffset + 16, Address: textAddress + 16, Args: []Arg{rax, bx}}}}
	for provider, want := range map[string][]Probe{"": {a[0], a[1], b, c}, "a": a, "b": {b}, "c": {c}, "none": nil} {
		if diff := cmp.Diff(want, probes(t, f, provider)); diff != "" {
			t.Errorf("provider %q: (-want +got)\n%s", provider, diff)
		}
	}
}

func TestProbesDrift(t *testing.T) {
	for _, test := range []struct {
		name            string
		noteBase, moved uint64 // .stapsdt.base according to the note, and its real address
		drift           uint64
	}{
		{"none", 0x5000, 0x5000, 0},
		{"up", 0x5000, 0x7000, 0x2000},
		{"down", 0x7000, 0x5000, 1<<64 - 0x2000},
		{"no base in the note", 0, 0x5000, 0},
		{"no address", 0x5000, 0, 0},
	} {
		f := newELF(elf.EM_AARCH64, probeNote(textAddress+4-test.drift, test.noteBase, dataAddress+6-test.drift, "p", "n", ""))
		f.addSection(stapsdtBase, elf.Section64{Type: uint32(elf.SHT_PROGBITS), Addr: test.moved, Size: 1}, nil)
		want := []Probe{{"p", "n", []Site{{Offset: textOffset + 4, Address: textAddress + 4, Semaphore: dataOffset + 6}}}}
		if diff := cmp.Diff(want, probes(t, f, "p")); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", test.name, diff)
		}
	}
	// Without the section, nothing is corrected.
	f := newELF(elf.EM_AARCH64, probeNote(textAddress, 0x5000, 0, "p", "n", ""))
	if got := probes(t, f, "p")[0].Sites[0].Address; got != textAddress {
		t.Errorf("address %#x without a base section", got)
	}
}

func TestProbesWithoutSections(t *testing.T) {
	f := newELF(elf.EM_X86_64)
	f.sections = nil
	f.header.Shoff = 0
	notes := append(rawNote("GNU", 3, []byte{0xde, 0xad, 1}), probeNote(textAddress, 0, 0, "p", "n", "")...)
	f.segments = append(f.segments, elf.Prog64{Type: uint32(elf.PT_NOTE), Off: noteOffset, Filesz: uint64(len(notes)), Align: 4})
	f.blobs[noteOffset] = notes
	raw := f.bytes()
	// The writer always makes a section table. Remove it from the header.
	copy(raw[40:48], make([]byte, 8))
	copy(raw[60:64], make([]byte, 4))
	file, err := NewFile(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	got, err := file.Probes("")
	if err != nil {
		t.Fatal(err)
	}
	want := []Probe{{"p", "n", []Site{{Offset: textOffset, Address: textAddress}}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if id := file.BuildID(); id != "dead01" {
		t.Errorf("build ID %q", id)
	}
}

func TestProbesNone(t *testing.T) {
	f := newELF(elf.EM_X86_64, rawNote("stapsdt", 2, nil))
	// A debug information file only has the header of the notes section, without contents.
	f.addSection(stapsdtSection, elf.Section64{Type: uint32(elf.SHT_NOBITS), Off: 1 << 40, Size: 100}, nil)
	got, err := open(t, f).Probes("")
	if !errors.Is(err, ErrNoProbes) || got != nil {
		t.Errorf("probes %v, error %v", got, err)
	}
}

func TestProbesSymbols(t *testing.T) {
	const site = textAddress + 0x100
	args := "8@global(%rip) 8@global+8(%rip) 8@global-8(%rip) 4@16+static(%rip) 8@missing(%rip) 8@twice(%rip) " +
		"8@both(%rip) 8@thread(%rip) 1@global(%rax) -4@$static+1 8@dynamic(%rip) 8@same(%rip)"
	build := func(kind elf.Type) *elfFile {
		f := newELF(elf.EM_X86_64, probeNote(site-0x10, 0x10, 0, "p", "n", args))
		f.header.Type = uint16(kind)
		f.addSection(stapsdtBase, elf.Section64{Addr: 0x20}, nil) // symbols do not drift
		f.addSymbols(elf.SHT_SYMTAB, 0x4000,
			symbol("global", elf.STB_GLOBAL, elf.STT_OBJECT, dataAddress+8),
			symbol("static", elf.STB_LOCAL, elf.STT_OBJECT, dataAddress+16),
			symbol("twice", elf.STB_LOCAL, elf.STT_OBJECT, dataAddress+24),
			symbol("twice", elf.STB_LOCAL, elf.STT_OBJECT, dataAddress+32),
			symbol("both", elf.STB_GLOBAL, elf.STT_OBJECT, dataAddress+24),
			symbol("both", elf.STB_LOCAL, elf.STT_OBJECT, dataAddress+32),
			symbol("thread", elf.STB_GLOBAL, elf.STT_TLS, 8),
			symbol("same", elf.STB_GLOBAL, elf.STT_OBJECT, dataAddress+40),
			symbol("same", elf.STB_LOCAL, elf.STT_NOTYPE, dataAddress+40),
			testSymbol{"missing", elf.Sym64{Info: elf.ST_INFO(elf.STB_GLOBAL, elf.STT_OBJECT)}},
			testSymbol{"missing", elf.Sym64{Info: elf.ST_INFO(elf.STB_GLOBAL, elf.STT_OBJECT), Shndx: uint16(elf.SHN_ABS)}},
		)
		f.addSymbols(elf.SHT_DYNSYM, 0x5000,
			symbol("global", elf.STB_GLOBAL, elf.STT_OBJECT, dataAddress), // .symtab has precedence
			symbol("dynamic", elf.STB_WEAK, elf.STT_FUNC, textAddress))
		return f
	}
	specs := strings.Fields(args)
	rip := func(size int, disp int64) Arg { return mem(size, false, 16, NoRegister, 0, disp) }
	const data = dataAddress - site
	want := []Arg{
		rip(8, data+8), rip(8, data+16), rip(8, data), rip(4, data+32), unknown(""), unknown(""), unknown(""), unknown(""),
		unknown(""), unknown(""), rip(8, -0x100), rip(8, data+40),
	}
	check := func(name string, f *elfFile) {
		t.Helper()
		for i := range want {
			want[i].Spec = specs[i]
		}
		if diff := cmp.Diff(want, probes(t, f, "p")[0].Sites[0].Args); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
	check("movable", build(elf.ET_DYN))
	// At a fixed address, absolute uses of a symbol are right too.
	want[8] = mem(1, false, 10, NoRegister, 0, dataAddress+8)
	want[9] = num(4, true, dataAddress+17)
	check("fixed", build(elf.ET_EXEC))
	// Broken symbol tables leave the sites usable.
	f := build(elf.ET_EXEC)
	for i := range f.sections {
		f.sections[i].Link = 1000
	}
	for i, spec := range specs {
		if strings.ContainsAny(spec, "abcdefghijklmnopqrstuvwxyz") {
			want[i] = unknown("")
		}
	}
	check("broken", f)
}

func TestSymbol(t *testing.T) {
	f := newELF(elf.EM_X86_64)
	f.addSymbols(elf.SHT_DYNSYM, 0x4000,
		symbol("exported", elf.STB_GLOBAL, elf.STT_FUNC, textAddress+0x20),
		symbol("resolver", elf.STB_GLOBAL, elf.STT_GNU_IFUNC, textAddress))
	f.addSymbols(elf.SHT_SYMTAB, 0x5000,
		symbol("local", elf.STB_LOCAL, elf.STT_FUNC, textAddress+0x30),
		symbol("both", elf.STB_LOCAL, elf.STT_FUNC, textAddress+0x40),
		symbol("both", elf.STB_GLOBAL, elf.STT_FUNC, textAddress+0x50),
		symbol("twice", elf.STB_LOCAL, elf.STT_FUNC, textAddress+0x40),
		symbol("twice", elf.STB_LOCAL, elf.STT_FUNC, textAddress+0x50),
		symbol("data", elf.STB_GLOBAL, elf.STT_OBJECT, dataAddress))
	file := open(t, f)
	for name, position := range map[string]uint64{"exported": 0x20, "local": 0x30, "both": 0x50} {
		address, offset, err := file.Symbol(name)
		if err != nil || address != textAddress+position || offset != textOffset+position {
			t.Errorf("%s at %#x, offset %#x, error %v", name, address, offset, err)
		}
	}
	for name, want := range map[string]error{
		"": ErrNoSymbol, "missing": ErrNoSymbol, "twice": ErrNoSymbol, "resolver": ErrNoSymbol, "data": ErrFormat,
	} {
		if _, _, err := file.Symbol(name); !errors.Is(err, want) {
			t.Errorf("%s: error %v, want %v", name, err, want)
		}
	}
	if address, err := file.Variable("data"); err != nil || address != dataAddress {
		t.Errorf("data at %#x, error %v", address, err)
	}
	if _, err := file.Variable("missing"); !errors.Is(err, ErrNoSymbol) {
		t.Errorf("missing: error %v", err)
	}
	for name, breakIt := range map[string]func(*testSection){
		"link":       func(s *testSection) { s.Link = 99 },
		"compressed": func(s *testSection) { s.Flags = uint64(elf.SHF_COMPRESSED) },
		"size":       func(s *testSection) { s.Size = maxSymbolTable + 1 },
		"offset":     func(s *testSection) { s.Off = 1<<64 - 1 },
		"truncated":  func(s *testSection) { s.Off = fileSize - symbolSize },
	} {
		f := newELF(elf.EM_X86_64)
		f.addSymbols(elf.SHT_DYNSYM, 0x4000, symbol("exported", elf.STB_GLOBAL, elf.STT_FUNC, textAddress))
		breakIt(&f.sections[1])
		if _, _, err := open(t, f).Symbol("exported"); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// sized returns a function symbol of a size.
func sized(name string, address, size uint64) testSymbol {
	s := symbol(name, elf.STB_LOCAL, elf.STT_FUNC, address)
	s.Size = size
	return s
}

func TestFunction(t *testing.T) {
	f := newELF(elf.EM_X86_64)
	f.addSymbols(elf.SHT_DYNSYM, 0x4000,
		sized("exported", textAddress+0x10, 0x10),
		sized("public", textAddress+0x20, 0x10))
	f.addSymbols(elf.SHT_SYMTAB, 0x5000,
		sized("local", textAddress+0x20, 0x10),
		sized("local.cold", textAddress+0x60, 0x10),
		sized("empty", textAddress+0x30, 0),
		sized("this", textAddress+0x40, 0x10),
		sized("that", textAddress+0x48, 0x10),
		sized("last", 1<<64-8, 16))
	file := open(t, f)
	for address, want := range map[uint64]string{
		textAddress + 0x10: "exported", textAddress + 0x1f: "exported",
		textAddress + 0x20: "local", textAddress + 0x2f: "local", textAddress + 0x6f: "local.cold",
		textAddress + 0x40: "this", textAddress + 0x57: "that", 1<<64 - 1: "last",
	} {
		if name, err := file.Function(address); err != nil || name != want {
			t.Errorf("at %#x: %q, error %v, want %q", address, name, err, want)
		}
	}
	for _, address := range []uint64{0, textAddress, textAddress + 0x30, textAddress + 0x48} {
		if name, err := file.Function(address); !errors.Is(err, ErrNoSymbol) {
			t.Errorf("at %#x: %q, error %v", address, name, err)
		}
	}
	f = newELF(elf.EM_X86_64)
	f.addSymbols(elf.SHT_DYNSYM, 0x4000, sized("exported", textAddress, 8))
	f.sections[1].Size = maxSymbolTable + 1
	if _, err := open(t, f).Function(textAddress); !errors.Is(err, ErrFormat) {
		t.Errorf("error %v", err)
	}
}

func TestBuildID(t *testing.T) {
	id := rawNote("GNU", 3, []byte{1, 0xab})
	for _, test := range []struct {
		name  string
		align uint64
		notes []byte
		want  string
	}{
		{"alone", 4, id, "01ab"},
		{"second", 4, append(rawNote("GNU", 1, make([]byte, 16)), id...), "01ab"},
		// Of 12+4+12 bytes, so that an alignment of 8 adds 4.
		{"after a property", 8, append(append(rawNote("GNU", 5, make([]byte, 12)), 0, 0, 0, 0), id...), "01ab"},
		{"other owner", 4, rawNote("Go", 3, []byte{1}), ""},
		{"too long", 4, rawNote("GNU", 3, make([]byte, 65)), ""},
		{"truncated", 4, id[:17], ""},
		{"none", 4, nil, ""},
	} {
		f := newELF(elf.EM_X86_64)
		f.addSection(".note", elf.Section64{Type: uint32(elf.SHT_NOTE), Off: 0x6000, Addralign: test.align}, test.notes)
		if got := open(t, f).BuildID(); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
	f := newELF(elf.EM_X86_64)
	f.addSection(".note", elf.Section64{Type: uint32(elf.SHT_NOTE), Off: 1 << 63, Size: 16}, nil)
	if got := open(t, f).BuildID(); got != "" {
		t.Errorf("outside the file: %q", got)
	}
}

func TestOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if _, err := Open(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
	if _, err := Open(filepath.Dir(path)); !errors.Is(err, ErrFormat) {
		t.Errorf("folder: %v", err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), path) {
		t.Errorf("script: %v", err)
	}
	if err := os.WriteFile(path, newELF(elf.EM_AARCH64, rawNote("x", 1, nil)).bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := f.Machine(); got != elf.EM_AARCH64 {
		t.Errorf("machine %v", got)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if _, err := f.Probes(""); !errors.Is(err, os.ErrClosed) {
		t.Errorf("probes of a closed file: %v", err)
	}
	if err := open(t, newELF(elf.EM_AARCH64)).Close(); err != nil {
		t.Error(err)
	}
}
