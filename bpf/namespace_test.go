package bpf_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// executable is the environment variable with the file to attach to, for the collector in its own
// pid namespace.
const executable = "BEAMSCOPE_TEST_EXECUTABLE"

// A VM outside the collector's pid namespace that runs the same file is not counted, although it
// fires the probes.
func TestVMOutsideOurNamespace(t *testing.T) {
	if path := os.Getenv(executable); path != "" {
		collectInNamespace(t, path)
		return
	}
	outside := vmtest.Start(t, erlang.Options{Carrier: erlang.Probes})
	vmtest.NeedEBPF(t)
	cmd := exec.Command(os.Args[0], "-test.run=^TestVMOutsideOurNamespace$", "-test.v")
	cmd.Env = append(os.Environ(), executable+"="+vmtest.Target(t, outside).Path)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	cmd.Stderr = os.Stderr
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
	lines := bufio.NewScanner(stdout)
	for lines.Scan() && lines.Text() != "attached" {
	}
	vmtest.Call(t, outside, "span_load", "run", spans(1, 100))
	if semaphore := vmtest.Semaphore(t, outside.PID(), fmt.Sprintf("user_trace__n%d", bpf.Label("load"))); semaphore == 0 {
		t.Error("the collector is not attached to the VM's probe, so this proves nothing")
	}
	stdin.Close()
	var output []string
	for lines.Scan() {
		output = append(output, lines.Text())
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the collector: %v\n%q", err, output)
	}
}

// collectInNamespace runs the collector: it attaches, waits for the end of its standard input, and
// must have counted nothing.
func collectInNamespace(t *testing.T, path string) {
	image, err := vm.ReadImage(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := bpf.New(bpf.Options{
		Outcomes: []bpf.Outcome{load(time.Minute)},
		Start:    monotonic.Now(),
		Window:   int64(time.Minute),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Attach(t.Context(), bpf.Target{Path: path, Probes: image.Probes, Release: image.Release}); err != nil {
		t.Fatal(err)
	}
	fmt.Println("\nattached")
	bufio.NewReader(os.Stdin).ReadString('\n')
	counts, others, err := c.Read(0)
	if err != nil {
		t.Fatal(err)
	}
	if len(counts) != 0 || others != (bpf.Others{}) {
		t.Errorf("counted %+v and %+v of a VM outside", counts, others)
	}
}
