// Package price decides when observing costs the observed VMs too much, and which VM or user to leave
// out then.
package price

import (
	"fmt"
	"time"

	"github.com/beamscope/beamscope/internal/engine/figures"
	"github.com/beamscope/beamscope/internal/engine/outcome"
)

// A Limit limits the cost of observing. The zero Limit means no limit.
type Limit struct {
	Rate  float64 // events a second; 0 to use Share
	Share float64 // share of a core that the VMs may pay, if Rate is 0; 0: no limit
}

// DefaultShare is the default limit of the cost for the VMs, as a share of a core.
const DefaultShare = 0.1

// unmeasured is the assumed cost of an event if the real one is unknown.
const unmeasured = 2 * time.Microsecond

// Patience is how long the cost may exceed the limit before something is given up.
const Patience = 2 * time.Second

// A Guard compares the cost of observing with a limit.
type Guard struct {
	Limit    Limit
	Patience time.Duration // applies for at least one whole window

	above      time.Duration // length of the windows in a row above the limit
	loads      loads         // loads of these windows
	unobserved bool          // processes that are not observed contribute to these windows
}

// IncludeUnobserved sets whether the cost from the next window on includes processes that are not
// observed, see Strangers of [outcome.Batch]. Windows with and without them are not judged together.
func (g *Guard) IncludeUnobserved(unobserved bool) {
	if g.unobserved != unobserved {
		g.Forget()
	}
	g.unobserved = unobserved
}

// Judge adds the cost of a window, and the shares of the VMs and the users in it. It returns the
// reason for observing less from now on, or "". In that case exclude is the VM or user to leave out,
// or nil, see [Exclusion]. The shares of VMs that are already left out do not count.
func (g *Guard) Judge(c outcome.Cost, parts []outcome.Load, users []outcome.UserLoad, window time.Duration) (why string, exclude *Exclusion) {
	c, parts, users = withoutLeft(c, parts, users)
	if why = g.Limit.Exceeded(c, window); why == "" {
		g.Forget()
		return "", nil
	}
	g.loads.add(c, parts, users)
	if g.above += window; g.above < g.Patience {
		return "", nil
	}
	exclude = g.loads.exclusion()
	g.Forget()
	return why, exclude
}

// Forget drops the windows so far.
func (g *Guard) Forget() { g.above, g.loads = 0, loads{} }

// Exceeded describes by how much a cost exceeds the limit. It returns "" if it does not.
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

// Share returns the share of a core that the VMs paid in a window. If the price of an event is
// unknown, it assumes one, and assumed describes it.
func Share(c outcome.Cost, window time.Duration) (share float64, assumed string) {
	if c.PerEvent == 0 {
		c.PerEvent, assumed = unmeasured, fmt.Sprintf(" at %v each", unmeasured)
	}
	return c.Share(window), assumed
}

// Text describes the cost of observing in a window. unit is the name of the events: "events" or
// "samples".
func Text(c outcome.Cost, window time.Duration, unit string) string {
	text := fmt.Sprintf("cost: %s %s/s", figures.Count(float64(c.Events)/window.Seconds()), unit)
	if c.PerEvent > 0 {
		text += fmt.Sprintf(" × %s = %s of a core in the VM", figures.Delay(c.PerEvent), figures.Percent(c.Share(window)))
	} else {
		text += ", price not measured"
	}
	return text + fmt.Sprintf("; own %s", figures.Percent(float64(c.Collector)/float64(window)))
}
