//go:build !linux

package bpf

import (
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"
)

// Only Linux has these events.

func setGap(int, time.Duration) error                   { return errors.ErrUnsupported }
func openSampling(time.Duration, int, int) (int, error) { return 0, errors.ErrUnsupported }
func setSampling(int, *ebpf.Program) error              { return errors.ErrUnsupported }
func enableSampling(int) error                          { return errors.ErrUnsupported }
func nameThread(string) (restore func(), err error)     { return nil, errors.ErrUnsupported }

// syscallName returns the number, as the names are those of Linux.
func syscallName(number int) string { return fmt.Sprintf("system call %d", number) }
