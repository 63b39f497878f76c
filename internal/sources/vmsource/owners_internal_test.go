package vmsource

import (
	"maps"
	"testing"

	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/internal/engine/outcome"
)

// Batches name the users of VMs. VMs that exited too early to have a known user belong together.
func TestOwners(t *testing.T) {
	s := bare(t)
	s.vms[7] = &observedVM{id: outcome.VM{PID: 7, Node: "a@b"}, exe: "/beam.smp", process: vm.VM{Account: 1000}}
	s.vms[8] = &observedVM{id: outcome.VM{PID: 8}}
	s.vms[9] = &observedVM{id: outcome.VM{PID: 9}}
	want := map[outcome.VM]string{{PID: 7, Node: "a@b"}: "user 1000", {PID: 8}: "an unknown user", {PID: 9}: "an unknown user"}
	if got := s.owners(); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
