package target_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/internal/target"
	"github.com/beamscope/beamscope/internal/vm"
)

// If an executable with probes hides the functions that stand in for others, the reason names the
// function. "no such probe" would be true of all VMs: none has a probe there.
func TestHiddenFunctions(t *testing.T) {
	unseen := target.Unseen(vm.Image{Release: 29})
	for name, want := range map[string]string{
		"run":      "process-out is not seen: the executable does not export the function erts_schedule",
		"run-wait": "process-in is not seen: the executable does not export the function erts_schedule",
		"call":     "process-demonitor is not seen: the executable does not export the function erts_proc_sig_send_demonitor",
	} {
		if got := unseen[name]; !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
		b, _ := dtrace.LookupBuiltin(name)
		err := target.Of("", vm.Image{Release: 29}).Sees(bpf.Outcome{Name: name, Rule: &b.Rule})
		if !errors.Is(err, bpf.ErrNoProbe) {
			t.Errorf("%s: error %v, want %v", name, err, bpf.ErrNoProbe)
		}
	}
}
