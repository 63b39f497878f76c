package procname

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// wordSize is the size of a word, a pointer, and an Erlang term in bytes.
const wordSize = 8

// errAddress is the error for addresses that are impossible in a process.
var errAddress = errors.New("not an address")

// A memory is the memory of a process, read by address.
type memory struct{ r io.ReaderAt }

// read fills data with the bytes at an address.
func (m memory) read(address uint64, data []byte) error {
	if address == 0 || address > math.MaxInt64-uint64(len(data)) {
		return fmt.Errorf("%#x: %w", address, errAddress)
	}
	n, err := m.r.ReadAt(data, int64(address))
	if n == len(data) {
		return nil
	}
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("%#x: %w", address, err)
}

// word returns the word at an address.
func (m memory) word(address uint64) (uint64, error) {
	var data [wordSize]byte
	err := m.read(address, data[:])
	return binary.LittleEndian.Uint64(data[:]), err
}

// words fills all with the words at an address.
func (m memory) words(address uint64, all []uint64) error {
	const most = 4
	var data [most * wordSize]byte
	part := data[:len(all)*wordSize]
	if err := m.read(address, part); err != nil {
		return err
	}
	for i := range all {
		all[i] = binary.LittleEndian.Uint64(part[i*wordSize:])
	}
	return nil
}

// A view has the bytes of a structure that were read, from its beginning.
type view []byte

func (v view) u64(offset uint64) uint64 { return binary.LittleEndian.Uint64(v[offset:]) }
func (v view) u32(offset uint64) uint32 { return binary.LittleEndian.Uint32(v[offset:]) }
func (v view) u16(offset uint64) uint16 { return binary.LittleEndian.Uint16(v[offset:]) }
