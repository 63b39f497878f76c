// Package sampled measures how the processes and functions of Erlang VMs share processors, by
// taking samples at random times. The VMs do nothing for that: they need no probes and no symbols,
// and their executables may be stripped.
//
// A sample gets a process only if the process is known. In code of the JIT compiler, a register
// identifies the running process. In other code, the scheduler's own data does: the package uses
// that data only after it has agreed with the register in several samples of this VM.
package sampled

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/internal/beam/jit"
	"github.com/beamscope/beamscope/internal/engine/outcome"
)

// A Kind is the precision with which the user of a processor is known.
type Kind uint8

// The kinds.
const (
	Process   Kind = iota // a process whose pid is known
	Term                  // a process whose pid is not known, as the size of the VM's process table is not
	Unknown               // a process or the VM itself, in C code
	Nobody                // a scheduler that runs no process: it looks for work, polls or does the VM's own work
	Elsewhere             // a thread of the VM that is no scheduler
	NoRoom                // samples without room: only the VM is known
)

// String returns a word for JSON.
func (k Kind) String() string {
	return [...]string{"process", "term", "unknown", "no_process", "other_thread", "no_room"}[k]
}

// A Who identifies the process, or the group of threads, that used a processor.
type Who struct {
	Kind           Kind
	Number, Serial uint32 // of a Process, as in <0.Number.Serial>
	Term           uint64 // of a Term, as the VM has it
}

// String returns a name for display.
func (w Who) String() string {
	switch w.Kind {
	case Process:
		return fmt.Sprintf("<0.%d.%d>", w.Number, w.Serial)
	case Term:
		return fmt.Sprintf("pid not known, term %#x", w.Term)
	case Nobody:
		return "schedulers that run no process"
	case Elsewhere:
		return "threads that are no schedulers"
	case NoRoom:
		return "no room"
	}
	return "in C, process unknown"
}

// Names in place of a function.
const (
	InC     = "in C code"     // of the VM, of a NIF, of a driver, of the kernel
	Changed = "replaced code" // code was loaded in the window, at an address that had other code before
	NoCode  = "not known"     // no room, or the code was not read in the window
)

// IsFunction reports whether a name is that of a function of the JIT compiler, and not one in place
// of a function.
func IsFunction(name string) bool { return name != InC && name != Changed && name != NoCode }

// A Cell counts the samples of a window with the same process and function.
type Cell struct {
	VM       outcome.VM
	Who      Who
	Name     string // of a Process, "" if unknown
	Function string // as the VM writes it, or a name in place of a function
	N        uint64
}

// A Window contains the samples of one window.
type Window struct {
	outcome.Window
	Time       time.Time // wall time of its end
	VMs        []outcome.VM
	Cells      []Cell
	Taken      uint64 // samples on all processors, of VMs and of everything else
	Missing    uint64 // samples that were due and were not taken: an idle processor gives none
	Processors int    // that samples are taken on
	Cost       outcome.Cost
	Notices    []outcome.Notice
	Stale      bool // it was read too late, and nothing is known about it
}

// proof is the number of samples in which the scheduler's data and the register must contain the
// same process address before the data is used. Addresses do not agree by chance. Several samples
// also exclude that the data is of a process that ran before.
const proof = 5

// An attribution interprets the samples of a VM.
type attribution struct {
	before, after *jit.Code // at the beginning and at the end of the window; nil: not known
	terms         dtrace.Terms
	unread        bool // the code was not read in the window, and may have changed

	agreed, disagreed uint64 // samples in which the scheduler's data and the register agree or disagree
}

// learn compares the scheduler's data with the register in samples where both must be the same.
func (a *attribution) learn(samples []bpf.Sample) {
	for _, s := range samples {
		f, ok := a.function(s)
		switch {
		case !ok || f.Schedules() || s.Current == bpf.CurrentUnknown:
		case s.Current == bpf.CurrentSame:
			a.agreed += s.Count
		default:
			a.disagreed += s.Count
		}
	}
}

// proven reports whether the scheduler's data can be used.
func (a *attribution) proven() bool { return a.agreed >= proof && a.disagreed == 0 }

// function returns the compiled code that a sample is in.
func (a *attribution) function(s bpf.Sample) (jit.Function, bool) {
	if s.Thread != bpf.Scheduler || a.unread {
		return jit.Function{}, false
	}
	if f, ok := a.after.Function(s.Address); ok {
		return f, true
	}
	return a.before.Function(s.Address)
}

// attribute returns the process and the function of a sample.
func (a *attribution) attribute(s bpf.Sample) (Who, string) {
	f, ok := a.function(s)
	switch {
	case s.Thread == bpf.OtherThread:
		return Who{Kind: Elsewhere}, InC
	case a.unread && s.Thread == bpf.Scheduler:
		return a.byScheduler(s), NoCode
	case !ok:
		return a.byScheduler(s), InC
	case !f.Schedules(), s.Current == bpf.CurrentSame:
		return a.process(s.InRegister), a.named(f)
	}
	return a.byScheduler(s), a.named(f)
}

// named returns the name of a function. It returns Changed if other code was at that address during
// the window.
func (a *attribution) named(f jit.Function) string {
	if was, ok := a.before.Function(f.Start); ok && was != f {
		return Changed
	}
	return f.Name
}

// byScheduler returns the process that a scheduler runs, according to its own data.
func (a *attribution) byScheduler(s bpf.Sample) Who {
	switch {
	case !a.proven() || s.Current == bpf.CurrentUnknown:
		return Who{Kind: Unknown}
	case s.Current == bpf.CurrentNone:
		return Who{Kind: Nobody}
	}
	return a.process(s.ByScheduler)
}

// process returns the process that a pid term identifies.
func (a *attribution) process(term uint64) Who {
	const tagBits, pidTag = 4, 3 // erts/emulator/beam/erl_term.h
	if term&(1<<tagBits-1) != pidTag {
		return Who{Kind: Unknown}
	}
	if a.terms.Form == dtrace.TermsUnknown {
		return Who{Kind: Term, Term: term}
	}
	number, serial, ok := a.terms.PID(term)
	if !ok {
		return Who{Kind: Unknown}
	}
	return Who{Kind: Process, Number: number, Serial: serial}
}

// cells attributes the samples of a VM.
func (a *attribution) cells(vm outcome.VM, samples []bpf.Sample, noRoom uint64) []Cell {
	a.learn(samples)
	type place struct {
		who      Who
		function string
	}
	counts := make(map[place]uint64)
	for _, s := range samples {
		who, function := a.attribute(s)
		counts[place{who, function}] += s.Count
	}
	if noRoom > 0 {
		counts[place{Who{Kind: NoRoom}, NoCode}] += noRoom
	}
	cells := make([]Cell, 0, len(counts))
	for p, n := range counts {
		cells = append(cells, Cell{VM: vm, Who: p.who, Function: p.function, N: n})
	}
	slices.SortFunc(cells, compareCells)
	return cells
}

// compareCells orders cells by descending numbers of samples.
func compareCells(a, b Cell) int {
	return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(a.Who.Kind, b.Who.Kind), cmp.Compare(a.Who.Number, b.Who.Number),
		cmp.Compare(a.Who.Serial, b.Who.Serial), cmp.Compare(a.Who.Term, b.Who.Term), cmp.Compare(a.Function, b.Function))
}
