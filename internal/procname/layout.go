package procname

import (
	"debug/dwarf"
	"debug/elf"
	"errors"
	"fmt"
	"strings"
)

// A layout is where in a VM's memory things are: offsets in bytes from the beginning
// of a structure, and sizes.
type layout struct {
	table    tableLayout
	process  processLayout
	regProc  regProcLayout
	dict     dictLayout
	atoms    atomLayout
	message  uint64 // words of a message, the first of them
	procs    uint64 // address of erts_proc, as linked
	allAtoms uint64 // address of erts_atom_table, as linked
}

// tableLayout is of the process table, ErtsPTab.
type tableLayout struct {
	size                                 uint64
	slots                                uint64 // pointer to the array of pointers to processes
	max                                  uint64
	lineMask, lineShift, inMask, inShift uint64 // how a pid's data tells the place
	invalid                              uint64 // the data that no pid has
}

// processLayout is of struct process.
type processLayout struct {
	size                       uint64 // up to the last member
	id                         uint64
	registered                 uint64 // pointer to a RegProc, or nil
	module, function, arity    uint64 // spawned with
	dict                       uint64 // pointer to a ProcDict, or nil
	heap, heapEnd, old, oldEnd uint64
	state                      uint64 // flags
	flags                      uint64 // others
	save                       uint64 // pointer to a pointer to the message that a receive looks at

	seqTraceClock, seqTraceLastCount uint64 // of messages with a token
	suspensions                      uint64
}

// regProcLayout is of struct reg_proc.
type regProcLayout struct{ size, process, name uint64 }

// dictLayout is of struct proc_dict.
type dictLayout struct {
	size             uint64 // with firstBuckets, and more of them may follow
	mask, used, room uint64
	buckets          uint64
}

// atomLayout is of struct index_table, for the atom table, and of struct atom.
type atomLayout struct {
	entries, pages      uint64 // of the table
	size                uint64
	index, length, text uint64
}

// maxStruct is the most that is read of a structure.
const maxStruct = 2048

// A member is a part of a structure that a layout needs.
type member struct {
	of, path string // path has the names from the structure inwards
	size     uint64
	offset   *uint64 // is set
	end      *uint64 // is raised to where the member ends, unless nil
}

// members are all that the layout needs. The names and sizes are those of
// erts/emulator/beam in OTP 25; the tests tell which have been tried.
func (l *layout) members() []member {
	const table, process, atom, dict = "ErtsPTab", "process", "atom", "proc_dict"
	t, p, a, d := &l.table, &l.process, &l.atoms, &l.dict
	return []member{
		{table, "r.o.tab", 8, &t.slots, &t.size},
		{table, "r.o.max", 4, &t.max, &t.size},
		{table, "r.o.pix_cl_mask", 4, &t.lineMask, &t.size},
		{table, "r.o.pix_cl_shift", 4, &t.lineShift, &t.size},
		{table, "r.o.pix_cli_mask", 4, &t.inMask, &t.size},
		{table, "r.o.pix_cli_shift", 4, &t.inShift, &t.size},
		{table, "r.o.invalid_data", 8, &t.invalid, &t.size},

		{process, "common.id", 8, &p.id, &p.size},
		{process, "common.u.alive.reg", 8, &p.registered, &p.size},
		{process, "u.initial.module", 8, &p.module, &p.size},
		{process, "u.initial.function", 8, &p.function, &p.size},
		{process, "u.initial.arity", 8, &p.arity, &p.size},
		{process, "dictionary", 8, &p.dict, &p.size},
		{process, "heap", 8, &p.heap, &p.size},
		{process, "hend", 8, &p.heapEnd, &p.size},
		{process, "old_heap", 8, &p.old, &p.size},
		{process, "old_hend", 8, &p.oldEnd, &p.size},
		{process, "state", 4, &p.state, &p.size},
		{process, "flags", 4, &p.flags, nil}, // nor those that follow, here
		{process, "sig_qs.save", 8, &p.save, nil},
		{process, "seq_trace_clock", 8, &p.seqTraceClock, nil},
		{process, "seq_trace_lastcnt", 8, &p.seqTraceLastCount, nil},
		{process, "rcount", 4, &p.suspensions, nil},

		{"erl_mesg", "m", 8, &l.message, nil},

		{"reg_proc", "p", 8, &l.regProc.process, &l.regProc.size},
		{"reg_proc", "name", 8, &l.regProc.name, &l.regProc.size},

		{dict, "sizeMask", 4, &d.mask, &d.size},
		{dict, "usedSlots", 4, &d.used, &d.size},
		{dict, "arraySize", 4, &d.room, &d.size},
		{dict, "data", 8, &d.buckets, nil},

		{"index_table", "entries", 4, &a.entries, nil},
		{"index_table", "seg_table", 8, &a.pages, nil},
		{atom, "slot.index", 4, &a.index, &a.size},
		{atom, "len", 2, &a.length, &a.size},
		{atom, "name", 8, &a.text, &a.size},
	}
}

// readLayout reads a layout, all but the addresses, from an executable or its
// separate debugging information.
//
// The packages debug/elf and debug/dwarf do not promise to bear with malformed
// files. These are not ours, so a panic of theirs is such a file.
func readLayout(path string) (l layout, err error) {
	defer func() {
		if problem := recover(); problem != nil {
			err = fmt.Errorf("%s: malformed debugging information: %v", path, problem)
		}
	}()
	file, err := elf.Open(path)
	if err != nil {
		return layout{}, err
	}
	defer file.Close()
	data, err := debugInfo(file)
	if err != nil {
		return layout{}, fmt.Errorf("%s: %w", path, err)
	}
	types, err := findTypes(data, l.members())
	if err != nil {
		return layout{}, fmt.Errorf("%s: %w", path, err)
	}
	for _, m := range l.members() {
		if err := types.place(m); err != nil {
			return layout{}, fmt.Errorf("%s: %w", path, err)
		}
	}
	l.dict.size = max(l.dict.size, l.dict.buckets+firstBuckets*wordSize)
	return l, nil
}

var (
	errNoDebugInfo = errors.New("no debugging information")
	errMember      = errors.New("the debugging information does not tell")
)

// maxSection bounds a section of debugging information. Those of a VM with its JIT
// have 20 MB.
const maxSection = 512 << 20

// debugInfo reads the part of a file's debugging information that describes types:
// not that of lines and locations, which is the larger one.
func debugInfo(file *elf.File) (*dwarf.Data, error) {
	sections, err := debugSections(file, "abbrev", "info", "str", "line_str", "str_offsets")
	if err != nil {
		return nil, err
	}
	return newDebugInfo(sections)
}

// debugSections reads sections of debugging information, those that there are.
func debugSections(file *elf.File, names ...string) (map[string][]byte, error) {
	sections := make(map[string][]byte)
	for _, name := range names {
		s := file.Section(".debug_" + name)
		if s == nil || s.Type == elf.SHT_NOBITS {
			continue
		}
		if s.Size > maxSection {
			return nil, fmt.Errorf("section %s has %d bytes, at most %d are read", s.Name, s.Size, uint64(maxSection))
		}
		var err error
		if sections[name], err = s.Data(); err != nil {
			return nil, fmt.Errorf("section %s: %w", s.Name, err)
		}
	}
	return sections, nil
}

// newDebugInfo returns what there is in sections of debugging information.
func newDebugInfo(sections map[string][]byte) (*dwarf.Data, error) {
	if len(sections["info"]) == 0 {
		return nil, errNoDebugInfo
	}
	data, err := dwarf.New(sections["abbrev"], nil, nil, sections["info"], nil, nil, sections["ranges"], sections["str"])
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"line_str", "str_offsets", "addr", "rnglists"} {
		if err := data.AddSection(".debug_"+name, sections[name]); err != nil {
			return nil, err
		}
	}
	return data, nil
}

// types are structures and where the debugging information describes them.
type types struct {
	data  *dwarf.Data
	named map[string]dwarf.Offset
}

// findTypes finds the structures of members, each in the first compilation unit that
// has all of it.
func findTypes(data *dwarf.Data, members []member) (types, error) {
	found := types{data: data, named: make(map[string]dwarf.Offset)}
	missing := make(map[string]bool)
	for _, m := range members {
		missing[m.of] = true
	}
	r := data.Reader()
	for len(missing) > 0 {
		e, err := r.Next()
		if err != nil {
			return types{}, err
		}
		if e == nil {
			return types{}, fmt.Errorf("%w of %s", errMember, first(members, missing))
		}
		name, _ := e.Val(dwarf.AttrName).(string)
		declaration, _ := e.Val(dwarf.AttrDeclaration).(bool)
		if (e.Tag == dwarf.TagStructType || e.Tag == dwarf.TagTypedef) && missing[name] && !declaration {
			if e.Tag == dwarf.TagStructType || found.isStruct(e.Offset) {
				found.named[name] = e.Offset
				delete(missing, name)
			}
		}
		if e.Tag != dwarf.TagCompileUnit {
			r.SkipChildren()
		}
	}
	return found, nil
}

// first returns the first structure that is missing.
func first(members []member, missing map[string]bool) string {
	for _, m := range members {
		if missing[m.of] {
			return m.of
		}
	}
	return ""
}

// isStruct tells whether a type definition is of a structure with members.
func (t types) isStruct(at dwarf.Offset) bool {
	e, err := t.resolve(at)
	return err == nil && e.Tag == dwarf.TagStructType && e.Children
}

// place sets a member's offset.
func (t types) place(m member) error {
	at, offset := t.named[m.of], uint64(0)
	for name := range strings.SplitSeq(m.path, ".") {
		next, more, err := t.member(at, name)
		if err != nil {
			return fmt.Errorf("%w of %s.%s: %w", errMember, m.of, m.path, err)
		}
		if at, offset = next, offset+more; offset > maxStruct-m.size {
			return fmt.Errorf("%w of %s.%s: %d bytes from its beginning", errMember, m.of, m.path, offset)
		}
	}
	size, err := t.size(at)
	if err != nil {
		return fmt.Errorf("%w of %s.%s: %w", errMember, m.of, m.path, err)
	}
	if size != m.size {
		return fmt.Errorf("%w of %s.%s: it has %d bytes, not %d", errMember, m.of, m.path, size, m.size)
	}
	*m.offset = offset
	if m.end != nil {
		*m.end = max(*m.end, offset+size)
	}
	return nil
}

// errNoMember is the error for names that a structure does not have.
var errNoMember = errors.New("no such member")

// member finds a member of a structure or union: its type, and its offset.
func (t types) member(at dwarf.Offset, name string) (typ dwarf.Offset, offset uint64, err error) {
	e, err := t.resolve(at)
	if err != nil {
		return 0, 0, err
	}
	if !e.Children {
		return 0, 0, errNoMember
	}
	r := t.data.Reader()
	r.Seek(e.Offset)
	if _, err := r.Next(); err != nil {
		return 0, 0, err
	}
	for {
		e, err := r.Next()
		if err != nil {
			return 0, 0, err
		}
		if e == nil || e.Tag == 0 {
			return 0, 0, errNoMember
		}
		if e.Tag == dwarf.TagMember && e.Val(dwarf.AttrName) == any(name) {
			return placeOf(e)
		}
		r.SkipChildren()
	}
}

// placeOf returns the type and offset of a member. Those of a union have no offset.
func placeOf(e *dwarf.Entry) (typ dwarf.Offset, offset uint64, err error) {
	typ, ok := e.Val(dwarf.AttrType).(dwarf.Offset)
	if !ok {
		return 0, 0, errNoMember
	}
	switch at := e.Val(dwarf.AttrDataMemberLoc).(type) {
	case nil:
		return typ, 0, nil
	case int64:
		if at >= 0 && at <= maxStruct {
			return typ, uint64(at), nil
		}
	}
	return 0, 0, errNoMember
}

// size returns the size of a type; that of an array is one of its elements.
func (t types) size(at dwarf.Offset) (uint64, error) {
	e, err := t.resolve(at)
	if err != nil {
		return 0, err
	}
	if e.Tag == dwarf.TagArrayType {
		if at, ok := e.Val(dwarf.AttrType).(dwarf.Offset); ok {
			if e, err = t.resolve(at); err != nil {
				return 0, err
			}
		}
	}
	if size, ok := e.Val(dwarf.AttrByteSize).(int64); ok && size >= 0 {
		return uint64(size), nil
	}
	if e.Tag == dwarf.TagPointerType {
		return wordSize, nil
	}
	return 0, errNoMember
}

// resolve returns the entry of a type, behind its other names and qualifiers.
func (t types) resolve(at dwarf.Offset) (*dwarf.Entry, error) {
	const most = 32 // a malformed file might go in circles
	r := t.data.Reader()
	for range most {
		r.Seek(at)
		e, err := r.Next()
		if err != nil {
			return nil, err
		}
		if e == nil {
			return nil, errNoMember
		}
		switch e.Tag {
		case dwarf.TagTypedef, dwarf.TagConstType, dwarf.TagVolatileType:
			next, ok := e.Val(dwarf.AttrType).(dwarf.Offset)
			if !ok {
				return nil, errNoMember
			}
			at = next
		default:
			return e, nil
		}
	}
	return nil, errNoMember
}
