// Package procname tells the names of a running Erlang VM's processes: the name a
// process is registered under, and the functions it was started with. They are read
// from the VM's memory, from outside. The VM is not stopped, not written to, and
// does not notice.
//
// Where things are in that memory is read from the debugging information of the VM's
// executable, which OTP's build makes by default and packagers tend to remove. A VM
// without it, or built of structures that are not known here, gets [ErrNoLayout].
//
// While it is read, the memory changes: processes come and go, and their heaps are
// moved. So nothing of it is believed that was not read twice and was the same both
// times, and that is not what it should be: the process of that identifier in its
// place of the process table, an atom of that index in the atom table, and so on.
// What does not agree is read again a few times, and then given up: no name is better
// than a wrong one. [Reader.Survey] reads figures of processes, such as how many messages
// wait, in the same way.
package procname

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrNoLayout says that nothing tells where in the VM's memory the names are.
	ErrNoLayout = errors.New("the names of processes cannot be read from this VM")

	// ErrNoProcess says that the VM has no such process, or not any more.
	ErrNoProcess = errors.New("no such Erlang process")

	// ErrUnsettled says that what was to be read changed again and again.
	ErrUnsettled = errors.New("changes while it is read")

	// ErrStarting says that the VM has not started far enough to have names.
	ErrStarting = errors.New("the VM is starting")
)

// A Name is what there is to name a process by. Atoms are written as Erlang writes
// them, in quotes where it needs them.
type Name struct {
	Registered string // the name it is registered under; "" where it is not
	Initial    string // module:function/arity that proc_lib notes for its processes; "" for others
	Spawned    string // module:function/arity that it was spawned with; erlang:apply/2 for a fun
}

// String returns the name that tells most: the registered one, else the initial
// function, else the spawned one.
func (n Name) String() string {
	switch {
	case n.Registered != "":
		return n.Registered
	case n.Initial != "":
		return n.Initial
	}
	return n.Spawned
}

// Function returns the function that the process was started with: that which proc_lib
// notes, or else that which it was spawned with. final is false of a process of proc_lib
// that has noted none, which may be because it has not run yet.
func (n Name) Function() (mfa string, final bool) {
	if n.Initial != "" {
		return n.Initial, true
	}
	return n.Spawned, n.Spawned != "" && !n.starting()
}

// starting tells whether all that is known is that it is a process of proc_lib.
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
