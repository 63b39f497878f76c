package usdt

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"slices"
	"testing"
)

// openBytes opens a file in memory.
func openBytes(t *testing.T, data []byte) *File {
	t.Helper()
	f, err := NewFile(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// functionTable returns a section .eh_frame_hdr at an address, with functions at other addresses.
func functionTable(address uint64, functions ...uint64) []byte {
	table := []byte{1, 0x1b, 0x03, 0x3b, 0, 0, 0, 0}
	table = binary.LittleEndian.AppendUint32(table, uint32(len(functions)))
	for _, f := range functions {
		table = binary.LittleEndian.AppendUint32(table, uint32(f-address))
		table = binary.LittleEndian.AppendUint32(table, 0)
	}
	return table
}

// The code of a file, its exported symbols, and where its functions begin are read as the file has them.
func TestWholeCode(t *testing.T) {
	const tableAddress = 0x405000
	file := newELF(elf.EM_X86_64)
	file.blobs[textOffset] = []byte{0xc3}
	file.addSymbols(elf.SHT_DYNSYM, 0x4000, symbol("a", elf.STB_GLOBAL, elf.STT_FUNC, textAddress), symbol("b", elf.STB_GLOBAL, elf.STT_OBJECT, dataAddress))
	file.addSection(".eh_frame_hdr", elf.Section64{Addr: tableAddress, Flags: uint64(elf.SHF_ALLOC), Off: 0x5000}, functionTable(tableAddress, textAddress, textAddress+16))
	relocations := encode([]elf.Rela64{
		{Off: dataAddress, Info: elf.R_INFO(1, uint32(elf.R_X86_64_GLOB_DAT))},
		{Off: dataAddress + 8, Info: elf.R_INFO(0, uint32(elf.R_X86_64_RELATIVE)), Addend: textAddress},
	})
	file.addSection(".rela.dyn", elf.Section64{Type: uint32(elf.SHT_RELA), Flags: uint64(elf.SHF_ALLOC), Off: 0x6000}, relocations)
	f := openBytes(t, file.bytes())
	code, err := f.CodeSegments()
	if err != nil || len(code) != 1 || code[0].Address != textAddress || len(code[0].Bytes) != areaSize || code[0].Bytes[0] != 0xc3 {
		t.Errorf("%d segments, error %v", len(code), err)
	}
	exported, err := f.Exported()
	if want := []ExportedSymbol{{"a", textAddress, 0}, {"b", dataAddress, 0}}; err != nil || !slices.Equal(exported, want) {
		t.Errorf("%v, error %v, want %v", exported, err, want)
	}
	starts, err := f.FunctionStarts()
	if want := []uint64{textAddress, textAddress + 16}; err != nil || !slices.Equal(starts, want) {
		t.Errorf("functions begin at %#x, error %v, want %#x", starts, err, want)
	}
	words, err := f.Relocations()
	if want := []Relocation{{Address: dataAddress, Symbol: "a"}, {Address: dataAddress + 8, Target: textAddress}}; err != nil || !slices.Equal(words, want) {
		t.Errorf("%v, error %v, want %v", words, err, want)
	}
	if got := f.SectionAt(tableAddress); got != ".eh_frame_hdr" {
		t.Errorf("section %q", got)
	}
}

// A file with more code, symbols, words or functions than the limits is refused, and so is one whose
// functions are not in order, or in another form.
func TestWholeCodeLimits(t *testing.T) {
	table := func(data []byte) func(*elfFile) {
		return func(f *elfFile) {
			f.addSection(".eh_frame_hdr", elf.Section64{Addr: 0x405000, Off: 0x5000}, data)
		}
	}
	read := func(f *File) error {
		_, codeErr := f.CodeSegments()
		_, exportedErr := f.Exported()
		_, relocationsErr := f.Relocations()
		_, startsErr := f.FunctionStarts()
		return errors.Join(codeErr, exportedErr, relocationsErr, startsErr)
	}
	good := functionTable(0x405000, textAddress)
	many := slices.Clone(good)
	many[8] = 2
	other := slices.Clone(good)
	other[3] = 0x1b
	for name, change := range map[string]func(*elfFile){
		"no table of functions": func(*elfFile) {},
		"more functions":        table(many),
		"another form":          table(other),
		"half a table":          table(good[:10]),
		"not in order":          table(functionTable(0x405000, textAddress+1, textAddress)),
		"much code":             func(f *elfFile) { table(good)(f); f.segments[0].Filesz = maxCodeSegments + 1 },
		"code behind the end":   func(f *elfFile) { table(good)(f); f.segments[0].Filesz = fileSize },
		"many symbols": func(f *elfFile) {
			table(good)(f)
			f.addSymbols(elf.SHT_DYNSYM, 0x4000)
			f.sections[len(f.sections)-2].Size = (maxExported + 1) * symbolSize
		},
		"many words": func(f *elfFile) {
			table(good)(f)
			f.addSection(".rela.dyn", elf.Section64{Type: uint32(elf.SHT_RELA), Flags: uint64(elf.SHF_ALLOC), Size: (maxRelocations + 1) * 24}, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			file := newELF(elf.EM_X86_64)
			change(file)
			f := openBytes(t, file.bytes())
			var err error
			if bytes := allocated(func() { err = read(f) }); bytes > 4<<20 {
				t.Errorf("%d bytes are allocated", bytes)
			}
			if !errors.Is(err, ErrFormat) {
				t.Errorf("error %v", err)
			}
		})
	}
	file := newELF(elf.EM_X86_64)
	table(good)(file)
	if err := read(openBytes(t, file.bytes())); err != nil {
		t.Errorf("a good file: %v", err)
	}
}
