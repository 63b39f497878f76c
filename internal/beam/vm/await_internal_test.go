package vm

import (
	"slices"
	"testing"

	"github.com/beamscope/beamscope/usdt"
)

// Users with few VMs come first, and the VMs of each user keep their order.
func TestFewestFirst(t *testing.T) {
	var vms []VM
	for pid, user := range []int{1, 1, 2, 1, 3, 2} {
		vms = append(vms, VM{Process: usdt.Process{PID: pid}, Account: user})
	}
	var got []int
	for _, v := range FewestFirst(vms) {
		got = append(got, v.PID())
	}
	if want := []int{4, 2, 5, 0, 1, 3}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
