// Package vmtest gives tests running Erlang VMs with probes, and collectors
// whose windows the test drives.
//
// What such a test needs is not everywhere. Where the environment says CI=true
// its absence fails the test, so that nobody believes in a run that proved
// nothing; elsewhere the test is skipped. Both say what to do.
package vmtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/vm"
)

// OTP returns an Erlang/OTP with probes.
func OTP(t testing.TB) erlang.OTP {
	t.Helper()
	otp, err := erlang.FindOTP(t.Context())
	if err != nil {
		Missing(t, err)
	}
	return otp
}

// OnEach runs a test on an Erlang/OTP of each release that the catalogue of probes knows,
// with an emulator of its own as [Private] has it. Releases that were not built are
// skipped, or fail the test where the environment says CI=true.
func OnEach(t *testing.T, test func(t *testing.T, otp erlang.OTP)) {
	t.Helper()
	for _, release := range dtrace.Releases() {
		t.Run(fmt.Sprintf("OTP %d", release), func(t *testing.T) {
			otp, err := Release(t, release).Private(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			test(t, otp)
		})
	}
}

// Release returns an Erlang/OTP of a release, such as 27, with probes. Where it was not
// built the test is skipped, or fails where the environment says CI=true.
func Release(t testing.TB, release int) erlang.OTP {
	t.Helper()
	if otp, err := erlang.FindOTP(t.Context()); err == nil && vm.ReleaseOf(otp.Emulator()) == release {
		return otp
	}
	otp, err := erlang.FindRelease(t.Context(), release)
	if errors.Is(err, erlang.ErrNoOTP) {
		err = fmt.Errorf("no OTP %d with probes: `OTP=%[1]d make otp` builds one (about five minutes)", release)
	}
	if err != nil {
		Missing(t, err)
	}
	return otp
}

// NeedEBPF ends the test where this process cannot use eBPF.
func NeedEBPF(t testing.TB) {
	t.Helper()
	if err := bpf.Supported(); err != nil {
		Missing(t, err)
	}
}

// NeedProgram ends the test where a program is not installed.
func NeedProgram(t testing.TB, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		Missing(t, fmt.Errorf("%w: scripts/need.sh %s installs it", err, name))
	}
}

// Missing skips the test, or fails it where the environment says CI=true, because of what
// is not there.
func Missing(t testing.TB, err error) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(err)
	}
	t.Skip(err)
}

// Private returns an Erlang/OTP whose emulator is a copy of its own. Probes are
// attached to a file, so collectors elsewhere on the machine, those of tests
// that run beside this one too, do not reach the VMs that run it.
func Private(t testing.TB) erlang.OTP {
	t.Helper()
	otp, err := OTP(t).Private(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return otp
}

// Start starts a VM that is private to the test and ends with it.
func Start(t testing.TB, opts erlang.Options) *erlang.VM {
	t.Helper()
	return StartOn(t, Private(t), opts)
}

// StartOn starts a VM of this OTP that ends with the test. A first span has been
// in it, which takes longer than others: the wrapper finds out what there is.
func StartOn(t testing.TB, otp erlang.OTP, opts erlang.Options) *erlang.VM {
	t.Helper()
	vm, err := erlang.StartVM(t.Context(), otp, opts)
	if err != nil {
		t.Fatal(err)
	}
	// The test's context, and the VM with it, ends before the cleanup.
	t.Cleanup(func() { _ = vm.Stop() })
	Call(t, vm, "span_load", "run", "[#{procs => 1, spans => 1, name => <<\"first\">>}]")
	return vm
}
