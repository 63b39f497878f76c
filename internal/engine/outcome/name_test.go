package outcome_test

import (
	"testing"

	"github.com/beamscope/beamscope/internal/engine/outcome"
)

// A name with the end says how an instance ended that did not succeed.
func TestNameAndEnd(t *testing.T) {
	for want, i := range map[string]outcome.Instance{
		"a #7":                 {Outcome: "a", ID: 7},
		"a #7 (failed)":        {Outcome: "a", ID: 7, Status: outcome.Failure},
		"a #7 (failed: error)": {Outcome: "a", ID: 7, Status: outcome.Failure, Class: "error"},
		"a #7 (timed out)":     {Outcome: "a", ID: 7, Status: outcome.Timeout},
	} {
		if got := i.NameAndEnd(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
