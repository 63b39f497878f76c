package usdt

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// The limits on reading how a function is unwound, several times what the VMs of OTP 25 to 29 have.
const (
	maxFrames      = 64 << 20 // bytes of .eh_frame; only two records are read
	maxFrameRecord = 1 << 16  // bytes
)

// checkEntry returns an error unless a function of this size is at an address, as linked, and the stack
// there is as the call has left it. Elsewhere a probe of the function's return would overwrite another word
// than the return address.
//
// The record of the code in .eh_frame decides: it is of the same size, and its frame is that of an entry. A
// part of a function that the compiler has moved elsewhere begins with the frame of the rest. If that has
// none, the part is accepted: the return address is in its place. Functions are in the section .text. Other
// sections contain the code of the linker and of the C runtime.
func (img *image) checkEntry(address, size uint64) error {
	const code = ".text"
	table, err := img.unwindTable()
	if err != nil {
		return err
	}
	i := slices.IndexFunc(table, func(e unwindEntry) bool { return e.start == address })
	if i < 0 {
		return errors.New("no function begins there")
	}
	if in := img.sectionAt(address); in != code {
		return fmt.Errorf("it is in the section %q, not in %s", in, code)
	}
	covered, err := img.entered(table[i])
	if err != nil {
		return fmt.Errorf("section %s: %w", framesSection, err)
	}
	if covered != size {
		return fmt.Errorf("the function there has %d bytes, not %d", covered, size)
	}
	_, err = img.fileOffset(address, size, true)
	return err
}

// framesSection is the section with the frames of all functions (Linux Standard Base, exception frames).
const framesSection = ".eh_frame"

// entered returns the size of the code that an entry of the table describes. The error is not nil unless
// the code begins with the frame of a function that was just called.
func (img *image) entered(e unwindEntry) (size uint64, err error) {
	i := slices.IndexFunc(img.sections, func(s section) bool { return s.name == framesSection })
	if i < 0 {
		return 0, fmt.Errorf("%w: it is missing", ErrFormat)
	}
	s := img.sections[i]
	if err := s.check(maxFrames); err != nil {
		return 0, err
	}
	if e.record < s.address || e.record-s.address >= s.size {
		return 0, fmt.Errorf("%w: the frame at %#x is outside", ErrFormat, e.record)
	}
	all, err := sectionReader(img.r, s.offset, s.size)
	if err != nil {
		return 0, err
	}
	at := e.record - s.address
	r, err := frameRecord(all, at)
	if err != nil {
		return 0, err
	}
	const word = 4 // bytes of the length, and of the distance to the common record
	back := uint64(r.u32())
	if back == 0 || back > at+word {
		return 0, fmt.Errorf("%w: the frame at %#x has no common record before it", ErrFormat, e.record)
	}
	common, err := frameRecord(all, at+word-back)
	if err != nil {
		return 0, err
	}
	if err := common.checkCommon(img.machine); err != nil {
		return 0, err
	}
	start := e.record + 2*word + uint64(int64(int32(r.u32())))
	size = uint64(r.u32())
	r.take(r.number())
	if r.failed || start != e.start || size == 0 {
		return 0, fmt.Errorf("%w: the frame at %#x is not that of the code at %#x", ErrFormat, e.record, e.start)
	}
	if !r.keepsFrame() {
		return 0, errors.New("the code there has a frame when it begins: it is a part of a function")
	}
	return size, nil
}

// frameRecord reads the record at an offset of .eh_frame, behind its length.
func frameRecord(all io.ReaderAt, at uint64) (*fields, error) {
	const word = 4
	length, err := readFull(all, at, word)
	if err != nil {
		return nil, err
	}
	size := uint64(binary.LittleEndian.Uint32(length))
	if size == 0 || size > maxFrameRecord {
		return nil, fmt.Errorf("%w: a frame of %d bytes, at most %d are read", ErrFormat, size, maxFrameRecord)
	}
	data, err := readFull(all, at+word, size)
	if err != nil {
		return nil, err
	}
	return &fields{data: data}, nil
}

// relative is the encoding of addresses that linkers for x86-64 and arm64 choose: four bytes, relative to
// their own place (DW_EH_PE_pcrel | DW_EH_PE_sdata4).
const relative = 0x1b

// An entryFrame is the frame of a function that was just called.
type entryFrame struct {
	returns uint8  // number of the register that stands for the return address
	rules   string // call frame instructions
}

// entryFrameOf returns the frame as compilers write it.
func entryFrameOf(machine elf.Machine) entryFrame {
	if machine == elf.EM_AARCH64 { // DW_CFA_def_cfa: the stack pointer. The return address is in its register.
		return entryFrame{30, "\x0c\x1f\x00"}
	}
	// DW_CFA_def_cfa: the stack pointer and 8. DW_CFA_offset: the return address is one unit from there.
	return entryFrame{16, "\x0c\x07\x08\x90\x01"}
}

// checkCommon returns an error unless a common record has the form that compilers write, and its frame is
// that of an entry.
func (r *fields) checkCommon(machine elf.Machine) error {
	const minus8 = 0x78 // as a signed number, which is the unit at x86-64
	id, version, augmentation := r.u32(), r.u8(), r.text()
	step, unit, returns := r.number(), r.u8(), r.u8()
	extra := fields{data: r.take(r.number())}
	what, ok := strings.CutPrefix(augmentation, "z")
	if !ok || id != 0 || version != 1 || step == 0 || !extra.relative(what) || r.failed {
		return fmt.Errorf("%w: frames of another form (%q)", ErrFormat, augmentation)
	}
	entry := entryFrameOf(machine)
	rest, ok := strings.CutPrefix(string(r.data), entry.rules)
	if !ok || strings.Trim(rest, "\x00") != "" || returns != entry.returns || machine == elf.EM_X86_64 && unit != minus8 {
		return errors.New("the code there is not called as functions are")
	}
	return nil
}

// relative reports whether the fields that an augmentation announces are known ones, and addresses have the
// encoding relative.
func (r *fields) relative(augmentation string) bool {
	found := false
	for _, what := range augmentation {
		switch what {
		case 'R':
			found = r.u8() == relative
		case 'P': // the function that handles exceptions
			const form, fourBytes, fourSigned = 0xf, 0x3, 0xb
			if size := r.u8() & form; size != fourBytes && size != fourSigned {
				return false
			}
			r.u32()
		case 'L': // the encoding of data about exceptions
			r.u8()
		default: // such as S, of the frames that signals make
			return false
		}
	}
	return found && !r.failed
}

// Call frame instructions, DW_CFA_*.
const (
	frameNop      = 0x00
	frameAdvance1 = 0x02
	frameAdvance2 = 0x03
	frameAdvance4 = 0x04
	frameAdvance  = 0x40 // and the distance in the lower six bits
)

// keepsFrame reports whether instructions change nothing until they advance.
func (r *fields) keepsFrame() bool {
	for len(r.data) > 0 {
		switch op := r.u8(); {
		case op == frameNop:
		case op == frameAdvance1:
			return r.u8() != 0
		case op == frameAdvance2:
			low, high := r.u8(), r.u8()
			return low|high != 0
		case op == frameAdvance4:
			return r.u32() != 0
		default:
			return op > frameAdvance && op < 2*frameAdvance
		}
	}
	return true
}

// A fields reads the fields of a record. Behind its end all fields are zero, and failed is set.
type fields struct {
	data   []byte
	failed bool
}

// take returns the next n bytes, or nil.
func (r *fields) take(n uint64) []byte {
	if n > uint64(len(r.data)) {
		r.data, r.failed = nil, true
		return nil
	}
	taken := r.data[:n]
	r.data = r.data[n:]
	return taken
}

func (r *fields) u8() uint8 {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *fields) u32() uint32 {
	if b := r.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

// number reads an unsigned number of variable length (LEB128).
func (r *fields) number() uint64 {
	n, size := binary.Uvarint(r.data)
	if size <= 0 {
		r.data, r.failed = nil, true
		return 0
	}
	r.take(uint64(size))
	return n
}

// text reads a text that ends in NUL.
func (r *fields) text() string {
	text, ok := cString(r.data, 0)
	if !ok {
		r.data, r.failed = nil, true
		return ""
	}
	r.take(uint64(len(text)) + 1)
	return string(text)
}
