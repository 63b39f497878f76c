package pipe_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/beamscope/beamscope/internal/files/pipe"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newPipe makes a named pipe.
func newPipe(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pipe")
	must(t, unix.Mkfifo(path, 0o600))
	return path
}

type result struct {
	file *os.File
	err  error
}

// open opens a file in the background.
func open(ctx context.Context, path string) <-chan result {
	opened := make(chan result, 1)
	go func() {
		file, err := pipe.Open(ctx, path)
		opened <- result{file, err}
	}()
	return opened
}

// awaitReader waits until this process has a pipe open, or until one of its threads waits for a
// writer in the kernel.
func awaitReader(t *testing.T, path string) {
	t.Helper()
	waits := func(pattern string, read func(string) (string, error), want string) bool {
		names, err := filepath.Glob(pattern)
		must(t, err)
		for _, name := range names {
			if got, err := read(name); err == nil && strings.Contains(got, want) {
				return true
			}
		}
		return false
	}
	contents := func(name string) (string, error) {
		data, err := os.ReadFile(name)
		return string(data), err
	}
	for deadline := time.Now().Add(time.Minute); !waits("/proc/self/fd/*", os.Readlink, path) && !waits("/proc/self/task/*/wchan", contents, "wait_for_partner"); {
		if time.Now().After(deadline) {
			t.Fatal("nobody reads the pipe")
		}
		time.Sleep(time.Millisecond)
	}
}

// await returns the result of an open.
func await(t *testing.T, opened <-chan result) result {
	t.Helper()
	select {
	case r := <-opened:
		return r
	case <-time.After(time.Minute):
		t.Fatal("Open still waits")
	}
	return result{}
}

var errStop = errors.New("stop")

// The context ends the wait for a writer even if the path leads to another file by then.
func TestOpenEndsAfterSwap(t *testing.T) {
	path := newPipe(t)
	ctx, stop := context.WithCancelCause(t.Context())
	opened := open(ctx, path)
	awaitReader(t, path)
	other := filepath.Join(filepath.Dir(path), "other")
	must(t, os.WriteFile(other, []byte("a file"), 0o600))
	must(t, unix.Renameat2(unix.AT_FDCWD, path, unix.AT_FDCWD, other, unix.RENAME_EXCHANGE))
	stop(errStop)
	if r := await(t, opened); !errors.Is(r.err, errStop) {
		t.Errorf("error %v, want %v", r.err, errStop)
	}
}

// A pipe is read from its first writer to the end of the last one, even if the first writer comes
// late or writes nothing.
func TestOpenReadsPipe(t *testing.T) {
	for _, text := range []string{"text", ""} {
		path := newPipe(t)
		opened := open(t.Context(), path)
		awaitReader(t, path)
		must(t, os.WriteFile(path, []byte(text), 0))
		r := await(t, opened)
		must(t, r.err)
		got, err := io.ReadAll(r.file)
		if string(got) != text || err != nil {
			t.Errorf("%q, error %v, want %q", got, err, text)
		}
		must(t, r.file.Close())
	}
}

// An unnamed pipe, such as that of a shell's <( ), ends even if its writer is gone before the pipe
// is opened. The file flags for its other users, such as a shell, do not change.
func TestOpenDescriptor(t *testing.T) {
	for _, text := range []string{"text", ""} {
		var ends [2]int
		must(t, unix.Pipe2(ends[:], unix.O_CLOEXEC))
		_, err := unix.Write(ends[1], []byte(text))
		must(t, errors.Join(err, unix.Close(ends[1])))
		r := await(t, open(t.Context(), filepath.Join("/proc/self/fd", strconv.Itoa(ends[0]))))
		must(t, r.err)
		got, err := io.ReadAll(r.file)
		if string(got) != text || err != nil {
			t.Errorf("%q, error %v, want %q", got, err, text)
		}
		if flags, err := unix.FcntlInt(uintptr(ends[0]), unix.F_GETFL, 0); err != nil || flags&unix.O_NONBLOCK != 0 {
			t.Errorf("flags %#x, error %v", flags, err)
		}
		must(t, errors.Join(r.file.Close(), unix.Close(ends[0])))
	}
}

// Reading from a pipe ends when the context is done.
func TestReadEnds(t *testing.T) {
	path := newPipe(t)
	ctx, stop := context.WithCancelCause(t.Context())
	opened := open(ctx, path)
	awaitReader(t, path)
	writer, err := os.OpenFile(path, os.O_WRONLY, 0)
	must(t, err)
	defer writer.Close()
	_, err = writer.WriteString("x")
	must(t, err)
	r := await(t, opened)
	must(t, r.err)
	stop(errStop)
	if got, err := io.ReadAll(r.file); !errors.Is(err, os.ErrClosed) {
		t.Errorf("%q, error %v, want %v", got, err, os.ErrClosed)
	}
}

// Files and devices are read as usual.
func TestOpenOthers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(path, []byte("text"), 0o600))
	for name, want := range map[string]string{path: "text", os.DevNull: ""} {
		r := await(t, open(t.Context(), name))
		must(t, r.err)
		if got, err := io.ReadAll(r.file); string(got) != want || err != nil {
			t.Errorf("%s: %q, error %v, want %q", name, got, err, want)
		}
		must(t, r.file.Close())
	}
	ctx, stop := context.WithCancelCause(t.Context())
	stop(errStop)
	if _, err := pipe.Open(ctx, path); !errors.Is(err, errStop) {
		t.Errorf("error %v, want %v", err, errStop)
	}
}
