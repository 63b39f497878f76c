package vmtest

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"syscall"
	"testing"

	"github.com/beamscope/beamscope/erlang"
)

// StartWithPID starts a VM of two schedulers with a PID that is free. Others may start processes at
// the same time, so it tries until the kernel gives it that PID.
func StartWithPID(t *testing.T, otp erlang.OTP, pid int, o erlang.Options) *erlang.VM {
	t.Helper()
	o.Args = append(o.Args, "+S", "2:2")
	for {
		err := os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(strconv.Itoa(pid-1)), 0)
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.EROFS) {
			Missing(t, err)
		} else if err != nil {
			t.Fatal(err)
		}
		beam, err := erlang.StartVM(t.Context(), otp, o)
		if err != nil {
			t.Fatal(err)
		}
		if beam.PID() == pid {
			t.Cleanup(func() { _ = beam.Stop() })
			return beam
		}
		if err := beam.Stop(); err != nil {
			t.Fatal(err)
		}
	}
}
