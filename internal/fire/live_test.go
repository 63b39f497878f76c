package fire

import (
	"testing"

	"github.com/beamscope/beamscope/internal/vmtest"
)

func TestLive(t *testing.T) {
	vmtest.NeedEBPF(t)
	r, err := Run(t.Context(), vmtest.OTP(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range r.Probes {
		t.Logf("%-30s %-10v %-10v %d %+v %s %s", p.Name, p.State, p.Found, p.Hits, p.Checks, p.Why, p.Wrong)
	}
	for _, f := range r.Failed {
		t.Logf("%s: %v", f.Scenario, f.Err)
	}
}
