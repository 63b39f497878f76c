package atomicfile_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/beamscope/beamscope/internal/files/atomicfile"
)

// Write creates or replaces a file, keeps its permissions and leaves no other files.
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

// A symbolic link is kept; its target is replaced.
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

// If the file cannot be written, Write returns an error and leaves no files.
func TestWriteFails(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	err := atomicfile.Write(filepath.Join(dir, "a"), nil)
	if want := "the folder " + dir + " does not exist"; !errors.Is(err, fs.ErrNotExist) || err.Error() != want {
		t.Errorf("error %v, want %q", err, want)
	}
	// A folder cannot be replaced. The error does not mention the temporary file.
	if os.Geteuid() == 0 {
		dir = "/proc/self"
	} else if err := os.Mkdir(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	if err := atomicfile.Write(filepath.Join(dir, "a"), nil); err == nil || !strings.HasPrefix(err.Error(), "write "+filepath.Join(dir, "a")+": ") {
		t.Errorf("error %v, want one of the file itself", err)
	}
}

// If the write function fails, the file keeps its contents and no other files are left.
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
