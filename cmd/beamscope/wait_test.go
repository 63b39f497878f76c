package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// A lockedBuffer may be read while a process writes to it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// With --wait, run and record observe a VM that starts after them.
func TestWait(t *testing.T) {
	vmtest.NeedEBPF(t)
	for _, command := range []string{"run --headless", "record -o run.bsr"} {
		t.Run(strings.Fields(command)[0], func(t *testing.T) {
			t.Parallel()
			otp := vmtest.Private(t)
			dir := t.TempDir()
			scope := fmt.Sprintf("target: {exe: %s}\nwindow: 200ms\noutcomes: {worker_1: {}}\n", otp.Emulator())
			if err := os.WriteFile(filepath.Join(dir, "scope.yaml"), []byte(scope), 0o600); err != nil {
				t.Fatal(err)
			}
			var stdout, stderr lockedBuffer
			cmd := exec.Command("beamscope", append(strings.Fields(command), "-c", "scope.yaml", "--wait", "--for", "2s")...)
			cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &stdout, &stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = cmd.Process.Kill() })
			await(t, "that it waits", func() bool {
				return strings.Contains(stderr.String(), "waiting for "+otp.Emulator()+" to start\n")
			})
			vmtest.StartOn(t, otp, erlang.Options{Main: []string{"mm1k", "rate=400", "loops=0", "delay=1"}})
			if err := cmd.Wait(); err != nil {
				t.Fatalf("%v: %s", err, stderr.String())
			}
			if text := stderr.String(); !strings.Contains(text, "observing pid") || strings.Contains(text, "was seen") {
				t.Errorf("it prints\n%s", text)
			}
			if command == "run --headless" && !strings.Contains(stdout.String(), "totals") {
				t.Errorf("it prints\n%s", stdout.String())
			}
		})
	}
}

// If only spans are wanted, --wait also waits for a VM without probes, until that records spans.
// Those are observed from then on.
func TestWaitForRing(t *testing.T) {
	vmtest.NeedEBPF(t)
	otp := vmtest.WithoutProbes(t)
	var stdout, stderr lockedBuffer
	cmd := exec.Command("beamscope", "run", "--headless", "-c", "-", "--wait", "--for", "2s")
	cmd.Stdin = strings.NewReader(fmt.Sprintf("target: {exe: %s}\nwindow: 200ms\noutcomes: {worker_1: {}}\n", otp.Emulator()))
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	await(t, "that it waits", func() bool {
		return strings.Contains(stderr.String(), "waiting for "+otp.Emulator()+" to start\n")
	})
	vmtest.StartOn(t, otp, erlang.Options{Carrier: erlang.Ring, Main: []string{"mm1k", "rate=400", "loops=0", "delay=1"}})
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	if text := stderr.String(); !strings.Contains(text, "reading the spans of pid") || strings.Contains(text, "was seen") {
		t.Errorf("it prints\n%s", text)
	}
	if !strings.Contains(stdout.String(), "totals") {
		t.Errorf("it prints\n%s", stdout.String())
	}
}

// If nothing is wanted that needs probes, --wait also waits for a VM without probes.
func TestWaitForThreads(t *testing.T) {
	vmtest.NeedEBPF(t)
	otp := vmtest.WithoutProbes(t)
	var stdout, stderr lockedBuffer
	cmd := exec.Command("beamscope", "run", "--headless", "-c", "-", "--wait", "--for", "2s")
	cmd.Stdin = strings.NewReader(fmt.Sprintf("target: {exe: %s}\nwindow: 200ms\noutcomes: {waits: {vm: os-wait}}\n", otp.Emulator()))
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	await(t, "that it waits", func() bool {
		return strings.Contains(stderr.String(), "waiting for "+otp.Emulator()+" to start\n")
	})
	vmtest.StartOn(t, otp, erlang.Options{Main: []string{"mm1k", "rate=400", "loops=0", "delay=1"}})
	await(t, "the end, or that it refuses the VM", func() bool {
		return strings.Contains(stdout.String(), "totals") || strings.Contains(stderr.String(), "built without probes")
	})
	if text := stderr.String(); !strings.Contains(text, "observing pid") || strings.Contains(text, "was seen") {
		t.Errorf("it prints\n%s", text)
	}
}

// A signal ends the wait with exit status success.
func TestWaitEnds(t *testing.T) {
	var stderr lockedBuffer
	cmd := exec.Command("beamscope", "run", "-c", "-", "--wait", "--headless")
	cmd.Stdin = strings.NewReader("target: {exe: nobody-runs-this}\noutcomes: {a: {}}\n")
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	await(t, "that it waits", func() bool { return strings.Contains(stderr.String(), "waiting for nobody-runs-this to start\n") })
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, stderr.String())
	}
}
