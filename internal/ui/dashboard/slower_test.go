package dashboard

import (
	"testing"
	"time"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
	"github.com/beamscope/beamscope/internal/engine/session"
)

// Instances that took longer than a limit that beamscope chose do not look like failures, and a
// line explains them.
func TestSlowerThanFitted(t *testing.T) {
	grid, err := dq.NewGrid(46*time.Millisecond, 2)
	if err != nil {
		t.Fatal(err)
	}
	observed, err := dq.NewObserved(grid)
	if err != nil {
		t.Fatal(err)
	}
	if err := observed.Set([]uint64{7, 0}, 0, 48); err != nil {
		t.Fatal(err)
	}
	p := scope.Outcome{
		Name: "buy", Fitted: true, VM: outcome.VM{PID: 3}, Window: outcome.Window{To: 2e9}, Observed: observed, Seen: true,
		Spec:   outcome.Spec{Name: "buy", Span: "buy", BinWidth: grid.Width(), Bins: grid.Bins()},
		Counts: outcome.Counts{Outcome: "buy", VM: outcome.VM{PID: 3}, Successes: 7, Timeouts: 48},
	}
	h := live(t, session.Status{}, 120, 40, scope.Frame{Outcomes: []scope.Outcome{p}})
	h.do(func() { h.d.show("overview") })
	h.shows("≥12.72%")
	h.shows(">92ms")
	h.shows("buy: 87.27% took longer than 92ms, a limit that beamscope chose: how they ended is not known. Set dmax in a scope file")
	h.hides("timeout")
}
