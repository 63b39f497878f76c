package vm

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/beamscope/beamscope/internal/host/guard"
	"github.com/beamscope/beamscope/internal/testing/otheruser"
	"github.com/beamscope/beamscope/usdt"
)

// startLike starts a process of the hostile user with the name of a VM, and returns the path of
// its executable.
func startLike(t *testing.T) (path string, pid int) {
	t.Helper()
	path = filepath.Join(otheruser.Dir(t), "beam.smp")
	otheruser.Program(t, "sh", path)
	cmd := otheruser.Command(path, "-c", "echo; read forever")
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	otheruser.StartReady(t, cmd)
	return path, cmd.Process.Pid
}

// startDeep starts a process of the hostile user. The kernel does not report the path of its
// executable.
func startDeep(t *testing.T) (pid int) {
	t.Helper()
	name := strings.Repeat("d", 250)
	dir, err := os.Open(otheruser.Dir(t))
	for range 4096/len(name) + 1 {
		if err != nil {
			t.Fatal(err)
		}
		defer dir.Close()
		if err = unix.Mkdirat(int(dir.Fd()), name, 0o755); err != nil {
			t.Fatal(err)
		}
		var fd int
		fd, err = unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		dir = os.NewFile(uintptr(fd), name)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close() // only now, when nothing refers to it any more
	// Via a link, because the path is too long for a system call.
	link := filepath.Join(otheruser.Dir(t), "link")
	if err := os.Symlink(fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), dir.Fd()), link); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(link, "beam.smp")
	otheruser.Program(t, "sleep", program)
	file, err := os.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	cmd := otheruser.Command(fmt.Sprintf("/proc/self/fd/%d", file.Fd()), "infinity")
	cmd.Args[0] = "sleep"
	otheruser.Start(t, cmd)
	if _, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", cmd.Process.Pid)); !errors.Is(err, syscall.ENAMETOOLONG) {
		t.Fatalf("the kernel reports the path after all: error %v", err)
	}
	return cmd.Process.Pid
}

// An unprivileged user cannot prevent VMs from being found. Processes that cannot be examined are
// skipped and counted.
func TestFindBesideOthers(t *testing.T) {
	path, pid := startLike(t)
	find := func() usdt.Skipped {
		t.Helper()
		found, skipped, err := Find(t.Context(), Target{Exe: path})
		if err != nil || len(found) != 1 || found[0].PID() != pid {
			t.Fatalf("found %v, error %v, want pid %d", found, err, pid)
		}
		return skipped
	}
	before := find()
	startDeep(t)
	after := find()
	if after.Count != before.Count+1 || before.Count == 0 && !errors.Is(after.Err, syscall.ENAMETOOLONG) {
		t.Errorf("%v, before %v", after, before)
	}
}

// A process that has ended and was not waited for is not a VM, whenever it ends.
func TestDescribeAZombie(t *testing.T) {
	path, pid := startLike(t)
	good, err := usdt.OpenProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/true")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	ended := make([]byte, 1)
	if n, _ := out.Read(ended); n > 0 {
		t.Fatal("the process has printed something")
	}
	zombie, err := usdt.OpenProcess(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	for stat := ""; !strings.Contains(stat, ") Z "); { // it has closed its output and is about to end
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", zombie.PID))
		if err != nil {
			t.Fatal(err)
		}
		stat = string(data)
	}
	all, errs := new(Finder).describeAll(t.Context(), []usdt.Process{zombie, good})
	if !errors.Is(errs[0], ErrNotVM) || errs[1] != nil || all[1].Exe.Name != path {
		t.Errorf("%v, %v", all, errs)
	}
}

// Processes whose files do not answer do not delay a search: it does not ask for them.
func TestFindBesideSilentOnes(t *testing.T) {
	content := sleep(t)
	const silent = "beam.silent"
	for range 5 {
		files := otheruser.NewFiles(t, silent, content)
		files.Run(t, "infinity")
		files.Silence()
	}
	other, pid := startLike(t)
	if found, _, err := Find(t.Context(), Target{Exe: other}); err != nil || len(found) != 1 || found[0].PID() != pid {
		t.Errorf("found %v, error %v, want pid %d", found, err, pid)
	}
	found, _, err := Find(t.Context(), Target{Exe: silent})
	if err != nil || len(found) != 5 {
		t.Errorf("found %v, error %v", found, err)
	}
	for _, v := range found {
		if _, err := v.Open(t.Context()); !errors.Is(err, usdt.ErrServed) {
			t.Errorf("opened %v: error %v", v, err)
		}
	}
}

// A process is executing a program, and makes the execution hang. It delays a search by one
// second, and only once, and hides only itself.
func TestFindBesideOneThatExecutes(t *testing.T) {
	path, pid := startLike(t)
	within := otheruser.NewFiles(t, "file", nil).RunWithin(t)
	var f Finder
	for range 12 { // more than the allowed number of abandoned calls
		found, skipped, err := f.Find(t.Context(), Target{Exe: path})
		if err != nil || len(found) != 1 || found[0].PID() != pid || skipped.Count == 0 {
			t.Fatalf("found %v, skipped %v, error %v, want pid %d", found, skipped, err, pid)
		}
	}
	if found, err := f.open(t.Context(), pid); err != nil || found.PID() != pid {
		t.Errorf("opened %v, error %v, want pid %d", found, err, pid)
	}
	if _, err := f.open(t.Context(), within); !errors.Is(err, guard.ErrNoAnswer) {
		t.Errorf("opened, error %v, want %v", err, guard.ErrNoAnswer)
	}
}

// An executable in a file system that a program of another user serves is not opened: the file system may
// stop to answer at any time.
func TestFindOneInUserSpace(t *testing.T) {
	files := otheruser.NewFiles(t, "beam", sleep(t))
	pid := files.Run(t, "infinity")
	files.SilenceContents()
	for _, detach := range []bool{false, true} {
		if detach {
			if err := files.Detach(); err != nil {
				t.Fatal(err)
			}
		}
		if found, _, err := Find(t.Context(), Target{PID: pid}); !errors.Is(err, usdt.ErrServed) {
			t.Errorf("detached: %v; found %v, error %v, want %v", detach, found, err, usdt.ErrServed)
		}
	}
}

// A user can mount an overlay of any file system in a user namespace. Executables there are not opened, and
// those that we see too are.
func TestFindOneInOverlay(t *testing.T) {
	for script, want := range map[string]error{
		"exec /bin/sh": ErrNotVM,
		"mkdir a b && cp /bin/sh a/beam && mount -t overlay o -o lowerdir=a:b,userxattr b && exec b/beam": usdt.ErrServed,
	} {
		const waits = " -c 'echo; read end'"
		sh := exec.CommandContext(t.Context(), "unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script+waits)
		sh.Dir = otheruser.Dir(t)
		sh.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: otheruser.User, Gid: otheruser.User}}
		var said strings.Builder
		sh.Stderr = &said
		end, err := sh.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := sh.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := sh.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { end.Close(); _ = sh.Wait() })
		if _, err := out.Read(make([]byte, 1)); err != nil {
			t.Skipf("no overlay in a user namespace here: %s", &said)
		}
		if found, _, err := Find(t.Context(), Target{PID: sh.Process.Pid}); !errors.Is(err, want) {
			t.Errorf("%s: found %v, error %v, want %v", script, found, err, want)
		}
	}
}

// A process in a chroot in its own mount namespace lists no mount of its executable. The executable is opened if
// we know its file system.
func TestFindOneInChroot(t *testing.T) {
	root := t.TempDir()
	const script = `for d in bin lib lib64 usr; do mkdir -p "$0/$d" && mount --bind -o ro "/$d" "$0/$d" || exit; done
mkdir "$0/own" && cp /bin/sleep "$0/own/beam" && chmod go+rx "$0" "$0/own" "$0/own/beam" && exec chroot --userspec=`
	sh := exec.CommandContext(t.Context(), "unshare", "--mount", "sh", "-c",
		fmt.Sprintf("%s%d:%d \"$0\" /own/beam infinity", script, otheruser.User, otheruser.User), root)
	var said strings.Builder
	sh.Stderr = &said
	if err := sh.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- sh.Wait() }()
	t.Cleanup(func() { _ = sh.Process.Kill(); <-ended })
	exe := fmt.Sprintf("/proc/%d/exe", sh.Process.Pid)
	for name := ""; filepath.Base(name) != "beam"; name, _ = os.Readlink(exe) {
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("%v: %s", err, &said)
		default:
		}
	}
	if found, _, err := Find(t.Context(), Target{PID: sh.Process.Pid}); !errors.Is(err, ErrNotVM) {
		t.Errorf("found %v, error %v, want %v", found, err, ErrNotVM)
	}
}

// sleep returns the contents of the program sleep.
func sleep(t *testing.T) []byte {
	t.Helper()
	program, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	return content
}
