package debuginfo

import (
	"debug/elf"
	"fmt"
	"math"

	"github.com/beamscope/beamscope/usdt"
)

// maxScopes is the maximum depth of nested scopes (functions and blocks) in which a variable is
// found.
const maxScopes = 64

// A Place is where a variable is: in a register, or in memory.
type Place struct {
	Register uint8 // by DWARF's numbers of the machine
	Memory   bool  // the variable is in memory, Offset bytes from the address in the register
	Offset   int64 // 0 if it is in the register
}

// Spec returns the place of a variable of eight bytes in the form that the notes about probes have,
// such as "8@%rax" and "8@-16(%rbp)".
func (p Place) Spec(machine elf.Machine) (string, error) {
	register, ok := registerName(machine, p.Register)
	switch {
	case !ok:
		return "", fmt.Errorf("%w: register %d", ErrVariable, p.Register)
	case p.Memory && machine == elf.EM_AARCH64:
		return fmt.Sprintf("8@[%s, %d]", register, p.Offset), nil
	case p.Memory:
		return fmt.Sprintf("8@%d(%s)", p.Offset, register), nil
	}
	return "8@" + register, nil
}

// registerName returns the name of a register by the number that DWARF gives it: System V
// ABI for AMD64, figure 3.36; DWARF for the Arm 64-bit Architecture.
func registerName(machine elf.Machine, n uint8) (string, bool) {
	amd64 := []string{
		"%rax", "%rdx", "%rcx", "%rbx", "%rsi", "%rdi", "%rbp", "%rsp",
		"%r8", "%r9", "%r10", "%r11", "%r12", "%r13", "%r14", "%r15",
	}
	switch {
	case machine == elf.EM_X86_64 && int(n) < len(amd64):
		return amd64[n], true
	case machine == elf.EM_AARCH64 && n <= 30:
		return fmt.Sprintf("x%d", n), true
	}
	return "", false
}

// Variable returns the place of a variable at an address of the code of an executable, as linked.
// Of several variables with that name it is the innermost. The executable may be the file of the
// debugging information. The error wraps [ErrVariable] if the variable is not there, or not in a
// register or a frame of the stack.
func (d *Data) Variable(exe *usdt.File, pc uint64, name string) (Place, error) {
	u, root, err := d.unitOf(pc)
	if err != nil {
		return Place{}, err
	}
	s := search{d: d, u: u, pc: pc, name: name, err: ErrVariable}
	// An entry at depth here is in scopes that all contain the address.
	depth, here := 1, 1
	for at := root.next; root.children && depth > 0 && at < u.end; {
		e, err := d.entryAt(u, at)
		if err != nil {
			return Place{}, err
		}
		at = e.next
		if e.tag == 0 {
			depth--
			here = min(here, depth)
			continue
		}
		if depth == here {
			opens, err := s.entry(e, depth)
			if err != nil {
				return Place{}, err
			}
			if opens && here < maxScopes {
				here++
			}
		}
		if e.children {
			depth++
		}
	}
	if s.err != nil {
		return Place{}, s.err
	}
	return d.place(exe, pc, s.found, s.base)
}

// unitOf returns the unit with the code at an address, and the unit's first entry.
func (d *Data) unitOf(pc uint64) (*unit, entry, error) {
	for i := range d.units {
		u := &d.units[i]
		root, err := d.root(u)
		if err != nil {
			return nil, entry{}, err
		}
		in, err := d.contains(u, root, pc)
		if err != nil {
			return nil, entry{}, err
		}
		if in {
			return u, root, nil
		}
	}
	return nil, entry{}, fmt.Errorf("%w: no unit has the code at %#x", ErrVariable, pc)
}

// A search looks for the innermost variable with a name at an address.
type search struct {
	d    *Data
	u    *unit
	pc   uint64
	name string

	frame     []byte // frame base of the function that contains the address
	found     []byte // location of the variable that was found
	base      []byte // frame base of that variable's function
	innermost int    // scope depth of the variable that was found
	err       error  // why no variable was found; nil if one was
}

// entry examines an entry at a depth. opens reports whether the entry is a scope that contains the
// address.
func (s *search) entry(e entry, depth int) (opens bool, err error) {
	switch e.tag {
	case tagVariable, tagParameter:
		if depth < s.innermost || s.d.nameOf(e) != s.name {
			return false, s.d.ctxErr()
		}
		location, err := s.d.locationAt(s.u, e, s.pc)
		if err == nil {
			s.found, s.base, s.innermost, s.err = location, s.frame, depth, nil
		} else if s.innermost == 0 {
			s.err = err
		}
		return false, s.d.ctxErr()
	case tagLexicalBlock: // its code range is not used: gcc gives some blocks an empty range
		return e.children, nil
	case tagSubprogram, tagInlined:
		if !e.children {
			return false, nil
		}
		opens, err := s.d.contains(s.u, e, s.pc)
		if opens && e.tag == tagSubprogram {
			s.frame = e.frameBase.text
		}
		return opens, err
	}
	return false, nil
}

// ctxErr returns an error if no more steps are allowed. Callers would otherwise conclude that there
// is nothing to find.
func (d *Data) ctxErr() error { return d.step() }

// nameOf returns the name of a variable. For an inlined function, it is in the abstract origin.
func (d *Data) nameOf(e entry) string {
	if e.hasOrigin {
		_, origin, err := d.entry(e.origin)
		if err != nil {
			return ""
		}
		return string(origin.name)
	}
	return string(e.name)
}

// address returns the address in an attribute.
func (d *Data) address(u *unit, x datum) (uint64, error) {
	switch x.kind {
	case address:
		return uint64(x.number), nil
	case index:
		return d.addressAt(u, uint64(x.number))
	}
	return 0, fmt.Errorf("%w: no address", ErrFormat)
}

// addressAt returns the address at an index of the unit's table.
func (d *Data) addressAt(u *unit, index uint64) (uint64, error) {
	section, err := d.section("addr")
	if err != nil {
		return 0, err
	}
	if index > uint64(len(section)) {
		return 0, fmt.Errorf("%w: address %d", ErrFormat, index)
	}
	r := reader{data: section, at: u.addresses + index*uint64(u.addressSize)}
	n := r.unsigned(u.addressSize)
	if r.failed {
		return 0, fmt.Errorf("%w: address %d", ErrFormat, index)
	}
	return n, nil
}

// contains reports whether an address is in the code of an entry. Unreadable ranges contain no
// address.
func (d *Data) contains(u *unit, e entry, pc uint64) (bool, error) {
	if low, err := d.address(u, e.low); err == nil && e.high.kind != nothing {
		high := low + uint64(e.high.number)
		if e.high.kind != number {
			if high, err = d.address(u, e.high); err != nil {
				return false, d.ctxErr()
			}
		}
		if low <= pc && pc < high {
			return true, nil
		}
	}
	var l list
	switch {
	case e.ranges.kind == nothing:
		return false, nil
	case u.version < 5:
		section, err := d.section("ranges")
		if err != nil {
			return false, err
		}
		l = newList(d, u, pc, section, uint64(e.ranges.number), ranges4)
	default:
		section, err := d.section("rnglists")
		if err != nil {
			return false, err
		}
		at := uint64(e.ranges.number)
		if e.ranges.kind == index {
			if at, err = listAt(u, section, at); err != nil {
				return false, d.ctxErr()
			}
		}
		l = newList(d, u, pc, section, at, ranges5)
	}
	_, found, err := l.find()
	return found, err
}

// listAt returns the offset of the range list with an index.
func listAt(u *unit, section []byte, index uint64) (uint64, error) {
	size := uint64(4)
	if u.wide {
		size = 8
	}
	if index > uint64(len(section)) {
		return 0, fmt.Errorf("%w: list %d", ErrFormat, index)
	}
	r := reader{data: section, at: u.rangeLists + index*size}
	at := u.rangeLists + r.word(u.wide)
	if r.failed {
		return 0, fmt.Errorf("%w: list %d", ErrFormat, index)
	}
	return at, nil
}

// locationAt returns the expression of the place of a variable at an address.
func (d *Data) locationAt(u *unit, e entry, pc uint64) ([]byte, error) {
	if e.location.kind == block {
		return e.location.text, nil
	}
	name, kind := "loc", locations4
	if u.version >= 5 {
		name, kind = "loclists", locations5
	}
	if k := e.location.kind; k != offset && (k != number || u.version >= 4) { // before DWARF 4, offsets had the form of numbers
		return nil, ErrVariable
	}
	section, err := d.section(name)
	if err != nil {
		return nil, err
	}
	l := newList(d, u, pc, section, uint64(e.location.number), kind)
	expression, found, err := l.find()
	if err == nil && !found {
		err = fmt.Errorf("%w: it is nowhere", ErrVariable)
	}
	return expression, err
}

// The operations of locations that are known: DW_OP_reg0 and so on, DW_OP_breg0 and so on,
// DW_OP_fbreg, and DW_OP_call_frame_cfa.
const (
	inRegister   = 0x50
	byRegister   = 0x70
	registers    = 32
	byFrame      = 0x91
	canonicFrame = 0x9c
)

// place returns the place that an expression describes, which is one operation. base is the frame
// base of the function.
func (d *Data) place(exe *usdt.File, pc uint64, expression, base []byte) (Place, error) {
	r := reader{data: expression}
	op := r.u8()
	var p Place
	switch {
	case op >= inRegister && op < inRegister+registers:
		p = Place{Register: op - inRegister}
	case op >= byRegister && op < byRegister+registers:
		p = Place{Register: op - byRegister, Memory: true, Offset: r.sleb()}
	case op == byFrame && len(base) == 1 && base[0] == canonicFrame:
		frame, err := d.frameAt(exe, pc)
		if err != nil {
			return Place{}, err
		}
		p = Place{Register: frame.register, Memory: true, Offset: frame.offset + r.sleb()}
	default:
		r.failed = true
	}
	if r.failed || r.at != uint64(len(expression)) {
		return Place{}, fmt.Errorf("%w: it is neither in a register nor in a frame", ErrVariable)
	}
	return p, nil
}

// A listKind is the kind and encoding of a list's entries.
type listKind uint8

const (
	ranges4 listKind = iota // DWARF 2 to 4
	ranges5
	locations4
	locations5
)

// located reports whether the entries have location expressions.
func (k listKind) located() bool { return k == locations4 || k == locations5 }

// A list is a range list or location list. Entries of a location list have an expression.
type list struct {
	d    *Data
	u    *unit
	kind listKind
	r    reader
	base uint64 // base of the relative addresses
	pc   uint64 // address to look for
}

func newList(d *Data, u *unit, pc uint64, section []byte, at uint64, kind listKind) list {
	return list{d: d, u: u, kind: kind, r: reader{data: section, at: at}, base: u.low, pc: pc}
}

// find returns the expression of the range that contains the address. An unreadable list contains
// no range; the error says that a limit was reached.
func (l *list) find() (expression []byte, found bool, err error) {
	for {
		if err := l.d.step(); err != nil {
			return nil, false, err
		}
		x, ok := l.next()
		if !ok || l.r.failed {
			return nil, false, nil
		}
		if x.from <= l.pc && l.pc < x.to {
			return x.expression, true, nil
		}
	}
}

// A listEntry covers the addresses in [from, to). It is empty if the entry only sets a base address.
type listEntry struct {
	from, to   uint64
	expression []byte
}

// next reads an entry. It returns false at the end and for an unknown entry.
func (l *list) next() (listEntry, bool) {
	if l.kind == ranges4 || l.kind == locations4 {
		return l.next4()
	}
	return l.next5()
}

// next4 reads an entry of DWARF 2 to 4.
func (l *list) next4() (listEntry, bool) {
	size := l.u.addressSize
	from, to := l.r.unsigned(size), l.r.unsigned(size)
	highest := uint64(math.MaxUint64)
	if size < 8 {
		highest = 1<<(8*size) - 1
	}
	switch {
	case from == 0 && to == 0:
		return listEntry{}, false
	case from == highest:
		l.base = to
		return listEntry{}, true
	}
	x := listEntry{from: l.base + from, to: l.base + to}
	if l.kind.located() {
		x.expression = l.r.next(uint64(l.r.u16()))
	}
	return x, true
}

// Kinds of DWARF 5 entries. Location lists (DW_LLE_*) have one more kind, and after it the numbers
// of range lists (DW_RLE_*) plus one.
const (
	endOfList = iota
	baseIndex
	indexToIndex
	indexOfLength
	offsetPair
	anywhere // location lists only
	baseAddress
	startToEnd
	startOfLength
)

// next5 reads an entry of DWARF 5.
func (l *list) next5() (listEntry, bool) {
	var x listEntry
	kind := l.r.u8()
	if l.kind == ranges5 && kind >= anywhere {
		kind++
	}
	size := l.u.addressSize
	switch kind {
	case baseAddress:
		l.base = l.r.unsigned(size)
		return x, true
	case baseIndex:
		l.base = l.indexed()
		return x, true
	case offsetPair:
		x.from, x.to = l.base+l.r.uleb(), l.base+l.r.uleb()
	case anywhere:
		x.to = math.MaxUint64
	case startToEnd:
		x.from, x.to = l.r.unsigned(size), l.r.unsigned(size)
	case startOfLength:
		x.from = l.r.unsigned(size)
		x.to = x.from + l.r.uleb()
	case indexToIndex:
		x.from, x.to = l.indexed(), l.indexed()
	case indexOfLength:
		x.from = l.indexed()
		x.to = x.from + l.r.uleb()
	default: // endOfList, and unknown kinds
		return x, false
	}
	if l.kind.located() {
		x.expression = l.r.next(l.r.uleb())
	}
	return x, true
}

// indexed reads an index and returns the address at it.
func (l *list) indexed() uint64 {
	at, err := l.d.addressAt(l.u, l.r.uleb())
	if err != nil {
		l.r.failed = true
	}
	return at
}
