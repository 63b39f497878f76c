package vmtest

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"github.com/beamscope/beamscope/erlang"
)

// StockReleases are the releases of OTP with a [Stock] VM.
func StockReleases() []int { return []int{25, 27} }

// Stock returns an OTP of a release that is private to the test. Its VM comes from Debian's own
// package: it is stripped and has no probes. Everything else comes from the OTP with probes of
// the same version.
func Stock(t testing.TB, release int) erlang.OTP {
	t.Helper()
	beam, err := script("stock.sh", strconv.Itoa(release))
	if err != nil {
		Missing(t, err)
	}
	otp, err := Release(t, release).WithEmulator(t.TempDir(), beam)
	if err != nil {
		t.Fatal(err)
	}
	return otp
}

// script returns the path that a script of this repository prints.
func script(name string, args ...string) (string, error) {
	_, file, _, _ := runtime.Caller(0)
	out, err := exec.Command(filepath.Join(filepath.Dir(file), "../../scripts", name), args...).Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return "", fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
	}
	return string(bytes.TrimSpace(out)), err
}
