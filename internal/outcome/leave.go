package outcome

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/beamscope/beamscope/internal/monotonic"
)

// A Leaver is a [Source] that can leave out a VM: it observes the others and not that one.
type Leaver interface {
	// LeaveOut leaves out a VM for some time, which it returns, and longer each time that it
	// does. From now on no batch has anything of the VM: what is open in it is not counted.
	// Where next is true the VM pays until the next plan begins, which may be like the one in
	// force: then everything that is open when it begins is lost as cut. It is called from the
	// goroutine of the other methods. The error wraps [ErrNotLeft].
	LeaveOut(v VM) (length time.Duration, next bool, err error)
}

var _ Leaver = (*VMSource)(nil)

// ErrNotLeft says that a VM cannot be left out: it is not observed, or no other one is.
var ErrNotLeft = errors.New("the VM cannot be left out")

// For how long a VM is left out at first, and at most: twice as long each time.
const (
	leaveFirst = time.Minute
	leaveMost  = time.Hour
)

// A leftVM is one that is left out.
type leftVM struct {
	*observedVM
	until int64
	why   string // it is left out
}

// ofAll returns the file for all processes that run it.
func (f file) ofAll() file {
	f.pid = 0
	return f
}

// LeaveOut implements [Leaver].
func (s *VMSource) LeaveOut(v VM) (length time.Duration, next bool, err error) {
	o := s.vms[v.PID]
	others := 0
	for _, other := range s.vms {
		if other != o && other.died == 0 {
			others++
		}
	}
	if o == nil || o.id != v || o.exe == "" || others == 0 {
		return 0, false, fmt.Errorf("%s: %w", v, ErrNotLeft)
	}
	length = min(leaveFirst<<min(s.loud[o.process.Process], 10), leaveMost)
	s.loud[o.process.Process]++
	s.left[v.PID] = &leftVM{observedVM: o, until: monotonic.Now() + int64(length), why: "observing it costs too much"}
	err = s.giveUp(v.PID)
	s.updateStatus()
	return length, len(s.toSeparate()) > 0, err
}

// toSeparate returns the executables that are attached to for all processes while a VM is left
// out, or there is a stranger. It may map each of them.
func (s *VMSource) toSeparate() []file {
	unwanted := len(s.strangers.known) > 0
	for _, l := range s.left {
		unwanted = unwanted || l.died == 0
	}
	if !unwanted {
		return nil
	}
	return s.sharedFiles()
}

// sharedFiles returns the executables that are attached to for all processes.
func (s *VMSource) sharedFiles() []file {
	last := s.observations[len(s.observations)-1]
	shared := slices.DeleteFunc(slices.Collect(maps.Keys(last.files)), func(f file) bool { return f.pid != 0 })
	return slices.SortedFunc(slices.Values(shared), func(a, b file) int {
		return cmp.Or(cmp.Compare(a.device, b.device), cmp.Compare(a.inode, b.inode))
	})
}

// runningIn returns the pids of the VMs that run an executable.
func (s *VMSource) runningIn(f file) []int {
	var pids []int
	for pid, v := range s.vms {
		if v.file == f && v.died == 0 {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
}

// separate notes that the VMs of an executable are attached to one by one.
func (s *VMSource) separate(f file) {
	for pid, v := range s.vms {
		if v.file == f {
			v.file.pid = pid
			s.guesses[v.file] = s.guesses[f]
		}
	}
}

// readmit gives up the VMs that were left out and have ended, and those that have been long
// enough: a search finds them again. Instances that were open in them are over by then.
func (s *VMSource) readmit(now int64) error {
	for pid, l := range s.left {
		if l.died == 0 && l.watch != nil && l.watch.Happened() {
			l.died = now
		}
		if l.died == 0 && now < l.until || len(s.observations) > 1 || len(s.toSeparate()) > 0 {
			continue
		}
		open, err := s.openSpans(pid)
		if err != nil {
			return err
		}
		if open > 0 {
			continue
		}
		delete(s.left, pid)
		errs := []error{l.close()}
		for _, o := range s.observations {
			errs = append(errs, o.collector.Forget(pid))
		}
		if l.died != 0 {
			delete(s.loud, l.process.Process)
			s.note("%s has exited", l.id)
		}
		if err := errors.Join(errs...); err != nil {
			return err
		}
	}
	return nil
}

// leftStatus returns how it stands with the VMs that are left out.
func (s *VMSource) leftStatus() []VMStatus {
	var all []VMStatus
	for _, l := range s.left {
		all = append(all, VMStatus{VM: l.id, Exe: l.exe, Ended: l.died != 0, Refused: "left out: " + l.why})
	}
	return all
}
