package trusted_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/beamscope/beamscope/internal/files/trusted"
	"github.com/beamscope/beamscope/internal/testing/otheruser"
)

// tree returns a tree that belongs to root, in the folder for temporary files, where everybody
// can write. Names that begin with "to" are links.
func tree(t *testing.T) string {
	t.Helper()
	root := otheruser.Dir(t)
	if err := os.Chown(root, 0, 0); err != nil {
		t.Fatal(err)
	}
	must(t, os.MkdirAll(filepath.Join(root, "a", "b"), 0o755))
	must(t, os.WriteFile(filepath.Join(root, "a", "b", "file"), nil, 0o644))
	must(t, os.Symlink("a/../a/b", filepath.Join(root, "to-b")))
	must(t, os.Symlink("loop", filepath.Join(root, "a", "loop")))
	must(t, os.Symlink("nowhere", filepath.Join(root, "a", "to-nothing")))
	return root
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A path that only root can change is accepted, and the result has no links.
func TestPath(t *testing.T) {
	root := tree(t)
	for path, want := range map[string]string{"": "", "a/b/file": "a/b/file", "to-b/file": "a/b/file", "./to-b/../b/": "a/b"} {
		got, err := trusted.Path(root + "/" + path)
		if err != nil || got != filepath.Join(root, want) {
			t.Errorf("%s: %s, %v", path, got, err)
		}
	}
	if _, err := trusted.Path(filepath.Join(root, "a", "loop")); !errors.Is(err, syscall.ELOOP) {
		t.Errorf("a loop of links: %v", err)
	}
	if _, err := trusted.Path(filepath.Join(root, "none", "x")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing there: %v", err)
	}
	must(t, os.Remove(filepath.Join(root, "a", "loop")))
	if err := trusted.Tree(t.Context(), root); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(os.ErrDeadlineExceeded)
	if err := trusted.Tree(ctx, root); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("cancelled: %v", err)
	}
}

// A path that another user can change is rejected. Here that user really changes it: the test
// checks the path, and then runs the attack in the tree as that user.
func TestOthersCanChange(t *testing.T) {
	for _, test := range []struct {
		name    string
		prepare func(t *testing.T, root string)
		path    string
		attack  string
	}{
		{"a file of another", func(t *testing.T, root string) { otheruser.Give(t, root+"/a/b/file") }, "to-b/file", "echo x > a/b/file"},
		{"a file that all can write", func(t *testing.T, root string) { must(t, os.Chmod(root+"/a/b/file", 0o646)) }, "a/b/file", "echo x > a/b/file"},
		{"a file that a group can write", func(t *testing.T, root string) {
			must(t, os.Chown(root+"/a/b/file", 0, otheruser.User))
			must(t, os.Chmod(root+"/a/b/file", 0o664))
		}, "a/b/file", "echo x > a/b/file"},
		{"a folder of another", func(t *testing.T, root string) { otheruser.Give(t, root+"/a") }, "a/b/file", "mv a/b a/c && mkdir a/b && echo x > a/b/file"},
		{"a folder that all can write", func(t *testing.T, root string) { must(t, os.Chmod(root+"/a/b", 0o757)) }, "a/b/file", "rm -f a/b/file && echo x > a/b/file"},
		{"a sticky folder of another", func(t *testing.T, root string) {
			must(t, os.Chmod(root+"/a", 0o777|os.ModeSticky))
			otheruser.Give(t, root+"/a")
		}, "a/b/file", "mv a/b a/c && mkdir a/b && echo x > a/b/file"},
		{"a file in a sticky folder", func(t *testing.T, root string) { must(t, os.Chmod(root+"/a", 0o777|os.ModeSticky)) }, "a/new", "echo x > a/new"},
		{"a link of another", func(t *testing.T, root string) { otheruser.Give(t, root, root+"/to-b") }, "to-b/file", "rm to-b && ln -s /tmp to-b"},
		{"a link to what another can change", func(t *testing.T, root string) { otheruser.Give(t, root+"/a/b") }, "to-b/file", "mv a/b/file a/b/x && echo x > a/b/file"},
		{"nothing yet, where all can write", func(t *testing.T, root string) { must(t, os.Chmod(root+"/a", 0o777|os.ModeSticky)) }, "a/to-nothing", "mkdir a/nowhere"},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := tree(t)
			must(t, os.Remove(filepath.Join(root, "a", "loop")))
			test.prepare(t, root)
			path := filepath.Join(root, test.path)
			if got, err := trusted.Path(path); !errors.Is(err, trusted.ErrUntrusted) {
				t.Errorf("Path: %s, %v, want %v", got, err, trusted.ErrUntrusted)
			}
			if err := trusted.Tree(t.Context(), root); !errors.Is(err, trusted.ErrUntrusted) {
				t.Errorf("Tree: %v, want %v", err, trusted.ErrUntrusted)
			}
			if err := trusted.Place(path); !errors.Is(err, trusted.ErrUntrusted) {
				t.Errorf("Place: %v, want %v", err, trusted.ErrUntrusted)
			}
			cmd := otheruser.Command("/bin/sh", "-c", test.attack)
			cmd.Dir = root
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("rejected, but the attack fails: %v: %s", err, out)
			}
		})
	}
}

// If a path does not exist yet, its existing part is checked.
func TestPlace(t *testing.T) {
	root := tree(t)
	if err := trusted.Place(filepath.Join(root, "a", "x", "y")); err != nil {
		t.Error(err)
	}
	otheruser.Give(t, filepath.Join(root, "a"))
	if err := trusted.Place(filepath.Join(root, "a", "x", "y")); !errors.Is(err, trusted.ErrUntrusted) {
		t.Errorf("error %v, want %v", err, trusted.ErrUntrusted)
	}
}

// Tree rejects pipes and other special files.
func TestTreeRefusesPipes(t *testing.T) {
	root := tree(t)
	must(t, syscall.Mkfifo(filepath.Join(root, "a", "b", "pipe"), 0o644))
	must(t, os.Remove(filepath.Join(root, "a", "loop")))
	if err := trusted.Tree(t.Context(), root); !errors.Is(err, trusted.ErrUntrusted) {
		t.Errorf("error %v, want %v", err, trusted.ErrUntrusted)
	}
}
