package vmtest

import (
	"bytes"
	"os"
	"os/exec"
	"testing"

	"github.com/beamscope/beamscope/erlang"
)

// WithoutProbes returns an OTP that is private to the test. From outside its VM seems to have no
// probes, and no functions that stand in for them.
func WithoutProbes(t testing.TB) erlang.OTP {
	t.Helper()
	NeedKind(t, WithProbes)
	otp := Private(t)
	HideProbes(t, otp)
	return otp
}

// UnknownBuild returns an OTP of a release that is private to the test. From outside its VM seems to be
// one that somebody compiled without probes: it has symbols and debugging information, and its build is
// not a known one.
func UnknownBuild(t testing.TB, release int) erlang.OTP {
	t.Helper()
	otp, err := Release(t, release).Private(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	rename(t, otp.Emulator(), notes)
	return otp
}

// HideProbes changes the executable of a private installation so that its VM seems to have no probes,
// and no functions that stand in for them.
func HideProbes(t testing.TB, otp erlang.OTP) {
	t.Helper()
	rename(t, otp.Emulator(), notes, [2]string{"\x00erts_schedule\x00", "\x00erts_schedulX\x00"})
}

// notes are the names of the notes about probes, and of notes that mean nothing.
var notes = [2]string{"stapsdt\x00", "another\x00"}

// rename replaces texts in an executable by others of the same length.
func rename(t testing.TB, path string, changes ...[2]string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range changes {
		from, to := []byte(c[0]), []byte(c[1])
		if !bytes.Contains(data, from) {
			t.Fatalf("%s does not contain %q", path, from)
		}
		data = bytes.ReplaceAll(data, from, to)
	}
	// The file may be a link to one that others run too.
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o755); err != nil {
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
