package usdt

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
)

// A ReadableMemory is the memory of one program of a process, read by address. Its methods return an
// error after the process has ended or has executed another program.
type ReadableMemory interface {
	io.ReaderAt
	io.Closer
}

// A Memory is a [ReadableMemory] that can also be written to.
type Memory interface {
	ReadableMemory
	io.WriterAt
}

// A thread is a thread of a process, other than its first one. If any thread of a process executes
// another program, the kernel ends all other threads first, and that thread becomes the first one. So
// while the thread exists, the process has the memory that it had when the thread was opened.
type thread struct {
	number int

	// stat is the thread's stat file. It is that of this thread alone: if another thread gets the same
	// number later, reading fails. While reading succeeds, no other thread has the number.
	stat *os.File
}

// openThread opens a thread of the process, other than its first one. The error wraps
// [errors.ErrUnsupported] if there is none.
func (p Process) openThread() (*thread, error) {
	names, err := os.ReadDir(p.path("task"))
	if err != nil {
		return nil, p.wrap("task", err)
	}
	for _, name := range names {
		number, err := strconv.Atoi(name.Name())
		if err != nil || number == p.PID {
			continue
		}
		file, err := os.Open(p.path("task", name.Name(), "stat"))
		if err != nil {
			continue // the thread has ended
		}
		t := &thread{number, file}
		if err := errors.Join(t.check(), p.check()); err == nil {
			return t, nil
		}
		file.Close()
	}
	return nil, fmt.Errorf("process %d: %w: it has only one thread", p.PID, errors.ErrUnsupported)
}

// check returns nil if the thread still exists. Otherwise the error wraps [ErrProcessGone]: the process
// has ended or executes another program, or only the thread has ended.
func (t *thread) check() error {
	const most = 4096 // bytes of a stat file
	data := make([]byte, most)
	n, err := t.stat.ReadAt(data, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("thread %d: %w: %w", t.number, ErrProcessGone, err)
	}
	const state = 3
	text, _, err := parseStat(data[:n], state)
	if err != nil {
		return fmt.Errorf("thread %d: stat: %w", t.number, err)
	}
	if strings.Contains("ZXx", text) { // zombie or dead
		return fmt.Errorf("thread %d: %w: it ends", t.number, ErrProcessGone)
	}
	return nil
}

// stillThere returns nil if a memory that is accessed by a thread is still that of the thread, or if the
// memory is a file, which is always that of one program.
func stillThere(m ReadableMemory) error {
	if t, ok := m.(interface{ check() error }); ok {
		return t.check()
	}
	return nil
}

// close closes the thread's stat file.
func (t *thread) close() error { return t.stat.Close() }

// sameNumbers returns nil if /proc has the numbers of processes that system calls of this process use.
// Otherwise it is that of another PID namespace.
func sameNumbers() error {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(status)) {
		// From the namespace of /proc down to that of this process.
		if numbers, found := strings.CutPrefix(line, "NSpid:"); found {
			if slices.Equal(strings.Fields(numbers), []string{strconv.Itoa(os.Getpid())}) {
				return nil
			}
			break
		}
	}
	return fmt.Errorf("%w: /proc is that of another PID namespace", errors.ErrUnsupported)
}
