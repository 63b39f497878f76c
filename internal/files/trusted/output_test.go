package trusted_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/beamscope/beamscope/internal/files/trusted"
	"github.com/beamscope/beamscope/internal/testing/otheruser"
)

// shared returns a folder of root that all users can write to, sticky or not.
func shared(t *testing.T, sticky fs.FileMode) string {
	t.Helper()
	dir := otheruser.Dir(t)
	must(t, os.Chown(dir, 0, 0))
	must(t, os.Chmod(dir, 0o777|sticky))
	return dir
}

func makeFolder(path string) error {
	f, err := trusted.MakeFolder(path)
	if err != nil {
		return err
	}
	return f.Close()
}

// A link or file that another user has prepared in a shared folder is not followed.
func TestOutputThatOthersPrepared(t *testing.T) {
	for _, sticky := range []fs.FileMode{0, fs.ModeSticky} {
		dir := shared(t, sticky)
		secret := filepath.Join(t.TempDir(), "secret")
		must(t, os.WriteFile(secret, []byte("root's"), 0o600))
		link, file, folder := filepath.Join(dir, "link"), filepath.Join(dir, "file"), filepath.Join(dir, "folder")
		must(t, os.Symlink(secret, link))
		must(t, os.WriteFile(file, nil, 0o644))
		must(t, os.Mkdir(folder, 0o755))
		must(t, os.Symlink(filepath.Dir(secret), filepath.Join(folder, "in")))
		otheruser.Give(t, link, file, folder, filepath.Join(folder, "in"))
		for _, path := range []string{link, file, folder, filepath.Join(folder, "new"), filepath.Join(folder, "in", "new")} {
			if got, err := trusted.Output(path); !errors.Is(err, trusted.ErrPrepared) {
				t.Errorf("%s: %s, %v, want %v", path, got, err, trusted.ErrPrepared)
			}
			if err := makeFolder(path); !errors.Is(err, trusted.ErrPrepared) {
				t.Errorf("MakeFolder(%s): %v, want %v", path, err, trusted.ErrPrepared)
			}
		}
		if err := makeFolder(dir); !errors.Is(err, trusted.ErrPrepared) {
			t.Errorf("a folder that all can write to: %v, want %v", err, trusted.ErrPrepared)
		}
	}
}

// The user's own files are written to, and new ones are created, anywhere.
func TestOutputOfOwnFiles(t *testing.T) {
	dir := shared(t, fs.ModeSticky)
	link, file := filepath.Join(dir, "link"), filepath.Join(dir, "file")
	must(t, os.WriteFile(file, nil, 0o600))
	must(t, os.Symlink("file", link))
	for path, want := range map[string]string{link: file, file: file, filepath.Join(dir, "new"): filepath.Join(dir, "new"), dir: dir} {
		if got, err := trusted.Output(path); got != want || err != nil {
			t.Errorf("%s: %s, %v, want %s", path, got, err, want)
		}
	}
	if err := makeFolder(filepath.Join(dir, "a", "b")); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(filepath.Join(dir, "a")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	if _, err := trusted.Output(filepath.Join(dir, "none", "x")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, want %v", err, fs.ErrNotExist)
	}
}

// The user who called by sudo may write to that user's own folders.
func TestOutputBySudo(t *testing.T) {
	dir := otheruser.Dir(t)
	must(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	otheruser.Give(t, filepath.Join(dir, "file"))
	if _, err := trusted.Output(filepath.Join(dir, "file")); !errors.Is(err, trusted.ErrPrepared) {
		t.Errorf("error %v, want %v", err, trusted.ErrPrepared)
	}
	t.Setenv("SUDO_UID", "61234")
	if _, err := trusted.Output(filepath.Join(dir, "file")); err != nil {
		t.Error(err)
	}
	if err := makeFolder(filepath.Join(dir, "snapshots")); err != nil {
		t.Error(err)
	}
}
