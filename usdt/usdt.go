// Package usdt finds user-level statically defined tracing (USDT) probes in ELF
// files and running processes: the SystemTap notes that describe them, where
// their arguments are, and which semaphores switch them on.
//
// It knows nothing of eBPF. What it returns are file offsets, which is what the
// kernel's uprobes take, and argument locations in a form that a tracer can
// compile. ELF files are foreign input: everything read from one is bounded and
// checked, and a malformed file gives an error, never a panic.
package usdt

// A Probe is one probe name of one provider, with every place in the file where
// it can fire.
type Probe struct {
	Provider string
	Name     string // as in the note: "process__spawn"
	Sites    []Site // in the order of the notes, at least one
}

// A Site is one location of a probe: a nop that a tracer replaces by a trap.
// Each site has its own argument locations, because the compiler chooses them
// anew at each place where the probe is inlined.
type Site struct {
	Offset    uint64 // of the nop, in bytes from the start of the file
	Address   uint64 // of the nop, as linked, before any load bias
	Semaphore uint64 // file offset of the 16-bit reference counter, 0 where the site has none
	Args      []Arg  // at most MaxArgs

	// Stepped says that the instruction is none of those that the kernel emulates: it has to
	// single-step it at each hit, which can cost ten times as much. It is false for the
	// probes of notes.
	Stepped bool
}

// MaxArgs is the largest number of arguments a site can have (the limit of
// <sys/sdt.h>).
const MaxArgs = 12

// ArgKind says where an argument's value is.
type ArgKind uint8

// The kinds of argument locations. An argument whose specification is not
// understood, or names a symbol that the file does not define, is ArgUnknown: its
// site and the other arguments stay usable.
const (
	ArgConst    ArgKind = iota // Disp is the value
	ArgRegister                // the value is in Base
	ArgMemory                  // the value is at Base + Index·Scale + Disp
	ArgUnknown                 // not to be had: only Spec is meaningful
)

// An Arg tells where the value of one argument is when the probe fires.
type Arg struct {
	Kind   ArgKind
	Size   int  // of the value in bytes: 1, 2, 4 or 8
	Signed bool // whether the value is to be sign-extended to 64 bits

	Base  Register // ArgRegister and ArgMemory; NoRegister where absent
	Index Register // ArgMemory; NoRegister where absent
	Scale uint8    // of Index: 1, 2, 4 or 8; 0 where there is no index
	Disp  int64    // ArgConst: the value, already cut to Size; ArgMemory: the displacement in bytes

	// Shift is the position in bits of the value within the register Base
	// (ArgRegister): 8 for %ah and its like, 0 otherwise.
	Shift uint8

	// Spec is the text of the note that the location was read from, such as
	// "-4@-572(%rbp)".
	Spec string
}

// A Register is the position of a machine register in the kernel's struct
// pt_regs (user_pt_regs on arm64), counted in 64-bit words from its start.
type Register int8

// NoRegister stands for an absent base or index.
const NoRegister Register = -1
