package vmsource

import (
	"errors"
	"fmt"
	"time"

	"github.com/beamscope/beamscope/internal/engine/outcome"

	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/host/guard"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/usdt"
)

// A refusal says why a VM is not observed, and whether that may change.
type refusal struct {
	outcome.VMStatus
	user  int
	again int64         // when it is tried again, nanoseconds of CLOCK_MONOTONIC; 0: never
	pause time.Duration // how long it waits after a try without an answer
	waits bool          // it waits for other VMs of its user
}

// due reports whether a refused VM is to be tried again.
func (r refusal) due(now int64) bool { return r.again != 0 && now >= r.again }

// The first and the longest pause after a try without an answer. Each is twice the one before.
const (
	firstPause = 5 * time.Second
	lastPause  = 5 * time.Minute
)

// refuse records that a VM cannot be observed. It returns the error to report: nil if that was
// reported before.
func (s *Source) refuse(v vm.VM, err error) error {
	id, last := outcome.VM{PID: v.PID(), Node: v.Node}, s.refused[v.Process]
	r := refusal{VMStatus: outcome.VMStatus{VM: id, Exe: v.Exe.Name, NoEvents: reportsNone(err)}, user: v.Account}
	if errors.Is(err, guard.ErrNoAnswer) {
		r.pause = min(max(firstPause, 2*last.pause), lastPause)
		r.again = monotonic.Now() + int64(r.pause)
		err = fmt.Errorf("it is undecided whether %v can be observed: %w", id, err)
	}
	if r.Refused = err.Error(); r.again != 0 {
		r.Refused += ". beamscope tries again"
	}
	s.refused[v.Process] = r
	if last.pause > 0 && r.pause > 0 {
		return nil
	}
	return err
}

// postpone records that a VM is not observed until its user's other VMs leave room. It returns the
// error to report: nil if the same was reported of another VM of the user.
func (s *Source) postpone(v vm.VM, wait time.Duration, why error) error {
	told := false
	for _, r := range s.refused {
		told = told || r.waits && r.user == v.Account
	}
	id := outcome.VM{PID: v.PID(), Node: v.Node}
	s.refused[v.Process] = refusal{
		VMStatus: outcome.VMStatus{VM: id, Exe: v.Exe.Name, Refused: "its events are not observed yet: " + why.Error()},
		user:     v.Account, again: monotonic.Now() + max(int64(wait), 1), waits: true,
	}
	if told {
		return nil
	}
	return fmt.Errorf("the events of %v are not observed yet: %w", id, why)
}

// isRefused reports whether a VM is refused and not to be tried again yet. One that may be tried
// again is, as soon as its executable is attached to for another VM.
func (s *Source) isRefused(v vm.VM, now int64) bool {
	r, refused := s.refused[v.Process]
	return refused && !r.due(now) && (r.again == 0 || !s.attachedTo(v))
}

// isFinal reports whether a process is refused for good.
func (s *Source) isFinal(p usdt.Process) bool {
	r, refused := s.refused[p]
	return refused && r.again == 0
}
