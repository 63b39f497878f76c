package snapshot_test

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/beamscope/beamscope/internal/files/recording"
	"github.com/beamscope/beamscope/internal/files/snapshot"
)

// fire makes a snapshot for each of some windows.
func fire(t *testing.T, o snapshot.Options, from, to int) []error {
	t.Helper()
	o.After = 0
	var errs []error
	for n := from; n < to; n++ {
		do, end := keep(t, o)
		do(config("b"), batch(n), cause(n, "qta"))
		errs = append(errs, end()...)
	}
	return errs
}

// Only the owner can access the folder and its files.
func TestModes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "snapshots")
	if infos := list(t, dir); len(infos) != 0 {
		t.Errorf("in a folder that does not exist: %v", infos)
	}
	fire(t, options(dir), 0, 1)
	for path, want := range map[string]os.FileMode{dir: 0o700, list(t, dir)[0].Path: 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
}

// Only old snapshots are removed to make room for new ones.
func TestMaxFiles(t *testing.T) {
	dir := t.TempDir()
	others := []string{"run.bsr", "20001121T014501.123Z-b-qta.bsr", "20001121T014501.123Z-b-qta.bsr.txt", ".snapshot-1.tmp"}
	for _, name := range others {
		write(t, filepath.Join(dir, name), "somebody else's")
	}
	o := options(dir)
	o.MaxFiles = 3
	fire(t, o, 0, 5)
	equal(t, []string{
		"20261121T014505.123Z-b-qta.bsr", "20261121T014504.123Z-b-qta.bsr", "20261121T014503.123Z-b-qta.bsr",
	}, names(list(t, dir)))
	for _, name := range others {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}

func TestMaxBytes(t *testing.T) {
	dir := t.TempDir()
	o := options(dir)
	fire(t, o, 0, 4)
	o.MaxBytes = 2*list(t, dir)[0].Size + 10
	fire(t, o, 4, 5)
	equal(t, []string{"20261121T014505.123Z-b-qta.bsr", "20261121T014504.123Z-b-qta.bsr"}, names(list(t, dir)))
	o.MaxBytes = 1
	fire(t, o, 0, 1) // the oldest one by its name, but it must stay
	equal(t, []string{"20261121T014501.123Z-b-qta.bsr"}, names(list(t, dir)))
}

// A snapshot replaces no file. It is listed after those of the same moment.
func TestSameName(t *testing.T) {
	dir := t.TempDir()
	fire(t, options(dir), 0, 1)
	fire(t, options(dir), 0, 1)
	fire(t, options(dir), 0, 1)
	equal(t, []string{
		"20261121T014501.123Z-b-qta_3.bsr", "20261121T014501.123Z-b-qta_2.bsr", "20261121T014501.123Z-b-qta.bsr",
	}, names(list(t, dir)))
}

// For any name of an outcome, the snapshot gets a valid file name in the folder.
func TestNames(t *testing.T) {
	for probe, want := range map[string]string{
		"":                       "-manual",
		"../../etc/passwd":       "-______etc_passwd-manual",
		"é ø\n":                  "-____-manual",
		strings.Repeat("x", 300): "-" + strings.Repeat("x", 64) + "-manual",
	} {
		dir := t.TempDir()
		do, end := keep(t, options(dir))
		do(config("b"), batch(0), &recording.Cause{Outcome: probe, Trigger: "manual"})
		end()
		equal(t, []string{"20261121T014501.123Z" + want + ".bsr"}, names(list(t, dir)))
	}
}

// A folder that is not writable gives one error for each snapshot, and has no other effect.
func TestUnwritable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	write(t, file, "")
	errs := fire(t, options(filepath.Join(file, "snapshots")), 0, 2)
	if len(errs) != 2 || !errors.Is(errs[0], unix.ENOTDIR) {
		t.Errorf("got %v", errs)
	}
	if _, err := snapshot.List(file); err == nil {
		t.Error("listed a file")
	}
}

// Old temporary files of writers that were killed are removed.
func TestAbandoned(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a[1]")
	fire(t, options(dir), 0, 1)
	old, fresh := filepath.Join(dir, ".snapshot-1.tmp"), filepath.Join(dir, ".snapshot-2.tmp")
	write(t, old, "half")
	write(t, fresh, "half")
	long := time.Now().Add(-2 * time.Hour)
	if err := os.Chtimes(old, long, long); err != nil {
		t.Fatal(err)
	}
	fire(t, options(dir), 1, 2)
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 3 || left[0].Name() != ".snapshot-2.tmp" {
		t.Errorf("left: %v, %v", left, err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Environment of the process that runs child.
const (
	childDir   = "SNAPSHOT_TEST_DIR"
	childLimit = "SNAPSHOT_TEST_LIMIT" // if set, files cannot be larger than a few bytes
)

// child writes snapshots until it is killed, and prints a line for each.
func child(dir string) {
	if os.Getenv(childLimit) != "" {
		signal.Ignore(syscall.SIGXFSZ)
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 100, Max: 100}); err != nil {
			panic(err)
		}
	}
	o := options(dir)
	o.Before = 1000
	o.Written = func(path string, err error) {
		if err != nil {
			path = err.Error()
		}
		os.Stdout.WriteString(path + "\n")
	}
	k, err := snapshot.New(o)
	if err != nil {
		panic(err)
	}
	if err := k.Config(config("b")); err != nil {
		panic(err)
	}
	for n := 0; ; n++ {
		if err := errors.Join(k.Batch(batch(n)), k.Fire(cause(n, "qta"), "")); err != nil && !errors.Is(err, snapshot.ErrBusy) {
			panic(err)
		}
	}
}

// startChild starts a process that writes snapshots, and waits for some.
func startChild(t *testing.T, dir string, lines int, env ...string) (last string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), childDir+"="+dir), env...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewScanner(out)
	for range lines {
		if !in.Scan() {
			t.Fatalf("the process ended: %v", cmd.Wait())
		}
		last = in.Text()
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // the child was killed
	return last
}

// Whenever the process is killed, each snapshot is complete or does not exist.
func TestKilled(t *testing.T) {
	for lines := 1; lines < 10; lines++ {
		dir := t.TempDir()
		startChild(t, dir, lines)
		infos := list(t, dir)
		if len(infos) < lines {
			t.Errorf("%d snapshots, and %d were written", len(infos), lines)
		}
		for _, info := range infos {
			if info.Err != nil {
				t.Errorf("%s: %v", info.Path, info.Err)
			}
		}
	}
}

// A full disk gives an error, and leaves no snapshot behind.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if text := startChild(t, dir, 3, childLimit+"=1"); !strings.Contains(text, "write snapshot 2026") {
		t.Errorf("reported %q", text)
	}
	if infos := list(t, dir); len(infos) != 0 {
		t.Errorf("there are %v", names(infos))
	}
}
