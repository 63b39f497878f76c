package top

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/beamscope/beamscope/internal/host/processor"
)

// ProcessorOf is the [Processor] of this machine.
func ProcessorOf(pid int) (used time.Duration, processors int, err error) {
	if used, err = processor.Process(pid); err != nil {
		return 0, 0, err
	}
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(pid, &set); err != nil {
		return 0, 0, fmt.Errorf("processors of %d: %w", pid, err)
	}
	return used, set.Count(), nil
}
