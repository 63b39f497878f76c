package procname

// A term is an Erlang term as the VM keeps it: an immediate value, or a pointer to
// words on a heap, told apart by the lowest bits (erts/emulator/beam/erl_term.h).
type term uint64

const (
	emptyList term = 0x3b
	atomTag   term = 0x0b
)

// list returns the address of a list's first cell: its head, and the rest.
func (t term) list() (address uint64, ok bool) { return uint64(t &^ 3), t&3 == 1 }

// boxed returns the address of a term of several words, which begins with a header.
func (t term) boxed() (address uint64, ok bool) { return uint64(t &^ 3), t&3 == 2 }

// small returns an integer that fits in a term.
func (t term) small() (value int64, ok bool) { return int64(t) >> 4, t&15 == 15 }

// atom returns an atom's place in the atom table.
func (t term) atom() (index uint64, ok bool) { return uint64(t >> 6), t&63 == atomTag }

// tupleHeader is the header of a tuple.
func tupleHeader(arity uint64) uint64 { return arity << 6 }

// The bits of a process identifier up to OTP 25: data has pidBits bits, whose lower numberBits bits
// are the number in <0.Number.Serial>; the others are the serial number. The term has data, a tag,
// and in the upper half the place in the process table (erl_ptab.h, erts_ptab_make_id).
const (
	numberBits = 15
	pidBits    = 28
	pidTag     = 3
)

// pidData returns the data of <0.number.serial>.
func pidData(number, serial uint32) (data uint32, ok bool) {
	ok = number < 1<<numberBits && serial < 1<<(pidBits-numberBits)
	return serial<<numberBits | number, ok
}

// pidTerm returns the term of the process with data in a place of the table.
func pidTerm(data, place uint32) uint64 {
	return uint64(place)<<32 | uint64(data<<4|pidTag)
}

// The bits of a process identifier since OTP 26: data has a number of longNumberBits bits, and
// above it the serial number. The term has a tag, and above it data, whose lowest bits are replaced
// by the place in the process table.
const (
	longNumberBits = 28
	longPIDBits    = 60
)

// maxArity is the maximum number of arguments of a function.
const maxArity = 255

// An mfa is a function as the VM stores it: terms for the module's and the function's name, and the
// arity as a plain number.
type mfa struct {
	module, function term
	arity            uint64
}

// valid reports whether it can be a function.
func (f mfa) valid() bool {
	_, module := f.module.atom()
	_, function := f.function.atom()
	return module && function && f.arity <= maxArity
}
