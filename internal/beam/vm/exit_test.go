package vm_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/beamscope/beamscope/internal/beam/vm"
)

// A process that has ended does not run, even while its parent has not waited for it.
func TestRunning(t *testing.T) {
	if !vm.Running(os.Getpid()) {
		t.Error("this process does not run")
	}
	child := exec.Command("cat")
	input, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if !vm.Running(child.Process.Pid) {
		t.Error("the child does not run")
	}
	if err := input.Close(); err != nil {
		t.Fatal(err)
	}
	_, _ = output.Read(make([]byte, 1)) // until it ends, or nearly
	for vm.Running(child.Process.Pid) { // the test's timeout is the limit
	}
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	if vm.Running(child.Process.Pid) {
		t.Error("the child runs after its end")
	}
}
