package vm

import (
	"errors"
	"strconv"
	"testing"

	"github.com/beamscope/beamscope/usdt"
)

// An executable with more sites than any VM has is rejected before anything is attached.
func TestCheckCounts(t *testing.T) {
	probes := func(n, sites int) (all []usdt.Probe) {
		for i := range n {
			all = append(all, usdt.Probe{Name: "p" + strconv.Itoa(i), Sites: make([]usdt.Site, sites)})
		}
		return all
	}
	for _, test := range []struct {
		probes []usdt.Probe
		want   error
	}{
		{probes(1, maxSites), nil},
		{probes(1, maxSites+1), ErrSites},
		{probes(1, 8969), ErrSites},
		{probes(maxAll/maxSites, maxSites), nil},
		{probes(maxAll/maxSites+1, maxSites), ErrSites},
	} {
		if err := checkCounts(test.probes); !errors.Is(err, test.want) {
			t.Errorf("%d probes of %d sites: %v, want %v", len(test.probes), len(test.probes[0].Sites), err, test.want)
		}
	}
}
