package top

import (
	"fmt"
	"time"

	"github.com/beamscope/beamscope/internal/outcome"
)

// A Limit says how much observing may cost.
type Limit struct {
	Rate  float64 // events a second; 0: by the share
	Share float64 // of a core that the VMs may pay, where Rate is 0
}

// DefaultShare is the share of a core that the VMs may pay if nothing else is said.
const DefaultShare = 0.1

// unmeasured is what an event is taken to cost where that is not known.
const unmeasured = 2 * time.Microsecond

// patience is for how long observing may be above the limit before something is given up.
const patience = 2 * time.Second

// A guard tells when observing costs too much.
type guard struct {
	limit    Limit
	patience time.Duration // one whole window at least
	above    time.Duration // of windows in a row
}

// judge takes the cost of a window, and returns why less is to be observed from now on;
// "" where it need not.
func (g *guard) judge(c outcome.Cost, window time.Duration) string {
	why := g.limit.exceeded(c, window)
	if why == "" {
		g.above = 0
		return ""
	}
	if g.above += window; g.above < g.patience {
		return ""
	}
	g.above = 0
	return why
}

// exceeded says by what a cost is above the limit; "" where it is not.
func (l Limit) exceeded(c outcome.Cost, window time.Duration) string {
	rate := float64(c.Events) / window.Seconds()
	if l.Rate > 0 {
		if rate > l.Rate {
			return fmt.Sprintf("%s events/s, limit %s", count(rate), count(l.Rate))
		}
		return ""
	}
	assumed := ""
	if c.PerEvent == 0 {
		c.PerEvent, assumed = unmeasured, fmt.Sprintf(" at %v each", unmeasured)
	}
	if share := c.Share(window); share > l.Share {
		return fmt.Sprintf("%s events/s%s = %s%% of a core, limit %s%%", count(rate), assumed, percent(share), percent(l.Share))
	}
	return ""
}
