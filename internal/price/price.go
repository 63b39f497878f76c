// Package price bounds what observing costs the VMs that are observed.
package price

import (
	"fmt"
	"time"

	"github.com/beamscope/beamscope/internal/figures"
	"github.com/beamscope/beamscope/internal/outcome"
)

// A Limit says how much observing may cost. The zero Limit is none.
type Limit struct {
	Rate  float64 // events a second; 0: by the share
	Share float64 // of a core that the VMs may pay, where Rate is 0; 0: no limit
}

// DefaultShare is the share of a core that the VMs may pay if nothing else is said.
const DefaultShare = 0.1

// unmeasured is what an event is taken to cost where that is not known.
const unmeasured = 2 * time.Microsecond

// Patience is for how long observing may be above the limit before something is given up.
const Patience = 2 * time.Second

// A Guard tells when observing costs too much.
type Guard struct {
	Limit    Limit
	Patience time.Duration // one whole window at least

	above time.Duration // of windows in a row
	loads loads         // of these
}

// Judge takes the cost of a window, and the VMs' parts in it. It returns why less is to be
// observed from now on; "" where it need not. loud is then the VM that is to be left out,
// nil where there is none: see [Loud].
func (g *Guard) Judge(c outcome.Cost, parts []outcome.Load, window time.Duration) (why string, loud *Loud) {
	if why = g.Limit.Exceeded(c, window); why == "" {
		g.Forget()
		return "", nil
	}
	g.loads.add(c, parts)
	if g.above += window; g.above < g.Patience {
		return "", nil
	}
	loud = g.loads.loudest()
	g.Forget()
	return why, loud
}

// Forget has the next window be the first one.
func (g *Guard) Forget() { g.above, g.loads = 0, loads{} }

// Exceeded says by what a cost is above the limit; "" where it is not.
func (l Limit) Exceeded(c outcome.Cost, window time.Duration) string {
	rate := float64(c.Events) / window.Seconds()
	if l.Rate > 0 {
		if rate > l.Rate {
			return fmt.Sprintf("%s events/s, limit %s", figures.Count(rate), figures.Count(l.Rate))
		}
		return ""
	}
	if share, assumed := Share(c, window); l.Share > 0 && share > l.Share {
		return fmt.Sprintf("%s events/s%s = %s%% of a core, limit %s%%", figures.Count(rate), assumed, figures.Share(share), figures.Share(l.Share))
	}
	return ""
}

// Share returns which share of a core the VMs paid in a window. Where the price of an
// event is not known, one is assumed, and assumed says which.
func Share(c outcome.Cost, window time.Duration) (share float64, assumed string) {
	if c.PerEvent == 0 {
		c.PerEvent, assumed = unmeasured, fmt.Sprintf(" at %v each", unmeasured)
	}
	return c.Share(window), assumed
}
