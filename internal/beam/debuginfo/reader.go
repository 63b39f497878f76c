package debuginfo

import (
	"bytes"
	"encoding/binary"
)

// A reader reads consecutive numbers. After the end it returns zeros and sets failed.
type reader struct {
	data   []byte
	at     uint64
	failed bool
}

// next returns the next n bytes, or nil if fewer are left.
func (r *reader) next(n uint64) []byte {
	if r.failed || r.at > uint64(len(r.data)) || n > uint64(len(r.data))-r.at {
		r.failed = true
		return nil
	}
	r.at += n
	return r.data[r.at-n : r.at]
}

func (r *reader) skip(n uint64) { r.next(n) }

func (r *reader) u8() uint8 {
	if b := r.next(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) u16() uint16 {
	if b := r.next(2); b != nil {
		return binary.LittleEndian.Uint16(b)
	}
	return 0
}

func (r *reader) u24() uint32 {
	if b := r.next(3); b != nil {
		return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16
	}
	return 0
}

func (r *reader) u32() uint32 {
	if b := r.next(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (r *reader) u64() uint64 {
	if b := r.next(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// word reads an offset into a section: 8 bytes if wide, else 4.
func (r *reader) word(wide bool) uint64 {
	if wide {
		return r.u64()
	}
	return uint64(r.u32())
}

// lebBytes is the maximum number of bytes of a 64-bit number.
const lebBytes = 10

// uleb reads a ULEB128 number. Bits above 64 are ignored.
func (r *reader) uleb() uint64 {
	var n uint64
	for shift := 0; shift < 7*lebBytes; shift += 7 {
		b := r.u8()
		n |= uint64(b&0x7f) << shift
		if b&0x80 == 0 {
			return n
		}
	}
	r.failed = true
	return 0
}

// sleb reads an SLEB128 number.
func (r *reader) sleb() int64 {
	var n int64
	for shift := 0; shift < 7*lebBytes; shift += 7 {
		b := r.u8()
		n |= int64(b&0x7f) << shift
		if b&0x80 != 0 {
			continue
		}
		if shift += 7; shift < 64 && b&0x40 != 0 {
			n |= -1 << shift
		}
		return n
	}
	r.failed = true
	return 0
}

// text reads up to the next NUL, and skips the NUL.
func (r *reader) text() []byte {
	if r.failed || r.at > uint64(len(r.data)) {
		r.failed = true
		return nil
	}
	size := bytes.IndexByte(r.data[r.at:], 0)
	if size < 0 {
		r.failed = true
		return nil
	}
	text := r.next(uint64(size))
	r.skip(1)
	return text
}
