package vmsource

import (
	"maps"
	"testing"

	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/usdt"
)

// Users of VMs that are observed, or whose executables are being read, have shares of the room: each on
// its account. A process that was not examined gives nobody a share.
func TestAccounts(t *testing.T) {
	s := &Source{
		vms: map[int]*observedVM{
			10: {exe: "beam.smp", process: vm.VM{User: 1001, Account: 1001}},
			11: {exe: "beam.smp", process: vm.VM{User: 100_005, Account: 1001}},
			12: {},
		},
		preparing: map[usdt.Process]claim{{}: {vm: vm.VM{User: 1002, Account: 1002}}},
	}
	want := map[int]int{1001: 1001, 100_005: 1001, 1002: 1002}
	if got := s.accounts(); !maps.Equal(got, want) {
		t.Errorf("accounts %v, want %v", got, want)
	}
}
