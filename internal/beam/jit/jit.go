// Package jit names the functions of code that a running Erlang VM has compiled just in
// time. It needs no symbols and no debugging information.
//
// A VM with a JIT on Linux keeps a list of its code for debuggers: __jit_debug_descriptor of GDB's
// JIT interface. An entry of the list has a block of memory with the functions of a module and the
// places of their code, in the VM's own form (erts/emulator/beam/jit/beam_jit_metadata.cpp of OTP
// 25 to 29). [Open] finds the descriptor by its shape in the writable data of the executable, so
// the executable may be stripped. Exactly one place must have the shape.
//
// Package procname also finds functions by addresses. It needs the layout of the VM's
// structures, so it works on fewer VMs. But it finds them at the same time as all else that
// it reads of a process, and it also reads which function a process itself notes. So both ways
// stay.
//
// The memory belongs to the observed process, which may write anything there. Everything that
// is read is bounded and checked: counts, sizes, addresses and links. The VM also changes the
// list while it is read. A list that changes meanwhile is read again.
package jit

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/beamscope/beamscope/usdt"
)

var (
	// ErrNone means that the VM has no list of its code, or that several places look like one.
	ErrNone = errors.New("the VM's list of its compiled code was not found")

	// ErrFormat means that the list does not have the format that a VM writes.
	ErrFormat = errors.New("the VM's list of its compiled code is malformed")

	// ErrLimit means that the list is larger than beamscope reads.
	ErrLimit = errors.New("the VM's list of its compiled code is too large")

	// ErrUnsettled means that the list changed at each read.
	ErrUnsettled = errors.New("the VM's list of its compiled code changes while it is read")
)

// The limits. The VMs of OTP 25 to 29 have 150 to 900 modules in the list, with 20 thousand
// functions and 4 MB together, where everything that OTP brings is loaded.
const (
	maxData     = 16 << 20 // bytes of writable data of the executable
	maxModules  = 1 << 14  // entries in the list
	maxBlock    = 64 << 20 // bytes in a module's block
	maxBytes    = 64 << 20 // bytes in all blocks
	maxRanges   = 1 << 18  // functions of all modules
	maxNames    = 16 << 20 // bytes in all function names
	maxName     = 4096     // bytes in the name of a module or function: 255 characters, escaped
	maxAddress  = 1 << 56  // end of user space: five levels of page tables
	maxAttempts = 5        // attempts to read a list that changes
	maxTried    = 1 << 12  // candidate places that are examined
)

// Sizes and offsets of the list's structures, in bytes.
const (
	descriptorSize = 24 // without the mutex after it
	entrySize      = 32
	headSize       = 32 // of a block, up to the name after it
	headName       = 26 // offset of the module's name, which begins within the head
	rangeSize      = 16
	rangeName      = 14
	lineSize       = 12

	moduleBlock = 1 // the kind of a block that describes a module
)

// prologue is the suffix with which OTP 25 names the beginning of a function's code.
const prologue = "-CodeInfoPrologue"

// A Function is a function with its code, or another part of the code that has a name.
type Function struct {
	Start, End uint64 // addresses: from Start on, without End

	// Name is as the VM writes it: lists:map/2, 'Elixir.Process':sleep/1. Code that belongs to
	// no function is called such as lists::codeHeader, and code that all functions share such as
	// global::call_light_bif_shared.
	Name string
}

// Schedules reports whether this is the code in which the VM goes from one process to the next: the
// register with the running process changes within it.
func (f Function) Schedules() bool { return f.Name == "global::process_main" }

// A Code is the code of a VM at one moment. Nobody may change it.
type Code struct {
	functions []Function // in order of address, none overlaps another
}

// Function returns the function with code at an address; ok is false if there is none.
func (c *Code) Function(address uint64) (f Function, ok bool) {
	if c == nil {
		return Function{}, false
	}
	i, found := slices.BinarySearchFunc(c.functions, address, func(f Function, address uint64) int { return cmp.Compare(f.Start, address) })
	if !found {
		i--
	}
	if i < 0 || address >= c.functions[i].End {
		return Function{}, false
	}
	return c.functions[i], true
}

// All returns all functions, in order of address.
func (c *Code) All() iter.Seq[Function] { return slices.Values(c.functions) }

// Len returns the number of functions.
func (c *Code) Len() int {
	if c == nil {
		return 0
	}
	return len(c.functions)
}

// A memory is the memory of a process, read by address.
type memory struct{ r io.ReaderAt }

// read fills data from the memory at an address.
func (m memory) read(address uint64, data []byte) error {
	if address == 0 || address >= maxAddress {
		return fmt.Errorf("%w: address %#x", ErrFormat, address)
	}
	n, err := m.r.ReadAt(data, int64(address))
	if n == len(data) {
		return nil
	}
	switch {
	case n == 0 && errors.Is(err, io.EOF): // reading unmapped memory returns another error
		return usdt.ErrProcessGone
	case err == nil || errors.Is(err, io.EOF):
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("%w: %#x: %w", ErrFormat, address, err)
}

// A Reader reads the list of one VM. One goroutine at a time may use it.
type Reader struct {
	mem        memory
	closer     io.Closer
	descriptor uint64

	modules map[uint64]module // by the addresses of their entries, at the last read
	code    *Code             // of these modules
}

// Open finds the list of a process and opens the process's memory, which needs the right to trace
// it. The error wraps [ErrNone] if there is no such list, and [usdt.ErrProcessGone] if the process
// has ended.
func Open(p usdt.Process, exe usdt.MappedFile) (*Reader, error) {
	ranges, err := p.WritableParts(exe)
	if err != nil {
		return nil, err
	}
	mem, err := p.Memory(exe)
	if err != nil {
		return nil, err
	}
	at, err := find(memory{mem}, ranges)
	if err != nil {
		mem.Close()
		return nil, fmt.Errorf("process %d: %w", p.PID, err)
	}
	return &Reader{mem: memory{mem}, closer: mem, descriptor: at}, nil
}

// Close closes the process's memory.
func (r *Reader) Close() error { return r.closer.Close() }

// find returns the address of the descriptor in the writable data.
func find(mem memory, ranges []usdt.Range) (uint64, error) {
	var found []uint64
	var size uint64
	tried := 0
	for _, part := range ranges {
		if size += part.End - part.Start; part.End < part.Start || size > maxData {
			return 0, fmt.Errorf("%w: %w", ErrNone, ErrLimit)
		}
		data := make([]byte, part.End-part.Start)
		if err := mem.read(part.Start, data); err != nil {
			continue // the memory was unmapped
		}
		for at := 0; at+descriptorSize <= len(data); at += wordSize {
			d := parseDescriptor(data[at:])
			if !d.plausible() {
				continue
			}
			if tried++; tried > maxTried {
				return 0, fmt.Errorf("%w: %w: more than %d places may be it", ErrNone, ErrLimit, maxTried)
			}
			if mem.leadsToList(d.first) {
				found = append(found, part.Start+uint64(at))
			}
		}
	}
	if len(found) != 1 {
		return 0, fmt.Errorf("%w: %d places look like it", ErrNone, len(found))
	}
	return found[0], nil
}

const wordSize = 8

// A descriptor is struct jit_descriptor.
type descriptor struct {
	version, action uint32
	relevant, first uint64
}

func parseDescriptor(data []byte) descriptor {
	le := binary.LittleEndian
	return descriptor{le.Uint32(data), le.Uint32(data[4:]), le.Uint64(data[8:]), le.Uint64(data[16:])}
}

// plausible reports whether this can be the descriptor of a list that is not empty.
func (d descriptor) plausible() bool {
	const lastAction = 2 // JIT_UNREGISTER_FN
	return d.version == 1 && d.action <= lastAction && d.first != 0 && aligned(d.first) && (d.relevant == 0 || aligned(d.relevant))
}

// aligned reports whether an address can be one that malloc returned.
func aligned(address uint64) bool { return address%wordSize == 0 && address < maxAddress }

// listStart is the number of entries that are checked to recognize a list.
const listStart = 4

// leadsToList reports whether an address is that of a chain of linked entries whose blocks begin as
// expected.
func (m memory) leadsToList(first uint64) bool {
	at, before := first, uint64(0)
	for range listStart {
		e, err := m.entry(at)
		if err != nil || before != 0 && e.previous != before {
			return false
		}
		var head [headSize]byte
		if m.read(e.block, head[:]) != nil || !headed(head[:], e.size) {
			return false
		}
		if at, before = e.next, at; at == 0 {
			return false
		}
	}
	return true
}

// headed reports whether a block of this size may begin with this head.
func headed(head []byte, size uint64) bool {
	if binary.LittleEndian.Uint32(head) != moduleBlock {
		return binary.LittleEndian.Uint32(head) == 0 && size == headSize // the emulator's block
	}
	h := parseHead(head)
	return h.check(size) == nil
}

// An entry is a struct jit_code_entry.
type entry struct{ next, previous, block, size uint64 }

// entry reads the entry at an address.
func (m memory) entry(address uint64) (entry, error) {
	var data [entrySize]byte
	if !aligned(address) {
		return entry{}, fmt.Errorf("%w: entry at %#x", ErrFormat, address)
	}
	if err := m.read(address, data[:]); err != nil {
		return entry{}, err
	}
	le := binary.LittleEndian
	e := entry{le.Uint64(data[0:]), le.Uint64(data[8:]), le.Uint64(data[16:]), le.Uint64(data[24:])}
	switch {
	case !aligned(e.next), !aligned(e.block), e.block == 0, e.size < headSize:
		return entry{}, fmt.Errorf("%w: entry at %#x", ErrFormat, address)
	case e.size > maxBlock:
		return entry{}, fmt.Errorf("%w: entry at %#x describes %d bytes", ErrLimit, address, e.size)
	}
	return e, nil
}

// A head is the beginning of a block that describes a module.
type head struct {
	base         uint64
	ranges, size uint32 // of the code
	name         uint16 // length of the name, including the terminating NUL
}

func parseHead(data []byte) head {
	le := binary.LittleEndian
	return head{le.Uint64(data[8:]), le.Uint32(data[16:]), le.Uint32(data[20:]), le.Uint16(data[24:])}
}

// check verifies the head against the size of its block.
func (h head) check(size uint64) error {
	least := headSize + uint64(h.name) + uint64(h.ranges)*(rangeSize+1)
	if h.name == 0 || h.name > maxName || h.base == 0 || h.base >= maxAddress || least > size {
		return fmt.Errorf("%w: module at %#x", ErrFormat, h.base)
	}
	return nil
}

// end returns where the code ends.
func (h head) end() uint64 { return h.base + uint64(h.size) }

// A module is the content of one block.
type module struct {
	entry     entry // without its links
	head      [headSize]byte
	functions []Function
}

// Read returns the code that the VM has loaded. It does not read unchanged modules again. The
// error wraps [ErrFormat], [ErrLimit], [ErrUnsettled], [usdt.ErrProcessGone], or the cause of the
// context.
func (r *Reader) Read(ctx context.Context) (*Code, error) {
	var err error
	for range maxAttempts {
		var code *Code
		code, err = r.readOnce(ctx)
		switch {
		case err == nil:
			r.code = code
			return code, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case errors.Is(err, ErrLimit), errors.Is(err, usdt.ErrProcessGone):
			return nil, err
		}
	}
	return nil, err // the list is malformed or changed at each attempt
}

// readOnce reads the list and its modules. It fails if the list has changed meanwhile.
func (r *Reader) readOnce(ctx context.Context) (*Code, error) {
	list, err := r.walk(ctx)
	if err != nil {
		return nil, err
	}
	modules := make(map[uint64]module, len(list))
	ordered := make([]module, 0, len(list))
	changed := len(list) != len(r.modules) || r.code == nil
	var l limits
	for _, at := range list {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		m, known, err := r.module(at.address, at.entry)
		if err == nil {
			err = l.add(m)
		}
		if err != nil {
			return nil, err
		}
		modules[at.address], changed = m, changed || !known
		ordered = append(ordered, m)
	}
	again, err := r.walk(ctx)
	if err != nil {
		return nil, err
	}
	if !slices.Equal(list, again) {
		return nil, ErrUnsettled
	}
	r.modules = modules
	if !changed {
		return r.code, nil
	}
	return newCode(ordered), nil
}

// limits sums up what was read, to compare it with the limits.
type limits struct {
	bytes         uint64
	ranges, names int
}

func (l *limits) add(m module) error {
	l.bytes += m.entry.size
	l.ranges += len(m.functions)
	for _, f := range m.functions {
		l.names += len(f.Name)
	}
	if l.bytes > maxBytes || l.ranges > maxRanges || l.names > maxNames {
		return fmt.Errorf("%w: more than %d bytes, %d functions or %d bytes of their names", ErrLimit, maxBytes, maxRanges, maxNames)
	}
	return nil
}

// A place is an entry and its address.
type place struct {
	address uint64
	entry   entry
}

// walk follows the list and returns its entries.
func (r *Reader) walk(ctx context.Context) ([]place, error) {
	var data [descriptorSize]byte
	if err := r.mem.read(r.descriptor, data[:]); err != nil {
		return nil, err
	}
	d := parseDescriptor(data[:])
	if !d.plausible() {
		return nil, fmt.Errorf("%w: it does not begin as one", ErrFormat)
	}
	var list []place
	for at, before := d.first, uint64(0); at != 0; {
		if len(list) == maxModules {
			return nil, fmt.Errorf("%w: more than %d entries", ErrLimit, maxModules)
		}
		if len(list)%checkEvery == 0 && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		e, err := r.mem.entry(at)
		if err != nil {
			return nil, err
		}
		// OTP 25 leaves the back link of the first entry uninitialized. This check also detects
		// cycles: an entry has only one back link.
		if before != 0 && e.previous != before {
			return nil, fmt.Errorf("%w: entry at %#x", ErrFormat, at)
		}
		e.previous = 0
		list = append(list, place{at, e})
		at, before = e.next, at
	}
	return list, nil
}

// checkEvery is the number of entries between checks of the context.
const checkEvery = 256

// module reads the module of an entry. known reports that it was read before and has not changed.
func (r *Reader) module(address uint64, e entry) (m module, known bool, err error) {
	e.next = 0
	m.entry = e
	if err := r.mem.read(e.block, m.head[:]); err != nil {
		return module{}, false, err
	}
	if was, ok := r.modules[address]; ok && was.entry == e && was.head == m.head {
		return was, true, nil
	}
	switch binary.LittleEndian.Uint32(m.head[:]) {
	case 0:
		return m, false, nil // the emulator's block, which has no code
	case moduleBlock:
	default:
		return module{}, false, fmt.Errorf("%w: a block of another kind at %#x", ErrFormat, e.block)
	}
	block := make([]byte, e.size)
	if err := r.mem.read(e.block, block); err != nil {
		return module{}, false, err
	}
	copy(m.head[:], block) // the head as it was read with the rest
	m.functions, err = parseModule(block)
	return m, false, err
}

// parseModule returns the functions of a block.
func parseModule(block []byte) ([]Function, error) {
	h := parseHead(block)
	if err := h.check(uint64(len(block))); err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	functions := make([]Function, 0, h.ranges)
	rest := block[headSize+int(h.name):]
	for range h.ranges {
		if len(rest) < rangeSize {
			return nil, fmt.Errorf("%w: module at %#x ends within a function", ErrFormat, h.base)
		}
		start, end, lines, name := le.Uint32(rest), le.Uint32(rest[4:]), le.Uint32(rest[8:]), int(le.Uint16(rest[12:]))
		if len(rest) < rangeSize+name || name == 0 || name > maxName || end < start || end > h.size || h.end() >= maxAddress {
			return nil, fmt.Errorf("%w: module at %#x has no such function", ErrFormat, h.base)
		}
		if rest[rangeName+name-1] != 0 {
			return nil, fmt.Errorf("%w: module at %#x has a name without an end", ErrFormat, h.base)
		}
		if start < end {
			text := strings.TrimSuffix(string(rest[rangeName:rangeName+name-1]), prologue)
			functions = append(functions, Function{h.base + uint64(start), h.base + uint64(end), text})
		}
		rest = rest[rangeSize+name:]
		var err error
		if rest, err = skipLines(rest, lines); err != nil {
			return nil, fmt.Errorf("module at %#x: %w", h.base, err)
		}
	}
	if len(rest) != 0 {
		return nil, fmt.Errorf("%w: module at %#x has %d bytes too many", ErrFormat, h.base, len(rest))
	}
	return functions, inOrder(functions)
}

// skipLines skips the line numbers of a function and returns the rest.
func skipLines(rest []byte, lines uint32) ([]byte, error) {
	for range lines {
		if len(rest) < lineSize {
			return nil, fmt.Errorf("%w: it ends within a line", ErrFormat)
		}
		file := int(binary.LittleEndian.Uint16(rest[8:]))
		if len(rest) < lineSize+file {
			return nil, fmt.Errorf("%w: it ends within a line", ErrFormat)
		}
		rest = rest[lineSize+file:]
	}
	return rest, nil
}

// inOrder sorts the functions of a module by address. It returns an error if two overlap.
func inOrder(functions []Function) error {
	slices.SortFunc(functions, func(a, b Function) int { return cmp.Compare(a.Start, b.Start) })
	for i := 1; i < len(functions); i++ {
		if functions[i].Start < functions[i-1].End {
			return fmt.Errorf("%w: two functions have code at %#x", ErrFormat, functions[i].Start)
		}
	}
	return nil
}

// newCode sorts the functions of all modules by address. Newer modules come before older ones in
// modules. OTP 25 keeps modules in its list after it has purged their code. So if functions of
// two modules overlap, newCode keeps the function of the newer one.
func newCode(modules []module) *Code {
	var all []Function
	var edges []uint64
	for _, m := range modules {
		all = append(all, m.functions...)
		for _, f := range m.functions {
			edges = append(edges, f.Start, f.End)
		}
	}
	slices.Sort(edges)
	c := coverage{edges: slices.Compact(edges)}
	c.next = make([]int, len(c.edges))
	for i := range c.next {
		c.next[i] = i
	}
	all = slices.DeleteFunc(all, func(f Function) bool { return !c.cover(f) })
	slices.SortFunc(all, func(a, b Function) int { return cmp.Compare(a.Start, b.Start) })
	return &Code{functions: all}
}

// A coverage tracks which addresses are taken, in parts between adjacent edges.
type coverage struct {
	edges []uint64
	next  []int // for each part: itself if it is free, otherwise a later part that is closer to a free one
}

// cover takes the addresses of a function, and reports whether all of them were free.
func (c *coverage) cover(f Function) bool {
	first, _ := slices.BinarySearch(c.edges, f.Start)
	end, _ := slices.BinarySearch(c.edges, f.End)
	free := 0
	for i := c.free(first); i < end; i = c.free(i) {
		c.next[i] = i + 1
		free++
	}
	return free == end-first
}

// free returns the first free part at or after a part.
func (c *coverage) free(i int) int {
	for c.next[i] != i {
		c.next[i] = c.next[c.next[i]]
		i = c.next[i]
	}
	return i
}
