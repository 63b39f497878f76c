package top

import "slices"

const (
	// growingLeast is the least number of messages in a queue that counts as growing.
	growingLeast = 100

	// growthOver is the number of surveys over which a queue must grow.
	growthOver = 5
)

// A growth detects growing queues. The zero value is ready to use.
type growth struct {
	before []map[ID]int64 // waiting messages in each survey, the last one at the end
	some   bool           // a queue grows, or has grown and some queue is still long
}

// add marks the rows of a survey whose queues grow. At least a hundred messages must wait, and no
// fewer than in the previous survey. There must be at least fifty more, and a tenth more, than in
// the first of the last few surveys. A queue also grows if it has grown from each of these surveys
// to the next, however little.
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
		if seen.Waiting >= last && seen.Waiting-first >= max(growingLeast/2, first/10) || g.grewEachTime(id, seen.Waiting) {
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

// grewEachTime reports whether a queue with now waiting messages has grown from each survey to the
// next, over the number of surveys that growth examines.
func (g *growth) grewEachTime(id ID, now int64) bool {
	for _, survey := range slices.Backward(g.before) {
		if survey[id] >= now {
			return false
		}
		now = survey[id]
	}
	return len(g.before) == growthOver
}
