package ring

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/host/monotonic"
	"github.com/beamscope/beamscope/internal/testing/vmtest"
)

// startFakes starts processes of an executable that seem to be VMs by its name, and returns its path.
func startFakes(t *testing.T, n int) string {
	t.Helper()
	vmtest.NeedProgram(t, "sleep")
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile(sleep)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "many.smp")
	if err := os.WriteFile(path, code, 0o755); err != nil {
		t.Fatal(err)
	}
	for range n {
		cmd := exec.Command(path, "600")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
	}
	return path
}

// Each window of a VM without a place is marked, also those that end between two searches for VMs.
func TestUnplacedInEachWindow(t *testing.T) {
	const unplaced = 2
	path := startFakes(t, maxVMs/2+unplaced)
	p := outcome.Plan{From: monotonic.Now() + int64(window), Window: window, Specs: []outcome.Spec{spec("a", kernelPeriod)}}
	s, err := New(t.Context(), Config{Target: vm.Target{Exe: path}, Plan: p, Kernel: func(vm.VM) (int64, bool) { return 0, false }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for number := range uint64(2 * kernelPeriod / window) {
		w := p.At(number)
		vmtest.WaitUntil(w.To + int64(window))
		b, err := s.Collect(t.Context(), w)
		if err != nil {
			t.Fatal(err)
		}
		marked := 0
		s.mu.Lock()
		for _, c := range b.Counts {
			if s.vms[c.VM.PID] == nil && c.VM.PID != 0 && c.Unobserved {
				marked++
			}
		}
		s.mu.Unlock()
		if marked != unplaced {
			t.Fatalf("window %d: %d VMs are marked, want %d", number, marked, unplaced)
		}
	}
}
