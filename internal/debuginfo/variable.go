package debuginfo

import (
	"fmt"
	"math"
)

// maxScopes is how many scopes are within each other, functions and blocks, where a
// variable is found.
const maxScopes = 64

// Register returns the number of the register, by DWARF's numbers of the machine, that a
// variable is in at an address of the code, as linked. Of several variables with that name
// it is the innermost. The error wraps [ErrVariable] where the variable is not there, or in
// no register.
func (d *Data) Register(pc uint64, name string) (uint8, error) {
	u, root, err := d.unitOf(pc)
	if err != nil {
		return 0, err
	}
	s := search{d: d, u: u, pc: pc, name: name, err: ErrVariable}
	// All scopes around an entry are at the address where depth is here.
	depth, here := 1, 1
	for at := root.next; root.children && depth > 0 && at < u.end; {
		e, err := d.entryAt(u, at)
		if err != nil {
			return 0, err
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
				return 0, err
			}
			if opens && here < maxScopes {
				here++
			}
		}
		if e.children {
			depth++
		}
	}
	return s.found, s.err
}

// unitOf returns the unit that has the code at an address, and its first entry.
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

// A search is for the innermost variable of a name at an address.
type search struct {
	d    *Data
	u    *unit
	pc   uint64
	name string

	found     uint8
	innermost int   // depth of what was found
	err       error // why nothing was; nil where something was
}

// entry looks at an entry at a depth. opens is true where its children are at the address
// too.
func (s *search) entry(e entry, depth int) (opens bool, err error) {
	switch e.tag {
	case tagVariable, tagParameter:
		if depth < s.innermost || s.d.nameOf(e) != s.name {
			return false, s.d.ctxErr()
		}
		register, err := s.d.registerAt(s.u, e, s.pc)
		if err == nil {
			s.found, s.innermost, s.err = register, depth, nil
		} else if s.innermost == 0 {
			s.err = err
		}
		return false, s.d.ctxErr()
	case tagLexicalBlock: // its code says nothing: gcc gives some an empty range
		return e.children, nil
	case tagSubprogram, tagInlined:
		if !e.children {
			return false, nil
		}
		return s.d.contains(s.u, e, s.pc)
	}
	return false, nil
}

// ctxErr returns an error where no more may be done: what looked for less believes that
// there is nothing.
func (d *Data) ctxErr() error { return d.step() }

// nameOf returns the name of a variable, which is elsewhere where its function is inlined.
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

// address returns an address that an attribute says.
func (d *Data) address(u *unit, x datum) (uint64, error) {
	switch x.kind {
	case address:
		return uint64(x.number), nil
	case index:
		return d.addressAt(u, uint64(x.number))
	}
	return 0, fmt.Errorf("%w: no address", ErrFormat)
}

// addressAt returns the address with an index of the unit's table.
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

// contains reports whether an address is in the code that an entry describes. Ranges that
// cannot be read have none.
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

// listAt returns where the list of ranges with an index begins.
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

// registerAt returns the register that a variable is in at an address.
func (d *Data) registerAt(u *unit, e entry, pc uint64) (uint8, error) {
	if e.location.kind == block {
		return registerOf(e.location.text)
	}
	name, kind := "loc", locations4
	if u.version >= 5 {
		name, kind = "loclists", locations5
	}
	if k := e.location.kind; k != offset && (k != number || u.version >= 4) { // an offset was a number once
		return 0, ErrVariable
	}
	section, err := d.section(name)
	if err != nil {
		return 0, err
	}
	l := newList(d, u, pc, section, uint64(e.location.number), kind)
	expression, found, err := l.find()
	if err != nil {
		return 0, err
	}
	if !found {
		return 0, fmt.Errorf("%w: it is nowhere", ErrVariable)
	}
	return registerOf(expression)
}

// registerOf returns the register that a location is: DW_OP_reg0 to DW_OP_reg31, and
// nothing besides.
func registerOf(expression []byte) (uint8, error) {
	const first, last = 0x50, 0x6f
	if len(expression) != 1 || expression[0] < first || expression[0] > last {
		return 0, fmt.Errorf("%w: it is in no register", ErrVariable)
	}
	return expression[0] - first, nil
}

// A listKind says what the entries of a list are, and in which form.
type listKind uint8

const (
	ranges4 listKind = iota // DWARF 2 to 4
	ranges5
	locations4
	locations5
)

// located reports whether the entries have expressions.
func (k listKind) located() bool { return k == locations4 || k == locations5 }

// A list is a list of ranges of addresses, each with an expression where it is of locations.
type list struct {
	d    *Data
	u    *unit
	kind listKind
	r    reader
	base uint64 // that addresses are relative to
	pc   uint64 // that is looked for
}

func newList(d *Data, u *unit, pc uint64, section []byte, at uint64, kind listKind) list {
	return list{d: d, u: u, kind: kind, r: reader{data: section, at: at}, base: u.low, pc: pc}
}

// find returns the expression of the range that has the address. A list that cannot be read
// has none; the error is that of a limit.
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

// A listEntry is an entry of a list: from an address up to another one. It is empty where it
// has none of its own.
type listEntry struct {
	from, to   uint64
	expression []byte
}

// next reads an entry, false where it is the last or not known.
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

// Kinds of entries of DWARF 5. Those of locations, DW_LLE_*, have one more, and the numbers
// of DW_RLE_* with one added behind it.
const (
	endOfList = iota
	baseIndex
	indexToIndex
	indexOfLength
	offsetPair
	anywhere // of locations only
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
	default: // endOfList, too
		return x, false
	}
	if l.kind.located() {
		x.expression = l.r.next(l.r.uleb())
	}
	return x, true
}

// indexed reads an index of an address, and returns that.
func (l *list) indexed() uint64 {
	at, err := l.d.addressAt(l.u, l.r.uleb())
	if err != nil {
		l.r.failed = true
	}
	return at
}
