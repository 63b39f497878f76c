package atomicfile_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/beamscope/beamscope/internal/atomicfile"
)

// A file is new or replaced, keeps its permissions, and nothing else is left.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "a")
	for _, content := range []string{"first", "second, longer", ""} {
		if err := atomicfile.Write(name, []byte(content)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(name); err != nil || string(got) != content {
			t.Errorf("%q, error %v, want %q", got, err, content)
		}
		if info, err := os.Stat(name); err != nil || content != "first" && info.Mode().Perm() != 0o600 {
			t.Errorf("%v, error %v, want the permissions it had", info.Mode(), err)
		}
		if err := os.Chmod(name, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("left behind: %v, error %v", files, err)
	}
}

// A symbolic link stays one: what it leads to is replaced.
func TestWriteThroughLink(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := os.WriteFile(file, []byte("before"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("file", link); err != nil {
		t.Fatal(err)
	}
	if err := atomicfile.Write(link, []byte("after")); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != "after" {
		t.Errorf("%q, error %v", got, err)
	}
	if target, err := os.Readlink(link); err != nil || target != "file" {
		t.Errorf("the link leads to %q, error %v", target, err)
	}
}

// Where nothing can be written, that is an error, and nothing is left.
func TestWriteFails(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	err := atomicfile.Write(filepath.Join(dir, "a"), nil)
	if want := "the folder " + dir + " does not exist"; !errors.Is(err, fs.ErrNotExist) || err.Error() != want {
		t.Errorf("error %v, want %q", err, want)
	}
	// A folder is no file that could be replaced; nobody has heard of the temporary one.
	if os.Geteuid() == 0 {
		dir = "/proc/self"
	} else if err := os.Mkdir(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	if err := atomicfile.Write(filepath.Join(dir, "a"), nil); err == nil || !strings.HasPrefix(err.Error(), "write "+filepath.Join(dir, "a")+": ") {
		t.Errorf("error %v, want one of the file itself", err)
	}
}

// What breaks off while it is written leaves the file as it was, and nothing else.
func TestWriteByFails(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a")
	if err := atomicfile.Write(name, []byte("before")); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	err := atomicfile.WriteBy(name, func(w io.Writer) error {
		_, err := io.WriteString(w, "half of")
		return errors.Join(err, broken)
	})
	if !errors.Is(err, broken) {
		t.Errorf("error %v, want %v", err, broken)
	}
	if got, err := os.ReadFile(name); err != nil || string(got) != "before" {
		t.Errorf("%q, error %v", got, err)
	}
	if files, err := os.ReadDir(filepath.Dir(name)); err != nil || len(files) != 1 {
		t.Errorf("left behind: %v, error %v", files, err)
	}
}
