package dashboard

import (
	"testing"
	"time"

	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
)

// The cost for the VMs is unknown if no program ran in them although something was counted.
func TestCostThatIsNotMeasured(t *testing.T) {
	frame := func(instances, events uint64) *scope.Frame {
		return &scope.Frame{
			Window:   outcome.Window{To: int64(time.Second)},
			Cost:     outcome.Cost{Events: events, PerEvent: time.Microsecond},
			Outcomes: []scope.Outcome{{Counts: outcome.Counts{Successes: instances}}},
		}
	}
	unpriced, priced, idle := frame(1, 0), frame(1, 10_000), frame(0, 0)
	for name, test := range map[string]struct {
		frames []*scope.Frame
		want   string
	}{
		"measured":     {[]*scope.Frame{priced, priced}, "1.00%"},
		"nothing":      {[]*scope.Frame{idle}, "0.00%"},
		"not measured": {[]*scope.Frame{unpriced, idle}, "not known"},
		"in part":      {[]*scope.Frame{priced, unpriced}, "≥0.50%"},
	} {
		var sum tally
		for _, f := range test.frames {
			sum.add(f)
		}
		if got := sum.inVMs(); got != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
	for f, want := range map[*scope.Frame]string{
		unpriced: "cost VM ? + own 0.00% of a core", priced: "cost VM 1.00% + own 0.00% of a core", idle: "cost VM 0.00% + own 0.00% of a core",
	} {
		if got := costs(f)[0]; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
