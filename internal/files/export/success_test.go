package export

import (
	"testing"
	"time"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/engine/outcome"
	"github.com/beamscope/beamscope/internal/engine/scope"
)

// A window with losses never shows that all instances succeeded.
func TestSuccessWithLoss(t *testing.T) {
	grid, err := dq.NewGrid(time.Millisecond, 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		ok, failed, lost uint64
		want             string
	}{
		{0, 0, 0, "-"},
		{5, 0, 0, "100.00%"},
		{1, 1, 0, "50.00%"},
		{2, 0, 5698, "≥0.03%"},
		{99_999, 0, 1, "≥99.99%"},
		{1 << 40, 0, 1, "≥99.99%"},
		{0, 0, 7, "-"}, // nothing is known of any
	} {
		observed, err := dq.NewObserved(grid)
		if err != nil {
			t.Fatal(err)
		}
		p := scope.Outcome{
			Counts:   outcome.Counts{Successes: test.ok, Failures: test.failed, Loss: outcome.Loss{NoRoom: test.lost}},
			Observed: observed,
		}
		if err := p.Observed.Set([]uint64{test.ok, 0}, test.failed, 0); err != nil {
			t.Fatal(err)
		}
		if got := success(&p); got != test.want {
			t.Errorf("%+v: %s, want %s", test, got, test.want)
		}
	}
}
