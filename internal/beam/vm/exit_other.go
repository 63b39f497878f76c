//go:build !linux

package vm

import (
	"errors"
	"fmt"
)

// An Exit reports the end of a process.
type Exit struct{}

// Watch fails: beamscope can observe the VMs of a Linux system only.
func (v VM) Watch() (*Exit, error) {
	return nil, fmt.Errorf("watch pid %d: %w", v.PID(), errors.ErrUnsupported)
}

// Happened reports whether the process has ended.
func (e *Exit) Happened() bool { return false }

// Close ends the watch.
func (e *Exit) Close() error { return nil }

// Running reports whether a process runs. It does not, as beamscope finds processes of Linux only.
func Running(int) bool { return false }
