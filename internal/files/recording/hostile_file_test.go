package recording_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/beamscope/beamscope/internal/files/recording"
	"github.com/beamscope/beamscope/internal/files/trusted"
	"github.com/beamscope/beamscope/internal/testing/otheruser"
)

// A recording is never written to a file that another user has prepared, and no other user can
// read it.
func TestCreateWhereAllCanWrite(t *testing.T) {
	dir := otheruser.Dir(t)
	if err := errors.Join(os.Chown(dir, 0, 0), os.Chmod(dir, 0o777|fs.ModeSticky)); err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("root's"), 0o600); err != nil {
		t.Fatal(err)
	}
	link, file := filepath.Join(dir, "link"), filepath.Join(dir, "file")
	if err := errors.Join(os.Symlink(secret, link), os.WriteFile(file, []byte("theirs"), 0o666)); err != nil {
		t.Fatal(err)
	}
	otheruser.Give(t, link, file)
	for _, path := range []string{link, file} {
		if _, err := recording.Create(path, true, recording.Header{}); !errors.Is(err, trusted.ErrPrepared) {
			t.Errorf("%s: %v, want %v", path, err, trusted.ErrPrepared)
		}
		if _, err := recording.Create(path, false, recording.Header{}); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: %v, want %v", path, err, fs.ErrExist)
		}
	}
	if text, err := os.ReadFile(secret); err != nil || string(text) != "root's" {
		t.Errorf("the secret is %q, %v", text, err)
	}
	own := filepath.Join(dir, "own")
	if err := os.WriteFile(own, []byte("an old one"), 0o644); err != nil {
		t.Fatal(err)
	}
	for path, force := range map[string]bool{own: true, filepath.Join(dir, "new"): false} {
		w, err := recording.Create(path, force, recording.Header{})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
}

// Another user keeps replacing the folder of a recording with a link and back. Nothing is
// created, replaced or removed where the link leads.
func TestCreateWhileFolderIsSwapped(t *testing.T) {
	swap := otheruser.NewSwap(t)
	stop := swap.Start(t)
	var written [2]bool
	for n := 0; n < 4000 || written != [2]bool{true, true}; n++ {
		w, err := recording.Create(filepath.Join(swap.Folder, []string{"x", "new"}[n%2]), n%2 == 0, recording.Header{})
		switch {
		case err == nil:
			written[n%2] = true
			err = w.Close()
		case errors.Is(err, trusted.ErrPrepared) || n%2 == 1 && errors.Is(err, fs.ErrExist):
			err = nil
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	stop()
	swap.CheckSecret(t)
	if files := swap.Files(t); len(files) != 2 {
		t.Errorf("%v, want both files", files)
	}
}
