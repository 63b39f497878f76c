package usdt

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io"
	"slices"
)

// The limits on reading a file's contents.
const (
	maxDataBytes = 64 << 20 // in all data segments together
	maxTexts     = 64
	maxCode      = 64 // bytes
)

// Texts returns the NUL-terminated strings of at most 256 bytes that begin with a
// prefix, wherever they are in the file's data, without repetitions and in the order
// in which the file has them. The prefix itself may be in the middle of another string.
//
// The error is ErrFormat if the data exceeds the package's limits or the file ends before it.
func (f *File) Texts(prefix string) ([]string, error) {
	var texts []string
	left := uint64(maxDataBytes)
	for _, s := range f.image.segments {
		if s.kind != elf.PT_LOAD || s.flags&elf.PF_X != 0 {
			continue
		}
		if s.fileSize > left {
			return nil, fmt.Errorf("%w: more than %d bytes of data", ErrFormat, maxDataBytes)
		}
		left -= s.fileSize
		data, err := sectionReader(f.image.r, s.offset, s.fileSize)
		if err != nil {
			return nil, err
		}
		if texts, err = appendTexts(texts, data, prefix); err != nil {
			return nil, err
		}
	}
	return texts, nil
}

// appendTexts appends the strings of one segment.
func appendTexts(texts []string, data *io.SectionReader, prefix string) ([]string, error) {
	const step = 1 << 20
	buffer := make([]byte, min(step+maxNameLength+1, data.Size()))
	for from := int64(0); from < data.Size(); from += step {
		// A string that begins in a step may end after it.
		part := buffer[:min(int64(len(buffer)), data.Size()-from)]
		if n, err := data.ReadAt(part, from); n < len(part) {
			return nil, readError(err)
		}
		for at := 0; ; at++ {
			found := bytes.Index(part[at:], []byte(prefix))
			if found < 0 || at+found >= step {
				break
			}
			at += found
			text, ok := cString(part, uint64(at))
			if !ok || slices.Contains(texts, string(text)) {
				continue
			}
			if len(texts) == maxTexts {
				return nil, fmt.Errorf("%w: more than %d strings begin with %q", ErrFormat, maxTexts, prefix)
			}
			texts = append(texts, string(text))
		}
	}
	return texts, nil
}

// Offset returns the position in the file of the code at an address, as linked. The error is
// ErrFormat where the file has no code there.
func (f *File) Offset(address uint64) (uint64, error) {
	return f.image.fileOffset(address, 1, true)
}

// Code returns the n bytes of code, at most 64, at an address, as linked. The error is
// ErrFormat where the file has no code there.
func (f *File) Code(address uint64, n int) ([]byte, error) {
	if n > maxCode {
		return nil, fmt.Errorf("%w: %d bytes of code, at most %d are read", ErrFormat, n, maxCode)
	}
	offset, err := f.image.fileOffset(address, uint64(n), true)
	if err != nil {
		return nil, err
	}
	return readFull(f.image.r, offset, uint64(n))
}
