package target_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/dtrace"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/engine/seen"
	"github.com/beamscope/beamscope/internal/sources/target"
	"github.com/beamscope/beamscope/usdt"
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

// The waits of threads are seen by the kernel in every VM. An outcome whose probes are partly functions
// is seen in both ways, and one that lacks a probe in none.
func TestSights(t *testing.T) {
	image := vm.Image{Release: 25, Terms: vm.TermTables{Form: dtrace.TermsByNumber}, Probes: []usdt.Probe{
		{Provider: dtrace.Provider, Name: "gc_minor__start", Sites: []usdt.Site{{Address: 0x2000, Offset: 0x2000}}},
		{Provider: dtrace.Provider, Name: "gc_minor__end", Sites: []usdt.Site{{Address: 0x2100, Offset: 0x2100, Function: "garbage_collect"}}},
	}}
	for name, want := range map[string]string{"gc-minor": "probe, stand-in", "os-wait": "kernel", "gc": "not at all"} {
		if got := target.Sights(image, "")[name]; got.Ways() != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for name, s := range target.Sights(vm.Image{Release: 29}, "no probes") {
		want := seen.Not("no probes")
		if name == "os-wait" {
			want = seen.By(seen.Kernel)
		}
		if s.String() != want.String() {
			t.Errorf("without probes, %s: %q, want %q", name, s, want)
		}
	}
}
