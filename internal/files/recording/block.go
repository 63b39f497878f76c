package recording

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// A recording begins with a preamble: the magic, the version, and a checksum of both. Like that
// of PNG, the magic shows whether a transfer treated the file as text.
const (
	magic        = "\x89BSR\r\n\x1a\n"
	version      = 3
	preambleSize = len(magic) + 4 + checkSize
)

// A block consists of a head, its payload, and a checksum of both. The head contains the kind in
// one byte, the length of the payload in three, and its own checksum, so that a reader never uses
// a damaged length.
const (
	headSize  = 4 + checkSize
	checkSize = 4
)

// A kind is the kind of a block. Kinds are letters, which are visible in a hex dump.
type kind byte

const (
	kindHeader   kind = 'H'
	kindConfig   kind = 'C'
	kindBatch    kind = 'B'
	kindNotice   kind = 'N'
	kindSnapshot kind = 'S'
	kindCause    kind = 'T'
	kindEnd      kind = 'E'
)

// checksum returns the CRC-32C of the data.
func checksum(data []byte) uint32 {
	return crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)) // MakeTable returns the same table each time
}

// appendPreamble appends the beginning of a recording.
func appendPreamble(dst []byte) []byte {
	start := len(dst)
	dst = append(dst, magic...)
	dst = binary.LittleEndian.AppendUint32(dst, version)
	return binary.LittleEndian.AppendUint32(dst, checksum(dst[start:]))
}

// beginBlock leaves room for the head of a block. The caller appends the payload, and then calls
// endBlock.
func beginBlock(dst []byte) []byte { return append(dst, make([]byte, headSize)...) }

// endBlock completes the block that begins at start. If the block is too long, it removes the
// block.
func endBlock(dst []byte, start int, k kind) ([]byte, error) {
	length := len(dst) - start - headSize
	if length > MaxBlock {
		return dst[:start], fmt.Errorf("%w: a block of %d bytes: at most %d", ErrLimit, length, MaxBlock)
	}
	head := dst[start : start+headSize]
	binary.LittleEndian.PutUint32(head, uint32(length)<<8|uint32(k))
	binary.LittleEndian.PutUint32(head[4:], checksum(head[:4]))
	return binary.LittleEndian.AppendUint32(dst, checksum(dst[start:])), nil
}
