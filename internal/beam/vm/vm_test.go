package vm

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/beamscope/beamscope/usdt"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A node's name comes from -name or -sname, completed with this host's name as the VM does it.
func TestNodeName(t *testing.T) {
	host := func(long bool) string {
		if long {
			return "db1.example.org"
		}
		return "db1"
	}
	for command, want := range map[string]string{
		"":                                       "",
		"beam.smp":                               "",
		"beam.smp -- -noshell":                   "",
		"beam.smp -- -sname shop":                "shop@db1",
		"beam.smp -- -name shop":                 "shop@db1.example.org",
		"beam.smp -- -sname shop@other":          "shop@other",
		"beam.smp -- -name shop@10.0.0.1 -smp":   "shop@10.0.0.1",
		"beam.smp -- -sname":                     "",
		"beam.smp -- -x -name":                   "",
		"beam.smp -- -name a@b -name c@d":        "a@b",
		"beam.smp -- -setcookie name -sname a@b": "a@b",
		"beam.smp -- -name a@b -sname c@d":       "c@d",
		"beam.smp -- -sname -name a@b":           "a@b",
		"beam.smp -- -sname a@b c@d":             "",
		"beam.smp -- -sname -- a@b":              "",
		"beam.smp -- -x -- y -sname a@b":         "a@b",
		"beam.smp -- -extra -sname a@b":          "",
		"beam.smp -- -sname a@b -extra":          "a@b",
		"beam.smp -- -extra -- -sname a@b":       "",
		"beam.smp -- -sname -extra a@b":          "",
		"beam.smp -- -S m -sname a@b":            "",
		"beam.smp -S 2:2 -- -sname a@b":          "a@b",
	} {
		if got := nodeName(strings.Fields(command), host); got != want {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
}

// A name without a slash matches executables in any folder. A name with a slash is a path.
func TestMatches(t *testing.T) {
	for _, test := range []struct {
		exe, want string
		matches   bool
	}{
		{"/usr/lib/erlang/erts-13/bin/beam.smp", "beam.smp", true},
		{"/usr/lib/erlang/erts-13/bin/beam.smp", "/usr/lib/erlang/erts-13/bin/beam.smp", true},
		{"/usr/lib/erlang/erts-13/bin/beam.smp", "/opt/beam.smp", false},
		{"/usr/lib/erlang/erts-13/bin/beam.smp", "beam", false},
		{"/bin/not-beam.smp", "beam.smp", false},
	} {
		if got := matches(test.exe, test.want); got != test.matches {
			t.Errorf("%s as %s: %v", test.exe, test.want, got)
		}
	}
}

// Targets have a description, and report whether they select certain processes only.
func TestTarget(t *testing.T) {
	for _, test := range []struct {
		target Target
		text   string
		single bool
	}{
		{Target{}, "beam.smp", false},
		{Target{Exe: "/opt/beam"}, "/opt/beam", false},
		{Target{Node: "a@b"}, "node a@b", true},
		{Target{PID: 7}, "pid 7", true},
	} {
		if test.target.String() != test.text || test.target.Single() != test.single {
			t.Errorf("%+v is %q, single: %v", test.target, test.target, test.target.Single())
		}
	}
}

// Files groups VMs by the file that they run, identified by its device and inode instead of its
// name.
func TestFiles(t *testing.T) {
	on := func(pid int, name string, inode uint64) VM {
		return VM{Process: usdt.Process{PID: pid}, Exe: usdt.MappedFile{Name: name, Device: 1, Inode: inode}}
	}
	vms := []VM{on(1, "/a", 10), on(2, "/b", 10), on(3, "/a", 20)}
	got := make(map[uint64][]int)
	for file, on := range Files(vms) {
		for _, v := range on {
			got[file.Inode] = append(got[file.Inode], v.PID())
		}
	}
	if diff := cmp.Diff(map[uint64][]int{10: {1, 2}, 20: {3}}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// The names of probes are sorted.
func TestNames(t *testing.T) {
	got := Names([]usdt.Probe{{Name: "b"}, {Name: "a"}, {Name: "c"}})
	if diff := cmp.Diff([]string{"a", "b", "c"}, got); diff != "" {
		t.Error(diff)
	}
}

// A process that is not a VM or does not exist is rejected with that reason.
func TestFindRefuses(t *testing.T) {
	for _, test := range []struct {
		target Target
		want   error
	}{
		{Target{PID: os.Getpid()}, ErrNotVM},
		{Target{PID: 1<<31 - 1}, ErrNone},
		{Target{Exe: "nobody-runs-this"}, ErrNone},
	} {
		if _, _, err := Find(t.Context(), test.target); !errors.Is(err, test.want) {
			t.Errorf("%s: error %v, want %v", test.target, err, test.want)
		}
	}
}

// A process with the name of a VM is found as one. Reading its probes reports that there are none, and
// reading its executable that it is none. Its exit is noticed.
func TestVMWithoutProbes(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(sleep)
	if err != nil {
		t.Fatal(err)
	}
	beam := filepath.Join(t.TempDir(), "beam.smp")
	if err := os.WriteFile(beam, data, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(beam, "infinity")
	cmd.Args[0] = "sleep" // the executable may be a program with several names
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()

	found, _, err := Find(t.Context(), Target{PID: cmd.Process.Pid})
	if err != nil || len(found) != 1 {
		t.Fatalf("found %+v, error %v", found, err)
	}
	if _, err := found[0].Probes(); !errors.Is(err, ErrNoProbes) {
		t.Errorf("error %v, want %v", err, ErrNoProbes)
	}
	if _, err := found[0].Image(); !errors.Is(err, ErrNoProbes) || !errors.Is(err, ErrNotVM) || strings.Contains(err.Error(), "built without") {
		t.Errorf("error %v, want %v", err, ErrNotVM)
	}
	exit, err := found[0].Watch()
	if err != nil {
		t.Fatal(err)
	}
	defer exit.Close()
	if exit.Happened() {
		t.Error("the process seems to have exited")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if !exit.Happened() {
		t.Error("the process does not seem to have exited")
	}
}

// A process of another user is rejected in one plain line that names what is missing.
func TestForbidden(t *testing.T) {
	denied := &os.PathError{Op: "readlink", Path: "/proc/7/exe", Err: os.ErrPermission}
	err := error(&forbiddenError{7, denied})
	if want := "pid 7: this user may not look at it: that needs root, or CAP_SYS_PTRACE"; err.Error() != want || !errors.Is(err, os.ErrPermission) {
		t.Errorf("%v, want %s", err, want)
	}
}
