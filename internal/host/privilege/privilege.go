// Package privilege gives up the rights of a process that it does not need.
//
// Capabilities and NoNewPrivs belong to threads, and a Go program has several threads before its
// first line runs. So this package reduces them for one thread, and that thread executes the
// program again: all threads of the new program begin with the reduced rights.
package privilege

import (
	"errors"
	"fmt"
)

// A Set is a set of capabilities, each a bit at its number (capabilities(7)).
type Set uint64

// The capabilities that beamscope may need, by their numbers in linux/capability.h.
const (
	DACOverride       = 1
	DACReadSearch     = 2
	FOwner            = 3
	SetPCap           = 8
	SysPtrace         = 19
	SysAdmin          = 21
	Perfmon           = 38
	BPF               = 39
	CheckpointRestore = 40
)

// Of returns the set of these capabilities, such as [BPF].
func Of(numbers ...int) Set {
	var s Set
	for _, c := range numbers {
		s |= 1 << c
	}
	return s
}

// String is as in /proc/PID/status.
func (s Set) String() string { return fmt.Sprintf("%016x", uint64(s)) }

// A State contains the rights of a thread.
type State struct {
	Permitted, Effective, Inheritable, Bounding Set
	NoNewPrivs                                  bool // no program that it executes gets more
}

// ErrKept says that a process still has the rights that it should have given up.
var ErrKept = errors.New("privileges are not given up")
