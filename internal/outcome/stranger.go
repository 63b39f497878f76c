package outcome

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/guard"
	"github.com/beamscope/beamscope/internal/monotonic"
	"github.com/beamscope/beamscope/internal/vm"
	"github.com/beamscope/beamscope/usdt"
)

// Programs at an executable run in every process that maps it. Any user can map it, and
// jump to a probe. A stranger is a process that does so and is not observed: it is no VM, or
// nothing can be found out about it. Its hits cost as much as those of a VM, and it takes a
// slot. So from the first stranger on, VMs are attached to one by one.

// A finding is what was found out about a process that programs ran in.
type finding int

const (
	isVM        finding = iota // it is a VM, and is observed or will be
	hasEnded                   // it may have been a VM
	isNoVM                     // it runs, and is no VM that can be observed
	isUndecided                // it runs, and was not looked at in time
)

// How many findings make a stranger, when the first one is as long ago as a search takes. A VM
// that ends looks like none for a moment, and a busy machine answers late.
const (
	noVMMost      = 2
	undecidedMost = 5
)

// strangersMost is for how long in all the price is not judged, because strangers have a part
// in it, or may have.
const strangersMost = 20 * time.Second

// A doubt is what was found out about a process that is not observed.
type doubt struct {
	since           int64 // nanoseconds of CLOCK_MONOTONIC
	noVM, undecided int   // findings
}

// add notes a finding of now, and reports whether the process is a stranger.
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
	doubts map[int]*doubt // those that are looked at again
	known  map[int]bool   // those that are strangers
	told   bool           // that there is one
	spared time.Duration  // for how long the price was not judged
}

// judge says what a process is, by why it was not found, whether it is refused, and whether
// it runs.
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

// running reports whether a process runs. One that has ended and waits for its parent does
// not. Nothing that the process does can make that slow.
func running(pid int) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return !errors.Is(err, unix.ESRCH)
	}
	defer unix.Close(fd)
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	return err != nil || n == 0
}

// adoptAll takes note of the processes in what was read that are not known yet.
func (s *VMSource) adoptAll(read []bpf.Counts) {
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
		if !asked[pid] && !running(pid) {
			delete(s.strangers.doubts, pid)
		}
	}
}

// adopt takes note of a process that was counted before it was found. It runs an executable
// that is attached to: it is a VM that is new, or has ended already, or a stranger.
func (s *VMSource) adopt(ctx context.Context, pid int) {
	vms, err := s.find(ctx, pid)
	if err == nil {
		s.prepare(ctx, vms) // its executable is attached to
	}
	if v := s.vms[pid]; v != nil && v.exe != "" {
		return
	}
	now := monotonic.Now()
	refused := err == nil && slices.ContainsFunc(vms, func(v vm.VM) bool { _, refused := s.refused[v.Process]; return refused })
	switch found := judge(err, refused, running(pid)); found {
	case hasEnded:
		delete(s.strangers.doubts, pid)
		s.note("%s has come and gone", VM{PID: pid})
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
		s.add(&observedVM{id: VM{PID: pid}, since: now, died: now})
	}
}

// find looks for the VM of a pid.
func (s *VMSource) find(ctx context.Context, pid int) ([]vm.VM, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	vms, _, err := s.finder.Find(ctx, vm.Target{PID: pid})
	return vms, err
}

// estrange notes a stranger. From now on no batch has anything of it.
func (s *VMSource) estrange(pid int) {
	delete(s.strangers.doubts, pid)
	s.strangers.known[pid] = true
	if s.vms[pid] != nil {
		if err := s.giveUp(pid); err != nil {
			s.note("%v", err)
		}
	}
	files := s.sharedFiles()
	if s.strangers.told || len(files) == 0 {
		return // a notice names one, or nothing changes
	}
	s.strangers.told = true
	s.note("pid %d%s hits the probes of %s and is no VM that beamscope observes: from now on VMs are attached to one by one",
		pid, userNote(pid), s.nameOf(files))
}

// userNote names the user of a process, where it is known.
func userNote(pid int) string {
	user, err := usdt.Process{PID: pid}.Owner()
	if err != nil {
		return ""
	}
	return fmt.Sprintf(" (user %d)", user)
}

// nameOf names files that are attached to.
func (s *VMSource) nameOf(files []file) string {
	if len(files) == 1 {
		for _, v := range s.vms {
			if v.file == files[0] && v.exe != "" {
				return v.exe
			}
		}
	}
	return "an executable that VMs share"
}

// isLeftOut reports whether batches have nothing of a process.
func (s *VMSource) isLeftOut(pid int) bool { return s.left[pid] != nil || s.strangers.known[pid] }

// settleStrangers says how it stands with strangers at the end of a window. They are
// forgotten when nothing is attached to in them any more.
func (s *VMSource) settleStrangers(w Window, batch *Batch) {
	rest := &s.strangers
	if len(rest.known) == 0 && len(rest.doubts) == 0 {
		return
	}
	shared := len(s.sharedFiles()) > 0
	if len(rest.known) > 0 && !shared && len(s.observations) == 1 {
		clear(rest.known)
	}
	if len(rest.known) == 0 && len(rest.doubts) == 0 {
		return
	}
	batch.Renew = shared && len(rest.known) > 0
	if rest.spared < strangersMost {
		batch.Strangers = true
		rest.spared += w.Duration()
	}
}
