package debuginfo

import (
	"bytes"
	"compress/zlib"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"runtime"
	"slices"
	"testing"

	"github.com/beamscope/beamscope/usdt"
)

// A craftedSection is a section of a crafted file.
type craftedSection struct {
	name  string
	data  []byte
	claim uint64 // uncompressed size that the header claims; 0 if the section is not compressed
}

// craft returns an ELF file with these sections.
func craft(t testing.TB, sections ...craftedSection) *usdt.File {
	t.Helper()
	const headers, header = 64, 64
	names := []byte{0}
	var table, contents bytes.Buffer
	binary.Write(&table, binary.LittleEndian, elf.Section64{})
	at := uint64(headers)
	add := func(name string, kind elf.SectionType, flags elf.SectionFlag, data []byte) {
		binary.Write(&table, binary.LittleEndian, elf.Section64{
			Name: uint32(len(names)), Type: uint32(kind), Flags: uint64(flags), Off: at, Size: uint64(len(data)), Addralign: 1,
		})
		names = append(append(names, name...), 0)
		contents.Write(data)
		at += uint64(len(data))
	}
	for _, s := range sections {
		data, flags := s.data, elf.SectionFlag(0)
		if s.claim > 0 {
			flags = elf.SHF_COMPRESSED
			var out bytes.Buffer
			binary.Write(&out, binary.LittleEndian, elf.Chdr64{Type: uint32(elf.COMPRESS_ZLIB), Size: s.claim, Addralign: 1})
			out.Write(s.data)
			data = out.Bytes()
		}
		add(s.name, elf.SHT_PROGBITS, flags, data)
	}
	add(".shstrtab", elf.SHT_STRTAB, 0, append(append(bytes.Clone(names), ".shstrtab"...), 0))
	file := elf.Header64{
		Type: uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Version: 1, Shoff: at, Ehsize: headers,
		Phentsize: 56, Shentsize: header, Shnum: uint16(table.Len() / header), Shstrndx: uint16(table.Len()/header - 1),
	}
	copy(file.Ident[:], elf.ELFMAG)
	file.Ident[elf.EI_CLASS], file.Ident[elf.EI_DATA], file.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1
	var out bytes.Buffer
	binary.Write(&out, binary.LittleEndian, file)
	out.Write(contents.Bytes())
	out.Write(table.Bytes())
	f, err := usdt.NewFile(bytes.NewReader(out.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// unitOf returns a DWARF 4 compilation unit whose abbreviations are at an offset.
func unitOf(table uint32, entries ...byte) []byte {
	header := binary.LittleEndian.AppendUint32(nil, uint32(7+len(entries)))
	header = binary.LittleEndian.AppendUint16(header, 4)
	header = binary.LittleEndian.AppendUint32(header, table)
	return append(append(header, 8), entries...)
}

// uleb encodes a number as ULEB128.
func uleb(n uint64) []byte { return binary.AppendUvarint(nil, n) }

// abbreviate encodes an abbreviation. pairs are its attributes and their forms.
func abbreviate(code uint64, t tag, children byte, pairs ...uint64) []byte {
	out := append(append(uleb(code), uleb(uint64(t))...), children)
	for _, n := range pairs {
		out = append(out, uleb(n)...)
	}
	return append(out, 0, 0)
}

// deflated returns compressed zeros; size is their uncompressed size.
func deflated(t testing.TB, size int) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zlib.NewWriter(&out)
	zeros := make([]byte, 1<<20)
	for left := size; left > 0; left -= len(zeros) {
		if _, err := w.Write(zeros[:min(left, len(zeros))]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

const lexicalBlock tag = 0x0b

// allocated returns how many bytes a function allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Crafted files that would exhaust time or memory are refused: reading stops at the limit of steps
// or of bytes.
func TestCrafted(t *testing.T) {
	const megabyte = 1 << 20
	head := abbreviate(1, tagCompileUnit, 1)
	sections := func(abbreviations, info []byte, more ...craftedSection) []craftedSection {
		return append([]craftedSection{{name: ".debug_abbrev", data: abbreviations}, {name: ".debug_info", data: info}}, more...)
	}
	bomb := deflated(t, 511*megabyte)
	bombs := func(claim uint64) (all []craftedSection) {
		for _, name := range []string{"info", "abbrev", "str", "line_str", "str_offsets"} {
			all = append(all, craftedSection{".debug_" + name, bomb, claim})
		}
		return all
	}
	flags := make([]uint64, 0, 2*maxValues)
	for range maxValues {
		flags = append(flags, 0x34, uint64(formFlagPresent))
	}
	const tables = 2000
	table := abbreviate(1, tagCompileUnit, 0, flags...)
	for name, test := range map[string]struct {
		sections []craftedSection
		want     error
	}{
		"nested entries": {
			sections(append(slices.Clone(head), append(abbreviate(2, lexicalBlock, 1), 0)...), unitOf(0, append([]byte{1}, bytes.Repeat([]byte{2}, 30*megabyte)...)...)), ErrLimit,
		},
		"decompression bombs with true sizes":          {bombs(511 * megabyte), usdt.ErrFormat},
		"decompression bomb with a small claimed size": {[]craftedSection{{".debug_info", bomb, maxInfo}}, ErrFormat},
		"claimed size too large":                       {[]craftedSection{{".debug_info", deflated(t, 10), maxInfo}}, usdt.ErrFormat},
		"unknown compression":                          {[]craftedSection{{".debug_info", nil, 1}}, usdt.ErrFormat},
		"entries with many attributes": {
			sections(append(slices.Clone(head), append(abbreviate(2, lexicalBlock, 0, flags...), 0)...), unitOf(0, append([]byte{1}, bytes.Repeat([]byte{2}, 30*megabyte)...)...)), ErrLimit,
		},
		"an entry with too many attributes": {
			sections(append(slices.Clone(head), append(abbreviate(2, lexicalBlock, 0, append(flags, 0x34, 0x19)...), 0)...), unitOf(0, 1, 2)), ErrLimit,
		},
		"units": {sections(append(slices.Clone(head), 0), bytes.Repeat(unitOf(0, 0), maxUnits+1)), ErrLimit},
		"overlapping abbreviation tables": {
			sections(append(bytes.Repeat(table, tables), 0), slices.Concat(func() (units [][]byte) {
				for i := range tables { // each table extends to the end of the last one
					units = append(units, unitOf(uint32(i*len(table)), 1))
				}
				return units
			}()...)), ErrLimit,
		},
		"many references to a long name": {
			sections(append(slices.Clone(head), append(abbreviate(2, tagTypedef, 0, uint64(attributeName), uint64(formStrp)), 0)...),
				unitOf(0, append([]byte{1}, bytes.Repeat([]byte{2, 0, 0, 0, 0}, 10*megabyte)...)...),
				craftedSection{name: ".debug_str", data: bytes.Repeat([]byte("x"), 30*megabyte)}), ErrLimit,
		},
		"sibling before its entry": {
			sections(append(slices.Clone(head), append(abbreviate(2, lexicalBlock, 1, uint64(attributeSibling), uint64(formRef1)), 0)...), unitOf(0, 1, 2, 11, 0, 0)), nil,
		},
		"nested indirect forms": {
			sections(append(slices.Clone(head), append(abbreviate(2, lexicalBlock, 1, 0x34, uint64(formIndirect)), 0)...), unitOf(0, 1, 2, byte(formIndirect), byte(formIndirect))), ErrFormat,
		},
		"type that refers to itself": {
			sections(append(slices.Clone(head), append(abbreviate(2, tagTypedef, 0, uint64(attributeName), uint64(formString), uint64(attributeType), uint64(formRef1)), 0)...),
				unitOf(0, 1, 2, 'a', 0, 12, 0)), nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := craft(t, test.sections...)
			var (
				d   *Data
				err error
				all map[string]Struct
			)
			size := allocated(func() {
				if d, err = Read(t.Context(), f); err == nil {
					all, err = d.Structs("a", "b")
				}
			})
			if !errors.Is(err, test.want) || test.want == nil && err != nil || len(all) > 0 {
				t.Errorf("%d structures, error %v, want %v", len(all), err, test.want)
			}
			const most = 2*(maxInfo+maxStrings+3*maxOthers) + 128*megabyte // buffers grow by doubling; the rest is for abbreviations
			if size > most {
				t.Errorf("%d bytes were allocated, at most %d may be", size, most)
			}
		})
	}
}

// Reading ends when the context ends, even if much is left to read.
func TestCancelled(t *testing.T) {
	f := craft(t, craftedSection{name: ".debug_abbrev", data: append(abbreviate(1, tagCompileUnit, 1), append(abbreviate(2, lexicalBlock, 0), 0)...)},
		craftedSection{name: ".debug_info", data: unitOf(0, append([]byte{1}, bytes.Repeat([]byte{2}, 1<<20)...)...)})
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	d, err := Read(ctx, f)
	if err != nil {
		t.Fatal(err)
	}
	cancel(enough)
	if _, err := d.Structs("a"); !errors.Is(err, enough) {
		t.Errorf("error %v, want %v", err, enough)
	}
	if _, err := Read(ctx, f); !errors.Is(err, enough) {
		t.Errorf("error %v, want %v", err, enough)
	}
}
