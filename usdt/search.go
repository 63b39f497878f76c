package usdt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/beamscope/beamscope/internal/host/guard"
)

// A Search opens and finds processes, although some of them may not answer. While a process
// executes a program, the kernel delays all reads of its start time or its executable. The process
// can prolong that: a file system in user space need not answer when a file is closed. A Search
// asks such a process once, and asks no other such process until the first has answered. The zero
// value is ready to use. Several goroutines may use it at once.
type Search struct {
	guard guard.Guard

	mu     sync.Mutex
	silent map[int]bool // processes that have not answered yet, by pid
}

const (
	// searchPatience is the time that a process has to answer.
	searchPatience = time.Second

	// searchAtATime is the number of processes that are asked at a time.
	searchAtATime = 16
)

// Open is [OpenProcess] with a limit: if the process does not answer within a second, the error
// wraps [guard.ErrNoAnswer].
func (s *Search) Open(ctx context.Context, pid int) (Process, error) {
	proc := procFS("")
	return s.ask(ctx, proc, pid, func() (Process, error) { return proc.open(pid) })
}

// Find returns the processes whose executable match accepts, sorted by PID. match gets the name of
// the file as the process sees it, such as "/usr/lib/erlang/erts-13.1.5/bin/beam.smp", without the
// " (deleted)" of a file that has been replaced since. Several goroutines call match.
//
// Find leaves out kernel threads and processes that end meanwhile. It skips and counts processes
// whose executable it cannot find out, whatever the reason: any user can start a process whose
// executable has too long a path, or which does not answer within a second. If no process matches
// and Find may not examine some, the error wraps os.ErrPermission. If the context ends before Find
// has examined all processes, the error is its cause.
func (s *Search) Find(ctx context.Context, match func(exe string) bool) ([]Process, Skipped, error) {
	return s.find(ctx, "", match)
}

func (s *Search) find(ctx context.Context, proc procFS, match func(exe string) bool) (found []Process, skipped Skipped, err error) {
	pids, err := proc.pids()
	if err != nil {
		return nil, Skipped{}, err
	}
	all, errs := s.askAll(ctx, proc, pids, match)
	if ctx.Err() != nil {
		return nil, Skipped{}, context.Cause(ctx)
	}
	var denied error
	for i, err := range errs {
		switch {
		case err == nil:
			found = append(found, all[i])
			continue
		case errors.Is(err, errNotWanted), errors.Is(err, ErrProcessGone):
			continue
		case errors.Is(err, fs.ErrPermission):
			denied = err
		}
		skipped.Add(err)
	}
	if len(found) == 0 && denied != nil {
		return nil, skipped, fmt.Errorf("no process found among those that may be looked at: %w", denied)
	}
	slices.SortFunc(found, func(a, b Process) int { return cmp.Compare(a.PID, b.PID) })
	return found, skipped, nil
}

// askAll gets the executables of processes, several at a time.
func (s *Search) askAll(ctx context.Context, proc procFS, pids []int, match func(exe string) bool) ([]Process, []error) {
	all, errs := make([]Process, len(pids)), make([]error, len(pids))
	next := make(chan int)
	var asking sync.WaitGroup
	for range min(searchAtATime, len(pids)) {
		asking.Go(func() {
			for i := range next {
				all[i], errs[i] = s.ask(ctx, proc, pids[i], func() (Process, error) { return proc.matching(pids[i], match) })
			}
		})
	}
	for i := range pids {
		next <- i
	}
	close(next)
	asking.Wait()
	return all, errs
}

// ask calls look for a process that may not answer.
func (s *Search) ask(ctx context.Context, proc procFS, pid int, look func() (Process, error)) (Process, error) {
	p := Process{PID: pid, proc: proc}
	if s.isSilent(pid) {
		return Process{}, p.wrap("stat", guard.ErrNoAnswer)
	}
	owner, err := p.Owner()
	if err != nil {
		return Process{}, err
	}
	var asked, answered bool
	found, err := guard.Do(ctx, &s.guard, owner, searchPatience, func(context.Context) (Process, error) {
		s.note(func() { asked = true })
		found, err := look()
		s.note(func() {
			answered = true
			delete(s.silent, pid)
		})
		return found, err
	})
	s.note(func() {
		if asked && !answered {
			s.silent[pid] = true
		}
	})
	if errors.Is(err, guard.ErrNoAnswer) {
		err = p.wrap("stat", err)
	}
	return found, err
}

func (s *Search) isSilent(pid int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.silent[pid]
}

// note calls a function with the lock held.
func (s *Search) note(what func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.silent == nil {
		s.silent = make(map[int]bool)
	}
	what()
}

// pids returns the PIDs of all processes.
func (proc procFS) pids() ([]int, error) {
	entries, err := os.ReadDir(proc.path())
	switch {
	case err != nil && runtime.GOOS != "linux":
		return nil, fmt.Errorf("observe processes: needs Linux: %w", errors.ErrUnsupported)
	case err != nil:
		return nil, err
	}
	var pids []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// errNotWanted is the error for processes that do not match.
var errNotWanted = errors.New("not wanted")

// matching returns a process if match accepts its executable, and errNotWanted if not. For a kernel
// thread, which has no executable, it returns ErrProcessGone.
func (proc procFS) matching(pid int, match func(exe string) bool) (Process, error) {
	p, err := proc.open(pid)
	if err != nil {
		return Process{}, err
	}
	name, err := os.Readlink(p.path("exe"))
	if err != nil {
		return Process{}, p.wrap("exe", err)
	}
	if !match(strings.TrimSuffix(name, deletedSuffix)) {
		return Process{}, errNotWanted
	}
	return p, p.check()
}

// Owner returns the id of the effective user of the process. That is also the owner of the
// folder /proc/PID of a process that keeps its memory from its own user, where the files in
// that folder belong to root (proc(5)). Owner does not wait for the process, and so does not
// find out whether the PID is another process's by now.
func (p Process) Owner() (uid int, err error) {
	info, err := os.Stat(p.path())
	if err != nil {
		return 0, p.wrap("owner", err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, p.wrap("owner", errors.ErrUnsupported)
	}
	return int(stat.Uid), nil
}

// MountNamespace identifies the mount namespace of the process: the files that names lead
// it to. Like Owner it does not wait for the process.
func (p Process) MountNamespace() (inode uint64, err error) {
	info, err := os.Stat(p.path("ns", "mnt"))
	if err != nil {
		return 0, p.wrap("mount namespace", err)
	}
	_, inode = Identity(info)
	return inode, nil
}

func (proc procFS) path(elements ...string) string {
	root := string(proc)
	if root == "" {
		root = "/proc"
	}
	return filepath.Join(append([]string{root}, elements...)...)
}
