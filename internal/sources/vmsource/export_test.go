package vmsource

import (
	"context"
	"math"
	"time"

	"github.com/beamscope/beamscope/bpf"
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

// OverchargeTraps makes the price of a hit far too high.
func (s *Source) OverchargeTraps() {
	const second = time.Second
	s.meter.traps = bpf.Traps{Probe: second, Return: second, Stepped: second}
}

// Files returns the number of executables that are attached to for all processes.
func (s *Source) Files() int { return len(s.sharedFiles()) }

// Idle returns the number of executables that no VM runs.
func (s *Source) Idle() (n int) {
	for _, a := range s.files {
		if a.idle != 0 {
			n++
		}
	}
	return n
}

// AgeIdle makes the executables that no VM runs old enough to be detached from.
func (s *Source) AgeIdle() {
	for _, a := range s.files {
		if a.idle != 0 {
			a.idle -= int64(fileKept)
		}
	}
}

// Spend uses up a user's time for attaching.
func (s *Source) Spend(user int, took time.Duration) { s.spend(user, took) }

// Facts returns what is known of the executable of a VM, if it is observed.
func (s *Source) Facts(pid int) (by bpf.Target, observed bool) {
	v := s.vms[pid]
	if v == nil {
		return bpf.Target{}, false
	}
	a := s.observations[len(s.observations)-1].covering(v.file)
	if a == nil {
		return bpf.Target{}, false
	}
	return a.Target(), true
}

// Check compares a VM with what is known of its executable.
func (s *Source) Check(pid int) { s.check(s.vms[pid].process) }
