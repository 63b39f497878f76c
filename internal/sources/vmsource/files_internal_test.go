package vmsource

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/usdt"
)

// vmOf returns a VM of a user that runs a file.
func vmOf(user, pid int, inode uint64) vm.VM {
	return vm.VM{Process: usdt.Process{PID: pid, StartTime: 1}, Exe: usdt.MappedFile{Inode: inode, Name: "beam.smp"}, Account: user}
}

// Each user has room for some executables, and all users together for more. Those that are being
// read count. A file that is attached to needs no room.
func TestRoom(t *testing.T) {
	s := bare(t)
	next := uint64(0)
	add := func(user, n int) {
		for range n {
			next++
			s.files[file{inode: next}] = &sharedFile{user: user}
		}
	}
	refused := func(user int, f file) string {
		if err := s.room(f, user); err != nil {
			return err.Error()
		}
		return ""
	}
	another := file{inode: 1 << 20}
	add(1001, filesOfUser-1)
	if why := refused(1001, another); why != "" {
		t.Errorf("the last one of a user: %s", why)
	}
	s.preparing[usdt.Process{PID: 7}] = claim{file{inode: 1 << 21}, vm.VM{Account: 1001}}
	s.preparing[usdt.Process{PID: 8}] = claim{file{inode: 1 << 21}, vm.VM{Account: 1001}}
	if why := refused(1001, another); !strings.Contains(why, "16 executables for VMs of user 1001") {
		t.Errorf("beyond the limit of a user: %q", why)
	}
	for _, f := range []file{{inode: 1}, {inode: 1 << 21}, {inode: 1 << 20, pid: 9}} {
		if why := refused(1001, f); why != "" {
			t.Errorf("%v: %s", f, why)
		}
	}
	if why := refused(0, another); why != "" {
		t.Errorf("another user: %s", why)
	}
	for user := range 10 {
		add(user, 5)
	}
	if why := refused(77, another); !strings.Contains(why, "beamscope is attached to") {
		t.Errorf("beyond the limit of all: %q", why)
	}
}

// A VM for which there is no room is not read. It is tried again, and one line says so for all VMs of
// the user. When there is room, it is read.
func TestNoRoom(t *testing.T) {
	s := bare(t)
	for i := range uint64(filesOfUser) {
		s.files[file{inode: i + 1}] = &sharedFile{user: 1001}
	}
	vms := []vm.VM{vmOf(1001, 1<<22+1, 100), vmOf(1001, 1<<22+2, 101)}
	for range 3 {
		s.prepare(t.Context(), vms)
	}
	if len(s.preparing) != 0 || len(s.refused) != 2 || len(s.notices) != 1 {
		t.Fatalf("%d are read, %d refused, notices %v", len(s.preparing), len(s.refused), s.notices)
	}
	for p, r := range s.refused {
		if s.isFinal(p) || !strings.HasPrefix(r.Refused, "its events are not observed yet: ") {
			t.Errorf("%+v", r)
		}
	}
	delete(s.files, file{inode: 1})
	s.prepare(t.Context(), vms)
	if len(s.preparing) != 1 {
		t.Errorf("%d are read when there is room for one", len(s.preparing))
	}
}

// While attaching for a user takes too much time, the user's next executables wait. Those of others
// do not.
func TestAttachingTakesTurns(t *testing.T) {
	s := bare(t)
	s.stages = make([]stage, 1)
	v, other := vmOf(1001, 1<<22+1, 100), vmOf(0, 1<<22+2, 101)
	if wait, why := s.mayAttach(v, 1); wait != 0 || why != nil {
		t.Errorf("the first one waits %v: %v", wait, why)
	}
	s.spend(1001, attachBurst+time.Second)
	s.prepare(t.Context(), []vm.VM{v, other})
	if _, refused := s.refused[v.Process]; len(s.preparing) != 1 || !refused || s.isFinal(v.Process) {
		t.Errorf("%v are read, refused %v", s.preparing, s.refused)
	}
	if !strings.Contains(s.notices[0].Text, "attaching to executables of user 1001 takes too much time") {
		t.Errorf("%v", s.notices)
	}
}

// An executable is detached from when no VM has run it for some time. It stays while a VM may run it,
// and if the target names it.
func TestDetachIdle(t *testing.T) {
	const minute = int64(fileKept)
	named, idle, observed, left, read, found := file{inode: 1}, file{inode: 2}, file{inode: 3}, file{inode: 4}, file{inode: 5}, vmOf(0, 9, 6)
	s := bare(t)
	s.observations, s.named = nil, named
	for _, f := range []file{named, idle, observed, left, read, {inode: 6}} {
		s.files[f] = &sharedFile{}
	}
	s.vms[1] = &observedVM{exe: "beam.smp", file: observed}
	s.left[2] = &leftVM{observedVM: &observedVM{exe: "beam.smp", file: left}}
	s.preparing[usdt.Process{PID: 3}] = claim{file: read}
	step := func(now int64, want int) {
		t.Helper()
		if err := s.detachIdle(now, []vm.VM{found}); err != nil || len(s.files) != want {
			t.Errorf("%d files are left, want %d; error %v", len(s.files), want, err)
		}
	}
	step(1, 6)
	step(minute, 6)
	s.vms[4] = &observedVM{file: idle} // a VM that starts again
	step(minute+1, 6)
	delete(s.vms, 4)
	s.vms[5] = &observedVM{id: outcome.VM{PID: 5}} // a process that was counted and is not known
	step(2*minute+1, 6)
	delete(s.vms, 5)
	step(2*minute+2, 6)
	step(3*minute+1, 6)
	step(3*minute+2, 5)
	if s.files[idle] != nil {
		t.Error("another one was detached from")
	}
	s.vms[1].died = 1 // until it is buried, spans may be open in it
	step(5*minute, 5)
	delete(s.vms, 1)
	step(6*minute, 5)
	step(7*minute, 4)
}

// A target with a path names one file.
func TestFileAt(t *testing.T) {
	dir := t.TempDir()
	exe, other := filepath.Join(dir, "beam.smp"), filepath.Join(dir, "other")
	for _, path := range []string{exe, other} {
		if err := os.WriteFile(path, nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	at := func(path string) file { return fileAt(vm.Target{Exe: path}) }
	if at(exe) == (file{}) || at(exe) == at(other) {
		t.Errorf("%v, %v", at(exe), at(other))
	}
	for _, path := range []string{"", "beam.smp", filepath.Join(dir, "none")} {
		if f := at(path); f != (file{}) {
			t.Errorf("%q: %v", path, f)
		}
	}
}
