package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/host/privilege"
	"github.com/beamscope/beamscope/internal/testing/otheruser"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// While a command that root started observes a VM or waits for its input, each of its threads has
// exactly the capabilities that the command needs, and NoNewPrivs.
func TestPrivilegesOfCommands(t *testing.T) {
	vmtest.NeedEBPF(t)
	dir := otheruser.Dir(t)
	pid := startVM(t)
	scope := filepath.Join(dir, "scope.yaml")
	if err := os.WriteFile(scope, []byte("window: 200ms\noutcomes: {gc: {vm: gc}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(dir, "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	observing := privilege.Of(unix.CAP_BPF, unix.CAP_PERFMON, unix.CAP_SYS_PTRACE, unix.CAP_DAC_READ_SEARCH, unix.CAP_CHECKPOINT_RESTORE, unix.CAP_SYS_ADMIN)
	writing := privilege.Of(unix.CAP_DAC_READ_SEARCH, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER)
	for _, test := range []struct {
		args  string
		ready string // part of its output when it has begun; "" if it waits for the pipe
		want  privilege.Set
	}{
		{fmt.Sprintf("run -c %s --pid %d --headless", scope, pid), "window 1", observing | writing},
		{fmt.Sprintf("record -c %s --pid %d -o %s/new.bsr --json", scope, pid, dir), "recording to ", observing | writing},
		{fmt.Sprintf("trace --pid %d --for 1h", pid), "observing pid", observing | privilege.Of(unix.CAP_DAC_OVERRIDE)},
		{fmt.Sprintf("top --pid %d --for 1h", pid), "cost:", observing},
		{"replay " + pipe, "", writing},
		{"export " + pipe + " -o out.svg", "", writing},
		{"draw " + pipe, "", writing},
		{"fmt " + pipe, "", writing},
		{"eval " + pipe, "", privilege.Of(unix.CAP_DAC_READ_SEARCH)},
	} {
		t.Run(strings.Fields(test.args)[0], func(t *testing.T) {
			var out lockedBuffer
			cmd := exec.Command("beamscope", strings.Fields(test.args)...)
			cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &out
			cmd.Env = append(os.Environ(), "SUDO_UID="+strconv.Itoa(otheruser.User)) // the owner of the folder
			otheruser.Start(t, cmd)
			await(t, "that it has begun", func() bool {
				if test.ready == "" {
					return opening(cmd.Process.Pid)
				}
				return strings.Contains(out.String(), test.ready)
			})
			threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", cmd.Process.Pid))
			if err != nil || len(threads) == 0 {
				t.Fatal(threads, err)
			}
			for _, path := range threads {
				text, err := os.ReadFile(path)
				if err != nil {
					continue // the thread has ended
				}
				for name, want := range map[string]string{
					"CapPrm": test.want.String(), "CapEff": test.want.String(), "CapBnd": test.want.String(),
					"CapInh": privilege.Set(0).String(), "CapAmb": privilege.Set(0).String(), "NoNewPrivs": "1",
				} {
					if !strings.Contains(string(text), name+":\t"+want+"\n") {
						t.Errorf("%s: %s is not %s:\n%s", path, name, want, text)
					}
				}
			}
		})
	}
}

// Root can still observe another user's VM whose executable only that user can read, measure the
// cost of a hit, and replace a recording in a folder that only that user can enter.
func TestPrivilegesSuffice(t *testing.T) {
	vmtest.NeedEBPF(t)
	dir := otheruser.Dir(t)
	otp := vmtest.OfOtherUser(t)
	otheruser.Give(t, otp.Emulator())
	if err := os.Chmod(otp.Emulator(), 0o700); err != nil {
		t.Fatal(err)
	}
	recording := filepath.Join(dir, "own", "run.bsr")
	if err := os.Mkdir(filepath.Dir(recording), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(recording, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	otheruser.Give(t, filepath.Dir(recording), recording)
	vm := vmtest.StartOn(t, otp, erlang.Options{Main: []string{"mm1k", "rate=400", "loops=0", "delay=1"}})
	cmd := exec.Command("beamscope", "record", "-o", recording, "--force", "--pid", strconv.Itoa(vm.PID()), "--for", "2s", "--json")
	cmd.Env = append(os.Environ(), "SUDO_UID="+strconv.Itoa(otheruser.User))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if text := string(out); !strings.Contains(text, "worker_1") || strings.Contains(text, "is not known") {
		t.Errorf("it prints\n%s", text)
	}
	if replayed, err := exec.Command("beamscope", "replay", recording).CombinedOutput(); err != nil || !strings.Contains(string(replayed), "worker_1") {
		t.Errorf("the recording: %v: %s", err, replayed)
	}
}

// Root can still explain spans that another user's VM records in its own memory.
func TestPrivilegesSufficeForRing(t *testing.T) {
	vmtest.NeedEBPF(t)
	vm := vmtest.StartOn(t, vmtest.OfOtherUser(t), erlang.Options{Carrier: erlang.Ring, Main: []string{"mm1k", "rate=400", "loops=0", "delay=1"}})
	out, err := exec.Command("beamscope", "trace", "--pid", strconv.Itoa(vm.PID()), "--for", "4s").CombinedOutput()
	if text := string(out); err != nil || strings.Contains(text, "permission denied") || !strings.Contains(text, "worker_1") {
		t.Errorf("%v:\n%s", err, text)
	}
}

// Where eBPF cannot be used, a scope file is observed as far as possible. One line for each outcome
// that needs eBPF says so, and these outcomes have no figures.
func TestScopeWithoutEBPF(t *testing.T) {
	dir := otheruser.Dir(t)
	program, file := filepath.Join(dir, "beamscope"), filepath.Join(dir, "scope.yaml")
	otheruser.Program(t, "beamscope", program)
	const scope = "window: 500ms\noutcomes:\n  worker_1: {dmax: 50ms, bins: 100}\n  gc: {vm: gc, qta: {failure: 0.1}}\n  run: {vm: run}\n"
	if err := os.WriteFile(file, []byte(scope), 0o644); err != nil {
		t.Fatal(err)
	}
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Ring, Main: []string{"mm1k", "rate=400", "loops=0", "delay=1"}})
	for _, flag := range []string{"--headless", "--json"} {
		cmd := exec.Command(program, "run", "-c", file, "--pid", strconv.Itoa(vm.PID()), "--for", "2s", flag)
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Credential:  &syscall.Credential{Uid: otheruser.User, Gid: otheruser.User},
			AmbientCaps: []uintptr{unix.CAP_SYS_PTRACE},
		}
		var out, log strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &log
		if err := cmd.Run(); err != nil {
			t.Fatalf("%s: %v:\n%s", flag, err, log.String())
		}
		for _, name := range []string{"gc", "run"} {
			if n := strings.Count(log.String(), " "+name+" is not observed: not permitted to use eBPF: "); n != 1 {
				t.Errorf("%s: %d lines say that %s is not observed, want 1:\n%s", flag, n, name, log.String())
			}
		}
		if strings.Contains(log.String(), "outcome gc") {
			t.Errorf("%s: gc is reported again:\n%s", flag, log.String())
		}
		if flag == "--json" {
			checkUnavailable(t, out.String())
		}
	}
}

// checkUnavailable checks the JSON lines of TestScopeWithoutEBPF.
func checkUnavailable(t *testing.T, out string) {
	t.Helper()
	instances := 0
	for text := range strings.Lines(out) {
		var line struct {
			Outcome  string
			Observed struct {
				N       int
				Success *float64
			}
			QTA          any
			Unobserved   bool
			Insufficient string
		}
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		if line.Outcome == "worker_1" {
			instances += line.Observed.N
		} else if line.Observed.N != 0 || line.Observed.Success != nil || line.QTA != nil || !line.Unobserved || line.Insufficient != "not observed" {
			t.Errorf("it is not marked as not observed: %s", text)
		}
	}
	if instances == 0 {
		t.Error("no span was observed")
	}
}

// A user who may not use eBPF learns which capability reading the spans of another user's VM needs, and
// reads them with this one alone.
func TestCapabilitiesForRing(t *testing.T) {
	program := filepath.Join(otheruser.Dir(t), "beamscope")
	otheruser.Program(t, "beamscope", program)
	vm := vmtest.Start(t, erlang.Options{Carrier: erlang.Ring, Main: []string{"mm1k", "rate=400", "loops=0", "delay=1"}})
	run := func(capabilities ...uintptr) (string, error) {
		cmd := exec.Command(program, "run", "--pid", strconv.Itoa(vm.PID()), "--for", "4s", "--headless")
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Credential:  &syscall.Credential{Uid: otheruser.User, Gid: otheruser.User},
			AmbientCaps: capabilities,
		}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	text, err := run()
	if want := "CAP_SYS_PTRACE"; err == nil || !strings.Contains(text, want) || strings.Contains(text, "CAP_DAC") ||
		strings.Contains(text, "no VM has recorded") || strings.Count(text, "\n") != 1 {
		t.Errorf("%v, want one line that has %q:\n%s", err, want, text)
	}
	if text, err := run(unix.CAP_SYS_PTRACE); err != nil || !strings.Contains(text, "worker_1") || strings.Contains(text, "lost") && strings.Contains(text, "not observed") {
		t.Errorf("%v:\n%s", err, text)
	}
}
