package samecode

import (
	"fmt"
)

// A comparison finds the functions of a code in an executable.
type comparison struct {
	x         *executable
	functions []Function
	addresses []uint64

	// variables numbers those without an exported name in the order in which functions lead to them.
	variables map[uint64]int
}

func newComparison(x *executable) *comparison {
	return &comparison{x: x, variables: make(map[uint64]int)}
}

// add finds the next function. It returns what is wrong, or "".
func (c *comparison) add(f Function) (wrong string) {
	address, ok := c.x.byName[f.Symbol], true
	if f.Symbol == "" {
		address = c.target(f.From, f.Field) - uint64(f.Into)
	}
	if address != 0 {
		_, ok = c.x.bytes(address, f.Size)
	}
	switch {
	case address != 0 && ok:
	case f.Symbol == "":
		return "has other code"
	default:
		return "is missing"
	}
	c.functions, c.addresses = append(c.functions, f), append(c.addresses, address)
	return ""
}

// target returns the address to which a distance of a function leads.
func (c *comparison) target(function, field int) uint64 {
	at, rest := c.functions[function].field(field)
	code, ok := c.x.bytes(c.addresses[function]+at, fieldBytes)
	if !ok {
		return 0
	}
	return c.addresses[function] + at + fieldBytes + rest + distance(code)
}

const fieldBytes = 4 // of a distance

// field returns the offset of a distance, and the number of bytes from its end to that of the
// instruction.
func (f Function) field(i int) (offset, rest uint64) {
	const bits = 3
	return uint64(f.Fields[i] >> bits), uint64(f.Fields[i] & (1<<bits - 1))
}

// digest returns the digest of a function: of its bytes without the distances, and of what these lead
// to.
func (c *comparison) digest(i int) string {
	f := c.functions[i]
	code, _ := c.x.bytes(c.addresses[i], f.Size)
	text := append([]byte(nil), code...)
	for j := range f.Fields {
		at, _ := f.field(j)
		clear(text[at : at+fieldBytes])
	}
	for j := range f.Fields {
		text = append(text, c.describe(c.target(i, j))...)
		text = append(text, '\n')
	}
	return digestOf(text)
}

// describe describes an address of code or data without the address itself.
func (c *comparison) describe(address uint64) string {
	for i, f := range c.functions {
		if from := c.addresses[i]; address >= from && address-from < uint64(f.Size) {
			return fmt.Sprintf("part %d+%#x", i, address-from)
		}
	}
	if _, ok := c.x.bytes(address, 1); ok {
		if text, ok := c.x.describe(address); ok {
			return text
		}
		return "unknown code"
	}
	if name, offset, ok := c.x.variable(address); ok {
		return fmt.Sprintf("variable %s+%#x", name, offset)
	}
	if name, ok := c.x.imports[address]; ok {
		return "address of " + name
	}
	number, ok := c.variables[address]
	if !ok {
		number = len(c.variables)
		c.variables[address] = number
	}
	return fmt.Sprintf("variable %d in %s", number, c.x.file.SectionAt(address))
}

// wanted returns the addresses of the functions.
func (c *comparison) wanted() map[uint64]bool {
	wanted := make(map[uint64]bool)
	for _, address := range c.addresses {
		wanted[address] = true
	}
	return wanted
}
