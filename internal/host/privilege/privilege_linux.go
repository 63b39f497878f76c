package privilege

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

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

// within reports whether there is nothing to give up: the thread has no capabilities, or only kept
// ones and NoNewPrivs. The bounding set counts only if the thread can reduce it.
func (s State) within(keep Set) bool {
	held := s.Permitted | s.Effective | s.Inheritable
	if s.Permitted&Of(SetPCap) != 0 {
		held |= s.Bounding
	}
	return held == 0 || held&^keep == 0 && s.NoNewPrivs
}

// restarted is the environment variable that marks a process that was executed again.
const restarted = "BEAMSCOPE_RESTARTED"

// Reduce gives up all capabilities except those in keep, for all threads, and the ability to gain
// any by executing programs. If there is anything to give up, it executes the program again, with
// the same arguments, environment, files and signals, and does not return. So the caller calls it
// at the very beginning. Reduce does not change a process without capabilities.
//
// If that is not possible and nothing was changed, the error wraps [ErrKept], and the caller may go
// on. After any other error the rights of threads differ, and the caller must not go on.
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
	case again: // something, such as a security module, has granted them again
		return fmt.Errorf("%w: this process was started again, and has %v", ErrKept, s.Permitted)
	}
	return restart(s, keep)
}

// restart reduces the rights of the calling thread and executes the program again. It returns only
// on failure.
func restart(s State, keep Set) error {
	const self = "/proc/self/exe"
	if err := unix.Access(self, unix.X_OK); err != nil { // check before anything is changed
		return fmt.Errorf("%w: %s: %w", ErrKept, self, err)
	}
	runtime.LockOSThread() // never unlocked: no other goroutine may run with reduced rights
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set NoNewPrivs: %w", err)
	}
	if s.Permitted&Of(SetPCap) != 0 {
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

// bound removes capabilities that are not kept from the bounding set.
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

// nameProcess restores the process name, which the kernel has set to that of /proc/self/exe. The
// name is only informative.
func nameProcess() {
	_ = os.WriteFile("/proc/self/comm", []byte(filepath.Base(os.Args[0])), 0)
}

// AllowDump lets the process dump its memory, and read its own files of /proc, although it has file
// capabilities.
func AllowDump() error { return unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0) }

// capabilities is the number of bits in a set of capabilities.
const capabilities = 64

// get reads the capabilities of the calling thread.
func get() (data [2]unix.CapUserData, err error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capget(&header, &data[0]); err != nil {
		return data, fmt.Errorf("read the capabilities: %w", err)
	}
	return data, nil
}

// set sets the capabilities of the calling thread. The kernel removes capabilities that are not
// both permitted and inheritable from the ambient set.
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
