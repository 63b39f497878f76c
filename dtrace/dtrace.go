// Package dtrace contains the probes of the Erlang VM's USDT provider, which is called erlang:
// their names, their arguments, and whether they fire in a VM that compiles just in time.
//
// Unless it says otherwise, the facts were measured on the [Releases] of OTP for x86-64. A state
// that was not measured is [StateUnknown]: the executable shows which probes it has, but only a
// trace shows which of them fire.
//
// Attaching to a probe makes the VM run additional code that prepares the probe's arguments, and
// that code can have faults. So the catalogue lists the harmless probes for each release, and all
// others are refused.
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

	// Family is the number of probes that the entry stands for: Name followed by 0 to Family-1,
	// which all have the same arguments. It is 0 for a single probe.
	Family int

	Args   []Arg  // in their order
	State  State  // in a VM that compiles just in time
	Hot    Heat   // its rate while a tracer is attached
	Doc    string // when it fires, a sentence
	Hazard string // harm that attaching does to the VM, in addition to the cost of hits; "" if none is known

	// Harmless are the releases of Erlang/OTP on which it is safe to attach to the probe: a test
	// attached to it while a VM caused its events, and the VM came to no harm. Other releases are
	// refused, see [Probe.Refusal].
	Harmless []int

	// Subject is the name of the argument with the process that the event is about, "" if there is
	// none.
	Subject string

	// Trace is the message of erlang:trace/3 for the same event, "" if there is none.
	Trace string

	// StandIn describes the events if functions of a [Build] stand in for the probe.
	StandIn StandIn

	// NoStandIn is the reason why no function can stand in for the probe; "" if one may, or if none
	// was searched.
	NoStandIn string

	// Function is set if the provider has no such probe, and a function that the VM's executable
	// exports stands in for it.
	Function *Function
}

// A StandIn describes the differences between the events of functions and those of the probe that
// they stand in for.
type StandIn struct {
	Where Condition // that an event at the functions has to satisfy, nil for none
	Doc   string    // the differences, sentences; "" for none
}

// A Function is a place in an exported function of the VM that stands in for a probe. In all VMs for
// x86-64 that were examined, the function begins with an instruction that the kernel emulates, after
// endbr64 if it has that. The kernel single-steps other instructions, which takes ten times as long
// or more there. In VMs for arm64 the kernel single-steps the first instruction.
type Function struct {
	Symbol  string
	Renamed map[int]string // other symbols, by the first release of Erlang/OTP that has them
	Return  bool           // the place is the return of the function, not its entry

	// Anywhere means that the VM's generated code calls the function, whatever the compiler did to
	// other callers. So it also stands in on builds that nobody has examined, if they have a JIT.
	Anywhere bool

	Params []Param // places of the probe's arguments, in order
}

// SymbolOn returns the name of the function on a release of Erlang/OTP.
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
	Doc  string // facts that the name and the type do not show; may be empty
}

// Type is the type of an argument. The types up to [Reason] are C strings, which the VM cuts
// silently to the size of a buffer, mostly 256 bytes. The others are integers.
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

// State describes whether and where a probe fires in a VM with a JIT compiler.
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

// Heat is the rate at which a probe fires in a busy system. It is a rule of thumb, because systems
// differ.
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
// dyntrace:pn/1 to pn/9: user_trace__n0 to user_trace__n950. In a [Build], a place with this name
// stands in for all of them.
const UserTrace = "user_trace__n"

// userTraces is the number of probes in that family.
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

// Catalogue returns every probe that the provider declares, and those that functions stand in for,
// by name. The family [UserTrace] has a single entry. The caller may change the slice.
func Catalogue() []Probe {
	probes := slices.Concat(parts()...)
	for i := range probes {
		probes[i] = probes[i].complete()
	}
	slices.SortFunc(probes, func(a, b Probe) int { return strings.Compare(a.Name, b.Name) })
	return probes
}

// parts returns the parts of the catalogue as they are written in the source.
func parts() [][]Probe {
	return [][]Probe{messages(), memory(), functions(), processes(), standIns(), distribution(), ports(), drivers(), user()}
}

// complete returns an entry with default values added, and with its own copy of the arguments.
func (p Probe) complete() Probe {
	p.Args = slices.Clone(p.Args) // some are shared
	if p.Harmless == nil && p.Hazard == "" && p.State != Absent {
		p.Harmless = Releases()
	}
	if p.Subject == "" && p.Args[0].Type == PID {
		p.Subject = p.Args[0].Name // the process that acts is the first argument, with few exceptions
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
