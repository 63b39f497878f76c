package usdt

import (
	"bytes"
	"compress/zlib"
	"context"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
	"math"
)

// Section returns the uncompressed contents of a section. It returns nil if the file has no section
// with this name, or no contents for it. The error wraps ErrFormat if the contents are malformed,
// or larger than limit bytes, compressed or not. If the context ends first, the error is its cause.
func (f *File) Section(ctx context.Context, name string, limit uint64) ([]byte, error) {
	for _, s := range f.image.sections {
		if s.name != name || s.kind == elf.SHT_NOBITS {
			continue
		}
		data, err := f.image.contents(ctx, s, limit)
		if err != nil {
			return nil, fmt.Errorf("section %s: %w", name, err)
		}
		return data, nil
	}
	return nil, nil
}

// SectionAddress returns the address of a section, as linked. ok is false if the file has no section
// with this name.
func (f *File) SectionAddress(name string) (address uint64, ok bool) {
	for _, s := range f.image.sections {
		if s.name == name {
			return s.address, true
		}
	}
	return 0, false
}

// contents returns the uncompressed contents of a section.
func (img *image) contents(ctx context.Context, s section, limit uint64) ([]byte, error) {
	if s.size > limit {
		return nil, fmt.Errorf("%w: %d bytes, at most %d are read", ErrFormat, s.size, limit)
	}
	raw, err := sectionReader(img.r, s.offset, s.size)
	if err != nil {
		return nil, err
	}
	if s.flags&elf.SHF_COMPRESSED == 0 {
		return readAll(ctx, raw, s.size)
	}
	var head [compressionHeaderSize]byte
	if _, err := io.ReadFull(raw, head[:]); err != nil {
		return nil, readError(err)
	}
	kind := elf.CompressionType(binary.LittleEndian.Uint32(head[:]))
	size := binary.LittleEndian.Uint64(head[8:])
	if size > limit {
		return nil, fmt.Errorf("%w: %d bytes when uncompressed, at most %d are read", ErrFormat, size, limit)
	}
	whole, err := uncompressed(kind, raw)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return readAll(ctx, whole, size)
}

// compressionHeaderSize is the size of the header before compressed contents.
const compressionHeaderSize = 24

// readAll reads exactly size bytes. It allocates memory as it reads, because size may be a false
// claim of the file.
func readAll(ctx context.Context, r io.Reader, size uint64) ([]byte, error) {
	var data bytes.Buffer
	for uint64(data.Len()) < size {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		const step = 1 << 20
		n, err := io.CopyN(&data, r, int64(min(step, size-uint64(data.Len()))))
		if err == io.EOF {
			return nil, fmt.Errorf("%w: %d bytes where there should be %d", ErrFormat, uint64(data.Len()), size)
		}
		if err != nil && n == 0 {
			return nil, err
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrFormat, err)
		}
	}
	return data.Bytes(), nil
}

// uncompressed returns a reader of the contents after the compression header.
func uncompressed(kind elf.CompressionType, raw *io.SectionReader) (io.Reader, error) {
	switch kind {
	case elf.COMPRESS_ZLIB:
		return zlib.NewReader(raw)
	case elf.COMPRESS_ZSTD:
		return zstdReader(raw)
	}
	return nil, fmt.Errorf("compression %v is not known", kind)
}

// zstdReader decompresses with the standard library, which does so only for sections of ELF files.
// So it makes a file with only this section.
func zstdReader(raw *io.SectionReader) (io.Reader, error) {
	const names, sections = "\x00.debug\x00", 3
	file := elf.Header64{
		Type: uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Version: uint32(elf.EV_CURRENT),
		Shoff: headerSize, Ehsize: headerSize, Shentsize: sectionHeaderSize, Shnum: sections, Shstrndx: sections - 1,
	}
	copy(file.Ident[:], elf.ELFMAG)
	file.Ident[elf.EI_CLASS], file.Ident[elf.EI_DATA], file.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)
	const data = headerSize + sections*sectionHeaderSize + len(names)
	table := [sections]elf.Section64{
		{},
		{Name: 1, Type: uint32(elf.SHT_PROGBITS), Flags: uint64(elf.SHF_COMPRESSED), Off: uint64(data), Size: uint64(raw.Size()), Addralign: 1},
		{Type: uint32(elf.SHT_STRTAB), Off: headerSize + sections*sectionHeaderSize, Size: uint64(len(names)), Addralign: 1},
	}
	var front bytes.Buffer
	if err := binary.Write(&front, binary.LittleEndian, struct {
		File  elf.Header64
		Table [sections]elf.Section64
		Names [len(names)]byte
	}{file, table, [len(names)]byte([]byte(names))}); err != nil {
		return nil, err
	}
	f, err := elf.NewFile(behind{front.Bytes(), raw})
	if err != nil {
		return nil, err
	}
	return f.Section(".debug").Open(), nil
}

// A behind is a reader of front followed by other contents.
type behind struct {
	front []byte
	rest  *io.SectionReader
}

func (b behind) ReadAt(p []byte, at int64) (int, error) {
	if at < 0 || at > math.MaxInt64-int64(len(p)) {
		return 0, io.EOF
	}
	n := 0
	if at < int64(len(b.front)) {
		n = copy(p, b.front[at:])
	}
	if n == len(p) {
		return n, nil
	}
	m, err := b.rest.ReadAt(p[n:], at+int64(n)-int64(len(b.front)))
	return n + m, err
}
