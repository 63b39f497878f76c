package procname

import (
	"debug/dwarf"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/beamscope/beamscope/usdt"
)

// messageVariables are, by probe, the variables of the VM's functions that point to the
// message of an event: struct erl_mesg of erl_message.h, in OTP 25 to 29. The VM unlinks a
// message only behind message__receive, so no two that wait at a time have one address.
func messageVariables() map[string]string {
	return map[string]string{"message__queued": "msg", "message__receive": "msgp"}
}

// errVariable is the error where debugging information does not say where a variable is.
var errVariable = errors.New("it is not known where the variable is")

// findMessages returns where the address of the message is at the sites of probes, by their
// addresses. It reads the debugging information of an executable, which may be in another
// file. All sites have one, or there is an error.
func findMessages(path string, f *usdt.File) (at map[uint64]usdt.Arg, err error) {
	defer func() {
		if problem := recover(); problem != nil { // as in readLayout
			err = fmt.Errorf("%s: malformed debugging information: %v", path, problem)
		}
	}()
	probes, err := f.Probes("erlang")
	if err != nil {
		return nil, err
	}
	file, err := elf.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	v, err := newVariables(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	wanted := messageVariables()
	at = make(map[uint64]usdt.Arg)
	for _, p := range probes {
		name, ok := wanted[p.Name]
		if !ok {
			continue
		}
		for _, site := range p.Sites {
			if at[site.Address], err = v.arg(f.Machine(), site.Address, name); err != nil {
				return nil, fmt.Errorf("%s: %s at %#x: %w", path, name, site.Address, err)
			}
		}
	}
	return at, nil
}

// variables finds out where variables are.
type variables struct {
	data  *dwarf.Data
	lists []byte // of locations, as DWARF 5 has them; nil where they are
	loc   []byte // as those before have them
	order binary.ByteOrder
}

func newVariables(file *elf.File) (*variables, error) {
	sections, err := debugSections(file, "abbrev", "info", "str", "line_str", "str_offsets", "ranges", "rnglists", "addr", "loc", "loclists")
	if err != nil {
		return nil, err
	}
	data, err := newDebugInfo(sections)
	if err != nil {
		return nil, err
	}
	return &variables{data: data, lists: sections["loclists"], loc: sections["loc"], order: file.ByteOrder}, nil
}

// arg returns the register that a variable is in at an address, as the argument of a probe.
func (v *variables) arg(machine elf.Machine, pc uint64, name string) (usdt.Arg, error) {
	n, err := v.register(pc, name)
	if err != nil {
		return usdt.Arg{}, err
	}
	register, ok := registerName(machine, n)
	if !ok {
		return usdt.Arg{}, fmt.Errorf("%w: register %d", errVariable, n)
	}
	args, err := usdt.ParseArgs(machine, "8@"+register)
	if err != nil {
		return usdt.Arg{}, err
	}
	return args[0], nil
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

const (
	// maxEntries bounds how much of a compilation unit is read. The largest of a VM have
	// some ten thousand entries.
	maxEntries = 1 << 20

	// maxScopes is how many scopes are within each other, functions and blocks, where a
	// variable is found.
	maxScopes = 64
)

// register returns the number of the register that a variable is in at an address. Of
// several with that name it is the innermost.
func (v *variables) register(pc uint64, name string) (uint8, error) {
	r := v.data.Reader()
	unit, err := r.SeekPC(pc)
	if err != nil {
		return 0, err
	}
	base, _ := unit.Val(dwarf.AttrLowpc).(uint64)
	var found uint8
	innermost := 0 // depth of what was found
	err = errVariable
	// All scopes around an entry are at the address where depth is here.
	depth, here := 1, 1
	for range maxEntries {
		e, problem := r.Next()
		if problem != nil {
			return 0, problem
		}
		if e == nil {
			break
		}
		if e.Tag == 0 {
			if depth--; depth == 0 {
				break
			}
			here = min(here, depth)
			continue
		}
		if depth == here {
			switch e.Tag {
			case dwarf.TagVariable, dwarf.TagFormalParameter:
				if depth < innermost || v.name(e) != name {
					break
				}
				n, problem := v.at(e, base, pc)
				if problem == nil {
					found, innermost, err = n, depth, nil
				} else if innermost == 0 {
					err = problem
				}
			case dwarf.TagSubprogram, dwarf.TagInlinedSubroutine, dwarf.TagLexDwarfBlock:
				// The code of a block says nothing: gcc gives some an empty range.
				if e.Children && here < maxScopes && (e.Tag == dwarf.TagLexDwarfBlock || v.contains(e, pc)) {
					here++
				}
			}
		}
		if e.Children {
			depth++
		}
	}
	return found, err
}

// contains reports whether an address is in the code of a function.
func (v *variables) contains(e *dwarf.Entry, pc uint64) bool {
	ranges, err := v.data.Ranges(e)
	if err != nil {
		return false
	}
	for _, r := range ranges {
		if r[0] <= pc && pc < r[1] {
			return true
		}
	}
	return false
}

// name returns the name of a variable, which is elsewhere where its function is inlined.
func (v *variables) name(e *dwarf.Entry) string {
	if origin, ok := e.Val(dwarf.AttrAbstractOrigin).(dwarf.Offset); ok {
		r := v.data.Reader()
		r.Seek(origin)
		var err error
		if e, err = r.Next(); err != nil || e == nil {
			return ""
		}
	}
	name, _ := e.Val(dwarf.AttrName).(string)
	return name
}

// at returns the register that a variable is in at an address. base is that of its
// compilation unit.
func (v *variables) at(e *dwarf.Entry, base, pc uint64) (uint8, error) {
	switch location := e.Val(dwarf.AttrLocation).(type) {
	case []byte:
		return registerOf(location)
	case int64:
		l := list{order: v.order, base: base, pc: pc}
		if v.lists != nil {
			return l.find(v.lists, location, (*list).next5)
		}
		return l.find(v.loc, location, (*list).next4)
	}
	return 0, errVariable
}

// registerOf returns the register that a location is: DW_OP_reg0 to DW_OP_reg31, and
// nothing besides.
func registerOf(expr []byte) (uint8, error) {
	const first, last = 0x50, 0x6f
	if len(expr) != 1 || expr[0] < first || expr[0] > last {
		return 0, fmt.Errorf("%w: it is in no register", errVariable)
	}
	return expr[0] - first, nil
}

// A list is a list of the locations of a variable that is read.
type list struct {
	order    binary.ByteOrder
	rest     []byte
	base, pc uint64
	broken   bool
}

// maxLocations bounds how many entries of a list are read.
const maxLocations = 1 << 12

// find returns the register that the list at an offset has for the address. next reads an
// entry: whether it is the one for the address, with its expression, and whether it is the
// last.
func (l *list) find(section []byte, offset int64, next func(*list) (here bool, expr []byte, last bool)) (uint8, error) {
	if offset < 0 || offset > int64(len(section)) {
		return 0, fmt.Errorf("%w: its locations are not there", errVariable)
	}
	l.rest = section[offset:]
	for range maxLocations {
		here, expr, last := next(l)
		switch {
		case l.broken:
			return 0, fmt.Errorf("%w: its locations cannot be read", errVariable)
		case here:
			return registerOf(expr)
		case last:
			return 0, fmt.Errorf("%w: it is nowhere", errVariable)
		}
	}
	return 0, fmt.Errorf("%w: it has too many locations", errVariable)
}

// next4 reads an entry of a list of DWARF 2 to 4.
func (l *list) next4() (here bool, expr []byte, last bool) {
	from, to := l.u64(), l.u64()
	switch {
	case from == 0 && to == 0:
		return false, nil, true
	case from == ^uint64(0):
		l.base = to
		return false, nil, false
	}
	expr = l.bytes(uint64(l.order.Uint16(l.bytes(2))))
	return l.base+from <= l.pc && l.pc < l.base+to, expr, false
}

// Kinds of entries, DW_LLE_* of DWARF 5. Those that need an index of addresses are not
// read.
const (
	endOfList     = 0
	offsetPair    = 4
	anywhere      = 5 // DW_LLE_default_location
	baseAddress   = 6
	startToEnd    = 7
	startOfLength = 8
)

// next5 reads an entry of a list of DWARF 5.
func (l *list) next5() (here bool, expr []byte, last bool) {
	var from, to uint64
	switch l.bytes(1)[0] {
	case endOfList:
		return false, nil, true
	case baseAddress:
		l.base = l.u64()
		return false, nil, false
	case offsetPair:
		from, to = l.base+l.uleb(), l.base+l.uleb()
	case anywhere:
		from, to = 0, ^uint64(0)
	case startToEnd:
		from, to = l.u64(), l.u64()
	case startOfLength:
		from = l.u64()
		to = from + l.uleb()
	default:
		l.broken = true
		return false, nil, true
	}
	expr = l.bytes(l.uleb())
	return from <= l.pc && l.pc < to, expr, false
}

// bytes returns the next n bytes. Where there are fewer, the list is broken, and it returns
// a few zeros.
func (l *list) bytes(n uint64) []byte {
	if l.broken = l.broken || n > uint64(len(l.rest)); l.broken {
		return make([]byte, wordSize)
	}
	some := l.rest[:n]
	l.rest = l.rest[n:]
	return some
}

func (l *list) u64() uint64 { return l.order.Uint64(l.bytes(wordSize)) }

// uleb reads an unsigned number in LEB128.
func (l *list) uleb() uint64 {
	var n uint64
	for shift := 0; shift < 64; shift += 7 {
		b := l.bytes(1)[0]
		n |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return n
		}
	}
	l.broken = true
	return 0
}
