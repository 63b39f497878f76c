//go:build !linux

package processor

import (
	"errors"
	"time"
)

// Process returns the processor time of a process. This system does not tell it.
func Process(int) (time.Duration, error) { return 0, errors.ErrUnsupported }
