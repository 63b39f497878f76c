package vmsource

import (
	"context"
	"math"
	"time"
)

// EndLeaves makes the time for which VMs are left out expire.
func (s *Source) EndLeaves() {
	for _, l := range s.left {
		l.until = 0
	}
	s.readmitUsers(math.MaxInt64)
}

// LeaveFirst is the time for which a VM is left out at first.
const LeaveFirst time.Duration = leaveFirst

// HasSuccessor reports whether an observation waits to take over.
func (s *Source) HasSuccessor() bool { return s.successor != nil }

// AgeSuccessor makes the waiting observation old enough to be dropped.
func (s *Source) AgeSuccessor() { s.successor.made -= int64(successorKept) }

// Adopt examines a process as if programs had counted something in it.
func (s *Source) Adopt(pid int) {
	s.adopt(context.Background(), pid)
}
