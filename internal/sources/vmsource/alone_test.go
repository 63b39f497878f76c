package vmsource

import (
	"slices"
	"testing"

	"github.com/beamscope/beamscope/internal/engine/outcome"

	"github.com/beamscope/beamscope/internal/beam/vm"
	"github.com/beamscope/beamscope/usdt"
)

// If a user has too many VMs, only the oldest are attached to one by one. Other users lose none.
func TestCrowdedOut(t *testing.T) {
	var all []*observedVM
	add := func(user, n, from int) {
		for i := range n {
			all = append(all, &observedVM{id: outcome.VM{PID: from + i}, since: int64(from + i), exe: "beam.smp", process: vm.VM{Account: user}})
		}
	}
	add(1001, aloneMost+5, 1000)
	add(0, aloneMost, 100)
	add(1002, 1, 5000)
	var got []int
	for _, v := range crowdedOut(all) {
		got = append(got, v.id.PID)
	}
	slices.Sort(got)
	if want := []int{1016, 1017, 1018, 1019, 1020}; !slices.Equal(got, want) {
		t.Errorf("%v are left out, want %v", got, want)
	}
}

// While VMs are attached to one by one, a user at the limit gets no further VM.
func TestAdmitAlone(t *testing.T) {
	s := &Source{vms: make(map[int]*observedVM)}
	for pid := range aloneMost {
		s.vms[pid] = &observedVM{id: outcome.VM{PID: pid}, exe: "beam.smp", process: vm.VM{Account: 1001}}
	}
	s.vms[100] = &observedVM{id: outcome.VM{PID: 100}, exe: "beam.smp", process: vm.VM{Account: 0}}
	for _, test := range []struct {
		oneByOne bool
		target   vm.Target
		user     int
		ended    bool // one of the VMs has ended
		refused  bool
	}{
		{true, vm.Target{}, 1001, false, true},
		{true, vm.Target{}, 1001, true, false},
		{true, vm.Target{}, 0, false, false},
		{false, vm.Target{}, 1001, false, false},
		{true, vm.Target{User: "1001"}, 1001, false, false},
	} {
		s.oneByOne, s.cfg.Target = test.oneByOne, test.target
		s.vms[3].died = 0
		if test.ended {
			s.vms[3].died = 1
		}
		if err := s.admitAlone(vm.VM{Process: usdt.Process{PID: 1000}, Account: test.user}); (err != nil) != test.refused {
			t.Errorf("%+v: error %v", test, err)
		}
	}
}
