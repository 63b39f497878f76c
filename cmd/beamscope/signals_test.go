package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// A signal ends a command that waits for the other end of a pipe to be opened.
func TestSignalWhileAPipeIsOpened(t *testing.T) {
	for _, args := range []string{
		"replay PIPE",
		"trace PIPE",
		"export PIPE -o out.svg",
		"run -c scope.yaml --from PIPE",
		"draw PIPE",
		"fmt PIPE",
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			pipe := filepath.Join(dir, "pipe")
			if err := unix.Mkfifo(pipe, 0o600); err != nil {
				t.Fatal(err)
			}
			for name, text := range map[string]string{"scope.yaml": "outcomes: {a: {vm: gc}}\n", "vm.yaml": "outcomes: {a: {vm: gc}}\n"} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var out bytes.Buffer
			cmd := exec.Command("beamscope", strings.Fields(strings.ReplaceAll(args, "PIPE", pipe))...)
			cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = cmd.Process.Kill() })
			await(t, "that it waits for the pipe", func() bool { return opening(cmd.Process.Pid) })
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // hangs if the command continues
		})
	}
}

// A signal ends a command that waits for standard input.
func TestSignalWhileStandardInputIsRead(t *testing.T) {
	for _, command := range []string{"eval", "draw", "fmt"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			cmd := exec.Command("beamscope", command, "-")
			cmd.Stdout, cmd.Stderr = &out, &out
			stdin, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			defer stdin.Close()
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = cmd.Process.Kill() })
			if _, err := stdin.Write([]byte("a = b;")); err != nil {
				t.Fatal(err)
			}
			await(t, "that it reads", func() bool { return taken(t, stdin) })
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // hangs if the command continues
			if want := "beamscope: interrupted before it finished\n"; out.String() != want {
				t.Errorf("got %q, want %q", out.String(), want)
			}
		})
	}
}

// taken reports whether everything that was written to a pipe has been read.
func taken(t *testing.T, pipe io.Writer) bool {
	t.Helper()
	file, ok := pipe.(interface {
		SyscallConn() (syscall.RawConn, error)
	})
	if !ok {
		t.Fatalf("a pipe of the type %T", pipe)
	}
	raw, err := file.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	left := -1
	if err := raw.Control(func(fd uintptr) { left, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) }); err != nil {
		t.Fatal(err)
	}
	return left == 0
}

// opening reports whether a process waits for the other end of a pipe with this name to be
// opened.
func opening(pid int) bool {
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, link := range links {
		name, err := os.Readlink(link)
		if err != nil || !filepath.IsAbs(name) {
			continue
		}
		if info, err := os.Stat(link); err == nil && info.Mode().Type() == os.ModeNamedPipe {
			return true
		}
	}
	return false
}

// Writing a file to a pipe without a reader fails with one line.
func TestNobodyReadsFromThePipe(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "vm.yaml"), []byte("outcomes: {a: {vm: gc}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("beamscope", "script", "-c", "vm.yaml", "--format", "d", "-o", pipe)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "nobody reads from this pipe") || strings.Count(string(out), "\n") != 1 {
		t.Errorf("%v: %q", err, out)
	}
}

// A signal while programs are being loaded ends the command before all are loaded. One line
// reports that nothing was observed, and the exit status is success.
func TestSignalWhileItAttaches(t *testing.T) {
	vmtest.NeedEBPF(t)
	pid := startVM(t)
	dir := t.TempDir()
	scope := "outcomes:\n"
	for _, name := range []string{"gc", "message", "mailbox", "hop", "call", "run", "run-wait", "file-io", "port-busy", "lifetime"} {
		scope += fmt.Sprintf("  %s: {vm: %s}\n", strings.ReplaceAll(name, "-", "_"), name)
	}
	if err := os.WriteFile(filepath.Join(dir, "ten.yaml"), []byte(scope), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{"run -c ten.yaml --for 1s --headless", "record -c ten.yaml --for 1s -o ten.bsr", "top --for 1s"} {
		t.Run(strings.Fields(args)[0], func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			cmd := exec.Command("beamscope", append(strings.Fields(args), "--pid", strconv.Itoa(pid))...)
			cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &stdout, &stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = cmd.Process.Kill() })
			await(t, "that it loads programs", func() bool { return programs(cmd.Process.Pid) > 2 })
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("it ended with %v", err)
			}
			if want := "interrupted before the first window: nothing was observed\n"; !strings.HasSuffix(stderr.String(), want) || strings.Contains(stderr.String(), "observing") {
				t.Errorf("it printed %q, want %q", stderr.String(), want)
			}
			if stdout.Len() > 0 {
				t.Errorf("it prints %q", stdout.String())
			}
		})
	}
}

// programs returns how many eBPF programs a process holds.
func programs(pid int) int {
	n := 0
	fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil && strings.Contains(to, "bpf-prog") {
			n++
		}
	}
	return n
}
