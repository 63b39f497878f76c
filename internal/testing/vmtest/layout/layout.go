// Package layout gives tests the places of the data in a VM's processes that outcomes with Explain
// read. It is separate from vmtest, because the tests of its own dependencies use vmtest.
package layout

import (
	"testing"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/beam/procname"
	"github.com/beamscope/beamscope/internal/beam/vm"
)

// Of returns the layout of a VM's processes.
func Of(t testing.TB, v *erlang.VM) bpf.ProcessLayout {
	t.Helper()
	vms, _, err := vm.Find(t.Context(), vm.Target{PID: v.PID()})
	if err != nil {
		t.Fatal(err)
	}
	var layouts procname.Layouts
	f, err := vms[0].Exe.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, err := layouts.Process(t.Context(), vms[0].Process, f)
	if err != nil {
		t.Fatal(err)
	}
	return bpf.ProcessLayout(m)
}
