package vm

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// An Exit reports the end of a process.
type Exit struct {
	fd int
}

// Watch returns an Exit of the VM's process. The caller closes it.
func (v VM) Watch() (*Exit, error) {
	fd, err := unix.PidfdOpen(v.PID(), 0)
	if err != nil {
		return nil, fmt.Errorf("watch pid %d: %w", v.PID(), err)
	}
	return &Exit{fd: fd}, nil
}

// Happened reports whether the process has ended.
func (e *Exit) Happened() bool {
	fds := []unix.PollFd{{Fd: int32(e.fd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n == 1
}

// Close ends the watch.
func (e *Exit) Close() error { return unix.Close(e.fd) }

// Running reports whether a process runs. A process that has ended and waits for its parent does
// not run. The process has no means to delay the answer.
func Running(pid int) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return !errors.Is(err, unix.ESRCH)
	}
	defer unix.Close(fd)
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	return err != nil || n == 0
}
