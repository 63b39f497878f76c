package price

import (
	"testing"
	"time"

	"github.com/beamscope/beamscope/internal/engine/outcome"
)

// The time until something is given up does not depend on the length of windows, but is at least
// one window.
func TestPatience(t *testing.T) {
	for window, want := range map[time.Duration]int{
		100 * time.Millisecond: 20, 300 * time.Millisecond: 7, time.Second: 2, 2 * time.Second: 1, 10 * time.Second: 1,
	} {
		g := Guard{Limit: Limit{Rate: 1}, Patience: Patience}
		much := outcome.Cost{Events: 100}
		for range want - 1 {
			if why, _ := g.Judge(much, nil, nil, window); why != "" {
				t.Fatalf("%v: %s", window, why)
			}
		}
		g.Judge(outcome.Cost{}, nil, nil, window)
		n := 1
		for why := ""; why == ""; n++ {
			why, _ = g.Judge(much, nil, nil, window)
		}
		n--
		if n != want {
			t.Errorf("windows of %v: %d, want %d", window, n, want)
		}
	}
}

func TestLimit(t *testing.T) {
	for _, tt := range []struct {
		limit  Limit
		cost   outcome.Cost
		window time.Duration
		want   string
	}{
		{Limit{Rate: 1000}, outcome.Cost{Events: 1000}, time.Second, ""},
		{Limit{Rate: 1000}, outcome.Cost{Events: 1001, PerEvent: time.Microsecond}, time.Second, "1.00k events/s, limit 1.00k"},
		{Limit{Rate: 1000}, outcome.Cost{Events: 200}, 100 * time.Millisecond, "2.00k events/s, limit 1.00k"},
		{Limit{Share: 0.1}, outcome.Cost{Events: 50_000, PerEvent: 2 * time.Microsecond}, time.Second, ""},
		{Limit{Share: 0.1}, outcome.Cost{Events: 60_000, PerEvent: 2 * time.Microsecond}, time.Second, "60.0k events/s = 12.0% of a core, limit 10.0%"},
		{Limit{Share: 0.1}, outcome.Cost{Events: 60_000}, time.Second, "60.0k events/s at 2µs each = 12.0% of a core, limit 10.0%"},
	} {
		if got := tt.limit.Exceeded(tt.cost, tt.window); got != tt.want {
			t.Errorf("%+v, %+v: %q, want %q", tt.limit, tt.cost, got, tt.want)
		}
	}
}
