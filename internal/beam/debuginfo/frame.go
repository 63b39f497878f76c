package debuginfo

import (
	"fmt"
	"math"
	"strings"

	"github.com/beamscope/beamscope/usdt"
)

// A frame is the canonical frame address (CFA) of a function: an offset from the address in a
// register.
type frame struct {
	register uint8
	offset   int64
	known    bool // it has this form
}

// maxSaved is the maximum depth of remembered states.
const maxSaved = 64

// frameAt returns the frame of the function at an address of an executable. It reads the section
// .eh_frame (Linux Standard Base, exception frames). The error wraps [ErrVariable] if it is
// unknown.
func (d *Data) frameAt(exe *usdt.File, pc uint64) (frame, error) {
	const name = ".eh_frame"
	data, err := exe.Section(d.ctx, name, maxOthers)
	if err != nil {
		return frame{}, err
	}
	address, _ := exe.SectionAddress(name)
	for at := uint64(0); at < uint64(len(data)); {
		if err := d.step(); err != nil {
			return frame{}, err
		}
		r := reader{data: data, at: at}
		size := uint64(r.u32())
		if r.failed || size == 0 || size == math.MaxUint32 || size > uint64(len(data))-r.at {
			break
		}
		r.data = data[:r.at+size]
		if f, ok, err := d.frameIn(r, address, pc); ok || err != nil {
			return f, err
		}
		at = r.at + size
	}
	return frame{}, fmt.Errorf("%w: the frame of its function is unknown", ErrVariable)
}

// frameIn returns the frame at an address of the code if an entry covers it.
func (d *Data) frameIn(r reader, section, pc uint64) (f frame, ok bool, err error) {
	here := r.at
	back := uint64(r.u32())
	if back == 0 || back > here {
		return frame{}, false, nil // a common information entry, see common
	}
	c, ok := readCommon(r.data, here-back)
	if !ok {
		return frame{}, false, nil
	}
	begin := section + r.at
	begin += uint64(int64(int32(r.u32())))
	size := uint64(r.u32())
	if r.failed || pc < begin || pc-begin >= size {
		return frame{}, false, nil
	}
	r.skip(r.uleb())
	t := frameTable{d: d, common: c, pc: pc, at: begin}
	if err := t.run(c.instructions); err != nil {
		return frame{}, false, err
	}
	if err := t.run(r); err != nil {
		return frame{}, false, err
	}
	if !t.frame.known {
		return frame{}, false, fmt.Errorf("%w: the frame of its function is unknown", ErrVariable)
	}
	return t.frame, true, nil
}

// A common is a common information entry (CIE), which many entries share.
type common struct {
	codeUnit     uint64
	instructions reader
}

// readCommon reads the CIE at an offset. ok is false if it does not have the form that compilers
// for Linux write: addresses of four bytes, relative to their own place.
func readCommon(data []byte, at uint64) (c common, ok bool) {
	const relative = 0x1b // DW_EH_PE_pcrel | DW_EH_PE_sdata4
	r := reader{data: data, at: at}
	size := uint64(r.u32())
	if r.failed || size > uint64(len(data))-r.at {
		return common{}, false
	}
	r.data = data[:r.at+size]
	id, version := r.u32(), r.u8()
	augmentation := string(r.text())
	rest, found := strings.CutPrefix(augmentation, "z")
	if id != 0 || version != 1 || !found {
		return common{}, false
	}
	c.codeUnit = r.uleb()
	r.sleb() // the unit of saved registers
	r.u8()   // the register with the return address
	extra := r.uleb()
	end := r.at + extra
	for _, what := range rest {
		switch what {
		case 'R':
			ok = r.u8() == relative
		case 'P':
			ok = r.u8()&0xf == relative&0xf
			r.u32()
		case 'L':
			r.u8()
			ok = true
		case 'S':
			ok = true
		default:
			ok = false
		}
		if !ok {
			return common{}, false
		}
	}
	if r.failed || r.at > end || end > uint64(len(r.data)) {
		return common{}, false
	}
	r.at = end
	c.instructions = r
	return c, strings.Contains(rest, "R")
}

// A frameTable executes call frame instructions up to an address of the code.
type frameTable struct {
	d *Data
	common
	pc, at uint64
	frame  frame
	saved  []frame
}

// Instructions, DW_CFA_*. The upper two bits of the first three are the instruction.
const (
	advance         = 0x1
	saveAt          = 0x2
	restore         = 0x3
	nop             = 0x00
	advance1        = 0x02
	advance2        = 0x03
	advance4        = 0x04
	offsetExtended  = 0x05
	restoreExtended = 0x06
	undefined       = 0x07
	sameValue       = 0x08
	inOther         = 0x09
	rememberState   = 0x0a
	restoreState    = 0x0b
	defineFrame     = 0x0c
	defineRegister  = 0x0d
	defineOffset    = 0x0e
	defineByOther   = 0x0f
	byExpression    = 0x10
	offsetSigned    = 0x11
	valueExpression = 0x16
	negateReturn    = 0x2d
	argumentsSize   = 0x2e
)

// run executes instructions until they describe code after the address.
func (t *frameTable) run(r reader) error {
	for r.at < uint64(len(r.data)) && !r.failed {
		if err := t.d.step(); err != nil {
			return err
		}
		op := r.u8()
		if step, ok := t.advances(&r, op); ok {
			if step > t.pc-t.at {
				return nil
			}
			t.at += step
			continue
		}
		if !t.skips(&r, op) && !t.defines(&r, op) {
			return fmt.Errorf("%w: instruction %#x of its frame", ErrVariable, op)
		}
	}
	if r.failed {
		return fmt.Errorf("%w: the frame of its function", ErrFormat)
	}
	return nil
}

// advances returns the number of bytes of code by which an instruction advances.
func (t *frameTable) advances(r *reader, op uint8) (step uint64, ok bool) {
	switch {
	case op>>6 == advance:
		step = uint64(op & 0x3f)
	case op == advance1:
		step = uint64(r.u8())
	case op == advance2:
		step = uint64(r.u16())
	case op == advance4:
		step = uint64(r.u32())
	default:
		return 0, false
	}
	return step * t.codeUnit, true
}

// skips skips an instruction that only affects saved registers.
func (t *frameTable) skips(r *reader, op uint8) bool {
	switch {
	case op == nop, op == negateReturn, op>>6 == restore:
	case op>>6 == saveAt, op == restoreExtended, op == undefined, op == sameValue, op == argumentsSize:
		r.uleb()
	case op == offsetExtended, op == inOther, op == offsetSigned: // a signed number has the same length
		r.uleb()
		r.uleb()
	case op == byExpression, op == valueExpression:
		r.uleb()
		r.skip(r.uleb())
	default:
		return false
	}
	return true
}

// defines executes an instruction that defines the frame.
func (t *frameTable) defines(r *reader, op uint8) bool {
	switch op {
	case defineFrame:
		register := r.uleb()
		t.frame = frame{register: uint8(register), offset: int64(r.uleb()), known: register < registers}
	case defineRegister:
		register := r.uleb()
		t.frame.register, t.frame.known = uint8(register), t.frame.known && register < registers
	case defineOffset:
		t.frame.offset = int64(r.uleb())
	case defineByOther:
		r.skip(r.uleb())
		t.frame.known = false
	case rememberState:
		if len(t.saved) == maxSaved {
			return false
		}
		t.saved = append(t.saved, t.frame)
	case restoreState:
		if len(t.saved) == 0 {
			return false
		}
		last := len(t.saved) - 1
		t.frame, t.saved = t.saved[last], t.saved[:last]
	default:
		return false
	}
	return true
}
