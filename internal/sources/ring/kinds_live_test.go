package ring

import (
	"fmt"
	"testing"

	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// onEachVM runs a test on VMs with probes and on Debian's own VMs, of each release.
func onEachVM(t *testing.T, test func(t *testing.T, otp erlang.OTP)) {
	t.Helper()
	vmtest.OnEach(t, test)
	for _, release := range dtrace.Releases() {
		t.Run(fmt.Sprintf("stock OTP %d", release), func(t *testing.T) { test(t, vmtest.Stock(t, release)) })
	}
}

// onBoth runs a test on a VM with probes and, with MATRIX=1, on Debian's own VM of the same release.
func onBoth(t *testing.T, test func(t *testing.T, otp erlang.OTP)) {
	t.Helper()
	otp := vmtest.Private(t)
	t.Run("probes", func(t *testing.T) { test(t, otp) })
	if vmtest.Matrix() {
		t.Run("stock", func(t *testing.T) { test(t, vmtest.Stock(t, vm.ReleaseOf(otp.Emulator()))) })
	}
}
