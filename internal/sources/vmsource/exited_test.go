package vmsource

import (
	"errors"
	"fmt"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/usdt"
)

// If an operation fails because a VM has exited, the error is one line that reports the exit,
// even before the parent has waited for the VM.
func TestOrExited(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	process, err := usdt.OpenProcess(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	v := vm.VM{Process: process, Exe: usdt.MappedFile{Name: "beam.smp"}}
	cause := errors.Join(errors.New("attach: file does not exist"), errors.New("attach: file does not exist"))
	if got := orExited(v, cause); got != cause {
		t.Errorf("it runs: error %v", got)
	}
	want := fmt.Sprintf("pid %d (beam.smp) has exited", process.PID)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	if got := orExited(v, cause); got.Error() != want {
		t.Errorf("not yet waited for: error %q, want %q", got, want)
	}
	_ = cmd.Wait()
	if got := orExited(v, cause); got.Error() != want {
		t.Errorf("error %q, want %q", got, want)
	}
}
