package vmtest

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/testing/otheruser"
)

//go:embed testdata/impostor.c
var impostorSource []byte

// An Impostor describes processes of the hostile user that run the emulator of a VM but are not
// VMs: they only jump to the first site of a probe.
type Impostor struct {
	Probe  string        // name of the probe in the file
	Period time.Duration // time between jumps; 0: no jumps
	Life   time.Duration // time after which each is replaced by a new process; 0: never
}

// Shared returns an installation with an emulator that the hostile user can run too.
func Shared(t testing.TB) erlang.OTP {
	t.Helper()
	otp, err := OTP(t).Private(filepath.Join(otheruser.Dir(t), "otp"))
	if err != nil {
		t.Fatal(err)
	}
	return otp
}

// StartImpostors starts n impostors of a VM, with the installation that the VM runs, which must
// come from [Shared]. They end with the test.
func StartImpostors(t testing.TB, otp erlang.OTP, v *erlang.VM, n int, what Impostor) []*exec.Cmd {
	t.Helper()
	NeedProgram(t, "gcc")
	dir := otheruser.Dir(t)
	source, library := filepath.Join(dir, "impostor.c"), filepath.Join(dir, "impostor.so")
	if err := os.WriteFile(source, impostorSource, 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("gcc", "-O1", "-Wall", "-shared", "-fPIC", "-o", library, source).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var site uint64
	for _, p := range Target(t, v).Probes {
		if p.Name == what.Probe {
			site = p.Sites[0].Address
		}
	}
	if site == 0 {
		t.Fatalf("no probe %s", what.Probe)
	}
	var all []*exec.Cmd
	for range n {
		cmd := otheruser.Command(otp.Emulator())
		cmd.Env = []string{
			"LD_PRELOAD=" + library, fmt.Sprintf("SITE=%d", site),
			fmt.Sprintf("PERIOD=%d", what.Period.Microseconds()), fmt.Sprintf("LIFE=%d", what.Life.Milliseconds()),
		}
		otheruser.Start(t, cmd)
		all = append(all, cmd)
	}
	return all
}
