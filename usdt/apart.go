package usdt

import (
	"bytes"
	"cmp"
	"context"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strings"
)

// HasSymbols reports whether the file has a table of all its symbols, .symtab, which stripping
// removes.
func (f *File) HasSymbols() bool {
	return slices.ContainsFunc(f.image.sections, func(s section) bool { return s.kind == elf.SHT_SYMTAB })
}

// AllSymbols reports whether all symbols are known: the file has them, or one of [File.UseSymbols].
func (f *File) AllSymbols() bool { return f.HasSymbols() || f.debug != nil && f.debug.HasSymbols() }

// SymbolsFrom returns the name of the file of [File.UseSymbols], "" for none.
func (f *File) SymbolsFrom() string {
	if f.debug == nil {
		return ""
	}
	return f.debug.Name()
}

// UseSymbols makes symbol lookups use a second file too, which belongs to the same build and has
// the data that was stripped from this one. Closing this file closes the second one. Nothing else
// may use the file meanwhile. The caller makes sure that the second file belongs to this one, and
// that its owner is trusted about the places of functions.
func (f *File) UseSymbols(debug *File) { f.debug = debug }

// Fits returns an error if a file with symbols cannot be of this executable, whatever its build ID is: more
// than a tenth of its functions begin where the executable's table for unwinding has no function. A few functions
// that are written in assembler are in no table. The error is nil if there is nothing to compare.
func (f *File) Fits(debug *File) error {
	const least = 10 // functions for each one that may be elsewhere
	table, err := f.image.unwindTable()
	if err != nil {
		return nil
	}
	all, elsewhere := 0, 0
	for _, s := range debug.image.sections {
		if s.kind != elf.SHT_SYMTAB {
			continue
		}
		err := debug.image.symbols(s, func(raw *[symbolSize]byte, _ []byte) {
			address, size := binary.LittleEndian.Uint64(raw[8:]), binary.LittleEndian.Uint64(raw[16:])
			if elf.ST_TYPE(raw[4]) != elf.STT_FUNC || size == 0 {
				return
			}
			all++
			if _, found := slices.BinarySearchFunc(table, address, func(e unwindEntry, at uint64) int { return cmp.Compare(e.start, at) }); !found {
				elsewhere++
			}
		})
		if err != nil {
			return err
		}
	}
	if elsewhere*least > all {
		return fmt.Errorf("%d of its %d functions are where the executable has none", elsewhere, all)
	}
	return nil
}

// maxDebugLink is the maximum size of a .gnu_debuglink section.
const maxDebugLink = 4096

// DebugLink returns the name without a folder of the file with the debugging information that was
// stripped from this one, and the CRC-32 of all of that file's bytes. ok is false if the file does
// not contain them in its section .gnu_debuglink.
func (f *File) DebugLink(ctx context.Context) (name string, sum uint32, ok bool) {
	data, err := f.Section(ctx, ".gnu_debuglink", maxDebugLink)
	if err != nil {
		return "", 0, false
	}
	end := bytes.IndexByte(data, 0)
	if end <= 0 || end > maxNameLength {
		return "", 0, false
	}
	name = string(data[:end])
	const size, alignment = 4, 4
	at := (end + alignment) / alignment * alignment // behind the NUL
	if at+size > len(data) || strings.Contains(name, "/") || name == "." || name == ".." {
		return "", 0, false
	}
	return name, binary.LittleEndian.Uint32(data[at:]), true
}

// Checksum returns the CRC-32 of all bytes of the file, as .gnu_debuglink sections contain it. The
// error wraps ErrFormat if the file is larger than limit bytes. If the context ends first, the error
// is its cause.
func (f *File) Checksum(ctx context.Context, limit int64) (uint32, error) {
	sum, at := uint32(0), int64(0)
	for buffer := make([]byte, 1<<20); ; {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		n, err := f.image.r.ReadAt(buffer, at)
		sum = crc32.Update(sum, crc32.IEEETable, buffer[:n])
		if at += int64(n); at > limit {
			return 0, fmt.Errorf("%w: more than %d bytes", ErrFormat, limit)
		}
		if err == io.EOF {
			return sum, nil
		}
		if err != nil {
			return 0, err
		}
	}
}
