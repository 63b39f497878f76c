package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/otheruser"
	"github.com/beamscope/beamscope/internal/privilege"
	"github.com/beamscope/beamscope/internal/vmtest"
)

// While a command of root's observes a VM, or waits for its input, each of its threads has
// the capabilities that the command needs and no other one, and NoNewPrivs.
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
		ready string // part of what it prints when it has begun, "" if it waits for the pipe
		want  privilege.Set
	}{
		{fmt.Sprintf("run -c %s --pid %d --headless", scope, pid), "window 1", observing | writing},
		{fmt.Sprintf("record -c %s --pid %d -o %s/new.bsr --json", scope, pid, dir), "recording to ", observing | writing},
		{fmt.Sprintf("trace --pid %d --for 1h", pid), "observing pid", observing},
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
			cmd.Env = append(os.Environ(), "SUDO_UID="+strconv.Itoa(otheruser.User)) // whose folder it is
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

// What root can still do: observe another user's VM, whose executable only that user can
// read, know what a hit costs, and record into a folder that only that user can enter, over
// a file there.
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
