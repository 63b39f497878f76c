package privilege_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/beamscope/beamscope/internal/host/privilege"
	"github.com/beamscope/beamscope/internal/testing/otheruser"
)

// toKeep is the environment variable that makes the test program reduce its privileges and print a
// finding.
const toKeep = "TEST_KEEP"

// A finding is the state of such a process.
type finding struct {
	Error   string
	Kept    bool // the error is ErrKept
	Name    string
	Args    []string
	Stdin   string
	Threads []status // without duplicates
	Child   status   // of a program that it executes
}

// A status contains fields of /proc/PID/status.
type status struct{ Permitted, Effective, Inheritable, Bounding, Ambient, NoNewPrivs string }

func statusOf(text []byte) status {
	fields := make(map[string]string)
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		fields[name] = strings.TrimSpace(value)
	}
	return status{fields["CapPrm"], fields["CapEff"], fields["CapInh"], fields["CapBnd"], fields["CapAmb"], fields["NoNewPrivs"]}
}

func TestMain(m *testing.M) {
	if os.Getenv(toKeep) == "" {
		os.Exit(m.Run())
	}
	keep, err := strconv.ParseUint(os.Getenv(toKeep), 16, 64)
	if err != nil {
		panic(err)
	}
	var f finding
	if err := privilege.Reduce(privilege.Set(keep)); err != nil {
		f.Error, f.Kept = err.Error(), errors.Is(err, privilege.ErrKept)
	}
	name, _ := os.ReadFile("/proc/self/comm")
	f.Name, f.Args = strings.TrimSpace(string(name)), os.Args
	stdin, _ := io.ReadAll(os.Stdin)
	f.Stdin = string(stdin)
	threads, _ := filepath.Glob("/proc/self/task/*/status")
	seen := make(map[status]bool)
	for _, path := range threads {
		text, err := os.ReadFile(path)
		if s := statusOf(text); err == nil && !seen[s] {
			seen[s] = true
			f.Threads = append(f.Threads, s)
		}
	}
	child, _ := exec.Command("cat", "/proc/self/status").Output()
	f.Child = statusOf(child)
	if err := json.NewEncoder(os.Stdout).Encode(f); err != nil {
		panic(err)
	}
}

// After Reduce, all threads have exactly the kept capabilities, and programs that they execute have
// no more. Arguments, environment, files and signals are unchanged.
func TestReduce(t *testing.T) {
	program := filepath.Join(otheruser.Dir(t), "program")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	otheruser.Program(t, self, program)
	all := current(t).Permitted
	if all != current(t).Bounding {
		t.Skipf("this process has %v of the capabilities, and may have %v: the test needs all", all, current(t).Bounding)
	}
	bpf, raw := privilege.Of(unix.CAP_BPF), privilege.Of(unix.CAP_NET_RAW)
	setpcap := privilege.Of(unix.CAP_SETPCAP)
	const user = "--reuid 61234 --clear-groups "
	for _, test := range []struct {
		name    string
		setpriv string // options to start the process with, see setpriv(1)
		keep    privilege.Set
		want    status
	}{
		{"root", "", bpf | raw, of(bpf|raw, 0, bpf|raw, 0, true)},
		{"root keeps nothing", "", 0, of(0, 0, 0, 0, true)},
		{"root that cannot reduce its bounding set", "--bounding-set -setpcap", bpf, of(bpf, 0, all&^setpcap, 0, true)},
		{"a user with ambient capabilities", user + "--inh-caps +bpf,+net_raw --ambient-caps +bpf,+net_raw", bpf, of(bpf, bpf, all, bpf, true)},
		{"a user with nothing", user, bpf, of(0, 0, all, 0, false)},
		{"root with nothing to give up", "", all, of(all, 0, all, 0, true)},
	} {
		t.Run(test.name, func(t *testing.T) {
			command := []string{program, "first", "second argument"}
			if test.setpriv != "" {
				command = append(append([]string{"setpriv"}, strings.Fields(test.setpriv)...), command...)
			}
			cmd := exec.Command(command[0], command[1:]...)
			cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%v", toKeep, test.keep))
			cmd.Stdin = strings.NewReader("standard input")
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v: %s", err, stderr.Bytes())
			}
			var got finding
			if err := json.Unmarshal(out, &got); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			child := test.want
			child.Permitted, child.Effective = got.Child.Permitted, got.Child.Effective
			want := finding{Name: "program", Args: []string{program, "first", "second argument"}, Stdin: "standard input", Threads: []status{test.want}, Child: child}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if more := set(t, got.Child.Permitted) &^ set(t, test.want.Permitted); more != 0 {
				t.Errorf("a program that it executes has %v besides", more)
			}
		})
	}
}

// of returns a status whose effective set equals the permitted one.
func of(permitted, inheritable, bounding, ambient privilege.Set, noNewPrivs bool) status {
	no := "0"
	if noNewPrivs {
		no = "1"
	}
	return status{permitted.String(), permitted.String(), inheritable.String(), bounding.String(), ambient.String(), no}
}

func set(t *testing.T, text string) privilege.Set {
	t.Helper()
	n, err := strconv.ParseUint(text, 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return privilege.Set(n)
}

func current(t *testing.T) privilege.State {
	t.Helper()
	s, err := privilege.Current()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A process that is marked as executed again but was not does not execute itself in a loop: Reduce
// returns ErrKept.
func TestReduceOnce(t *testing.T) {
	otheruser.Dir(t) // needs root
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), toKeep+"=0", "BEAMSCOPE_RESTARTED=1")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var got finding
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if !got.Kept || len(got.Threads) != 1 || got.Threads[0].Permitted == of(0, 0, 0, 0, true).Permitted {
		t.Errorf("it finds %+v, want %v and all privileges", got, privilege.ErrKept)
	}
}
