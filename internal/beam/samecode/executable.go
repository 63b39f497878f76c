package samecode

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/beamscope/beamscope/usdt"
)

// An executable is what is compared of one. Addresses are as linked.
type executable struct {
	file     *usdt.File
	segments []usdt.CodeSegment
	starts   []uint64              // of functions and parts of them, in order
	named    []int                 // for each of these, the last one up to it whose name is exported, or -1
	exported []usdt.ExportedSymbol // by address, the largest first, and name
	byName   map[string]uint64     // 0 for a name with several addresses
	imports  map[uint64]string     // names of symbols by the word that gets the address
	pointers []uint64              // addresses of the file itself in its data, in order
}

func newExecutable(f *usdt.File) (*executable, error) {
	x := &executable{file: f, byName: make(map[string]uint64), imports: make(map[uint64]string)}
	var err error
	if x.segments, err = f.CodeSegments(); err != nil {
		return nil, err
	}
	if x.exported, err = f.Exported(); err != nil {
		return nil, err
	}
	slices.SortFunc(x.exported, func(a, b usdt.ExportedSymbol) int {
		return cmp.Or(cmp.Compare(a.Address, b.Address), cmp.Compare(b.Size, a.Size), cmp.Compare(a.Name, b.Name))
	})
	for _, s := range x.exported {
		if address, ok := x.byName[s.Name]; ok && address != s.Address {
			x.byName[s.Name] = 0
			continue
		}
		x.byName[s.Name] = s.Address
	}
	if x.starts, err = f.FunctionStarts(); err != nil {
		return nil, err
	}
	last := -1
	for i, start := range x.starts {
		if _, ok := x.symbolAt(start); ok {
			last = i
		}
		x.named = append(x.named, last)
	}
	return x, x.relocate()
}

// relocate reads what the loader writes into the data.
func (x *executable) relocate() error {
	relocations, err := x.file.Relocations()
	if err != nil {
		return err
	}
	for _, r := range relocations {
		if r.Symbol != "" {
			x.imports[r.Address] = r.Symbol
		} else {
			x.pointers = append(x.pointers, r.Target)
		}
	}
	slices.Sort(x.pointers)
	return nil
}

// sizes returns a digest of the sizes of the functions in a source file, each with the padding behind
// it. Functions that are not exported can be before the first exported one and behind the last. So it
// takes all from the last exported function of the file before to the first one of the file behind. It
// is "" if the file is not there.
func (x *executable) sizes(s Source) string {
	first, ok := slices.BinarySearch(x.starts, x.byName[s.First])
	last, ok2 := slices.BinarySearch(x.starts, x.byName[s.Last])
	if !ok || !ok2 || last < first {
		return ""
	}
	if first > 0 {
		first = max(x.named[first-1], 0)
	}
	for last++; last < len(x.starts) && x.named[last] != last; last++ {
	}
	var text []byte
	for i := first; i+1 < len(x.starts) && i < last; i++ {
		text = fmt.Appendf(text, "%d\n", x.starts[i+1]-x.starts[i])
	}
	return digestOf(text)
}

// bytes returns n bytes of code at an address.
func (x *executable) bytes(address uint64, n int) ([]byte, bool) {
	for _, s := range x.segments {
		if at := address - s.Address; address >= s.Address && at < uint64(len(s.Bytes)) && uint64(n) <= uint64(len(s.Bytes))-at {
			return s.Bytes[at : at+uint64(n)], true
		}
	}
	return nil, false
}

// symbolAt returns the first exported symbol at an address.
func (x *executable) symbolAt(address uint64) (string, bool) {
	i, ok := slices.BinarySearchFunc(x.exported, address, func(s usdt.ExportedSymbol, a uint64) int { return cmp.Compare(s.Address, a) })
	if !ok {
		return "", false
	}
	return x.exported[i].Name, true
}

// variable returns the exported symbol that contains an address, and the offset there.
func (x *executable) variable(address uint64) (name string, offset uint64, ok bool) {
	i, found := slices.BinarySearchFunc(x.exported, address, func(s usdt.ExportedSymbol, a uint64) int { return cmp.Compare(s.Address, a) })
	if !found {
		if i == 0 {
			return "", 0, false
		}
		name, _ := x.symbolAt(x.exported[i-1].Address)
		s := x.exported[i-1]
		return name, address - s.Address, address-s.Address < s.Size
	}
	return x.exported[i].Name, 0, true
}

// function returns the number of the function, or part of one, that contains an address.
func (x *executable) function(address uint64) (int, bool) {
	i, found := slices.BinarySearch(x.starts, address)
	if !found {
		i--
	}
	return i, i >= 0
}

// describe describes an address of code without the address itself. A function without an exported name
// is known by its place behind one that has one.
func (x *executable) describe(address uint64) (string, bool) {
	if name, ok := x.imported(address); ok {
		return "import " + name, true
	}
	i, ok := x.function(address)
	if !ok || x.named[i] < 0 {
		return "", false
	}
	name, _ := x.symbolAt(x.starts[x.named[i]])
	return fmt.Sprintf("function %s+%d+%#x", name, i-x.named[i], address-x.starts[i]), true
}

// imported returns the name of the function of another file that the code at an address jumps to. The
// linker writes such code for each.
func (x *executable) imported(address uint64) (string, bool) {
	const length = 16
	code, ok := x.bytes(address, length)
	if !ok {
		return "", false
	}
	at := 0
	for _, part := range [][]byte{{0xf3, 0x0f, 0x1e, 0xfa}, {0xf2}} { // endbr64, bnd
		if bytes.HasPrefix(code[at:], part) {
			at += len(part)
		}
	}
	jump := []byte{0xff, 0x25} // to the address in a word at a distance
	if !bytes.HasPrefix(code[at:], jump) {
		return "", false
	}
	at += len(jump)
	name, ok := x.imports[address+uint64(at)+4+distance(code[at:])]
	return name, ok
}

// distance returns the distance at the beginning of code.
func distance(code []byte) uint64 {
	return uint64(int64(int32(binary.LittleEndian.Uint32(code))))
}

// callers are the functions that refer to a function, by their exported names or "", with the number
// of references. The name "data" counts the words of data that contain its address.
type callers map[string]int

const inData = "data"

func (c callers) digest() string {
	var text []byte
	for _, name := range slices.Sorted(maps.Keys(c)) {
		text = fmt.Appendf(text, "%s %d\n", name, c[name])
	}
	return digestOf(text)
}

// callers returns the callers of functions, by address. It takes any four bytes for a distance: with
// several million of them and some tens of functions, it is unlikely that others lead to one.
func (x *executable) callers(functions map[uint64]bool) map[uint64]callers {
	found := make(map[uint64]callers)
	var hashes [1 << 12]bool // most bytes lead to no function
	hash := func(address uint64) uint64 { return address >> 4 % uint64(len(hashes)) }
	for address := range functions {
		found[address] = make(callers)
		hashes[hash(address)] = true
	}
	for _, s := range x.segments {
		for i := 0; i+4 <= len(s.Bytes); i++ {
			d := distance(s.Bytes[i:])
			target := s.Address + uint64(i) + 4 + d
			if d == 0 { // the end of a nop between functions
				continue
			}
			if hashes[hash(target)] && functions[target] {
				found[target][x.caller(s.Address+uint64(i))]++
			}
		}
	}
	for address := range functions {
		first, _ := slices.BinarySearch(x.pointers, address)
		for _, p := range x.pointers[first:] {
			if p != address {
				break
			}
			found[address][inData]++
		}
	}
	return found
}

// caller returns the exported name of the function with an address, or "".
func (x *executable) caller(address uint64) string {
	i, ok := x.function(address)
	if !ok {
		return ""
	}
	name, _ := x.symbolAt(x.starts[i])
	return name
}
