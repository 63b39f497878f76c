package top

import "slices"

const (
	// growingLeast is how many messages wait at least in a queue that is said to grow.
	growingLeast = 100

	// growthOver is over how many surveys a queue has to grow.
	growthOver = 5
)

// A growth tells which queues grow. The zero value is ready to use.
type growth struct {
	before []map[ID]int64 // messages that waited, by surveys, the last one at the end
	some   bool           // a queue grows, or has grown and is still long
}

// add marks the rows of a survey whose queues grow: a hundred messages wait at least, no
// fewer than at the survey before, and a tenth more than a few surveys ago, or fifty.
func (g *growth) add(s *Survey) {
	now := make(map[ID]int64)
	long, grows := false, false
	for id, seen := range s.Rows {
		if seen.Waiting == 0 {
			continue
		}
		now[id] = seen.Waiting
		if seen.Waiting < growingLeast {
			continue
		}
		long = true
		if len(g.before) == 0 {
			continue
		}
		first, last := g.before[0][id], g.before[len(g.before)-1][id]
		if seen.Waiting >= last && seen.Waiting-first >= max(growingLeast/2, first/10) {
			seen.Growing, grows = true, true
			s.Rows[id] = seen
		}
	}
	g.some = grows || g.some && long
	if len(g.before) >= growthOver {
		g.before = g.before[1:]
	}
	g.before = append(slices.Clone(g.before), now)
}
