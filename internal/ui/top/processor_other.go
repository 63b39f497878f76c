//go:build !linux

package top

import (
	"errors"
	"time"
)

// ProcessorOf is the [Processor] of this machine, which does not know the time.
func ProcessorOf(int) (used time.Duration, processors int, err error) {
	return 0, 0, errors.ErrUnsupported
}
