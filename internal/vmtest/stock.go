package vmtest

import (
	"bytes"
	"os"
	"testing"

	"github.com/beamscope/beamscope/erlang"
)

// WithoutProbes returns an OTP that is private to the test, whose VM has no probes as far as
// can be seen from outside: the notes about them in its executable have another name.
func WithoutProbes(t testing.TB) erlang.OTP {
	t.Helper()
	otp := Private(t)
	data, err := os.ReadFile(otp.Emulator())
	if err != nil {
		t.Fatal(err)
	}
	note, other := []byte("stapsdt\x00"), []byte("another\x00")
	if !bytes.Contains(data, note) {
		t.Fatalf("%s has no notes about probes", otp.Emulator())
	}
	data = bytes.ReplaceAll(data, note, other)
	// The file may be one that others run, too.
	if err := os.Remove(otp.Emulator()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(otp.Emulator(), data, 0o755); err != nil {
		t.Fatal(err)
	}
	return otp
}
