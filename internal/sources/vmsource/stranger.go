package vmsource

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/beamscope/beamscope/internal/engine/outcome"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/host/guard"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/usdt"
)

// Programs at an executable run in every process that maps it. Any user can map it and jump to a
// probe. Such a process that is not observed is called a stranger: it
// is not a VM, or could not be examined. Its hits cost as much as those of a VM, and it takes a
// slot. So once there is a stranger, VMs are attached to one by one.

// A finding is the result of examining a process in which programs ran.
type finding int

const (
	isVM        finding = iota // it is a VM, and is observed or will be
	hasEnded                   // it may have been a VM
	isNoVM                     // it runs, and is not a VM that can be observed
	isUndecided                // it runs, and could not be examined in time
)

// The number of findings that make a process a stranger, once the first finding is older than the
// interval between searches. Several are needed because a VM that ends briefly looks like no VM,
// and a busy machine answers late.
const (
	noVMMost      = 2
	undecidedMost = 5
)

// strangersMost is the total time for which the price is not judged because strangers may
// contribute to it.
const strangersMost = 20 * time.Second

// A doubt contains the findings about a process that is not observed.
type doubt struct {
	since           int64 // nanoseconds of CLOCK_MONOTONIC
	noVM, undecided int   // findings
}

// add adds a finding and reports whether the process is a stranger now.
func (d *doubt) add(f finding, now int64) bool {
	switch f {
	case isNoVM:
		d.noVM++
	case isUndecided:
		d.undecided++
	}
	return now-d.since >= int64(rescan) && (d.noVM >= noVMMost || d.noVM+d.undecided >= undecidedMost)
}

// strangers are the processes that hit the probes and are not observed, by pid.
type strangers struct {
	doubts map[int]*doubt // processes that are examined again
	known  map[int]bool   // processes that are strangers
	told   bool           // a notice has reported a stranger
	paying bool           // they contributed to the cost until the last window
	spared time.Duration  // time for which the price was not judged
}

// judge classifies a process by the error of the search for it, whether it is refused, and
// whether it runs.
func judge(err error, refused, runs bool) finding {
	switch {
	case !runs:
		return hasEnded
	case err == nil && refused:
		return isNoVM
	case err == nil:
		return isVM
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled), errors.Is(err, guard.ErrNoAnswer):
		return isUndecided
	}
	return isNoVM
}

// adoptAll examines the processes in the counts that are not known yet.
func (s *Source) adoptAll(read []bpf.Counts) {
	unknown := func(c bpf.Counts) bool {
		return c.PID != 0 && (s.vms[c.PID] == nil || s.strangers.doubts[c.PID] != nil)
	}
	if len(s.strangers.doubts) == 0 && !slices.ContainsFunc(read, unknown) {
		return
	}
	ctx, cancel := context.WithTimeout(s.running, adoptPatience)
	defer cancel()
	asked := make(map[int]bool)
	for _, c := range read {
		if asked[c.PID] || !unknown(c) {
			continue
		}
		asked[c.PID] = true
		s.adopt(ctx, c.PID)
	}
	for pid := range s.strangers.doubts {
		if !asked[pid] && !vm.Running(pid) {
			delete(s.strangers.doubts, pid)
		}
	}
}

// adopt examines a process that was counted before it was found. It runs an executable that is
// attached to, so it is a new VM, a VM that has ended, or a stranger.
func (s *Source) adopt(ctx context.Context, pid int) {
	vms, err := s.find(ctx, pid)
	if err == nil {
		s.prepare(ctx, vms) // its executable is already attached to
	}
	if v := s.vms[pid]; v != nil && v.exe != "" {
		return
	}
	now := monotonic.Now()
	refused := err == nil && slices.ContainsFunc(vms, func(v vm.VM) bool { return s.isFinal(v.Process) })
	found := judge(err, refused, vm.Running(pid))
	switch found {
	case hasEnded:
		delete(s.strangers.doubts, pid)
		s.note("%s has come and gone", outcome.VM{PID: pid})
	case isNoVM, isUndecided:
		d := s.strangers.doubts[pid]
		if d == nil {
			d = &doubt{since: now}
			s.strangers.doubts[pid] = d
		}
		if d.add(found, now) {
			s.estrange(pid)
			return
		}
	}
	if s.vms[pid] == nil {
		s.add(&observedVM{id: outcome.VM{PID: pid}, since: now, died: now})
	}
	if v := s.vms[pid]; found == hasEnded {
		v.died, v.uncut = now, true
	}
}

// find searches for the VM with a pid.
func (s *Source) find(ctx context.Context, pid int) ([]vm.VM, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	vms, _, err := s.finder.Find(ctx, vm.Target{PID: pid})
	return vms, err
}

// estrange records a stranger. From now on batches contain nothing of it.
func (s *Source) estrange(pid int) {
	delete(s.strangers.doubts, pid)
	s.strangers.known[pid] = true
	if s.vms[pid] != nil {
		if err := s.giveUp(pid); err != nil {
			s.note("%v", err)
		}
	}
	files := s.sharedFiles()
	if s.strangers.told || len(files) == 0 {
		return // another notice named a stranger, or nothing changes
	}
	s.strangers.told = true
	s.note("pid %d%s hits the probes of %s and is not a VM that beamscope observes: from now on beamscope attaches to VMs one by one",
		pid, userNote(pid), s.nameOf(files))
}

// userNote returns a text with the user of a process, if known.
func userNote(pid int) string {
	user, err := usdt.Process{PID: pid}.Owner()
	if err != nil {
		return ""
	}
	return fmt.Sprintf(" (user %d)", user)
}

// nameOf returns a name for the attached files.
func (s *Source) nameOf(files []file) string {
	if len(files) == 1 {
		for _, v := range s.vms {
			if v.file == files[0] && v.exe != "" {
				return v.exe
			}
		}
	}
	return "an executable that VMs share"
}

// isLeftOut reports whether batches exclude a process.
func (s *Source) isLeftOut(pid int) bool {
	return s.left[pid] != nil || s.strangers.known[pid] || s.ignored[pid]
}

// settleStrangers updates the batch and the strangers at the end of a window, including VMs that
// are left out because of their user. Strangers are dropped when nothing is attached in them any
// more.
func (s *Source) settleStrangers(w outcome.Window, batch *outcome.Batch) {
	rest := &s.strangers
	later := s.leavesUsers()
	differing := s.differing()
	if len(rest.known) == 0 && len(rest.doubts) == 0 && !later && !differing && !rest.paying {
		return
	}
	shared := len(s.sharedFiles()) > 0
	if !shared && len(s.observations) == 1 {
		clear(rest.known)
	}
	batch.Renew = shared && (len(rest.known) > 0 || later || differing)
	paying := len(rest.known) > 0 || later && (shared || len(s.observations) > 1)
	// The window after the last one in which they paid may contain a part of that cost, because
	// hits are spread over the time between two readings.
	if (paying || rest.paying || len(rest.doubts) > 0) && rest.spared < strangersMost {
		batch.Strangers = true
		rest.spared += w.Duration()
	}
	rest.paying = paying
}
