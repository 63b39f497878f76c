package vmsource_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// inContainer is the environment variable that makes [TestVMOutsideOfAContainer] run in the
// container. Its value is the path of the OTP installation.
const inContainer = "BEAMSCOPE_TEST_IN_CONTAINER"

// A VM outside the container of beamscope pays nothing, even if it runs the same executable as an
// observed VM inside.
func TestVMOutsideOfAContainer(t *testing.T) {
	if installation := os.Getenv(inContainer); installation != "" {
		var otp erlang.OTP
		if err := json.Unmarshal([]byte(installation), &otp); err != nil {
			t.Fatal(err)
		}
		observeInContainer(t, otp)
		return
	}
	otp := vmtest.Private(t)
	outside := vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Probes})
	vmtest.NeedEBPF(t)
	cmd := exec.CommandContext(t.Context(), "unshare", "--pid", "--fork", "--mount-proc", "--kill-child",
		os.Args[0], "-test.run=^TestVMOutsideOfAContainer$", "-test.v")
	installation, err := json.Marshal(otp)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(os.Environ(), inContainer+"="+string(installation))
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var output []string
	lines := bufio.NewScanner(stdout)
	for lines.Scan() && lines.Text() != "observing" {
		output = append(output, lines.Text())
	}
	if observed(t, outside) {
		t.Error("the VM outside pays")
	}
	stdin.Close()
	for lines.Scan() {
		output = append(output, lines.Text())
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("inside: %v\n%s", err, strings.Join(output, "\n"))
	}
}

// observeInContainer observes all visible VMs of an executable, which is one.
func observeInContainer(t *testing.T, otp erlang.OTP) {
	inside := vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Probes})
	s := newSource(t, exe(t, inside))
	fmt.Println("\nobserving")
	bufio.NewReader(os.Stdin).ReadString('\n')
	if !observed(t, inside) {
		t.Error("the VM inside is not observed")
	}
	run(t, inside, 100)
	s.collectNow()
	id := outcome.VM{PID: inside.PID()}
	if got := s.totals()[id]; got.Successes != 101 { // observed started one of them
		t.Errorf("%+v", got)
	}
}
