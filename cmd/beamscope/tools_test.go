package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
	"github.com/beamscope/beamscope/internal/ui/doctor"
)

// command runs a command line and returns its output.
func command(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var stdout, stderr strings.Builder
	root := newRootCommand()
	root.SetArgs(args)
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	err := root.Execute()
	return stdout.String(), err
}

func TestToolErrors(t *testing.T) {
	script := filepath.Join(t.TempDir(), "erl")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args  string
		usage bool
		want  string // part of the error
	}{
		{"probes extra", true, `unexpected argument "extra"`},
		{"probes --pid 0", true, "--pid 0: not a process id"},
		{"probes --pid x", true, "--pid"},
		{"probes --exe=", true, "--exe: no file given"},
		{"probes --pid 1 --exe beam.smp", true, "--pid and --exe"},
		{"probes --exe /no/such/beam.smp", false, "/no/such/beam.smp: no such file"},
		{"probes --exe " + script, false, "give the VM itself"},
		{"probes --exe " + self, false, "no probes of an Erlang VM"},
		{"probes --pid " + strconv.Itoa(os.Getpid()), false, "not an Erlang VM"},
		{"probes --pid 2147483647", false, "pid 2147483647: no such Erlang VM is running"},
		{"doctor extra", true, `unexpected argument "extra"`},
		{"doctor --pid -1", true, "--pid -1: not a process id"},
		{"doctor --pid " + strconv.Itoa(os.Getpid()), false, "cannot work here yet: "},
	} {
		_, err := command(t, strings.Fields(test.args)...)
		if err == nil || errors.Is(err, errUsage) != test.usage || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", test.args, err)
		}
	}
}

// A probeLine contains the fields of a line of probes --json that tests check.
type probeLine struct {
	Probe    string
	State    string
	Attached *bool
	Sites    []struct{ Args []string }
	Family   *struct{ Probes, Attached int }
}

func listed(t *testing.T, probe string, args ...string) probeLine {
	t.Helper()
	out, err := command(t, append([]string{"probes", "--json"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out) {
		var l probeLine
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if l.Probe == probe {
			return l
		}
	}
	t.Fatalf("%s is not listed", probe)
	return probeLine{}
}

func TestProbesOfFile(t *testing.T) {
	exe := vmtest.OTP(t).Emulator()
	if l := listed(t, "message-send", "--exe", exe); l.State != "alive" || len(l.Sites) == 0 || len(l.Sites[0].Args) != 6 || l.Attached != nil {
		t.Errorf("message-send: %+v", l)
	}
	if l := listed(t, "user_trace-n", "--exe", exe); l.Family == nil || l.Family.Probes != 951 {
		t.Errorf("the family: %+v", l)
	}
}

func TestProbesOfRunningVM(t *testing.T) {
	pid := startVM(t)
	needBPF(t)
	const outcome = "a test of the probes command"
	probe := fmt.Sprintf("user_trace-n%d", bpf.Label(outcome))
	args := []string{"--all", "--pid", strconv.Itoa(pid)}
	attached := func(want bool) {
		t.Helper()
		if l := listed(t, probe, args...); l.Attached == nil || *l.Attached != want {
			t.Errorf("%s: %+v, want attached %v", probe, l, want)
		}
	}
	attached(false)
	collector := attach(t, pid, outcome)
	attached(true)
	if err := collector.Close(); err != nil {
		t.Fatal(err)
	}
	attached(false)
}

func TestDoctorOnVM(t *testing.T) {
	pid := startVM(t)
	needBPF(t)
	out, err := command(t, "doctor", "--pid", strconv.Itoa(pid))
	if err != nil || !strings.Contains(out, "programs loaded and attached in") || !strings.HasSuffix(out, "beamscope can work here.\n") {
		t.Errorf("%v\n%s", err, out)
	}
}

// The possible observations of a VM without probes work: spans if its build is unknown, and
// otherwise outcomes of the VM as well.
func TestDoctorOnVMWithoutProbes(t *testing.T) {
	needBPF(t)
	other := vmtest.OfOtherUser(t)
	vmtest.HideProbes(t, other)
	for name, test := range map[string]struct {
		otp       erlang.OTP
		found     string
		events    string
		onlySpans bool
	}{
		"unknown build": {vmtest.WithoutProbes(t), "without probes", "ring: spans; kernel: os-wait; not at all: all others", true},
		"of a user":     {other, "without probes", "ring: spans; kernel: os-wait; not at all: all others", true},
		"known build":   {vmtest.Stock(t, 25), "known build", "stand-in, ring: spans; stand-in: gc, ", false},
	} {
		t.Run(name, func(t *testing.T) {
			v := vmtest.StartOn(t, test.otp, erlang.Options{})
			output, err := exec.CommandContext(t.Context(), "beamscope", "doctor", "--json", "--pid", strconv.Itoa(v.PID())).Output()
			out := string(output)
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			var result struct {
				Works     bool
				OnlySpans bool `json:"only_spans"`
			}
			said := make(map[string]bool)
			status := doctor.Warning // a VM of a known build is ok
			if !test.onlySpans {
				status = doctor.OK
			}
			for line := range strings.Lines(out) {
				var c doctor.Check
				if err := errors.Join(json.Unmarshal([]byte(line), &c), json.Unmarshal([]byte(line), &result)); err != nil {
					t.Fatalf("%v: %s", err, line)
				}
				if c.Status == doctor.Missing {
					t.Errorf("missing: %s", line)
				}
				switch c.Name {
				case "Erlang VM":
					said[c.Name] = c.Status == status && strings.Contains(c.Found, test.found)
				case "events":
					said[c.Name] = strings.HasPrefix(c.Found, test.events)
				}
			}
			if !result.Works || result.OnlySpans != test.onlySpans || !said["Erlang VM"] || !said["events"] {
				t.Errorf("%+v, said %v:\n%s", result, said, out)
			}
		})
	}
}

func attach(t *testing.T, pid int, outcome string) *bpf.Collector {
	t.Helper()
	collector, err := bpf.New(bpf.Options{
		Outcomes: []bpf.Outcome{{Name: outcome, DMax: int64(time.Second), BinWidth: int64(time.Second), Bins: 1}},
		Start:    monotonic.Now(),
		Window:   int64(time.Second),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { collector.Close() })
	vms, _, err := vm.Find(t.Context(), vm.Target{PID: pid})
	if err != nil {
		t.Fatal(err)
	}
	image, err := vms[0].Image()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := collector.Attach(t.Context(), bpf.Target{Path: vms[0].Exe.Path, PID: pid, Probes: image.Probes, Release: image.Release}); err != nil {
		t.Fatal(err)
	}
	return collector
}

// lack fails a test because something is missing, or skips it if that is acceptable.
func lack(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(what)
	}
	t.Skip(what)
}

func needBPF(t *testing.T) {
	t.Helper()
	if err := bpf.Supported(); err != nil {
		lack(t, err.Error())
	}
}

// startVM starts a VM for the duration of the test, and returns its pid. The process is a shell
// first, so it waits until it has become the VM and reports that it runs.
func startVM(t *testing.T) int {
	t.Helper()
	cmd := exec.Command(vmtest.OTP(t).Erl, "-noinput", "-eval", `io:put_chars("x")`)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	if _, err := stdout.Read(make([]byte, 1)); err != nil {
		t.Fatalf("the Erlang VM does not start: %v", err)
	}
	return cmd.Process.Pid
}
