package vmsource

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"time"

	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/host/budget"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/usdt"
)

// An executable is attached to for all its processes, and stays attached to when its VMs have ended:
// a VM that starts again is observed from its first span on. Each attachment takes memory of the
// kernel, and time at every new plan, and windows wait meanwhile. Any user can make copies of an
// executable, so attachments end, and their number is limited.
const (
	// fileKept is how long beamscope stays attached to an executable without a VM. Supervisors and
	// packages restart VMs within seconds.
	fileKept = time.Minute

	// filesOfUser and filesMost are the largest numbers of executables that are attached to at a
	// time: for the VMs of one user, and for all. More VMs than filesMost have no places anyway.
	filesOfUser = aloneMost
	filesMost   = MaxVMs

	// The time for attaching to VMs of one user: attachBurst at once, enough for the VMs that run
	// when the user's first one is found, and attachShare of the time for long.
	attachBurst = 5 * time.Second
	attachShare = 0.1
)

// A sharedFile is an executable that is attached to for all its processes.
type sharedFile struct {
	user  int   // of the VM for which it was attached to
	since int64 // when attaching began, nanoseconds of CLOCK_MONOTONIC
	idle  int64 // since when no VM runs it; 0 while one does
}

// A claim is the file that a VM needs whose executable is being read.
type claim struct {
	file file
	vm   vm.VM
}

// mayAttach returns why the executable of a VM is not attached to yet, and when to ask again.
func (s *Source) mayAttach(v vm.VM, now int64) (wait time.Duration, why error) {
	if b := s.attaching[v.Account]; b != nil && len(s.stages) > 0 { // before that no window waits
		if wait := b.Wait(now); wait > 0 {
			return wait, fmt.Errorf("attaching to executables of user %d takes too much time: beamscope attaches to the next one in %v", v.Account, wait.Round(time.Second/10))
		}
	}
	return 0, s.room(s.fileOf(v), v.Account)
}

// room returns an error if there are too many executables to attach to another one for a user.
func (s *Source) room(f file, user int) error {
	if f.pid != 0 {
		return nil
	}
	users := make(map[file]int)
	for _, c := range s.preparing {
		if c.file.pid == 0 {
			users[c.file] = c.vm.Account
		}
	}
	for f, a := range s.files {
		users[f] = a.user
	}
	if _, counted := users[f]; counted {
		return nil
	}
	theirs := 0
	for _, u := range users {
		if u == user {
			theirs++
		}
	}
	const next = "It follows when one of them has had no VM for %v; a target with the pid, the node or the user of the VM needs no room"
	switch {
	case theirs >= filesOfUser:
		return fmt.Errorf("beamscope is attached to %d executables for VMs of user %d, and to no more at a time. "+next, theirs, user, fileKept)
	case len(users) >= filesMost:
		return fmt.Errorf("beamscope is attached to %d executables, and to no more at a time. "+next, len(users), fileKept)
	}
	return nil
}

// spend records that attaching to an executable for a user took some time.
func (s *Source) spend(user int, took time.Duration) {
	b := s.attaching[user]
	if b == nil {
		b = budget.New(attachShare, attachBurst, monotonic.Now())
		s.attaching[user] = b
	}
	b.Spend(took)
}

// detachIdle detaches from the executables that no VM has run for fileKept. found are the VMs that
// a search has found. An executable that the target names by its path stays.
func (s *Source) detachIdle(now int64, found []vm.VM) error {
	maps.DeleteFunc(s.attaching, func(_ int, b *budget.Budget) bool { return b.Full(now) })
	maps.DeleteFunc(s.apart, func(f file, _ bool) bool { return !s.inUse(f, found) })
	var errs []error
	for f, a := range s.files {
		switch {
		case f == s.named || s.inUse(f, found):
			a.idle = 0
		case a.idle == 0:
			a.idle = now
		case now-a.idle >= int64(fileKept):
			errs = append(errs, s.detachFrom(f, now))
		}
	}
	return errors.Join(errs...)
}

// inUse reports whether a VM may run a file, as far as known after a search.
func (s *Source) inUse(f file, found []vm.VM) bool {
	for _, v := range found {
		if v.Exe.Device == f.device && v.Exe.Inode == f.inode {
			return true
		}
	}
	for _, v := range s.vms {
		if v.exe == "" || v.file.ofAll() == f { // without exe it may be any
			return true
		}
	}
	for _, l := range s.left {
		if l.file.ofAll() == f {
			return true
		}
	}
	for _, c := range s.preparing {
		if c.file.ofAll() == f {
			return true
		}
	}
	return false
}

// detachFrom detaches from a file. It cuts the open instances of processes that were not found yet,
// because it would not see their ends.
func (s *Source) detachFrom(f file, now int64) error {
	delete(s.files, f)
	var errs []error
	for _, o := range s.observations {
		errs = append(errs, o.detachFile(f))
	}
	if n := s.successor; n != nil { // it can still be used
		errs = append(errs, n.detachFile(f))
		delete(n.attached, f)
	}
	unseen := make(map[int]int64)
	for pid := range s.placed() {
		if s.vms[pid] == nil && s.left[pid] == nil {
			unseen[pid] = now
		}
	}
	return errors.Join(append(errs, s.cutVMs(unseen, now))...)
}

// fileAt returns the file to which a target's path leads, or no file if the target has none.
func fileAt(t vm.Target) file {
	if !strings.Contains(t.Exe, "/") {
		return file{}
	}
	info, err := os.Stat(t.Exe)
	if err != nil {
		return file{}
	}
	var f file
	f.device, f.inode = usdt.Identity(info)
	return f
}
