package vmtest

import (
	"os"
	"testing"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/beam/vm"
)

// A Kind is a kind of VM, by what can be seen of it from outside.
type Kind string

const (
	WithProbes Kind = "probes"   // built with probes
	OfDebian   Kind = "stock"    // of Debian's own package: without probes, and stripped
	Stripped   Kind = "stripped" // built with probes, but without symbols and debugging information
)

// kindVariable is the variable of the environment that chooses the kind of VM that [Private] returns.
// scripts/test.sh sets it for MATRIX=1.
const kindVariable = "BEAMSCOPE_VM"

// chosen returns the kind of VM that [Private] returns. Without a choice it is the one with probes.
func chosen(t testing.TB) Kind {
	t.Helper()
	switch kind := Kind(os.Getenv(kindVariable)); kind {
	case "":
		return WithProbes
	case WithProbes, OfDebian, Stripped:
		return kind
	default:
		t.Fatalf("%s=%s is not a kind of VM: probes, stock or stripped", kindVariable, kind)
		return ""
	}
}

// NeedKind skips the test if another kind of VM was chosen. Use it in a test that chooses its VMs
// itself, or that is about something that only VMs of this kind have.
func NeedKind(t testing.TB, kind Kind) {
	t.Helper()
	if c := chosen(t); c != kind {
		t.Skipf("for the kind of VM %q, not %q", kind, c)
	}
}

// NeedEvents skips the test if the chosen VM has neither probes nor functions that stand in for them:
// since OTP 28 an executable that is stripped hides its functions.
func NeedEvents(t testing.TB) {
	t.Helper()
	if release := vm.ReleaseOf(OTP(t).Emulator()); chosen(t) == OfDebian && release >= hidesFunctions {
		t.Skipf("Debian's VM of OTP %d has neither probes nor functions that can be found", release)
	}
}

// NeedNames skips the test if the names of processes cannot be read from the chosen VM: it is stripped.
func NeedNames(t testing.TB) {
	t.Helper()
	if chosen(t) == Stripped {
		t.Skip("a stripped VM does not show the names of its processes")
	}
	NeedEvents(t)
}

// hidesFunctions is the first release whose executable does not export its functions.
const hidesFunctions = 28

// OfKind returns an OTP with a VM of a kind and a release that is private to the test.
func OfKind(t testing.TB, kind Kind, release int) erlang.OTP {
	t.Helper()
	if kind == OfDebian {
		return Stock(t, release)
	}
	otp, err := Release(t, release).Private(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if kind == Stripped {
		Strip(t, otp.Emulator())
	}
	return otp
}

// Private returns an Erlang/OTP with its own copy of the emulator. Probes are attached to a file,
// so collectors of other programs and of tests that run at the same time do not reach the VMs
// that run the copy.
func Private(t testing.TB) erlang.OTP {
	t.Helper()
	otp := OTP(t)
	if kind := chosen(t); kind != WithProbes {
		return OfKind(t, kind, vm.ReleaseOf(otp.Emulator()))
	}
	private, err := otp.Private(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return private
}
