// Package vmtest gives tests running Erlang VMs with probes, and collectors whose windows the test
// drives.
//
// Some machines lack what such a test needs. Then the test fails if the environment contains
// CI=true, so that a run that proved nothing does not pass. Otherwise the test is skipped. Both
// messages say what to do. With -short all these tests are skipped.
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
	"github.com/beamscope/beamscope/internal/beam/vm"
)

// OTP returns an Erlang/OTP with probes.
func OTP(t testing.TB) erlang.OTP {
	t.Helper()
	NotShort(t)
	otp, err := erlang.FindOTP(t.Context())
	if err != nil {
		Missing(t, err)
	}
	return otp
}

// OnEach runs a test on an Erlang/OTP of each release in the catalogue of probes, with its own
// emulator like [Private]. Releases that were not built are skipped, or fail the test if the
// environment contains CI=true.
func OnEach(t *testing.T, test func(t *testing.T, otp erlang.OTP)) {
	t.Helper()
	NeedKind(t, WithProbes)
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

// Release returns an Erlang/OTP of a release, such as 27, with probes. If it was not built, the
// test is skipped, or fails if the environment contains CI=true.
func Release(t testing.TB, release int) erlang.OTP {
	t.Helper()
	NotShort(t)
	if otp, err := erlang.FindOTP(t.Context()); err == nil && vm.ReleaseOf(otp.Emulator()) == release {
		return otp
	}
	otp, err := erlang.FindRelease(t.Context(), release)
	if errors.Is(err, erlang.ErrNoOTP) {
		err = fmt.Errorf("no OTP %d with probes: `OTP=%[1]d make otp` builds one (5 to 10 minutes)", release)
	}
	if err != nil {
		Missing(t, err)
	}
	return otp
}

// NeedEBPF ends the test if this process cannot use eBPF.
func NeedEBPF(t testing.TB) {
	t.Helper()
	NotShort(t)
	if err := bpf.Supported(); err != nil {
		Missing(t, err)
	}
}

// NotShort skips the test in short mode, because it needs a VM, the kernel or a build.
func NotShort(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("`make test` runs it")
	}
}

// NeedProgram ends the test if a program is not installed.
func NeedProgram(t testing.TB, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		Missing(t, fmt.Errorf("%w: scripts/need.sh %s installs it", err, name))
	}
}

// Missing skips the test because something is missing, or fails it if the environment contains
// CI=true.
func Missing(t testing.TB, err error) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(err)
	}
	t.Skip(err)
}

// Matrix reports whether tests run on more VMs than usual, because the environment contains MATRIX:
// see scripts/test.sh.
func Matrix() bool { return os.Getenv("MATRIX") != "" }

// Start starts a VM that is private to the test and ends with it.
func Start(t testing.TB, opts erlang.Options) *erlang.VM {
	t.Helper()
	return StartOn(t, Private(t), opts)
}

// StartOn starts a VM of this OTP that ends with the test. It has already had a first span, which
// takes longer than others because the wrapper initialises itself. The recording of spans in its
// first seconds has ended.
func StartOn(t testing.TB, otp erlang.OTP, opts erlang.Options) *erlang.VM {
	t.Helper()
	if opts.Carrier == erlang.Probes && chosen(t) == OfDebian {
		t.Skip("its spans come by probes, which this VM does not have")
	}
	vm, err := erlang.StartVM(t.Context(), otp, opts)
	if err != nil {
		t.Fatal(err)
	}
	// The test's context, and with it the VM, ends before the cleanup.
	t.Cleanup(func() { _ = vm.Stop() })
	Call(t, vm, "span_load", "run", "[#{procs => 1, spans => 1, name => <<\"first\">>}]")
	Eval(t, vm, `case persistent_term:get(beamscope_ring_5, none) of none -> ok; Ring -> [atomics:put(element(2, Ring), 66 + 16 * R, 0) || R <- lists:seq(0, element(4, Ring) - 1)] end`)
	return vm
}
