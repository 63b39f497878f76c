package vm_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// The release is found for any name and folder of the file, and if the file is stripped.
func TestReleaseOf(t *testing.T) {
	vmtest.OnEach(t, func(t *testing.T, otp erlang.OTP) {
		major, _, _ := strings.Cut(otp.Version, ".")
		want, err := strconv.Atoi(major)
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(t.TempDir(), "erts-99.1", "bin")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		copied, stripped := filepath.Join(dir, "copied"), filepath.Join(dir, "stripped")
		copyFile(t, otp.Emulator(), copied)
		vmtest.NeedProgram(t, "strip")
		if out, err := exec.Command("strip", "-o", stripped, copied).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		for _, path := range []string{otp.Emulator(), copied, stripped} {
			if got := vm.ReleaseOf(path); got != want {
				t.Errorf("%s: %d, want %d", path, got, want)
			}
		}
	})
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
}

// A file that contains no release, or several, gives 0.
func TestReleaseNotTold(t *testing.T) {
	emulator, err := os.ReadFile(vmtest.Release(t, 25).Emulator())
	if err != nil {
		t.Fatal(err)
	}
	const banner = "Erlang/OTP 25%s [erts-13."
	if strings.Count(string(emulator), banner) != 1 {
		t.Fatal("not the file that this test knows")
	}
	for name, change := range map[string][2]string{
		"none":      {banner, "Erlang/OTP xx%s [erts-13."},
		"no number": {banner, "Erlang/OTP 2%s5 [erts-13."},
		"several":   {"Erlang/OTP 25).", "Erlang/OTP 27%s [erts-15.0]"},
	} {
		path := filepath.Join(t.TempDir(), "beam.smp")
		changed := []byte(string(emulator))
		at := strings.Index(string(emulator), change[0])
		if at < 0 {
			t.Fatalf("%s: no %q", name, change[0])
		}
		copy(changed[at:], change[1])
		if err := os.WriteFile(path, changed, 0o755); err != nil {
			t.Fatal(err)
		}
		if got := vm.ReleaseOf(path); got != 0 {
			t.Errorf("%s: %d", name, got)
		}
	}
	for _, path := range []string{"/bin/sh", "/dev/null", "/nowhere"} {
		if got := vm.ReleaseOf(path); got != 0 {
			t.Errorf("%s: %d", path, got)
		}
	}
}
