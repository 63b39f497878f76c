// Package privilege gives up what a process is allowed to do and does not need.
//
// Capabilities and NoNewPrivs belong to threads, and a Go program has several threads
// before its first line runs. So this package reduces them for one thread, and that thread
// executes the program again: all threads of the new one begin with what is left.
package privilege

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// A Set is a set of capabilities, each a bit at its number (capabilities(7)).
type Set uint64

// Of returns the set of these capabilities, such as [unix.CAP_BPF].
func Of(numbers ...int) Set {
	var s Set
	for _, c := range numbers {
		s |= 1 << c
	}
	return s
}

// String is as in /proc/PID/status.
func (s Set) String() string { return fmt.Sprintf("%016x", uint64(s)) }

// A State is what a thread is allowed to do.
type State struct {
	Permitted, Effective, Inheritable, Bounding Set
	NoNewPrivs                                  bool // no program that it executes gets more
}

// Current returns the state of the calling thread.
func Current() (State, error) {
	data, err := get()
	if err != nil {
		return State{}, err
	}
	s := State{
		Permitted:   join(data[0].Permitted, data[1].Permitted),
		Effective:   join(data[0].Effective, data[1].Effective),
		Inheritable: join(data[0].Inheritable, data[1].Inheritable),
	}
	for c := range capabilities {
		if in, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(c), 0, 0, 0); err == nil && in == 1 {
			s.Bounding |= Of(c)
		}
	}
	no, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	s.NoNewPrivs = no == 1
	return s, err
}

// within reports whether there is nothing to give up. What may be gained by executing
// programs is of no use where nothing may be gained.
func (s State) within(keep Set) bool {
	held := s.Permitted | s.Effective | s.Inheritable
	if s.Permitted&Of(unix.CAP_SETPCAP) != 0 {
		held |= s.Bounding
	}
	return held == 0 || held&^keep == 0 && s.NoNewPrivs
}

// restarted is the environment variable that says that a process was executed again.
const restarted = "BEAMSCOPE_RESTARTED"

// ErrKept says that a process still has what it was to give up.
var ErrKept = errors.New("privileges are not given up")

// Reduce gives up all capabilities but those to keep, for all threads, and the ability to
// gain any by executing programs. Where there is anything to give up, it executes the
// program again, with the same arguments, environment, files and signals, and does not
// return. So it is called at the very beginning. A process without any capability stays as
// it is.
//
// Where that cannot be done and nothing was changed, the error wraps [ErrKept]: the caller
// may go on. After any other error threads differ in what they may do, and it may not.
func Reduce(keep Set) error {
	again := os.Getenv(restarted) != ""
	if again {
		nameProcess()
		if err := os.Unsetenv(restarted); err != nil {
			return err
		}
	}
	s, err := Current()
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrKept, err)
	case s.within(keep):
		return nil
	case again: // something, perhaps a security module, has given them back
		return fmt.Errorf("%w: this process was started again, and has %v", ErrKept, s.Permitted)
	}
	return restart(s, keep)
}

// restart reduces the calling thread and executes the program again. It returns where that
// fails.
func restart(s State, keep Set) error {
	const self = "/proc/self/exe"
	if err := unix.Access(self, unix.X_OK); err != nil { // before anything is changed
		return fmt.Errorf("%w: %s: %w", ErrKept, self, err)
	}
	runtime.LockOSThread() // and never unlocked: no other goroutine is to run with less than it expects
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set NoNewPrivs: %w", err)
	}
	if s.Permitted&Of(unix.CAP_SETPCAP) != 0 {
		if err := bound(s.Bounding, keep); err != nil {
			return err
		}
	}
	if err := set(s.Permitted&keep, s.Effective&keep, s.Inheritable&keep); err != nil {
		return err
	}
	env := append(slices.DeleteFunc(os.Environ(), isRestarted), restarted+"=1")
	return &os.PathError{Op: "execute", Path: self, Err: syscall.Exec(self, os.Args, env)}
}

func isRestarted(v string) bool { return strings.HasPrefix(v, restarted+"=") }

// bound takes out of the bounding set what is not to be kept.
func bound(have, keep Set) error {
	for c := range capabilities {
		if have&^keep&Of(c) == 0 {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0); err != nil {
			return fmt.Errorf("reduce the bounding set: %w", err)
		}
	}
	return nil
}

// nameProcess names the process as it was called: the kernel has named it after
// /proc/self/exe. The name is for people only.
func nameProcess() {
	_ = os.WriteFile("/proc/self/comm", []byte(filepath.Base(os.Args[0])), 0)
}

// capabilities is how many numbers of capabilities there are room for.
const capabilities = 64

// get reads the capabilities of the calling thread.
func get() (data [2]unix.CapUserData, err error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capget(&header, &data[0]); err != nil {
		return data, fmt.Errorf("read the capabilities: %w", err)
	}
	return data, nil
}

// set sets the capabilities of the calling thread. The kernel takes those out of the
// ambient set that are not permitted and inheritable.
func set(permitted, effective, inheritable Set) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	for i := range data {
		data[i] = unix.CapUserData{
			Permitted:   uint32(permitted >> (32 * i)),
			Effective:   uint32(effective >> (32 * i)),
			Inheritable: uint32(inheritable >> (32 * i)),
		}
	}
	if err := unix.Capset(&header, &data[0]); err != nil {
		return fmt.Errorf("reduce the capabilities: %w", err)
	}
	return nil
}

func join(low, high uint32) Set { return Set(low) | Set(high)<<32 }
