//go:build linux

package otheruser

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// A Swap is a folder of root's that the hostile user can exchange for a link to another one.
type Swap struct {
	Folder string // of root's, empty
	Link   string // beside it, of the hostile user's, to Secret
	Secret string // a folder of root's with a file x, which only root can enter
}

const secretText = "root's"

// NewSwap makes a swap. Everybody can write to the folder above it, without a sticky bit.
func NewSwap(t testing.TB) Swap {
	t.Helper()
	dir := Dir(t)
	s := Swap{filepath.Join(dir, "d"), filepath.Join(dir, "l"), filepath.Join(t.TempDir(), "secret")}
	err := errors.Join(os.Mkdir(s.Secret, 0o700), os.WriteFile(filepath.Join(s.Secret, "x"), []byte(secretText), 0o600),
		os.Mkdir(s.Folder, 0o755), os.Symlink(s.Secret, s.Link), os.Chown(dir, 0, 0), os.Chmod(dir, 0o777))
	if err != nil {
		t.Fatal(err)
	}
	Give(t, s.Link)
	return s
}

// Start makes the hostile user exchange the two continuously until stop is called.
func (s Swap) Start(t testing.TB) (stop func()) {
	t.Helper()
	cmd := Command("/usr/bin/perl", "-e", `$| = 1; print "x"; while (1) { syscall($ARGV[0], -100, $ARGV[1], -100, $ARGV[2], 2) }`,
		strconv.Itoa(unix.SYS_RENAMEAT2), s.Folder, s.Link)
	StartReady(t, cmd)
	return func() { end(cmd) }
}

// end ends a command. Start also waits for it, which is harmless.
func end(cmd *exec.Cmd) {
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

// Exchange exchanges the two once.
func (s Swap) Exchange() error {
	return unix.Renameat2(unix.AT_FDCWD, s.Folder, unix.AT_FDCWD, s.Link, unix.RENAME_EXCHANGE)
}

// Files returns the files in the folder, wherever the folder is now.
func (s Swap) Files(t testing.TB) []os.DirEntry {
	t.Helper()
	at := s.Folder
	if info, err := os.Lstat(at); err == nil && info.Mode().Type() == os.ModeSymlink {
		at = s.Link
	}
	files, err := os.ReadDir(at)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// CheckSecret reports an error if the secret folder has changed.
func (s Swap) CheckSecret(t testing.TB) {
	t.Helper()
	if got, err := os.ReadFile(filepath.Join(s.Secret, "x")); err != nil || string(got) != secretText {
		t.Errorf("the secret is %q, error %v", got, err)
	}
	if files, err := os.ReadDir(s.Secret); err != nil || len(files) != 1 {
		t.Errorf("beside the secret: %v, error %v", files, err)
	}
}
