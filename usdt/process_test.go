package usdt

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/internal/host/privilege"
)

// childVariable makes the test program wait for the end of its input.
const childVariable = "USDT_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		fmt.Println("ready")
		io.Copy(io.Discard, os.Stdin)
		return
	}
	os.Exit(m.Run())
}

// start starts a program that prints "ready" and then waits for the end of its input. The returned
// function ends the program and waits until it is gone.
func start(t *testing.T, path string, arguments ...string) (Process, func()) {
	t.Helper()
	command := exec.Command(path, arguments...)
	command.Env = append(os.Environ(), childVariable+"=1")
	input, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	end := func() {
		if !ended {
			ended = true
			input.Close()
			command.Wait()
		}
	}
	t.Cleanup(end)
	if line, err := bufio.NewReader(output).ReadString('\n'); line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	p, err := OpenProcess(command.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return p, end
}

// copyFile copies a program into a temporary folder of the test.
func copyFile(t *testing.T, from, name string) string {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(to, data, 0o700); err != nil {
		t.Fatal(err)
	}
	return to
}

func fileIdentity(t *testing.T, path string) (device, inode uint64) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return Identity(info)
}

func TestOwnProcess(t *testing.T) {
	self, err := OpenProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	device, inode := fileIdentity(t, path)
	want := MappedFile{Path: fmt.Sprintf("/proc/%d/exe", os.Getpid()), Name: path, Device: device, Inode: inode}
	got, err := self.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("executable: (-want +got)\n%s", diff)
	}
	arguments, err := self.Cmdline()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(os.Args, arguments); diff != "" {
		t.Errorf("command line: (-want +got)\n%s", diff)
	}
	found, _, err := new(Search).Find(t.Context(), func(exe string) bool { return exe == path })
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(found, self) {
		t.Errorf("%v not found in %v", self, found)
	}
	// Following the links in map_files takes privileges that the tests may lack.
	files, err := self.Files()
	switch {
	case errors.Is(err, os.ErrPermission):
		if !strings.Contains(err.Error(), "CAP_CHECKPOINT_RESTORE") {
			t.Errorf("files: error %v does not say what is needed", err)
		}
	case err != nil:
		t.Errorf("files: %v", err)
	case files[0] != want:
		t.Errorf("files: %v, want %v first", files, want)
	}
}

func TestDeletedExecutable(t *testing.T) {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"plain", "odd (deleted)", "new\nline) 1 ("} {
		t.Run(name, func(t *testing.T) {
			program := copyFile(t, path, name)
			device, inode := fileIdentity(t, program)
			p, _ := start(t, program)
			want := MappedFile{Path: fmt.Sprintf("/proc/%d/exe", p.PID), Name: program, Device: device, Inode: inode}
			got, err := p.Executable()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if err := os.Remove(program); err != nil {
				t.Fatal(err)
			}
			want.Deleted = true
			if got, err = p.Executable(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("deleted: (-want +got)\n%s", diff)
			}
			if f, err := Open(got.Path); !errors.Is(err, ErrMachine) { // the test's own machine may be any
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				if _, err := f.Probes(""); !errors.Is(err, ErrNoProbes) {
					t.Error(err)
				}
			}
		})
	}
}

func TestProcessGone(t *testing.T) {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p, end := start(t, path)
	file, err := p.Executable()
	if err != nil {
		t.Fatal(err)
	}
	methods := map[string]func(p Process) error{
		"Executable": func(p Process) error { _, err := p.Executable(); return err },
		"Files":      func(p Process) error { _, err := p.Files(); return err },
		"Cmdline":    func(p Process) error { _, err := p.Cmdline(); return err },
		"Semaphore":  func(p Process) error { _, err := p.Semaphore(Site{Semaphore: 1}, file); return err },
	}
	other := p
	other.StartTime++
	for name, method := range methods {
		if err := method(other); !errors.Is(err, ErrProcessGone) || !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s, PID reused: %v", name, err)
		}
	}
	end()
	for name, method := range methods {
		if err := method(p); !errors.Is(err, ErrProcessGone) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := OpenProcess(p.PID); !errors.Is(err, ErrProcessGone) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("OpenProcess: %v", err)
	}
}

// A procTree is a folder with the layout of /proc.
type procTree struct {
	t    *testing.T
	root procFS
}

func newProcTree(t *testing.T) procTree {
	return procTree{t, procFS(t.TempDir())}
}

func (tree procTree) write(path, text string) {
	tree.t.Helper()
	path = tree.root.path(path)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		tree.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		tree.t.Fatal(err)
	}
}

func (tree procTree) link(path, target string) {
	tree.t.Helper()
	path = tree.root.path(path)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		tree.t.Fatal(err)
	}
	if err := os.Symlink(target, path); err != nil {
		tree.t.Fatal(err)
	}
}

// stat writes a stat file.
func (tree procTree) stat(pid int, comm string, start uint64) {
	tree.write(fmt.Sprintf("%d/stat", pid),
		fmt.Sprintf("%d (%s) S 1 2 3 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 %d 9 10 11\n", pid, comm, start))
}

// mapLine writes a line of a maps file for an existing file.
func mapLine(t *testing.T, addresses, permissions string, offset uint64, path string) string {
	device, inode := fileIdentity(t, path)
	return fmt.Sprintf("%s %s %08x %02x:%02x %d    %s\n", addresses, permissions, offset,
		device>>8&0xfff, device&0xff|device>>12&0xfff00, inode, path)
}

func TestStartTime(t *testing.T) {
	tree := newProcTree(t)
	for i, comm := range []string{"beam.smp", "a b", "1) S 1 2 3 (4", ")))", "", "new\nline"} {
		tree.stat(i+1, comm, uint64(100+i))
		p, err := tree.root.open(i + 1)
		if err != nil || p.StartTime != uint64(100+i) {
			t.Errorf("%q: start %d, error %v", comm, p.StartTime, err)
		}
	}
	for _, bad := range []string{"", "1", "1 (a) S 1", "1 (a) S 1 2 3 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 x 9"} {
		tree.write("50/stat", bad)
		if _, err := tree.root.open(50); err == nil || errors.Is(err, ErrProcessGone) {
			t.Errorf("%q: error %v", bad, err)
		}
	}
	if _, err := tree.root.open(51); !errors.Is(err, ErrProcessGone) {
		t.Errorf("missing: %v", err)
	}
}

// A process that a signal has stopped is in state T until it continues.
func TestState(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	p, err := OpenProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		signal  syscall.Signal
		options int
		stopped bool
	}{{syscall.SIGSTOP, syscall.WUNTRACED, true}, {syscall.SIGCONT, syscall.WCONTINUED, false}} {
		if err := syscall.Kill(pid, step.signal); err != nil {
			t.Fatal(err)
		}
		if _, err := syscall.Wait4(pid, nil, step.options, nil); err != nil {
			t.Fatal(err)
		}
		if state, err := p.State(); err != nil || (state == 'T') != step.stopped {
			t.Errorf("after %v: state %q, error %v", step.signal, state, err)
		}
	}
	p.StartTime++
	if _, err := p.State(); !errors.Is(err, ErrProcessGone) {
		t.Errorf("of another process with the PID: error %v", err)
	}
}

func TestFind(t *testing.T) {
	tree := newProcTree(t)
	for pid, exe := range map[int]string{9: "/bin/beam.smp", 10: "/old/beam.smp (deleted)", 8: "/bin/sh", 2: ""} {
		tree.stat(pid, "c", uint64(pid))
		if exe != "" {
			tree.link(fmt.Sprintf("%d/exe", pid), exe)
		}
	}
	tree.write("meminfo", "")
	tree.write("11/other", "gone meanwhile")
	got, skipped, err := new(Search).find(t.Context(), tree.root, func(exe string) bool { return filepath.Base(exe) == "beam.smp" })
	if err != nil || skipped.Count > 0 {
		t.Fatal(err, skipped)
	}
	want := []Process{{PID: 9, StartTime: 9, proc: tree.root}, {PID: 10, StartTime: 10, proc: tree.root}}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got, skipped, err := new(Search).find(t.Context(), tree.root, func(string) bool { return false }); err != nil || got != nil || skipped.Count > 0 {
		t.Errorf("none: %v, %v, %v", got, skipped, err)
	}
	tree.write("12/stat", "nonsense")
	tree.stat(13, "c", 13)
	tree.write("13/exe", "no link")
	got, skipped, err = new(Search).find(t.Context(), tree.root, func(exe string) bool { return filepath.Base(exe) == "beam.smp" })
	if err != nil || !slices.Equal(got, want) || skipped.Count != 2 || !strings.Contains(skipped.Err.Error(), "process 12") {
		t.Errorf("beside some that cannot be looked at: %v, %v, %v", got, skipped, err)
	}
	if _, _, err := new(Search).find(t.Context(), tree.root+"/missing", nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no folder: %v", err)
	}
	p, err := tree.root.open(2)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Executable(); !errors.Is(err, os.ErrNotExist) || errors.Is(err, ErrProcessGone) {
		t.Errorf("executable of a kernel thread: %v", err)
	}
}

func TestFiles(t *testing.T) {
	tree := newProcTree(t)
	folder := t.TempDir()
	path := func(name string) string { return filepath.Join(folder, name) }
	for _, name := range []string{"program", "library", "real (deleted)", "data"} {
		if err := os.WriteFile(path(name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(path("library"), path("library (deleted)")); err != nil {
		t.Fatal(err)
	}
	tree.stat(7, "program", 77)
	tree.link("7/exe", path("program"))
	tree.link("7/root", "/")
	device, inode := fileIdentity(t, path("library"))
	tree.write("7/maps", mapLine(t, "400000-401000", "r--p", 0, path("program"))+
		mapLine(t, "401000-402000", "r-xp", 0x1000, path("program"))+
		mapLine(t, "500000-501000", "r-xp", 0, path("library"))+
		mapLine(t, "501000-502000", "r-xp", 0x1000, path("library"))+
		mapLine(t, "600000-601000", "r-xp", 0, path("real (deleted)"))+
		mapLine(t, "700000-701000", "rw-p", 0, path("data"))+
		// As on btrfs: the device differs from that in stat.
		fmt.Sprintf("800000-801000 r-xp 00000000 3ff:ff %d %s\n", inode, path("library"))+
		"900000-901000 r-xp 00000000 00:01 123 /dev/zero\n"+
		"a00000-a01000 r-xp 00000000 00:01 124 /gone/meanwhile\n"+
		"b00000-b01000 r-xp 00000000 00:00 0 \n"+
		"c00000-c01000 r-xp 00000000 00:00 0 [vdso]\n")
	for addresses, name := range map[string]string{
		"401000-402000": path("program"), "500000-501000": path("library"), "800000-801000": path("library"),
		"600000-601000": path("real (deleted)"), "900000-901000": "/dev/zero",
	} {
		tree.link("7/map_files/"+addresses, name)
	}
	p, err := tree.root.open(7)
	if err != nil {
		t.Fatal(err)
	}
	got, err := p.Files()
	if err != nil {
		t.Fatal(err)
	}
	programDevice, programInode := fileIdentity(t, path("program"))
	realDevice, realInode := fileIdentity(t, path("real (deleted)"))
	want := []MappedFile{
		{Path: p.path("exe"), Name: path("program"), Device: programDevice, Inode: programInode},
		{Path: p.path("map_files/500000-501000"), Name: path("library"), Device: device, Inode: inode},
		{Path: p.path("map_files/600000-601000"), Name: path("real (deleted)"), Device: realDevice, Inode: realInode},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if _, err := p.Semaphore(Site{Semaphore: 2}, got[0]); !errors.Is(err, ErrNoSemaphore) {
		t.Errorf("semaphore not mapped: %v", err)
	}
}

func TestSemaphoreFixture(t *testing.T) {
	tree := newProcTree(t)
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	device, inode := fileIdentity(t, program)
	file := MappedFile{Name: program, Device: device, Inode: inode}
	tree.stat(7, "program", 77)
	tree.link("7/exe", program)
	tree.write("7/maps", mapLine(t, "1000-2000", "r-xp", 0x1000, program)+ // contains the same part, but not the counter
		mapLine(t, "2000-3000", "rw-s", 0x1000, program)+
		mapLine(t, "3000-4000", "rw-p", 0x1000, program)+
		mapLine(t, "4000-5000", "rw-p", 0x1000, program)+
		fmt.Sprintf("5000-6000 rw-p 00004000 3ff:ff %d %s\n", inode, program)+
		fmt.Sprintf("6000-7000 rw-p 00005000 3ff:ff %d %s\n", inode, program))
	tree.link("7/map_files/5000-6000", program)
	memory := make([]byte, 0x5800)
	memory[0x3010], memory[0x3011] = 0x34, 0x12
	memory[0x3fff] = 9
	memory[0x5020] = 5
	tree.write("7/mem", string(memory))
	p, err := tree.root.open(7)
	if err != nil {
		t.Fatal(err)
	}
	for offset, want := range map[uint64]uint16{0x1010: 0x1234, 0x1ffe: 0x900, 0x4020: 5} {
		if got, err := p.Semaphore(Site{Semaphore: offset}, file); err != nil || got != want {
			t.Errorf("at %#x: %#x, error %v, want %#x", offset, got, err, want)
		}
	}
	for _, offset := range []uint64{0, 0x10, 0x1fff, 0x2000, 0x5020, 1<<64 - 1} {
		if _, err := p.Semaphore(Site{Semaphore: offset}, file); !errors.Is(err, ErrNoSemaphore) {
			t.Errorf("at %#x: error %v", offset, err)
		}
	}
	if _, err := p.Semaphore(Site{Semaphore: 0x4900}, file); err == nil {
		t.Error("no error past the end of memory")
	}
}

func TestMalformedMaps(t *testing.T) {
	for _, line := range []string{
		"x", "1-2 r-xp 0 0:0", "1-2 r-x 0 0:0 1 x", "1-z r-xp 0 0:0 1 x", "1 r-xp 0 0:0 1 x", "1-2 r-xp g 0:0 1 x",
		"1-2 r-xp 0 0 1 x", "1-2 r-xp 0 0:0 -1 x", strings.Repeat("x", maxMapsLine+1),
	} {
		if got, err := parseMappings(strings.NewReader(line)); err == nil {
			t.Errorf("%.40q: %v", line, got)
		}
	}
}

// A mapping of a file in a user-space file system is not anonymous, whatever its inode number.
func TestAnonymousOfMaps(t *testing.T) {
	const maps = `55d0c0000000-55d0c0001000 rw-p 00000000 00:00 0   [heap]
7f0000000000-7f0000001000 rw-p 00000000 00:00 0
7f0000002000-7f0000003000 rw-p 00000000 00:3a 0   /mnt/ring
7f0000004000-7f0000005000 rw-s 00000000 00:01 17   /dev/zero (deleted)
7f0000006000-7f0000007000 r--p 00000000 00:00 0
7ffc00000000-7ffc00001000 rw-p 00000000 00:00 0   [stack]
`
	got, err := parseAnonymous(strings.NewReader(maps))
	want := []Range{{0x55d0c0000000, 0x55d0c0001000}, {0x7f0000000000, 0x7f0000001000}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%x, error %v", got, err)
	}
}

func TestDeviceNumber(t *testing.T) {
	// From the description of the encoding: minor 0-7, major 8-19, minor 20-31.
	for _, test := range []struct{ major, minor, want uint64 }{
		{8, 1, 0x801}, {0xfd, 0, 0xfd00}, {0xfff, 0xfffff, 0xffffffff}, {0, 0x100, 0x100000},
	} {
		if got := deviceNumber(test.major, test.minor); got != test.want {
			t.Errorf("%#x:%#x is %#x, want %#x", test.major, test.minor, got, test.want)
		}
	}
}

func TestErrorsSayWhatIsNeeded(t *testing.T) {
	p := Process{PID: 7}
	for _, test := range []struct {
		file string
		err  error
		want string
		is   error
	}{
		{"exe", &fs.PathError{Op: "readlink", Path: "/proc/7/exe", Err: syscall.EACCES},
			"process 7: readlink /proc/7/exe: permission denied (needs root, or CAP_SYS_PTRACE)", fs.ErrPermission},
		{"map_files", &fs.PathError{Op: "stat", Path: "x", Err: syscall.EPERM},
			"process 7: stat x: operation not permitted (needs root, or CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN)", fs.ErrPermission},
		{"maps", syscall.ESRCH, "process 7: process is gone: no such process", ErrProcessGone},
		{"mem", syscall.EIO, "process 7: mem: input/output error", syscall.EIO},
	} {
		got := p.wrapAs(1000, 0, test.file, test.err)
		if got.Error() != test.want || !errors.Is(got, test.is) {
			t.Errorf("%v, want %s", got, test.want)
		}
	}
	// Root is not advised to become root.
	const want = "process 7: readlink /proc/7/exe: permission denied (CAP_SYS_PTRACE is missing, or the process is protected from root)"
	if got := p.wrapAs(0, 0, "exe", &fs.PathError{Op: "readlink", Path: "/proc/7/exe", Err: syscall.EACCES}); got.Error() != want || !errors.Is(got, fs.ErrPermission) {
		t.Errorf("%v, want %s", got, want)
	}
	// An error names no right that the user has.
	const protected = "process 7: permission denied (the process is protected, for example by a security module)"
	if got := p.wrapAs(0, privilege.Of(privilege.SysPtrace), "exe", syscall.EACCES); got.Error() != protected {
		t.Errorf("%v, want %s", got, protected)
	}
	if got, want := needs(1000, missing(0)), "needs root, or CAP_SYS_PTRACE"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := needs(1000, missing(privilege.Of(privilege.SysPtrace))), "the process is protected, for example by a security module"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if want := strconv.Itoa(7); !strings.HasSuffix(p.path(), "/proc/"+want) {
		t.Errorf("path %s", p.path())
	}
}
