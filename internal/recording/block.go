package recording

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// A recording begins with a preamble: the magic, the version and a check of both.
// The magic shows, like that of PNG, whether a transfer took the file for text.
const (
	magic        = "\x89BSR\r\n\x1a\n"
	version      = 3
	preambleSize = len(magic) + 4 + checkSize
)

// A block is a head, its payload and a check of both. The head is the kind in one
// byte, the length of the payload in three, and a check of its own: no reader
// follows a damaged length.
const (
	headSize  = 4 + checkSize
	checkSize = 4
)

// A kind says what a block holds. They are letters, to be seen in a hex dump.
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
	return crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)) // the table is made once
}

// appendPreamble appends what a recording begins with.
func appendPreamble(dst []byte) []byte {
	start := len(dst)
	dst = append(dst, magic...)
	dst = binary.LittleEndian.AppendUint32(dst, version)
	return binary.LittleEndian.AppendUint32(dst, checksum(dst[start:]))
}

// beginBlock leaves room for the head of a block. The payload is to be appended,
// and then endBlock called.
func beginBlock(dst []byte) []byte { return append(dst, make([]byte, headSize)...) }

// endBlock completes the block that begins at start. Where it is too long it is
// removed.
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
