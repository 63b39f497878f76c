package trusted_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/beamscope/beamscope/internal/files/trusted"
	"github.com/beamscope/beamscope/internal/testing/otheruser"
)

// contents opens a file and reads it.
func contents(path string) (string, error) {
	file, err := trusted.Open(path, os.O_RDONLY)
	if err != nil {
		return "", err
	}
	defer file.Close()
	data, err := io.ReadAll(file)
	return string(data), err
}

// A link of another user can lead only to that user's own files. Files that are named directly,
// whoever owns them, and the user's own links are read as usual.
func TestOpen(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(secret, []byte("root's"), 0o600))
	dir := otheruser.Dir(t)
	write := func(name string) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, []byte("theirs"), 0o644))
		return path
	}
	link := func(to, name string) string {
		path := filepath.Join(dir, name)
		must(t, os.Symlink(to, path))
		return path
	}
	plain := write("plain")
	toPlain, toSecret, toFolder := link("plain", "to-plain"), link(secret, "to-secret"), link(filepath.Dir(secret), "to-folder")
	twice, proc := link("to-secret", "twice"), link("/proc/self/exe", "proc")
	otheruser.Give(t, dir, plain, toPlain, toSecret, toFolder, twice, proc)
	ours := link(secret, "ours")

	for path, want := range map[string]string{plain: "theirs", toPlain: "theirs", ours: "root's", secret: "root's"} {
		if got, err := contents(path); got != want || err != nil {
			t.Errorf("%s: %q, %v, want %q", path, got, err, want)
		}
	}
	for _, path := range []string{toSecret, twice, filepath.Join(toFolder, "secret"), proc} {
		if got, err := contents(path); !errors.Is(err, trusted.ErrLed) {
			t.Errorf("%s: %q, %v, want %v", path, got, err, trusted.ErrLed)
		}
	}
	if _, err := contents(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that does not exist: %v", err)
	}
	if _, err := contents("/proc/self/exe"); err != nil {
		t.Errorf("a link of the proc file system: %v", err)
	}
	t.Chdir(dir)
	if got, err := contents("plain"); got != "theirs" || err != nil {
		t.Errorf("a relative path: %q, %v", got, err)
	}
}

// Another user keeps replacing its own file with a link and back. The contents that are read
// never belong to root.
func TestOpenWhileItIsSwapped(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(secret, []byte("root's"), 0o600))
	dir := otheruser.Dir(t)
	otheruser.Give(t, dir)
	cmd := otheruser.Command("/usr/bin/perl", "-e", `$| = 1; print "x";
		while (1) { mkdir "d"; open(F, ">", "d/secret"); close F; symlink($ARGV[0], "l"); rename("d", "old"); rename("l", "d"); unlink "d"; unlink "old/secret"; rmdir "old" }`, filepath.Dir(secret))
	cmd.Dir = dir
	otheruser.StartReady(t, cmd)
	for range 20_000 {
		if got, err := contents(filepath.Join(dir, "d", "secret")); err == nil && got != "" {
			t.Fatalf("read %q", got)
		}
	}
}

// A blocked read of a pipe ends when the pipe is closed.
func TestOpenPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	must(t, unix.Mkfifo(pipe, 0o600))
	other, err := os.OpenFile(pipe, os.O_RDWR, 0)
	must(t, err)
	defer other.Close()
	file, err := trusted.Open(pipe, os.O_RDONLY)
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	context.AfterFunc(ctx, func() { file.Close() })
	if _, err := file.Read(make([]byte, 1)); !errors.Is(err, os.ErrClosed) {
		t.Errorf("error %v, want %v", err, os.ErrClosed)
	}
}
