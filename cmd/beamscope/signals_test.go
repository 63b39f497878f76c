package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
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
			_ = cmd.Wait() // hangs if it goes on
		})
	}
}

// opening reports whether a thread of a process waits for the other end of a pipe.
func opening(pid int) bool {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/wchan", pid))
	for _, task := range tasks {
		if at, err := os.ReadFile(task); err == nil && strings.Contains(string(at), "wait_for_partner") {
			return true
		}
	}
	return false
}

// A file is not written to a pipe that nobody reads from: one line says so.
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
