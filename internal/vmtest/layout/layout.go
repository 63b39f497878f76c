// Package layout tells tests where a VM's processes have what outcomes with Explain read.
// It is apart from vmtest, which the tests of what it uses use.
package layout

import (
	"testing"

	"github.com/beamscope/beamscope/bpf"
	"github.com/beamscope/beamscope/erlang"
	"github.com/beamscope/beamscope/internal/procname"
	"github.com/beamscope/beamscope/internal/vm"
)

// Of returns what is known of the processes of a VM.
func Of(t testing.TB, v *erlang.VM) bpf.ProcessLayout {
	t.Helper()
	vms, _, err := vm.Find(t.Context(), vm.Target{PID: v.PID()})
	if err != nil {
		t.Fatal(err)
	}
	var layouts procname.Layouts
	m, err := layouts.Process(vms[0].Process, vms[0].Exe)
	if err != nil {
		t.Fatal(err)
	}
	return bpf.ProcessLayout(m)
}
