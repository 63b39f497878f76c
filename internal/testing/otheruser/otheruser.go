// Package otheruser gives tests the means of an unprivileged local user against beamscope: a folder
// and processes of a user who is neither root nor the caller.
//
// Only root can start processes of other users. Without root, a test fails if the environment
// contains CI=true, and is skipped otherwise.
package otheruser

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// User is the user and group id of the hostile user. No account has it.
const User = 61234

// Dir returns a new folder of the hostile user that everybody can enter. It is gone
// when the test ends.
func Dir(t testing.TB) string {
	t.Helper()
	need(t)
	dir, err := os.MkdirTemp("/tmp", "beamscope-otheruser-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	Give(t, dir)
	return dir
}

// Give makes the hostile user the owner of files. It changes the owner of a link itself, not of its
// target.
func Give(t testing.TB, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if err := os.Lchown(path, User, User); err != nil {
			t.Fatal(err)
		}
	}
}

// Program copies a program to a path. The copy belongs to the hostile user.
func Program(t testing.TB, program, path string) {
	t.Helper()
	from, err := exec.LookPath(program)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	// Another process writes the copy. A program that this process has open for writing cannot be
	// executed, and processes that other tests start meanwhile would inherit the open file.
	if out, err := exec.Command("cp", from, path).CombinedOutput(); err != nil {
		t.Fatalf("copy %s: %v: %s", from, err, out)
	}
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	Give(t, path)
}

// Command returns a command that runs as the hostile user, without any capability.
func Command(path string, args ...string) *exec.Cmd {
	cmd := exec.Command(path, args...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: User, Gid: User},
	}
	return cmd
}

// Start starts a command and ends it with the test.
func Start(t testing.TB, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
}

// StartReady starts a command, awaits a first byte on its standard output, and ends it
// with the test.
func StartReady(t testing.TB, cmd *exec.Cmd) {
	t.Helper()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	Start(t, cmd)
	if _, err := io.ReadFull(stdout, make([]byte, 1)); err != nil {
		t.Fatalf("%s says nothing: %v", cmd.Path, err)
	}
}

func need(t testing.TB) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	const why = "only root can start processes of other users"
	if os.Getenv("CI") == "true" {
		t.Fatal(why)
	}
	t.Skip(why)
}
