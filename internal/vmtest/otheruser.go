package vmtest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/otheruser"
)

// OfOtherUser returns an installation of which the VMs run as the hostile user. Its emulator
// is a file of its own.
func OfOtherUser(t testing.TB) erlang.OTP {
	t.Helper()
	dir := otheruser.Dir(t)
	otp, err := OTP(t).Private(filepath.Join(dir, "otp"))
	if err != nil {
		t.Fatal(err)
	}
	// The user may read the rest of the installation, wherever that is. Of this program the
	// VM looks at the permissions first.
	gethost := filepath.Join(otp.Bin, "inet_gethost")
	original, err := filepath.EvalSymlinks(gethost)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(gethost); err != nil {
		t.Fatal(err)
	}
	otheruser.Program(t, original, gethost)
	asUser := fmt.Sprintf("#!/bin/sh\nexec setpriv --reuid %d --clear-groups --inh-caps +dac_read_search --ambient-caps +dac_read_search %s \"$@\"\n", otheruser.User, otp.Erl)
	otp.Erl = filepath.Join(dir, "erl-as-user")
	if err := os.WriteFile(otp.Erl, []byte(asUser), 0o755); err != nil {
		t.Fatal(err)
	}
	return otp
}
