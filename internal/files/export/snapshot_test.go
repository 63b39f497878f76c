package export

import (
	"testing"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
)

// An unknown process is not shown as the process <0.0.0>, which is one of the VM's own.
func TestWorstProcess(t *testing.T) {
	p := scope.Outcome{Instances: []outcome.Instance{{ID: 1}, {ID: 2, Process: 85}}}
	for i, want := range []string{"-", "<0.85.0>"} {
		line := Worst(&scope.Frame{}, &p)[i]
		if got := line[len(line)-1]; got != want {
			t.Errorf("instance %d: process %q, want %q", i, got, want)
		}
	}
}
