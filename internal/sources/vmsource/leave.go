package vmsource

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/beamscope/beamscope/internal/engine/outcome"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/host/monotonic"
)

var _ outcome.Leaver = (*Source)(nil)

// attachesApart reports whether several VMs that run the same executable can be attached to one by one.
func attachesApart() bool { return bpf.MultiLinks() == nil }

// The first and the longest time for which a VM is left out. The time doubles each time.
const (
	leaveFirst = time.Minute
	leaveMost  = time.Hour
)

// A leftVM is a VM that is left out.
type leftVM struct {
	*observedVM
	until int64
	why   string // the reason

	differs bool // it waits to be attached to by itself
}

// ofAll returns the same file, for all processes that run it.
func (f file) ofAll() file {
	f.pid = 0
	return f
}

// LeaveOut implements [outcome.Leaver].
func (s *Source) LeaveOut(v outcome.VM) (length time.Duration, next bool, err error) {
	o := s.vms[v.PID]
	others := 0
	for _, other := range s.vms {
		if other != o && other.died == 0 {
			others++
		}
	}
	if o == nil || o.id != v || o.exe == "" || others == 0 || !attachesApart() {
		return 0, false, fmt.Errorf("%s: %w", v, outcome.ErrNotLeft)
	}
	length = min(leaveFirst<<min(s.loud[o.process.Process], 10), leaveMost)
	s.loud[o.process.Process]++
	s.left[v.PID] = &leftVM{observedVM: o, until: monotonic.Now() + int64(length), why: "observing it costs too much"}
	err = s.giveUp(v.PID)
	s.updateStatus()
	return length, len(s.toSeparate()) > 0, err
}

// A leftUser is a user whose VMs are left out unless they were already observed.
type leftUser struct {
	until int64 // 0 if they are observed again
	times int   // number of times that they were left out
}

// isLater reports whether unobserved VMs of a user are left out.
func (s *Source) isLater(user int) bool { return s.leftUsers[user].until > 0 }

// LeaveOutLater implements [outcome.Leaver].
func (s *Source) LeaveOutLater(user int) (length time.Duration, err error) {
	if s.isLater(user) || !attachesApart() {
		return 0, fmt.Errorf("later VMs of user %d: %w", user, outcome.ErrNotLeft)
	}
	left := s.leftUsers[user]
	length = min(leaveFirst<<min(left.times, 10), leaveMost)
	s.leftUsers[user] = leftUser{monotonic.Now() + int64(length), left.times + 1}
	return length, nil
}

// readmitUsers ends the exclusion of users whose time is over. A search then finds their VMs
// again.
func (s *Source) readmitUsers(now int64) {
	for user, left := range s.leftUsers {
		if now >= left.until {
			left.until = 0
			s.leftUsers[user] = left
		}
	}
}

// ignoreLater excludes from the batches the VMs that are left out because of their user. Programs
// still count them while an executable is attached to for all processes.
func (s *Source) ignoreLater(o *observation) {
	clear(s.ignored)
	if !s.leavesUsers() {
		return
	}
	holders, _ := o.collector.Holders()
	for _, h := range holders {
		if s.isLater(s.finder.Account(h.User)) && s.vms[h.PID] == nil {
			s.ignored[h.PID] = true
		}
	}
}

// leavesUsers reports whether the later VMs of any user are left out.
func (s *Source) leavesUsers() bool {
	for user := range s.leftUsers {
		if s.isLater(user) {
			return true
		}
	}
	return false
}

// toSeparate returns the executables that are attached to for all processes and must be attached
// to VM by VM. There are such executables only if VMs are left out or a stranger is known,
// because any of these may map them.
func (s *Source) toSeparate() []file {
	if !attachesApart() {
		return nil
	}
	unwanted := len(s.strangers.known) > 0 || s.leavesUsers()
	for _, l := range s.left {
		unwanted = unwanted || l.died == 0 && (!l.differs || l.file.pid == 0)
	}
	if !unwanted {
		return nil
	}
	return s.sharedFiles()
}

// sharedFiles returns the executables that are attached to for all processes.
func (s *Source) sharedFiles() []file {
	last := s.observations[len(s.observations)-1]
	shared := slices.DeleteFunc(slices.Collect(maps.Keys(last.files)), func(f file) bool { return f.pid != 0 })
	return slices.SortedFunc(slices.Values(shared), func(a, b file) int {
		return cmp.Or(cmp.Compare(a.device, b.device), cmp.Compare(a.inode, b.inode))
	})
}

// runningIn returns the pids of the VMs that run an executable.
func (s *Source) runningIn(f file) []int {
	var pids []int
	for pid, v := range s.vms {
		if v.file == f && v.died == 0 {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
}

// separate records that the VMs of an executable are attached to one by one.
func (s *Source) separate(f file) {
	delete(s.files, f)
	for pid, v := range s.vms {
		if v.file == f {
			v.file.pid = pid
		}
	}
}

// readmit removes VMs from the excluded ones if they have ended or their time is over. A search
// finds the latter again. It waits until no instance can still be open in them.
func (s *Source) readmit(now int64) error {
	s.readmitUsers(now)
	var ended, later []int
	for pid, l := range s.left {
		if l.died == 0 && l.watch != nil && l.watch.Happened() {
			l.died, l.uncut = now, true
		}
		switch {
		case l.uncut || len(s.observations) > 1 || len(s.toSeparate()) > 0:
		case l.died != 0:
			ended = append(ended, pid)
		case now >= l.until:
			later = append(later, pid)
		}
	}
	later, err := s.idle(later)
	if err != nil {
		return err
	}
	for _, pid := range append(ended, later...) {
		if err := s.readmitOne(pid); err != nil {
			return err
		}
	}
	return nil
}

// readmitOne removes a VM from the excluded ones.
func (s *Source) readmitOne(pid int) error {
	l := s.left[pid]
	delete(s.left, pid)
	if l.died != 0 {
		delete(s.loud, l.process.Process)
		s.noteExit(l.id)
	}
	return errors.Join(l.close(), s.forgetAll(pid))
}

// leftStatus returns the status of the excluded VMs.
func (s *Source) leftStatus() []outcome.VMStatus {
	var all []outcome.VMStatus
	for _, l := range s.left {
		all = append(all, outcome.VMStatus{VM: l.id, Exe: l.exe, Ended: l.died != 0, Refused: "left out: " + l.why})
	}
	return all
}
