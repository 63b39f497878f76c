// Package debuginfo reads the debugging information (DWARF 2 to 5) of an executable: the places of
// members in structures, and the registers of variables.
//
// The information comes from the owner of the executable, and may not come from a compiler. So
// everything has a limit: the bytes that are read, compressed or not, the steps, and the time, by
// the context. Nothing recurses. Malformed data, and data
// beyond a limit, cause an error.
//
// The package debug/dwarf of the standard library does not promise that: it recurses as deep as
// entries are nested, and allocates the sizes that a file claims.
package debuginfo

import (
	"context"
	"errors"
	"fmt"
	"sort"

	"github.com/beamscope/beamscope/usdt"
)

var (
	// ErrNone means that a file has no debugging information.
	ErrNone = errors.New("no debugging information")

	// ErrFormat means that debugging information is malformed, or of a form that is not
	// known.
	ErrFormat = errors.New("malformed debugging information")

	// ErrLimit means that debugging information exceeds one of the package's limits.
	ErrLimit = errors.New("too much debugging information")

	// ErrVariable means that the debugging information does not give the place of a variable.
	ErrVariable = errors.New("it is not known where the variable is")

	// ErrMember means that a structure, or a member of one, is not described.
	ErrMember = errors.New("no such member")
)

// The limits. The VMs of OTP 25 to 29 with their JIT have 21 MB of .debug_info in 270 units, with
// 240 thousand abbreviations and attributes. Reading all of that takes 1.6 million steps and a
// tenth of a second.
const (
	maxInfo      = 64 << 20 // bytes of .debug_info
	maxStrings   = 32 << 20 // bytes of .debug_str
	maxLists     = 32 << 20 // bytes of location lists
	maxOthers    = 8 << 20  // bytes of each other section
	maxUnits     = 1 << 16
	maxValues    = 256     // attributes in an entry
	maxKept      = 1 << 21 // abbreviations and their attributes in all units
	maxSteps     = 50e6
	maxNesting   = 1 << 10 // depth of nested entries that are skipped
	checkContext = 1 << 16 // number of steps between checks of the context
)

// An Offset is where in .debug_info an entry is, in bytes.
type Offset uint64

// Data is the debugging information of a file. One goroutine at a time may use it.
type Data struct {
	ctx   context.Context
	steps int64 // steps left

	file     *usdt.File
	sections map[string][]byte // sections read so far, by name

	info, abbreviations, strings, lineStrings, stringOffsets []byte

	units  []unit
	tables map[uint64]table // abbreviation tables, by their offsets
	kept   int              // number of abbreviations and attributes in the tables
}

// A unit is a unit of .debug_info, with its header.
type unit struct {
	begin, end  uint64 // its extent in .debug_info, including the header
	entries     uint64 // offset of the first entry
	table       uint64 // offset of its abbreviations
	version     uint16
	addressSize uint8
	wide        bool // offsets have 64 bits
	known       bool // whether the following fields are known

	low                            uint64 // address where its code begins
	strings, addresses, rangeLists uint64 // offsets of its contributions to other sections
}

// step counts one step of work. It returns an error if the limit of steps is reached or the context
// is done.
func (d *Data) step() error {
	d.steps--
	if d.steps < 0 {
		return fmt.Errorf("%w: more than %.0e steps", ErrLimit, float64(maxSteps))
	}
	if d.steps%checkContext == 0 && d.ctx.Err() != nil {
		return context.Cause(d.ctx)
	}
	return nil
}

// findUnits reads the headers of all units.
func (d *Data) findUnits() error {
	for at := uint64(0); at < uint64(len(d.info)); {
		if len(d.units) == maxUnits {
			return fmt.Errorf("%w: more than %d units", ErrLimit, maxUnits)
		}
		if err := d.step(); err != nil {
			return err
		}
		u, err := d.readUnit(at)
		if err != nil {
			return fmt.Errorf("unit at %#x: %w", at, err)
		}
		d.units = append(d.units, u)
		at = u.end
	}
	return nil
}

// Kinds of DWARF 5 units whose headers have additional fields.
const (
	unitType         = 2
	unitSkeleton     = 4
	unitSplitCompile = 5
	unitSplitType    = 6
)

// readUnit reads a unit's header.
func (d *Data) readUnit(at uint64) (unit, error) {
	u := unit{begin: at}
	r := reader{data: d.info, at: at}
	size := uint64(r.u32())
	if u.wide = size == 0xffffffff; u.wide {
		size = r.u64()
	}
	if r.failed || size > uint64(len(d.info))-r.at {
		return u, fmt.Errorf("%w: it ends behind the section", ErrFormat)
	}
	u.end = r.at + size
	r.data = d.info[:u.end]
	u.version = r.u16()
	if u.version < 2 || u.version > 5 {
		return u, fmt.Errorf("%w: version %d", ErrFormat, u.version)
	}
	kind := uint8(0)
	if u.version == 5 {
		kind, u.addressSize = r.u8(), r.u8()
	}
	u.table = r.word(u.wide)
	if u.version < 5 {
		u.addressSize = r.u8()
	}
	switch kind {
	case unitType, unitSplitType:
		r.skip(8)
		r.word(u.wide)
	case unitSkeleton, unitSplitCompile:
		r.skip(8)
	}
	if r.failed || u.addressSize > 8 {
		return u, fmt.Errorf("%w: its header", ErrFormat)
	}
	u.entries = r.at
	return u, nil
}

// root returns the first entry of a unit.
func (d *Data) root(u *unit) (entry, error) {
	e, err := d.entryAt(u, u.entries)
	if err != nil {
		return entry{}, err
	}
	u.known = true
	u.strings, u.addresses, u.rangeLists = e.strings, e.addresses, e.rangeLists
	if e.strings == 0 && u.version == 5 { // after the header of the only table
		u.strings = 8
		if u.wide {
			u.strings = 16
		}
	}
	if u.low, err = d.address(u, e.low); err != nil {
		u.low = 0
	}
	return e, nil
}

// entry reads the entry at an offset, in any unit.
func (d *Data) entry(at Offset) (*unit, entry, error) {
	i := sort.Search(len(d.units), func(i int) bool { return d.units[i].end > uint64(at) })
	if i == len(d.units) || uint64(at) < d.units[i].entries {
		return nil, entry{}, fmt.Errorf("%w: no entry at %#x", ErrFormat, at)
	}
	u := &d.units[i]
	if !u.known {
		if _, err := d.root(u); err != nil {
			return nil, entry{}, err
		}
	}
	e, err := d.entryAt(u, uint64(at))
	return u, e, err
}

// A table maps codes to the abbreviations of a unit.
type table map[uint64]*abbreviation

// An abbreviation describes the structure of an entry.
type abbreviation struct {
	tag      tag
	children bool
	values   []value
}

// A value is an attribute and its form.
type value struct {
	attribute attribute
	form      form
	implicit  int64 // of formImplicitConst
}

// tableAt returns the abbreviation table at an offset.
func (d *Data) tableAt(at uint64) (table, error) {
	if t, ok := d.tables[at]; ok {
		return t, nil
	}
	t, r := make(table), reader{data: d.abbreviations, at: at}
	for {
		code := r.uleb()
		if r.failed {
			return nil, fmt.Errorf("%w: abbreviations at %#x", ErrFormat, at)
		}
		if code == 0 {
			break
		}
		a, err := d.abbreviation(&r)
		if err != nil {
			return nil, fmt.Errorf("abbreviations at %#x: %w", at, err)
		}
		t[code] = a
	}
	d.tables[at] = t
	return t, nil
}

// abbreviation reads an abbreviation, after its code.
func (d *Data) abbreviation(r *reader) (*abbreviation, error) {
	a := &abbreviation{tag: tag(r.uleb()), children: r.u8() != 0}
	for {
		if err := d.step(); err != nil {
			return nil, err
		}
		if d.kept++; d.kept > maxKept {
			return nil, fmt.Errorf("%w: more than %d abbreviations and attributes", ErrLimit, maxKept)
		}
		v := value{attribute: attribute(r.uleb()), form: form(r.uleb())}
		if v.form == formImplicitConst {
			v.implicit = r.sleb()
		}
		switch {
		case r.failed:
			return nil, fmt.Errorf("%w: the section ends", ErrFormat)
		case v.attribute == 0 && v.form == 0:
			return a, nil
		case len(a.values) == maxValues:
			return nil, fmt.Errorf("%w: more than %d attributes", ErrLimit, maxValues)
		}
		a.values = append(a.values, v)
	}
}
