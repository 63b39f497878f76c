package usdt

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/beamscope/beamscope/internal/host/privilege"
)

// A Process is an operating-system process, made by OpenProcess or a [Search].
// It holds nothing open, so the process may end at any time: methods then return
// ErrProcessGone, also when its PID has been given to another process since.
type Process struct {
	PID       int
	StartTime uint64 // in clock ticks since the machine started

	proc procFS
}

// A procFS is the mount point of the proc file system; "" means /proc.
type procFS string

// maxCmdline limits the part of a command line that is read, in bytes. The kernel's own limit for
// arguments and environment together is 6 MiB (execve(2)), and a user can have thousands of
// processes.
const maxCmdline = 256 << 10

// OpenProcess returns the process with the given PID, as seen in the PID
// namespace of /proc. A process of another user can have it wait: see [Search].
func OpenProcess(pid int) (Process, error) {
	return procFS("").open(pid)
}

// Skipped counts processes that could not be inspected.
type Skipped struct {
	Count int
	Err   error // why the first of them was skipped; nil if there is none
}

// Add counts a process that could not be inspected.
func (s *Skipped) Add(err error) {
	if s.Count++; s.Count == 1 {
		s.Err = err
	}
}

// String returns the number of skipped processes, and why the first of them was skipped.
func (s Skipped) String() string {
	switch s.Count {
	case 0:
		return "all processes could be looked at"
	case 1:
		return fmt.Sprintf("one process could not be examined: %v", s.Err)
	}
	return fmt.Sprintf("%d processes could not be examined, the first: %v", s.Count, s.Err)
}

func (proc procFS) open(pid int) (Process, error) {
	p := Process{PID: pid, proc: proc}
	start, err := p.startTime()
	if err != nil {
		return Process{}, p.wrap("stat", err)
	}
	p.StartTime = start
	return p, nil
}

// Cmdline returns at most the first 256 KiB of the process's command line. It is empty for kernel
// threads. A process may have overwritten it.
//
// The kernel reads it from the process's memory. If that memory does not answer, for example
// because it maps a file of a file system in user space, Cmdline waits forever.
func (p Process) Cmdline() ([]string, error) {
	file, err := os.Open(p.path("cmdline"))
	if err != nil {
		return nil, p.wrap("cmdline", err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxCmdline))
	if err != nil {
		return nil, p.wrap("cmdline", err)
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	if len(data) == 0 {
		return nil, nil
	}
	return strings.Split(strings.TrimSuffix(string(data), "\x00"), "\x00"), nil
}

// path returns the path of one of the process's files under /proc.
func (p Process) path(elements ...string) string {
	return p.proc.path(append([]string{strconv.Itoa(p.PID)}, elements...)...)
}

// State returns the state of the process's first thread, a letter as in proc(5): 'T' if a signal
// has stopped it, 't' if a debugger holds it.
func (p Process) State() (byte, error) {
	const state = 3
	text, start, err := p.stat(state)
	switch {
	case err != nil:
		return 0, p.wrap("stat", err)
	case start != p.StartTime:
		return 0, p.reused()
	case len(text) != 1:
		return 0, fmt.Errorf("process %d: stat: state %q", p.PID, text)
	}
	return text[0], nil
}

// startTime reads when the process was started.
func (p Process) startTime() (uint64, error) {
	_, start, err := p.stat(startTimeField)
	return start, err
}

// startTimeField is the field of a stat file that contains the start time.
const startTimeField = 22

// stat reads a field of the process's stat file (proc(5)), the third or a later one, and the start
// time of the process. Field 2, the command's name, is in parentheses and may contain anything,
// also parentheses. No later field contains parentheses.
func (p Process) stat(field int) (text string, start uint64, err error) {
	data, err := os.ReadFile(p.path("stat"))
	if err != nil {
		return "", 0, err
	}
	return parseStat(data, field)
}

// parseStat parses a stat file, see [Process.stat].
func parseStat(data []byte, field int) (text string, start uint64, err error) {
	const afterComm = 3 // number of the first field after the parentheses
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	if len(fields) <= startTimeField-afterComm {
		return "", 0, fmt.Errorf("%d fields", len(fields))
	}
	start, err = strconv.ParseUint(string(fields[startTimeField-afterComm]), 10, 64)
	return string(fields[field-afterComm]), start, err
}

// check returns ErrProcessGone unless the process still exists. Data read before a successful check
// belongs to this process, even if its PID is reused later.
func (p Process) check() error {
	start, err := p.startTime()
	if err != nil {
		return p.wrap("stat", err)
	}
	if start != p.StartTime {
		return p.reused()
	}
	return nil
}

// reused returns the error for a PID that another process has now.
func (p Process) reused() error {
	return fmt.Errorf("process %d: %w: the PID has been reused: %w", p.PID, ErrProcessGone, os.ErrNotExist)
}

// wrap adds context to an error about one of the process's files: whether the process is gone, or
// which privilege is missing.
func (p Process) wrap(file string, err error) error {
	state, stateErr := privilege.Current()
	if stateErr != nil {
		state.Effective = 0 // unknown
	}
	return p.wrapAs(os.Geteuid(), state.Effective, file, err)
}

// wrapAs is wrap for a user with these capabilities.
func (p Process) wrapAs(user int, have privilege.Set, file string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ESRCH):
		return fmt.Errorf("process %d: %w: %w", p.PID, ErrProcessGone, err)
	case errors.Is(err, fs.ErrPermission) && strings.HasPrefix(file, "map_files"):
		// proc(5): following these links needs more than ptrace access.
		return fmt.Errorf("process %d: %w (%s)", p.PID, err, needs(user, "CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN"))
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("process %d: %w (%s)", p.PID, err, needs(user, missing(have)))
	}
	return fmt.Errorf("process %d: %s: %w", p.PID, file, err)
}

// forbidden returns the error for one of the process's files that the calling thread may not open, and
// why there is no other way to its content. It names the missing capabilities.
func (p Process) forbidden(err, other error) error {
	state, stateErr := privilege.Current()
	if stateErr != nil {
		return p.wrap("", err)
	}
	text := needs(os.Geteuid(), missing(state.Effective))
	if other != nil && missing(state.Effective) == "" {
		return fmt.Errorf("process %d: %w (%s; without that: %w)", p.PID, err, needs(os.Geteuid(), "CAP_DAC_OVERRIDE"), other)
	}
	return fmt.Errorf("process %d: %w (%s)", p.PID, err, text)
}

// missing returns the capability that is not in have and without which the kernel refuses access to
// another process's memory.
func missing(have privilege.Set) string {
	if have&privilege.Of(privilege.SysPtrace) == 0 {
		return "CAP_SYS_PTRACE"
	}
	return ""
}

// needs returns the rights that a user lacks for inspecting a process. It names only missing
// capabilities that are known to help.
func needs(user int, capabilities string) string {
	switch {
	case capabilities == "":
		return "the process is protected, for example by a security module"
	case user == 0:
		return capabilities + " is missing, or the process is protected from root"
	}
	return "needs root, or " + capabilities
}
