package vmtest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/beamscope/beamscope/erlang"
)

// Hidden returns an installation that runs the emulator of another one, by a path that is too
// long for the kernel to report. Any user can have such a path. beamscope cannot find these VMs,
// but programs that are attached to the emulator run in them.
func Hidden(t testing.TB, otp erlang.OTP) erlang.OTP {
	t.Helper()
	hidden := Private(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	const longest = 4096 // PATH_MAX
	dir, err := unix.Open(t.TempDir(), unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(err)
	name := strings.Repeat("d", 200)
	for range longest/len(name) + 1 {
		must(unix.Mkdirat(dir, name, 0o755))
		deeper, err := unix.Openat(dir, name, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		must(err)
		must(unix.Close(dir))
		dir = deeper
	}
	t.Cleanup(func() {
		if err := unix.Close(dir); err != nil {
			t.Error(err)
		}
	})
	emulator := filepath.Base(otp.Emulator())
	must(unix.Linkat(unix.AT_FDCWD, otp.Emulator(), dir, emulator, 0))
	must(os.Remove(hidden.Emulator()))
	must(os.Symlink(fmt.Sprintf("/proc/%d/fd/%d/%s", os.Getpid(), dir, emulator), hidden.Emulator()))
	return hidden
}
