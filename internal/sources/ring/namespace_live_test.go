package ring

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// elsewhere returns this OTP with VMs that run in PID and time namespaces of their own. Their clock is an
// hour ahead.
func elsewhere(t *testing.T, otp erlang.OTP) erlang.OTP {
	t.Helper()
	const namespaces = "unshare --pid --fork --kill-child --mount-proc --time --monotonic 3600"
	if out, err := exec.Command("sh", "-c", namespaces+" true").CombinedOutput(); err != nil {
		vmtest.Missing(t, fmt.Errorf("no namespaces: %w: %s", err, out))
	}
	script := fmt.Sprintf("#!/bin/sh\nexec %s %s \"$@\"\n", namespaces, otp.Erl)
	otp.Erl = filepath.Join(t.TempDir(), "erl")
	if err := os.WriteFile(otp.Erl, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return otp
}

// The ring of a VM in other namespaces has the VM's PID there, and times by the clock there. Its
// spans are counted under the PID that is valid here, at the times of our clock.
func TestOtherNamespaces(t *testing.T) { onEachVM(t, otherNamespacesOn) }

func otherNamespacesOn(t *testing.T, otp erlang.OTP) {
	otp = elsewhere(t, otp)
	beam := vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Ring, Args: []string{"+S", "2:2"}})
	a := spec("a", time.Second)
	a.Detail = outcome.Everything
	p := outcome.Plan{From: monotonic.Now() + int64(window), Window: window, Specs: []outcome.Spec{a}}
	s, err := New(t.Context(), Config{Target: vm.Target{Exe: otp.Emulator()}, Plan: p})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	r := &run{Source: s, t: t, plan: p, total: make(map[string]outcome.Counts)}
	r.awaitObserved()
	from := monotonic.Now()
	want := recordedSpans(t, beam, 100)
	to := monotonic.Now()
	r.collectTo(to)
	r.mustCount(want)
	inner := vmtest.Integers(t, vmtest.Eval(t, beam, `list_to_integer(os:getpid())`))[0]
	for _, i := range r.single {
		if i.Start < from || i.End > to || int64(i.VM.PID) == inner {
			t.Fatalf("from %d to %d, PID %d inside: %+v", from, to, inner, i)
		}
	}
	if uint64(len(r.single)) != r.total["a"].Successes {
		t.Errorf("%d single instances", len(r.single))
	}
}
