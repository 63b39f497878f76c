package vmtest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/testing/otheruser"
)

// OfOtherUser returns an installation whose VMs run as the hostile user. It has its own emulator.
func OfOtherUser(t testing.TB) erlang.OTP {
	t.Helper()
	_, other := OfTwoUsers(t)
	return other
}

// OfTwoUsers returns an installation twice: the VMs of the first one run as the test's user, and
// those of the second one as the hostile user. They share an emulator that no other test runs.
func OfTwoUsers(t testing.TB) (own, other erlang.OTP) {
	t.Helper()
	dir := otheruser.Dir(t)
	own, err := OTP(t).Private(filepath.Join(dir, "otp"))
	if err != nil {
		t.Fatal(err)
	}
	// The user must be able to read the rest of the installation, wherever that is. The VM first
	// checks the permissions of this program.
	gethost := filepath.Join(own.Bin, "inet_gethost")
	original, err := filepath.EvalSymlinks(gethost)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(gethost); err != nil {
		t.Fatal(err)
	}
	otheruser.Program(t, original, gethost)
	asUser := fmt.Sprintf("#!/bin/sh\nexec setpriv --reuid %d --clear-groups --inh-caps +dac_read_search --ambient-caps +dac_read_search %s \"$@\"\n", otheruser.User, own.Erl)
	other = own
	other.Erl = filepath.Join(dir, "erl-as-user")
	if err := os.WriteFile(other.Erl, []byte(asUser), 0o755); err != nil {
		t.Fatal(err)
	}
	return own, other
}
