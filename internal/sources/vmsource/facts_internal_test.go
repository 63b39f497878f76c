package vmsource

import (
	"errors"
	"fmt"
	"testing"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/internal/beam/procname"
	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/host/guard"
	"github.com/beamscope/beamscope/usdt"
)

// Two VMs have the same facts if nothing differs but their paths and processes.
func TestSameFacts(t *testing.T) {
	facts := func() bpf.Target {
		return bpf.Target{
			Path: "/proc/1/exe", Name: "beam.smp", PID: 1, Release: 27, Probes: []usdt.Probe{{Name: "gc_minor__start", Sites: []usdt.Site{{Address: 7}}}},
			Messages: map[uint64]bpf.Message{7: {Indirect: true}}, Layout: bpf.ProcessLayout{State: 8}, NoTerms: fmt.Errorf("%w: it is OTP 24", vm.ErrTerms),
		}
	}
	other := facts()
	other.Path, other.Name, other.PID = "/proc/2/exe", "other", 0
	if !sameFacts(facts(), other) {
		t.Error("the path or the process makes a difference")
	}
	for name, change := range map[string]func(*bpf.Target){
		"layout":    func(f *bpf.Target) { f.Layout.State = 0 },
		"messages":  func(f *bpf.Target) { f.Messages = nil },
		"terms":     func(f *bpf.Target) { f.NoTerms = nil },
		"probes":    func(f *bpf.Target) { f.Probes[0].Sites[0].Address = 8 },
		"no probes": func(f *bpf.Target) { f.NoProbes = vm.ErrNoProbes },
	} {
		if other := facts(); sameFacts(facts(), func() bpf.Target { change(&other); return other }()) {
			t.Errorf("%s: no difference", name)
		}
	}
}

// A VM denies a fact only by something else in its memory, and not by starting, ending or not answering.
func TestIsDenied(t *testing.T) {
	for err, denied := range map[error]bool{
		nil: false,
		fmt.Errorf("%w: %w", vm.ErrTerms, errors.New("it is not where it is in other VMs")): true,
		fmt.Errorf("%w: %w", vm.ErrTerms, vm.ErrStarting):                                   false,
		procname.ErrNoStates: true,
		fmt.Errorf("%w: %w", procname.ErrNoStates, procname.ErrStarting):  false,
		fmt.Errorf("%w: %w", procname.ErrNoStates, procname.ErrUnsettled): false,
		usdt.ErrProcessGone:                           false,
		fmt.Errorf("%w within 8s", guard.ErrNoAnswer): false,
	} {
		if isDenied(err) != denied {
			t.Errorf("%v: %v", err, isDenied(err))
		}
	}
}
