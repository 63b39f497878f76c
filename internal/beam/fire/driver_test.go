package fire

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/beam/fire/hits"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// No scenario makes driver__call fire. A driver written for this test does.
func TestOwnDriver(t *testing.T) {
	vmtest.NeedEvents(t)
	vmtest.NeedEBPF(t)
	otp := vmtest.Private(t)
	dir := compileDriver(t, otp)
	found, err := locate(t.Context(), otp.Emulator())
	if err != nil {
		t.Fatal(err)
	}
	counter, err := hits.New(otp.Emulator(), found.list)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := counter.Close(); err != nil {
			t.Error(err)
		}
	})
	beam := vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Probes})
	vmtest.Eval(t, beam, fmt.Sprintf(`
		ok = erl_ddll:load(%q, "own_drv"),
		Port = open_port({spawn_driver, "own_drv"}, []),
		[x = erlang:port_call(Port, 1, x) || _ <- lists:seq(1, 10)]`, dir))
	counts, err := counter.Read()
	if err != nil {
		t.Fatal(err)
	}
	if n := found.byName(counts, hits.Count.All)["driver__call"]; n != 10 {
		t.Errorf("driver__call fired %d times, want 10", n)
	}
}

// compileDriver returns the folder of the compiled driver.
func compileDriver(t *testing.T, otp erlang.OTP) string {
	t.Helper()
	vmtest.NeedProgram(t, "gcc")
	dir := t.TempDir()
	cmd := exec.Command("gcc", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-I", filepath.Join(otp.Root, "usr", "include"),
		"-o", filepath.Join(dir, "own_drv.so"), filepath.Join("testdata", "own_drv.c"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}
