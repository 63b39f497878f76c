package scope

import (
	"time"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/engine/outcome"
)

// Inferred reports whether some starts and ends of instances in the window were paired by order,
// so that they may not belong together.
func (p *Outcome) Inferred() bool { return p.Counts.Inferred > 0 }

// TopGroups returns the first k groups with a key, and the sum of all further ones as rest, a
// group without a key. others is the number of groups in rest, or 0. All instances without room
// at the source count as one group.
func TopGroups(groups []outcome.Group, k int) (top []outcome.Group, rest outcome.Group, others int) {
	for i := range groups {
		g := &groups[i]
		if g.Key != "" && len(top) < k {
			top = append(top, *g)
			continue
		}
		others++
		rest = rest.Add(*g)
	}
	return top, rest, others
}

// GroupQuantile returns bounds of the p-quantile of the delay over all of a group's instances. No
// success takes longer than dMax. ok is false if the quantile falls among instances that did not
// succeed, or if there are none.
func GroupQuantile(g *outcome.Group, p float64, dMax time.Duration) (within dq.Interval, ok bool) {
	within.Lo, within.Hi, ok = g.Delays.Quantile(p, g.Failures+g.Timeouts)
	within.Hi = min(within.Hi, dMax)
	return within, ok
}
