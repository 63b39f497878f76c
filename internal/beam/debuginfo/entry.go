package debuginfo

import "fmt"

// DWARF tags, attributes and forms that this package uses, with the numbers of the standard (DWARF
// 5, 7.5).
type (
	tag       uint64
	attribute uint64
	form      uint64
)

const (
	tagArrayType    tag = 0x01
	tagParameter    tag = 0x05
	tagLexicalBlock tag = 0x0b
	tagMember       tag = 0x0d
	tagPointerType  tag = 0x0f
	tagCompileUnit  tag = 0x11
	tagStructType   tag = 0x13
	tagTypedef      tag = 0x16
	tagInlined      tag = 0x1d
	tagConstType    tag = 0x26
	tagSubprogram   tag = 0x2e
	tagVariable     tag = 0x34
	tagVolatileType tag = 0x35
	tagPartialUnit  tag = 0x3c
	tagTypeUnit     tag = 0x41
)

const (
	attributeSibling       attribute = 0x01
	attributeLocation      attribute = 0x02
	attributeName          attribute = 0x03
	attributeByteSize      attribute = 0x0b
	attributeLow           attribute = 0x11
	attributeHigh          attribute = 0x12
	attributeOrigin        attribute = 0x31
	attributeMemberOffset  attribute = 0x38
	attributeDeclaration   attribute = 0x3c
	attributeFrameBase     attribute = 0x40
	attributeType          attribute = 0x49
	attributeRanges        attribute = 0x55
	attributeStringOffsets attribute = 0x72
	attributeAddresses     attribute = 0x73
	attributeRangeLists    attribute = 0x74
)

const (
	formAddress         form = 0x01
	formBlock2          form = 0x03
	formBlock4          form = 0x04
	formData2           form = 0x05
	formData4           form = 0x06
	formData8           form = 0x07
	formString          form = 0x08
	formBlock           form = 0x09
	formBlock1          form = 0x0a
	formData1           form = 0x0b
	formFlag            form = 0x0c
	formSdata           form = 0x0d
	formStrp            form = 0x0e
	formUdata           form = 0x0f
	formRefAddress      form = 0x10
	formRef1            form = 0x11
	formRef2            form = 0x12
	formRef4            form = 0x13
	formRef8            form = 0x14
	formRefUdata        form = 0x15
	formIndirect        form = 0x16
	formSectionOffset   form = 0x17
	formExpression      form = 0x18
	formFlagPresent     form = 0x19
	formStrx            form = 0x1a
	formAddrx           form = 0x1b
	formRefSup4         form = 0x1c
	formStrpSup         form = 0x1d
	formData16          form = 0x1e
	formLineStrp        form = 0x1f
	formRefSignature    form = 0x20
	formImplicitConst   form = 0x21
	formLoclistx        form = 0x22
	formRnglistx        form = 0x23
	formRefSup8         form = 0x24
	formStrx1           form = 0x25
	formStrx2           form = 0x26
	formStrx3           form = 0x27
	formStrx4           form = 0x28
	formAddrx1          form = 0x29
	formAddrx2          form = 0x2a
	formAddrx3          form = 0x2b
	formAddrx4          form = 0x2c
	formGNUAddressIndex form = 0x1f01
	formGNUStringIndex  form = 0x1f02
	formGNURefAlt       form = 0x1f20
	formGNUStrpAlt      form = 0x1f21
)

// An entry contains the needed attributes of an entry of .debug_info.
type entry struct {
	at       Offset
	tag      tag // 0 for the end of a list of children
	children bool
	next     uint64 // offset of the entry that follows directly: its first child or the next entry

	name        []byte
	declaration bool
	typ         Offset // offset of its type, if hasType
	hasType     bool
	size        int64 // in bytes; -1 if it has none
	offset      int64 // of a member, in bytes; -1 if it is not constant, 0 if it has none
	sibling     uint64
	origin      Offset // offset of the entry that has its name, if hasOrigin
	hasOrigin   bool

	low, high datum // bounds of its code; high may be a size
	ranges    datum // ranges of its code
	location  datum // of a variable
	frameBase datum // of a function: what the places of its variables are relative to

	strings, addresses, rangeLists uint64 // offsets of the unit's contributions to other sections; 0 if the entry has no such attribute
}

// entryAt reads an entry.
func (d *Data) entryAt(u *unit, at uint64) (entry, error) {
	if err := d.step(); err != nil {
		return entry{}, err
	}
	r := reader{data: d.info[:u.end], at: at}
	e := entry{at: Offset(at), size: -1}
	code := r.uleb()
	if code == 0 {
		e.next = r.at
		return e, d.failed(r, at)
	}
	t, err := d.tableAt(u.table)
	if err != nil {
		return entry{}, err
	}
	a := t[code]
	if a == nil {
		return entry{}, fmt.Errorf("%w: entry at %#x has abbreviation %d, which is not there", ErrFormat, at, code)
	}
	e.tag, e.children = a.tag, a.children
	for _, v := range a.values {
		if err := d.step(); err != nil {
			return entry{}, err
		}
		if err := d.readValue(&e, u, &r, v); err != nil {
			return entry{}, err
		}
	}
	e.next = r.at
	return e, d.failed(r, at)
}

// failed returns an error if the reader went past the end of the unit.
func (d *Data) failed(r reader, at uint64) error {
	if r.failed {
		return fmt.Errorf("%w: entry at %#x goes beyond its unit", ErrFormat, at)
	}
	return nil
}

// A datum is the decoded value of an attribute.
type datum struct {
	kind   datumKind
	number int64
	text   []byte
}

type datumKind uint8

const (
	nothing datumKind = iota // skipped or not used
	number                   // constant or flag
	offset                   // into a section
	index                    // index into a table in a section
	address
	block     // bytes
	text      // a string
	reference // to an entry
)

// readValue reads the value of an attribute and stores it if it is needed.
func (d *Data) readValue(e *entry, u *unit, r *reader, v value) error {
	x, err := d.datum(u, r, v)
	if err != nil {
		return err
	}
	switch v.attribute {
	case attributeName:
		if x.kind == text {
			e.name = x.text
		}
	case attributeDeclaration:
		e.declaration = x.kind == number && x.number != 0
	case attributeType:
		e.typ, e.hasType = Offset(x.number), x.kind == reference
	case attributeByteSize:
		if x.kind == number {
			e.size = x.number
		}
	case attributeMemberOffset:
		e.offset = -1
		if x.kind == number {
			e.offset = x.number
		}
	case attributeSibling:
		if x.kind == reference {
			e.sibling = uint64(x.number)
		}
	case attributeOrigin:
		e.origin, e.hasOrigin = Offset(x.number), x.kind == reference
	case attributeLow:
		e.low = x
	case attributeHigh:
		e.high = x
	case attributeRanges:
		e.ranges = x
	case attributeLocation:
		e.location = x
	case attributeFrameBase:
		e.frameBase = x
	case attributeStringOffsets:
		e.strings = uint64(x.number)
	case attributeAddresses:
		e.addresses = uint64(x.number)
	case attributeRangeLists:
		e.rangeLists = uint64(x.number)
	}
	return nil
}

// datum reads a value of any form.
func (d *Data) datum(u *unit, r *reader, v value) (datum, error) {
	f := v.form
	if f == formIndirect {
		if f = form(r.uleb()); f == formIndirect || f == formImplicitConst {
			return datum{}, fmt.Errorf("%w: a form within a form", ErrFormat)
		}
	}
	if size, ok := skipped(u, f); ok {
		r.skip(size)
		return datum{}, nil
	}
	if size, ok := sized(r, f); ok {
		return datum{kind: block, text: r.next(size)}, nil
	}
	if n, ok := indexOf(r, f); ok {
		return datum{kind: index, number: int64(n)}, nil
	}
	switch f {
	case formAddress:
		return datum{kind: address, number: int64(r.unsigned(u.addressSize))}, nil
	case formSectionOffset:
		return datum{kind: offset, number: int64(r.word(u.wide))}, nil
	}
	if n, ok := constant(r, f, v.implicit); ok {
		return datum{kind: number, number: n}, nil
	}
	if n, ok := relative(r, f); ok {
		return datum{kind: reference, number: int64(u.begin + n)}, nil
	}
	if f == formRefAddress {
		if u.version == 2 {
			return datum{kind: reference, number: int64(r.unsigned(u.addressSize))}, nil
		}
		return datum{kind: reference, number: int64(r.word(u.wide))}, nil
	}
	return d.textOf(u, r, f)
}

// skipped returns the size in bytes of a value that needs no decoding.
func skipped(u *unit, f form) (size uint64, ok bool) {
	switch f {
	case formData16:
		return 16, true
	case formRefSignature, formRefSup8:
		return 8, true
	case formRefSup4:
		return 4, true
	case formStrpSup, formGNURefAlt, formGNUStrpAlt:
		if u.wide {
			return 8, true
		}
		return 4, true
	}
	return 0, false
}

// sized reads the size in bytes of a value that is a block.
func sized(r *reader, f form) (size uint64, ok bool) {
	switch f {
	case formBlock1:
		return uint64(r.u8()), true
	case formBlock2:
		return uint64(r.u16()), true
	case formBlock4:
		return uint64(r.u32()), true
	case formBlock, formExpression:
		return r.uleb(), true
	}
	return 0, false
}

// indexOf reads an index of an address or a list.
func indexOf(r *reader, f form) (n uint64, ok bool) {
	switch f {
	case formAddrx1:
		return uint64(r.u8()), true
	case formAddrx2:
		return uint64(r.u16()), true
	case formAddrx3:
		return uint64(r.u24()), true
	case formAddrx4:
		return uint64(r.u32()), true
	case formAddrx, formLoclistx, formRnglistx, formGNUAddressIndex:
		return r.uleb(), true
	}
	return 0, false
}

// constant reads a number.
func constant(r *reader, f form, implicit int64) (n int64, ok bool) {
	switch f {
	case formData1, formFlag:
		return int64(r.u8()), true
	case formData2:
		return int64(r.u16()), true
	case formData4:
		return int64(r.u32()), true
	case formData8:
		return int64(r.u64()), true
	case formSdata:
		return r.sleb(), true
	case formUdata:
		return int64(r.uleb()), true
	case formFlagPresent:
		return 1, true
	case formImplicitConst:
		return implicit, true
	}
	return 0, false
}

// relative reads a reference to an entry of the same unit.
func relative(r *reader, f form) (n uint64, ok bool) {
	switch f {
	case formRef1:
		return uint64(r.u8()), true
	case formRef2:
		return uint64(r.u16()), true
	case formRef4:
		return uint64(r.u32()), true
	case formRef8:
		return r.u64(), true
	case formRefUdata:
		return r.uleb(), true
	}
	return 0, false
}

// textOf reads a string or its offset.
func (d *Data) textOf(u *unit, r *reader, f form) (datum, error) {
	switch f {
	case formString:
		name := r.text()
		d.steps -= int64(len(name) / bytesOfStep)
		return datum{kind: text, text: name}, nil
	case formStrp:
		return d.stringAt(d.strings, r.word(u.wide)), nil
	case formLineStrp:
		return d.stringAt(d.lineStrings, r.word(u.wide)), nil
	case formStrx, formGNUStringIndex:
		return d.indexed(u, r.uleb()), nil
	case formStrx1:
		return d.indexed(u, uint64(r.u8())), nil
	case formStrx2:
		return d.indexed(u, uint64(r.u16())), nil
	case formStrx3:
		return d.indexed(u, uint64(r.u24())), nil
	case formStrx4:
		return d.indexed(u, uint64(r.u32())), nil
	}
	return datum{}, fmt.Errorf("%w: a value of form %#x", ErrFormat, uint64(f))
}

// bytesOfStep is the number of bytes that count as one step when they are searched.
const bytesOfStep = 64

// maxName is the maximum length of a name, in bytes.
const maxName = 256

// stringAt returns a string from a section. If it is too long, stringAt returns an empty datum.
func (d *Data) stringAt(section []byte, at uint64) datum {
	if at >= uint64(len(section)) {
		return datum{}
	}
	d.steps -= maxName / bytesOfStep
	r := reader{data: section[:min(uint64(len(section)), at+maxName+1)], at: at}
	if name := r.text(); !r.failed {
		return datum{kind: text, text: name}
	}
	return datum{}
}

// indexed returns the string at an index of the unit's table.
func (d *Data) indexed(u *unit, number uint64) datum {
	size := uint64(4)
	if u.wide {
		size = 8
	}
	if number > uint64(len(d.stringOffsets)) {
		return datum{}
	}
	r := reader{data: d.stringOffsets, at: u.strings + number*size}
	at := r.word(u.wide)
	if r.failed {
		return datum{}
	}
	return d.stringAt(d.strings, at)
}

// unsigned reads a number of size bytes, up to 8.
func (r *reader) unsigned(size uint8) uint64 {
	var n uint64
	for i, b := range r.next(uint64(size)) {
		n |= uint64(b) << (8 * i)
	}
	return n
}
