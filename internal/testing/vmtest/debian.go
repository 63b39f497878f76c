package vmtest

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/usdt"
)

// StockReleases are the releases of OTP with a [Stock] VM.
func StockReleases() []int { return []int{25, 27} }

// Stock returns an OTP of a release that is private to the test. Its VM comes from Debian's own
// package: it is stripped and has no probes. Everything else comes from the OTP with probes of
// the same version.
func Stock(t testing.TB, release int) erlang.OTP {
	t.Helper()
	otp, err := Release(t, release).WithEmulator(t.TempDir(), StockEmulator(t, release))
	if err != nil {
		t.Fatal(err)
	}
	return otp
}

// StockEmulator returns the path of the executable of Debian's own VM of a release. Nobody may change it.
func StockEmulator(t testing.TB, release int) string {
	t.Helper()
	NotShort(t)
	beam, err := script("stock.sh", strconv.Itoa(release))
	if err != nil {
		Missing(t, err)
	}
	return beam
}

// Rebuilt is [Stock], with another build ID in the executable: that of a build that nobody knows, whose
// code is the same.
func Rebuilt(t testing.TB, release int) erlang.OTP {
	t.Helper()
	otp := Stock(t, release)
	f, err := usdt.Open(otp.Emulator())
	if err != nil {
		t.Fatal(err)
	}
	id, err := hex.DecodeString(f.BuildID())
	f.Close()
	if err != nil || len(id) == 0 {
		t.Fatalf("%s has the build ID %x, error %v", otp.Emulator(), id, err)
	}
	data, err := os.ReadFile(otp.Emulator())
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(data, id); n != 1 {
		t.Fatalf("%s contains its build ID %d times", otp.Emulator(), n)
	}
	other := bytes.Repeat([]byte{0xab}, len(id))
	if err := os.WriteFile(otp.Emulator(), bytes.Replace(data, id, other, 1), 0o755); err != nil {
		t.Fatal(err)
	}
	return otp
}

// script returns the path that a script of this repository prints.
func script(name string, args ...string) (string, error) {
	_, file, _, _ := runtime.Caller(0)
	out, err := exec.Command(filepath.Join(filepath.Dir(file), "../../../scripts", name), args...).Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return "", fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
	}
	return string(bytes.TrimSpace(out)), err
}
