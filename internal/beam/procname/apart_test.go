package procname

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/beamscope/beamscope/internal/beam/symbols"
	"github.com/beamscope/beamscope/internal/testing/otheruser"
	"github.com/beamscope/beamscope/usdt"
)

// debugRoot is the folder of separate debugging information, by build ID.
const debugRoot = symbols.Usual + "/.build-id"

// container starts a process with a mount namespace of its own, which has its own folder of
// separate debugging information. It returns the process, and the path of that folder outside the
// namespace.
func container(t *testing.T) (usdt.Process, string) {
	t.Helper()
	lib := otheruser.Dir(t) // in place of /usr/lib
	if err := os.MkdirAll(filepath.Join(lib, strings.TrimPrefix(debugRoot, "/usr/lib")), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sh", "-c", "mount --bind "+lib+" /usr/lib && echo && read forever")
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	otheruser.StartReady(t, cmd)
	p, err := usdt.OpenProcess(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return p, fmt.Sprintf("/proc/%d/root", p.PID) + debugRoot
}

// named returns a store with the folder of debugging information that contains the tree by build IDs.
func named(root string) *symbols.Store { return symbols.New(filepath.Dir(root)) }

// stripped returns a copy of a fixture without sections, thus without debugging information.
func stripped(t *testing.T) *usdt.File {
	t.Helper()
	data, err := os.ReadFile("../../../testdata/executables/dwarf5.so")
	if err != nil {
		t.Fatal(err)
	}
	const sectionOffset, sectionCount = 40, 60
	binary.LittleEndian.PutUint64(data[sectionOffset:], 0)
	binary.LittleEndian.PutUint32(data[sectionCount:], 0)
	path := filepath.Join(t.TempDir(), "beam.smp")
	if err := os.WriteFile(path, data, 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := usdt.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// place returns the expected path of debugging information, and makes its folder.
func place(t *testing.T, root, buildID string) string {
	t.Helper()
	path := filepath.Join(root, buildID[:2], buildID[2:]+".debug")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func copyTo(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// Files that only the process sees are not used: any user can show a process files that seem to belong to
// root. They are found if the user names their folder, and only if they have the same build ID. Links do
// not lead out of the folder.
func TestDebugFile(t *testing.T) {
	p, root := container(t)
	f := stripped(t)
	named := named(root)
	read := func() error {
		_, err := (&Layouts{Symbols: named}).of(t.Context(), p, f)
		return err
	}
	if err := read(); !errors.Is(err, ErrNoLayout) {
		t.Errorf("nothing there: %v", err)
	}
	path := place(t, root, f.BuildID())
	copyTo(t, "../../../testdata/executables/dwarf5.debug", path)
	if err := read(); err != nil {
		t.Error(err)
	}
	if _, err := new(Layouts).of(t.Context(), p, f); !errors.Is(err, errStripped) {
		t.Errorf("the folder is not named: error %v, want %v", err, errStripped)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(otheruser.Dir(t), "outside.debug") // the process sees it, but by its own link to us only
	copyTo(t, "../../../testdata/executables/dwarf5.debug", outside)
	for name, prepare := range map[string]func() error{
		"of another build":     func() error { copyTo(t, "../../../testdata/executables/clang.so", path); return nil },
		"a pipe":               func() error { return unix.Mkfifo(path, 0o644) },
		"a device":             func() error { return unix.Mknod(path, unix.S_IFCHR|0o644, int(unix.Mkdev(1, 5))) },
		"a folder":             func() error { return os.Mkdir(path, 0o755) },
		"a link to our files":  func() error { return os.Symlink(fmt.Sprintf("/proc/%d/root%s", os.Getpid(), outside), path) },
		"a link in a circle":   func() error { return os.Symlink(path, path) },
		"no debugging at all":  func() error { copyTo(t, "../../../testdata/executables/stripped.so", path); return nil },
		"no file to speak of":  func() error { return os.WriteFile(path, nil, 0o644) },
		"a link to a terminal": func() error { return os.Symlink("/dev/tty", path) },
	} {
		if err := prepare(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := read(); !errors.Is(err, ErrNoLayout) {
			t.Errorf("%s: error %v, want %v", name, err, ErrNoLayout)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// A file that is swapped for a pipe, again and again, blocks no reader.
func TestDebugFileSwapped(t *testing.T) {
	p, root := container(t)
	f := stripped(t)
	path := place(t, root, f.BuildID())
	copyTo(t, "../../../testdata/executables/dwarf5.debug", path)
	pipe := path + ".pipe"
	if err := unix.Mkfifo(pipe, 0o644); err != nil {
		t.Fatal(err)
	}
	over, ended := make(chan struct{}), make(chan error)
	go func() {
		for {
			select {
			case <-over:
				ended <- nil
				return
			default:
			}
			if err := unix.Renameat2(unix.AT_FDCWD, path, unix.AT_FDCWD, pipe, unix.RENAME_EXCHANGE); err != nil {
				ended <- err
				return
			}
		}
	}()
	found := 0
	for range 300 {
		_, err := (&Layouts{Symbols: named(root)}).of(t.Context(), p, f)
		switch {
		case err == nil:
			found++
		case !errors.Is(err, ErrNoLayout):
			t.Fatal(err)
		}
	}
	close(over)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	t.Logf("found %d times of 300", found)
}

// Two executables with the same build ID do not share a layout: the maker of an executable can give
// it any build ID.
func TestSameBuildID(t *testing.T) {
	p, err := usdt.OpenProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	var layouts Layouts
	of := func(path string) error {
		f, err := usdt.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		_, err = layouts.of(t.Context(), p, f)
		return err
	}
	forged := filepath.Join(t.TempDir(), "beam.smp")
	copyTo(t, "../../../testdata/executables/missing.so", forged)
	giveBuildID(t, "../../../testdata/executables/dwarf5.so", forged)
	if err := of(forged); !errors.Is(err, ErrNoLayout) {
		t.Fatalf("the forged one: %v", err)
	}
	if err := of("../../../testdata/executables/dwarf5.so"); err != nil {
		t.Errorf("after one of the same build ID: %v", err)
	}
}

// giveBuildID overwrites the build ID of a file with that of another file.
func giveBuildID(t *testing.T, from, to string) {
	t.Helper()
	id := func(path string) []byte {
		f, err := usdt.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		raw, err := hex.DecodeString(f.BuildID())
		if err != nil || len(raw) == 0 {
			t.Fatal(err)
		}
		return raw
	}
	data, err := os.ReadFile(to)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, bytes.ReplaceAll(data, id(to), id(from)), 0o755); err != nil {
		t.Fatal(err)
	}
}
