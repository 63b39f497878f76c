package vmtest

import (
	"bytes"
	"os"
	"os/exec"
	"testing"

	"github.com/beamscope/beamscope/erlang"
)

// WithoutProbes returns an OTP that is private to the test. From outside its VM seems to have no
// probes, because the notes about them in its executable have a different name.
func WithoutProbes(t testing.TB) erlang.OTP {
	t.Helper()
	otp := Private(t)
	HideProbes(t, otp)
	return otp
}

// HideProbes renames the notes about probes in the executable of a private installation, so that
// its VM seems to have no probes.
func HideProbes(t testing.TB, otp erlang.OTP) {
	t.Helper()
	data, err := os.ReadFile(otp.Emulator())
	if err != nil {
		t.Fatal(err)
	}
	note, other := []byte("stapsdt\x00"), []byte("another\x00")
	if !bytes.Contains(data, note) {
		t.Fatalf("%s has no notes about probes", otp.Emulator())
	}
	data = bytes.ReplaceAll(data, note, other)
	// The file may be a link to one that others run too.
	if err := os.Remove(otp.Emulator()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(otp.Emulator(), data, 0o755); err != nil {
		t.Fatal(err)
	}
}

// Strip removes the symbols that a program does not need to run.
func Strip(t testing.TB, path string) {
	t.Helper()
	NeedProgram(t, "strip")
	if out, err := exec.Command("strip", path).CombinedOutput(); err != nil {
		t.Fatalf("strip: %v: %s", err, out)
	}
}

// Separate removes the symbols and the debugging information of a program, and puts them into another
// file. The program has the name of that file in its section .gnu_debuglink.
func Separate(t testing.TB, path, debug string) {
	t.Helper()
	NeedProgram(t, "objcopy")
	for _, args := range [][]string{
		{"--only-keep-debug", path, debug},
		{"--strip-all", "--add-gnu-debuglink=" + debug, path},
	} {
		if out, err := exec.Command("objcopy", args...).CombinedOutput(); err != nil {
			t.Fatalf("objcopy: %v: %s", err, out)
		}
	}
}
