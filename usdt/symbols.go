package usdt

import (
	"bufio"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
)

// A definition collects the addresses of one name in a symbol table. Static objects of several
// source files may have the same name.
type definition struct {
	global, local addresses
}

// addresses holds one address, the size of what is there, and whether there were other, different addresses.
type addresses struct {
	first, size uint64
	found       bool
	several     bool
}

func (a *addresses) add(address, size uint64) {
	switch {
	case !a.found:
		a.first, a.size, a.found = address, size, true
	case a.first != address:
		a.several = true
	}
}

// only returns the address if all definitions of the name agree. A note does not distinguish
// several definitions, so none is chosen.
func (d definition) only() (uint64, bool) {
	all := d.global
	if d.local.found {
		all.add(d.local.first, d.local.size)
	}
	return all.first, all.found && !all.several && !d.local.several
}

// exported returns the address and the size of the global definition or, without one, of the local definition.
func (d definition) exported() (address, size uint64, err error) {
	best := d.global
	if !best.found {
		best = d.local
	}
	switch {
	case !best.found:
		return 0, 0, ErrNoSymbol
	case best.several:
		return 0, 0, fmt.Errorf("%w uniquely", ErrNoSymbol)
	}
	return best.first, best.size, nil
}

// lookup finds names in .symtab and, if they are not there, in .dynsym. Names that are not defined
// are missing in the result, which is valid even if there is an error.
func (img *image) lookup(names map[string]bool) (map[string]definition, error) {
	found := make(map[string]definition)
	var problems []error
	for _, kind := range []elf.SectionType{elf.SHT_SYMTAB, elf.SHT_DYNSYM} {
		for _, s := range img.sections {
			if s.kind != kind || len(found) == len(names) {
				continue
			}
			missing := make(map[string]bool)
			for name := range names {
				if _, ok := found[name]; !ok {
					missing[name] = true
				}
			}
			defined, err := img.lookupIn(s, missing)
			if err != nil { // the part of the table that was read might be ambiguous
				problems = append(problems, fmt.Errorf("symbol table %q: %w", s.name, err))
			} else {
				maps.Copy(found, defined)
			}
			break // a file has at most one of each kind (gABI)
		}
	}
	return found, errors.Join(problems...)
}

// lookupIn returns the definitions of names in one symbol table.
func (img *image) lookupIn(table section, names map[string]bool) (map[string]definition, error) {
	found := make(map[string]definition)
	err := img.symbols(table, func(raw *[symbolSize]byte, name []byte) {
		if !names[string(name)] {
			return
		}
		d := found[string(name)]
		address, size := binary.LittleEndian.Uint64(raw[8:]), binary.LittleEndian.Uint64(raw[16:])
		if elf.ST_BIND(raw[4]) == elf.STB_LOCAL {
			d.local.add(address, size)
		} else {
			d.global.add(address, size)
		}
		found[string(name)] = d
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// function returns the name of the function that contains an address, from one symbol table. It
// returns "" if there is none, or if functions with different names contain the address.
func (img *image) function(table section, address uint64) (string, error) {
	found, several := "", false
	err := img.symbols(table, func(raw *[symbolSize]byte, name []byte) {
		from, size := binary.LittleEndian.Uint64(raw[8:]), binary.LittleEndian.Uint64(raw[16:])
		if elf.ST_TYPE(raw[4]) != elf.STT_FUNC || address < from || address-from >= size {
			return
		}
		several = several || found != "" && found != string(name)
		found = string(name)
	})
	if several {
		found = ""
	}
	return found, err
}

// symbols calls fn for each entry of a symbol table that has a name and defines an address.
func (img *image) symbols(table section, fn func(raw *[symbolSize]byte, name []byte)) error {
	if err := table.check(maxSymbolTable); err != nil {
		return err
	}
	if uint64(table.link) >= uint64(len(img.sections)) {
		return fmt.Errorf("%w: strings are in section %d of %d", ErrFormat, table.link, len(img.sections))
	}
	text, err := img.readSection(img.sections[table.link], maxSymbolStrings)
	if err != nil {
		return fmt.Errorf("strings: %w", err)
	}
	entries, err := sectionReader(img.r, table.offset, table.size)
	if err != nil {
		return err
	}
	r := bufio.NewReader(entries)
	var raw [symbolSize]byte
	for range table.size / symbolSize {
		if _, err := io.ReadFull(r, raw[:]); err != nil {
			return readError(err)
		}
		if !defines(raw) {
			continue
		}
		if name, ok := cString(text, uint64(binary.LittleEndian.Uint32(raw[:]))); ok {
			fn(&raw, name)
		}
	}
	return nil
}

// defines reports whether a symbol table's entry gives the address of code or data that moves with
// the file. That excludes absolute values, thread-local offsets, and indirect functions, whose
// entries give the addresses of their resolvers.
func defines(raw [symbolSize]byte) bool {
	switch elf.SectionIndex(binary.LittleEndian.Uint16(raw[6:])) {
	case elf.SHN_UNDEF, elf.SHN_ABS, elf.SHN_COMMON:
		return false
	}
	switch elf.ST_TYPE(raw[4]) {
	case elf.STT_NOTYPE, elf.STT_OBJECT, elf.STT_FUNC, elf.STT_COMMON:
		return true
	}
	return false
}
