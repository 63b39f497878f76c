// Package procname reads the names of a running Erlang VM's processes: the registered name of a
// process, and the functions with which it was started. It reads them from the VM's memory, from
// outside. It does not stop the VM, writes nothing to it, and the VM does not notice.
//
// The debugging information of the VM's executable gives the layout of that memory. OTP's build
// makes this information by default, and packagers often remove it. For some of their builds the
// file known_gen.go has the layout, by build ID. Any other VM without debugging information, or
// with unknown structures, gets [ErrNoLayout].
//
// The memory changes while it is read: processes come and go, and their heaps move. So the package
// accepts data only if two reads agree and if it is consistent: the process table contains the
// process with that identifier at its place, the atom table contains an atom with that index, and
// so on. If data does not agree, the package reads it again a few times and then gives up: no name
// is better than a wrong one. [Reader.Survey] reads figures of processes in the same way, such as
// the number of waiting messages.
package procname

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrNoLayout means that the place of the names in the VM's memory is unknown.
	ErrNoLayout = errors.New("the names of processes cannot be read from this VM")

	// ErrNoMessages means that the place of a message's address at the probes is unknown.
	ErrNoMessages = errors.New("the addresses of messages cannot be read from this VM")

	// ErrNoProcess means that the VM has no such process, or not any more.
	ErrNoProcess = errors.New("no such Erlang process")

	// ErrUnsettled means that the data changed again and again while it was read.
	ErrUnsettled = errors.New("changes while it is read")

	// ErrStarting means that the VM has not started far enough to have names.
	ErrStarting = errors.New("the VM is starting")
)

// A Name contains the names of a process. Atoms have the form of Erlang source, in quotes if they
// need them.
type Name struct {
	Registered string // registered name; "" if there is none
	Initial    string // module:function/arity that proc_lib notes for its processes; "" for others
	Spawned    string // module:function/arity that it was spawned with; erlang:apply/2 for a fun
}

// String returns the most specific name: the registered one, else the initial function, else the
// spawned one.
func (n Name) String() string {
	switch {
	case n.Registered != "":
		return n.Registered
	case n.Initial != "":
		return n.Initial
	}
	return n.Spawned
}

// Function returns the function with which the process was started: the one that proc_lib stores,
// or else the one that was spawned. final is false for a process of proc_lib without a stored
// function, because it may not have run yet.
func (n Name) Function() (mfa string, final bool) {
	if n.Initial != "" {
		return n.Initial, true
	}
	return n.Spawned, n.Spawned != "" && !n.starting()
}

// starting reports whether the process belongs to proc_lib and nothing else is known.
func (n Name) starting() bool {
	return n.Initial == "" && strings.HasPrefix(n.Spawned, "proc_lib:init_p/")
}

// A Process is an Erlang process with its name.
type Process struct {
	Number, Serial uint32 // as in <0.Number.Serial>
	Name           Name
}

// PID returns the process identifier as its own node writes it.
func (p Process) PID() string { return fmt.Sprintf("<0.%d.%d>", p.Number, p.Serial) }
