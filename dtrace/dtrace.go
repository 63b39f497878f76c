// Package dtrace knows the probes of the Erlang VM's USDT provider, which is
// called erlang: their names, their arguments, and what becomes of them in a VM
// that compiles just in time.
//
// What it says was measured on the [Releases] of OTP for x86-64 unless it says
// otherwise. Where nothing was measured the state is [StateUnknown]: the executable
// at hand tells which probes it has, but only a trace tells which of them ever fire.
//
// Attaching to a probe makes the VM run code of its own that prepares the probe's
// arguments, and that code can have faults. So the catalogue says for each release which
// probes are harmless, and all others are refused.
package dtrace

import (
	"slices"
	"strconv"
	"strings"
)

// Provider is the name of the Erlang VM's provider.
const Provider = "erlang"

// A Probe is a probe of the Erlang VM.
type Probe struct {
	// Name is the name that executables have, such as "process__spawn". For an
	// entry of the catalogue that stands for a family it is the part that its
	// probes have in common.
	Name string

	// Family is how many probes the entry stands for: Name followed by 0 to
	// Family-1, which all have the same arguments. It is 0 for a single probe.
	Family int

	Args   []Arg  // in their order
	State  State  // in a VM that compiles just in time
	Hot    Heat   // how often it fires while somebody is attached
	Doc    string // when it fires, a sentence
	Hazard string // what attaching can do to the VM beyond what hits cost, where it is not harmless; "" where nothing is known

	// Harmless are the releases of Erlang/OTP on which the probe may be attached to: it
	// was, while a VM did what it tells of, and the VM came to no harm. Other releases are
	// refused, see [Probe.Refusal].
	Harmless []int

	// Subject is the name of the argument that is the process which does what the
	// probe tells, "" where there is none.
	Subject string

	// Trace says which messages of erlang:trace/3 tell the same, "" where none does.
	Trace string

	// Function is set where the provider has no such probe, and a function that the
	// VM's executable exports stands in for it.
	Function *Function
}

// A Function is a place in an exported function of the VM where a probe would be. Those
// of the VMs that were looked at begin, behind endbr64 where they have it, with an
// instruction that the kernel emulates: others have to be single-stepped, which takes ten
// times as long or more.
type Function struct {
	Symbol  string
	Renamed map[int]string // other symbols, by the first release of Erlang/OTP that has them
	Return  bool           // where it returns, and not where it is entered
	Params  []Param        // where the arguments of the probe are, in their order
}

// SymbolOn returns what the function is called on a release of Erlang/OTP.
func (f Function) SymbolOn(release int) string {
	symbol, since := f.Symbol, 0
	for from, name := range f.Renamed {
		if release >= from && from > since {
			symbol, since = name, from
		}
	}
	return symbol
}

// A Param is where an argument of the probe is at a [Function]. Of the types [PID] and
// [Port] it is a term there, and not text.
type Param struct {
	Number int  // of the function's parameters, from 1; 0: its result
	Deref  bool // it is the word that the parameter points to: of a Process its pid
}

// DTraceName returns the probe's name as dtrace(1) has it: "process-spawn".
func (p Probe) DTraceName() string { return Hyphened(p.Name) }

// An Arg is an argument of a probe.
type Arg struct {
	Name string
	Type Type
	Doc  string // what the name and the type leave open; may be empty
}

// Type says what an argument is. Up to [Reason] they are C strings, which the
// VM cuts silently to the size of a buffer, mostly 256 bytes. The others are
// integers.
type Type uint8

// The types of arguments.
const (
	PID    Type = iota // a process, "<0.42.0>"
	Port               // a port, "#Port<0.7>"
	MFA                // a function, "lists:seq/2"
	Node               // a node, "name@host"
	Text               // any other text
	Reason             // an Erlang term as text, such as an exit reason
	Int                // a number without unit
	Words              // a size in machine words, 8 bytes each on a 64-bit machine
	Bytes              // a size in bytes
)

// String returns the type's name in lower case.
func (t Type) String() string {
	return name(t, "pid", "port", "mfa", "node", "text", "reason", "int", "words", "bytes")
}

// IsText reports whether the argument is a pointer to a C string, and otherwise
// it is an integer.
func (t Type) IsText() bool { return t <= Reason }

// Unit returns the unit of a size, "words" or "bytes", and "" for other types.
func (t Type) Unit() string {
	if t == Words || t == Bytes {
		return t.String()
	}
	return ""
}

// State says what becomes of a probe in a VM that compiles just in time.
type State uint8

// The states of probes.
const (
	StateUnknown State = iota // not measured
	Alive                     // fires
	DirtyOnly                 // fires on dirty schedulers only
	Dead                      // is in the executable and never fires
	Absent                    // is declared, but not in the executable
)

// String returns the state in words.
func (s State) String() string {
	return name(s, "unknown", "alive", "dirty only", "dead", "absent")
}

// Heat says how often a probe fires in a busy system. It is a rule of thumb,
// for what a system does is its own affair.
type Heat uint8

// The heats of probes.
const (
	HeatUnknown Heat = iota // not known, or up to the program
	Rare                    // with the life of nodes, drivers and connections
	Moderate                // with the life of processes, garbage collections and port commands
	Hot                     // with each message or time slice
	VeryHot                 // with each function call or term copied
)

// String returns the heat in words.
func (h Heat) String() string {
	return name(h, "unknown", "rare", "moderate", "hot", "very hot")
}

// name returns the word for a value of an enumeration.
func name[T ~uint8](value T, words ...string) string {
	if int(value) < len(words) {
		return words[value]
	}
	return strconv.Itoa(int(value))
}

// UserTrace is the name of the family of probes that Erlang code fires with
// dyntrace:pn/1 to pn/9: user_trace__n0 to user_trace__n950.
const UserTrace = "user_trace__n"

// userTraces is how many probes are in that family.
const userTraces = 951

// UserTraceNumber returns the number of a probe of the family [UserTrace], from 0
// to 950, by its name in either form.
func UserTraceNumber(name string) (number int, ok bool) {
	digits, ok := strings.CutPrefix(Underscored(name), UserTrace)
	if !ok {
		return 0, false
	}
	number, err := strconv.Atoi(digits)
	if err != nil || number < 0 || number >= userTraces || strconv.Itoa(number) != digits {
		return 0, false
	}
	return number, true
}

// Hyphened returns a probe's name as dtrace(1) has it: "process-spawn".
func Hyphened(name string) string { return strings.ReplaceAll(name, "__", "-") }

// Underscored returns a probe's name as executables have it: "process__spawn".
func Underscored(name string) string { return strings.ReplaceAll(name, "-", "__") }

// Catalogue returns every probe that the provider declares and those that functions
// stand in for, by name, with a single entry for the family [UserTrace]. The slice is
// the caller's.
func Catalogue() []Probe {
	probes := slices.Concat(parts()...)
	for i := range probes {
		probes[i] = probes[i].complete()
	}
	slices.SortFunc(probes, func(a, b Probe) int { return strings.Compare(a.Name, b.Name) })
	return probes
}

// parts returns the parts of the catalogue, as they are written.
func parts() [][]Probe {
	return [][]Probe{messages(), memory(), functions(), processes(), standIns(), distribution(), ports(), drivers(), user()}
}

// complete returns an entry as it was written with what goes without saying, and with
// arguments of its own.
func (p Probe) complete() Probe {
	p.Args = slices.Clone(p.Args) // some are shared
	if p.Harmless == nil && p.Hazard == "" && p.State != Absent {
		p.Harmless = Releases()
	}
	if p.Subject == "" && p.Args[0].Type == PID {
		p.Subject = p.Args[0].Name // who does something comes first, with few exceptions
	}
	return p
}

// Lookup returns the probe of a name, in either form: "process__spawn" or
// "process-spawn". A probe of the family [UserTrace] is returned by its own
// name, as a single one.
func Lookup(name string) (Probe, bool) {
	name = Underscored(name)
	_, numbered := UserTraceNumber(name)
	for _, part := range parts() {
		for _, p := range part {
			switch {
			case p.Name == name && p.Family == 0:
				return p.complete(), true
			case p.Name == UserTrace && numbered:
				p.Name, p.Family = name, 0
				return p.complete(), true
			}
		}
	}
	return Probe{}, false
}
