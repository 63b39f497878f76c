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
)

// A Process is an operating-system process, made by OpenProcess or a [Search].
// It holds nothing open, so the process may end at any time: methods then return
// ErrProcessGone, also when its PID has been given to another process since.
type Process struct {
	PID       int
	StartTime uint64 // in clock ticks since the machine started

	proc procFS
}

// A procFS is where the proc file system is mounted; "" means /proc.
type procFS string

// maxCmdline bounds what is read of a command line, in bytes. The kernel's own limit for
// arguments and environment together is 6 MiB (execve(2)), and a user can have thousands
// of processes.
const maxCmdline = 256 << 10

// OpenProcess returns the process with the given PID, as seen in the PID
// namespace of /proc. A process of another user can have it wait: see [Search].
func OpenProcess(pid int) (Process, error) {
	return procFS("").open(pid)
}

// Skipped are processes that could not be looked at.
type Skipped struct {
	Count int
	Err   error // why, of the first of them; nil where there is none
}

// Add counts a process that could not be looked at.
func (s *Skipped) Add(err error) {
	if s.Count++; s.Count == 1 {
		s.Err = err
	}
}

// String says how many there are and why, of the first of them.
func (s Skipped) String() string {
	switch s.Count {
	case 0:
		return "all processes could be looked at"
	case 1:
		return fmt.Sprintf("a process could not be looked at: %v", s.Err)
	}
	return fmt.Sprintf("%d processes could not be looked at, the first: %v", s.Count, s.Err)
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

// Cmdline returns the process's command line, of which it reads the first 256 KiB. It
// is empty for kernel threads, and a process may have overwritten it.
//
// The kernel reads it from the process's memory. Where a process has put memory there
// that does not answer, such as that of a file of a file system of its own, this waits
// for ever.
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

// State returns the state of the process's first thread, a letter as in proc(5): 'T' where a
// signal has stopped it, 't' where a debugger holds it.
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

// startTimeField is the field of a stat file that says when the process was started.
const startTimeField = 22

// stat reads a field of the process's stat file (proc(5)) from the third on, and when the
// process was started. Field 2, the command's name, is in parentheses and may contain
// anything, parentheses too; no later field does.
func (p Process) stat(field int) (text string, start uint64, err error) {
	const afterComm = 3 // number of the first field behind the parentheses
	data, err := os.ReadFile(p.path("stat"))
	if err != nil {
		return "", 0, err
	}
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	if len(fields) <= startTimeField-afterComm {
		return "", 0, fmt.Errorf("%d fields", len(fields))
	}
	start, err = strconv.ParseUint(string(fields[startTimeField-afterComm]), 10, 64)
	return string(fields[field-afterComm]), start, err
}

// check returns ErrProcessGone unless the process still exists. What was read
// before a successful check was this process's, whatever became of the PID.
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

// reused says that another process has the PID now.
func (p Process) reused() error {
	return fmt.Errorf("process %d: %w: the PID has been reused: %w", p.PID, ErrProcessGone, os.ErrNotExist)
}

// wrap gives an error of one of the process's files its context: what is gone,
// and which privilege is missing.
func (p Process) wrap(file string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ESRCH):
		return fmt.Errorf("process %d: %w: %w", p.PID, ErrProcessGone, err)
	case errors.Is(err, fs.ErrPermission) && strings.HasPrefix(file, "map_files"):
		// proc(5): following these links needs more than ptrace access.
		return fmt.Errorf("process %d: %w (needs root, or CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN)", p.PID, err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("process %d: %w (needs root, or CAP_SYS_PTRACE)", p.PID, err)
	}
	return fmt.Errorf("process %d: %s: %w", p.PID, file, err)
}
