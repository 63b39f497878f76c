package usdt_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/beamscope/beamscope/internal/testing/otheruser"
	"github.com/beamscope/beamscope/usdt"
)

// A process that executes another program keeps its PID. The file does not write to that program's
// memory, which may have the rights of another user.
func TestWritableMemoryOfOneProgramOnly(t *testing.T) {
	dir := otheruser.Dir(t)
	cmd := otheruser.Command("/bin/sh", "-c", `echo ready; read go; exec sleep 1000`)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	otheruser.StartReady(t, cmd)
	p, err := usdt.OpenProcess(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	shell, err := p.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.WritableMemory(shell, otheruser.User+1); !errors.Is(err, usdt.ErrReplaced) {
		t.Errorf("as another user: %v", err)
	}
	read, err := p.Memory(shell)
	if err != nil {
		t.Fatal(err)
	}
	read.Close()
	memory, err := p.WritableMemory(shell, otheruser.User)
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	stack := stackOf(t, cmd.Process.Pid)
	word := make([]byte, 1)
	if _, err := memory.ReadAt(word, stack); err != nil {
		t.Fatal(err)
	}
	if _, err := memory.WriteAt(word, stack); err != nil {
		t.Fatal(err)
	}

	if _, err := stdin.Write([]byte("go\n")); err != nil {
		t.Fatal(err)
	}
	for now := shell; now.Inode == shell.Inode && now.Device == shell.Device; {
		if now, err = p.Executable(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.WritableMemory(shell, otheruser.User); !errors.Is(err, usdt.ErrReplaced) {
		t.Errorf("of the program that it executed: %v", err)
	}
	if _, err := p.Memory(shell); !errors.Is(err, usdt.ErrReplaced) {
		t.Errorf("of the program that it executed, for reading: %v", err)
	}
	if _, err := memory.WriteAt(word, stackOf(t, cmd.Process.Pid)); err == nil {
		t.Error("the memory of the program that it executed was written to")
	}

	privileged := filepath.Join(dir, "privileged")
	otheruser.Program(t, "sleep", privileged)
	if err := errors.Join(os.Chown(privileged, 0, 0), os.Chmod(privileged, os.ModeSetuid|0o755)); err != nil {
		t.Fatal(err)
	}
	cmd = otheruser.Command(privileged, "1000")
	otheruser.Start(t, cmd)
	if p, err = usdt.OpenProcess(cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	exe, err := p.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range []int{0, otheruser.User} {
		if _, err := p.WritableMemory(exe, user); !errors.Is(err, usdt.ErrReplaced) {
			t.Errorf("of a program with the rights of root, as user %d: %v", user, err)
		}
	}
}

// Anonymous excludes memory that others can fill before a program starts.
func TestAnonymousWithoutStack(t *testing.T) {
	p, err := usdt.OpenProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	ranges, err := p.Anonymous()
	if err != nil {
		t.Fatal(err)
	}
	stack := uint64(stackOf(t, os.Getpid()))
	for _, r := range ranges {
		if r.Start <= stack && stack < r.End {
			t.Errorf("%#x to %#x has the stack", r.Start, r.End)
		}
	}
}

// stackOf returns the last address of the first stack of a process. The kernel may still be about to
// execute the program, and then there is no stack yet.
func stackOf(t *testing.T, pid int) int64 {
	t.Helper()
	for {
		maps, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "maps"))
		if err != nil {
			t.Fatal(err)
		}
		if len(maps) == 0 {
			t.Fatalf("process %d has ended", pid)
		}
		for line := range strings.Lines(string(maps)) {
			if !strings.HasSuffix(line, "[stack]\n") {
				continue
			}
			_, rest, _ := strings.Cut(line, "-")
			end, _, _ := strings.Cut(rest, " ")
			address, err := strconv.ParseInt(end, 16, 64)
			if err != nil {
				t.Fatal(err)
			}
			return address - 8
		}
	}
}
