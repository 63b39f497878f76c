// Package usdt finds user-level statically defined tracing (USDT) probes in ELF files and running
// processes: the SystemTap notes that describe them, the locations of their arguments, and the
// semaphores that switch them on.
//
// The package does not use eBPF. It returns file offsets, as the kernel's uprobes need them, and
// argument locations in a form that a tracer can compile. ELF files are foreign input: the package
// limits and checks everything that it reads from one. A malformed file gives an error, never a
// panic.
package usdt

// A Probe is a probe of a provider, with every place in the file where it can fire.
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
	Semaphore uint64 // file offset of the 16-bit reference counter, 0 if the site has none
	Args      []Arg  // at most MaxArgs

	// Function is the function that contains this site, if no note describes the site. A caller
	// that knows the function uses such a site in place of a probe's site. It has no semaphore, and
	// its processes and ports are terms. Function is "" for the probes of notes.
	Function string

	// Return means that the event is the return of the function whose entry is at the site.
	Return bool

	// Stepped means that the kernel does not emulate the instruction. It single-steps the
	// instruction at each hit, which can cost ten times as much. Stepped is false for the probes of
	// notes.
	Stepped bool
}

// MaxArgs is the largest number of arguments a site can have (the limit of
// <sys/sdt.h>).
const MaxArgs = 12

// ArgKind is the kind of place of an argument's value.
type ArgKind uint8

// The kinds of argument locations. An argument whose specification is not
// understood, or names a symbol that the file does not define, is ArgUnknown: its
// site and the other arguments stay usable.
const (
	ArgConst    ArgKind = iota // Disp is the value
	ArgRegister                // the value is in Base
	ArgMemory                  // the value is at Base + Index·Scale + Disp
	ArgUnknown                 // not to be had: only Spec is meaningful
	ArgAddress                 // the value is the address Base + Index·Scale + Disp itself; no note has it
)

// An Arg is the location of the value of an argument when the probe fires.
type Arg struct {
	Kind   ArgKind
	Size   int  // of the value in bytes: 1, 2, 4 or 8
	Signed bool // the value needs sign extension to 64 bits

	Base  Register // ArgRegister, ArgMemory and ArgAddress; NoRegister where absent
	Index Register // ArgMemory and ArgAddress; NoRegister where absent
	Scale uint8    // of Index: 1, 2, 4 or 8; 0 without an index
	Disp  int64    // ArgConst: the value, already cut to Size; ArgMemory and ArgAddress: the displacement in bytes

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
