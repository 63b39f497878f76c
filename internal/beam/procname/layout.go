package procname

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/internal/beam/debuginfo"
	"github.com/beamscope/beamscope/usdt"
)

// A layout has the places of data in a VM's memory: offsets in bytes from the beginning of a
// structure, and sizes.
type layout struct {
	known bool // from a known build instead of debugging information

	table    tableLayout
	process  processLayout
	regProc  regProcLayout
	dict     dictLayout
	atoms    atomLayout
	message  uint64          // first words of a message
	form     dtrace.TermForm // encoding of process identifiers in terms
	procs    uint64          // address of erts_proc, as linked
	allAtoms uint64          // address of erts_atom_table, as linked

	figures   figureLayout
	noFigures error // why figures are unknown; nil if they are known
	code      codeLayout
	noCode    error // why functions cannot be found by code address; nil if they can
}

// figureLayout has the members of struct process that only [Reader.Survey] reads; processLayout has
// the others.
type figureLayout struct {
	size                   uint64 // up to the last member
	inner, outer           uint64 // lengths of the two parts of the queue
	middle                 uint64 // pointer to the fetched, unhandled signals, or nil
	outerSignal            uint64 // in the outer part, pointer to a signal that is no message, or nil
	parted                 partedLayout
	buffers                uint64 // pointer to further outer parts, or nil
	heapWords, fragments   uint64 // words of the young heap and of its fragments
	abandoned              uint64 // pointer to an abandoned heap, or nil
	reductions             uint64
	instruction, currently uint64 // pointers to the next instruction, and to a function or nil
}

// partedLayout is the layout of queues since OTP 27, which count messages in parts: the queues of
// struct process count only the messages behind their last non-message signal, and each such signal
// has the number of messages before it. The zero value is for older releases, whose queues count
// all messages.
type partedLayout struct {
	known        bool
	middle       uint64 // messages behind the last signal of the middle part
	middleSignal uint64 // pointer to the first signal of the middle part, or nil
	outerFirst   uint64 // pointer to the first signal of the outer part
	next, count  uint64 // of struct ErtsNonMsgSignal: pointer to the next signal, or nil, and messages before it
	size         uint64 // size of the part that is read
}

// codeLayout is the layout of the VM's data about loaded code: an array of struct ranges. Each
// range begins with a struct beam_code_header.
type codeLayout struct {
	ranges, active           uint64 // addresses of the static variables r and the_active_code_index, as linked
	size                     uint64 // of struct ranges, up to the last member
	modules, count           uint64
	functionCount, functions uint64 // of struct beam_code_header
	infoModule, infoSize     uint64 // of struct ErtsCodeInfo_: module, function and arity are adjacent
	infoFunction, infoArity  uint64
	rangesSize               uint64 // of all of struct ranges
}

// tableLayout is the layout of the process table, ErtsPTab.
type tableLayout struct {
	size                                 uint64
	slots                                uint64 // pointer to the array of pointers to processes
	max                                  uint64
	lineMask, lineShift, inMask, inShift uint64 // parameters that map a pid's data to its place
	invalid                              uint64 // data that no pid has
}

// processLayout is the layout of struct process.
type processLayout struct {
	size                       uint64 // up to the last member
	id                         uint64
	registered                 uint64 // pointer to a RegProc, or nil
	module, function, arity    uint64 // spawned with
	dict                       uint64 // pointer to a ProcDict, or nil
	heap, heapEnd, old, oldEnd uint64
	state                      uint64 // flags
	flags                      uint64 // others
	save                       uint64 // pointer to a pointer to the message that a receive examines

	seqTraceClock, seqTraceLastCount uint64 // of messages with a token
	suspensions                      uint64
	timer                            uint64 // of a receive
}

// regProcLayout is the layout of struct reg_proc.
type regProcLayout struct{ size, process, name uint64 }

// dictLayout is the layout of struct proc_dict.
type dictLayout struct {
	size             uint64 // with firstBuckets; more may follow
	mask, used, room uint64
	buckets          uint64
}

// atomLayout is the layout of struct index_table, which is the atom table, and of struct atom.
type atomLayout struct {
	entries, pages      uint64 // of the table
	size                uint64
	index, length, text uint64

	binary binaryLayout // since OTP 29 the text is a term
	maybe  bool         // OTP 27 or later, where maybe and else are reserved words
}

// binaryLayout is the layout of struct erl_heap_bits and struct erl_sub_bits, the forms of a
// binary. The zero value is for VMs whose atoms have a pointer to their text.
type binaryLayout struct {
	known              bool
	size               uint64 // size of the part that is read
	heapBits, heapData uint64 // size in bits, and the first byte
	base, start, end   uint64 // address with flags in its lowest bits, and bits from there
}

// A structure gives the places of its members, as [debuginfo.Struct] does.
type structure interface {
	Member(path string, limit uint64) (offset, size uint64, err error)
}

// maxStruct is the maximum number of bytes read from a structure.
const maxStruct = 2048

// A member is a part of a structure that a layout needs.
type member struct {
	of, path string // names from the structure inwards
	size     uint64
	offset   *uint64 // receives the offset
	end      *uint64 // raised to the end of the member, unless nil
}

// members returns all members that the layout needs. Their names and sizes are those in
// erts/emulator/beam of OTP 25, 27 and 29; the tests show which releases were tried.
func (l *layout) members() []member {
	const table, process, atom, dict = "ErtsPTab", "process", "atom", "proc_dict"
	t, p, a, d := &l.table, &l.process, &l.atoms, &l.dict
	mask, text := uint64(4), "name" // only the lower half of masks is read
	if l.form == dtrace.TermsByPlace {
		mask = 8
	}
	if a.binary.known {
		text = "u.bin"
	}
	return []member{
		{table, "r.o.tab", 8, &t.slots, &t.size},
		{table, "r.o.max", 4, &t.max, &t.size},
		{table, "r.o.pix_cl_mask", mask, &t.lineMask, &t.size},
		{table, "r.o.pix_cl_shift", 4, &t.lineShift, &t.size},
		{table, "r.o.pix_cli_mask", mask, &t.inMask, &t.size},
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
		{process, "common.timer", 8, &p.timer, nil},

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
		{atom, text, 8, &a.text, &a.size},
	}
}

// figureMembers returns the members that figures need. Names do not need them.
func (l *layout) figureMembers() []member {
	const process = "process"
	f := &l.figures
	inner, outer := "sig_qs.len", "sig_inq.len"
	var parted []member
	if p := &f.parted; p.known {
		inner, outer = "sig_qs.mq_len", "sig_inq.mlenoffs"
		parted = []member{
			{process, "sig_qs.mlenoffs", 8, &p.middle, &f.size},
			{process, "sig_qs.nmsigs.next", 8, &p.middleSignal, &f.size},
			{process, "sig_inq.first", 8, &p.outerFirst, &f.size},
			{nonMessage, "specific.next", 8, &p.next, &p.size},
			{nonMessage, "mlenoffs", 8, &p.count, &p.size},
		}
	}
	return append(parted, []member{
		{process, inner, 8, &f.inner, &f.size},
		{process, "sig_qs.cont", 8, &f.middle, &f.size},
		{process, outer, 8, &f.outer, &f.size},
		{process, "sig_inq.nmsigs.next", 8, &f.outerSignal, &f.size},
		{process, "sig_inq_buffers", 8, &f.buffers, &f.size},
		{process, "heap_sz", 8, &f.heapWords, &f.size},
		{process, "mbuf_sz", 8, &f.fragments, &f.size},
		{process, "abandoned_heap", 8, &f.abandoned, &f.size},
		{process, "reds", 8, &f.reductions, &f.size},
	}...)
}

// nonMessage is the structure of a signal that is not a message.
const nonMessage = "ErtsNonMsgSignal"

// binaryMembers returns the members for texts of atoms that are binaries.
func (l *layout) binaryMembers() []member {
	b := &l.atoms.binary
	if !b.known {
		return nil
	}
	return []member{
		{heapBinary, "size", 8, &b.heapBits, &b.size},
		{heapBinary, "data", 8, &b.heapData, &b.size},
		{sharedBinary, "base_flags", 8, &b.base, &b.size},
		{sharedBinary, "start", 8, &b.start, &b.size},
		{sharedBinary, "end", 8, &b.end, &b.size},
	}
}

// The structures of a binary on a heap, and of a binary with its bytes elsewhere.
const heapBinary, sharedBinary = "erl_heap_bits", "erl_sub_bits"

// codeMembers returns the members that are needed to find functions by code address.
func (l *layout) codeMembers() []member {
	const process, ranges, header, info = "process", "ranges", "beam_code_header", "ErtsCodeInfo_"
	f, c := &l.figures, &l.code
	return []member{
		{process, "i", 8, &f.instruction, &f.size},
		{process, "current", 8, &f.currently, &f.size},
		{ranges, "modules", 8, &c.modules, &c.size},
		{ranges, "n", 8, &c.count, &c.size},
		{ranges, "mid", 8, new(uint64), &c.rangesSize},
		{header, "num_functions", 8, &c.functionCount, nil},
		{header, "functions", 8, &c.functions, nil},
		{info, "mfa.module", 8, &c.infoModule, &c.infoSize},
		{info, "mfa.function", 8, &c.infoFunction, &c.infoSize},
		{info, "mfa.arity", 8, &c.infoArity, &c.infoSize},
	}
}

// readLayout reads a layout without the addresses from an executable or its separate debugging
// information.
func readLayout(ctx context.Context, f *usdt.File) (l layout, err error) {
	data, err := debuginfo.Read(ctx, f)
	if err != nil {
		return layout{}, err
	}
	structs, err := readStructs(data)
	if err != nil {
		return layout{}, err
	}
	err = l.fill(structs)
	return l, err
}

// readStructs returns the structures whose members a layout needs.
func readStructs(data *debuginfo.Data) (map[string]structure, error) {
	var l layout
	names := []string{nonMessage, heapBinary, sharedBinary}
	for _, m := range slices.Concat(l.members(), l.figureMembers(), l.codeMembers()) {
		names = append(names, m.of)
	}
	found, err := data.Structs(names...)
	if err != nil {
		return nil, err
	}
	structs := make(map[string]structure, len(found))
	for name, s := range found {
		structs[name] = s
	}
	return structs, nil
}

// fill sets everything but the addresses.
func (l *layout) fill(structs map[string]structure) error {
	l.recognise(structs)
	if err := locate(slices.Concat(l.members(), l.binaryMembers()), structs); err != nil {
		return err
	}
	l.dict.size = max(l.dict.size, l.dict.buckets+firstBuckets*wordSize)
	l.figures.size = l.process.size // which also have needed members
	l.noFigures = locate(l.figureMembers(), structs)
	l.noCode = locate(l.codeMembers(), structs)
	return nil
}

// recognise determines which of the known forms the structures have.
func (l *layout) recognise(structs map[string]structure) {
	sizeOf := func(of, path string) uint64 {
		s, ok := structs[of]
		if !ok {
			return 0
		}
		if _, size, err := s.Member(path, maxStruct); err == nil {
			return size
		}
		return 0
	}
	l.form = dtrace.TermsByNumber
	if sizeOf("ErtsPTab", "r.o.pix_cl_mask") == wordSize { // since OTP 26
		l.form = dtrace.TermsByPlace
	}
	l.figures.parted.known = sizeOf("process", "sig_qs.mq_len") > 0 // since OTP 27
	l.atoms.maybe = l.figures.parted.known
	l.atoms.binary.known = sizeOf("atom", "u.bin") > 0 // since OTP 29
}

// locate sets the offsets of members.
func locate(members []member, structs map[string]structure) error {
	for _, m := range members {
		s, ok := structs[m.of]
		if !ok {
			return fmt.Errorf("%w of %s", errMember, m.of)
		}
		if err := m.place(s); err != nil {
			return err
		}
	}
	return nil
}

var errMember = errors.New("the debugging information does not tell")

// place sets the member's offset.
func (m member) place(s structure) error {
	offset, size, err := s.Member(m.path, maxStruct-m.size)
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
