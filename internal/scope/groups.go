package scope

import (
	"time"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/outcome"
)

// Inferred reports whether instances of the window were paired by their order, so that
// whose start and end each is made of is not known for certain.
func (p *Probe) Inferred() bool { return p.Counts.Inferred > 0 }

// TopGroups returns the first of the groups, at most k of them that have a key, and in
// others all further ones as one group without a key: of how many it is, with those that
// found no room at the source as one. others is 0 where there are no more.
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

// GroupQuantile returns what the delay lies between within which a share p of all of a
// group's instances ended, of which none succeeded later than dMax; ok is false where so
// many did not succeed, or there are none.
func GroupQuantile(g *outcome.Group, p float64, dMax time.Duration) (within dq.Interval, ok bool) {
	within.Lo, within.Hi, ok = g.Delays.Quantile(p, g.Failures+g.Timeouts)
	within.Hi = min(within.Hi, dMax)
	return within, ok
}
