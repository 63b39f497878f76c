package wrapper

import (
	"fmt"
	"maps"
	"slices"

	"github.com/beamscope/beamscope/internal/engine/outcome"
)

// maxReasons limits the number of waiting reasons for refusals.
const maxReasons = 20

// refusals count refused connections by reason. They are separate from other notices, because a
// peer that connects all the time would leave no room for those.
type refusals struct {
	total   uint64            // since the beginning
	waiting map[string]uint64 // by reason, since the last take
	others  uint64            // for further reasons
}

func newRefusals() refusals { return refusals{waiting: make(map[string]uint64)} }

// add counts a refusal.
func (r *refusals) add(reason error) {
	r.total++
	text := reason.Error()
	if _, known := r.waiting[text]; !known && len(r.waiting) >= maxReasons {
		r.others++
		return
	}
	r.waiting[text]++
}

// take returns the refusals since the last call as notices with the given time.
func (r *refusals) take(now int64) []outcome.Notice {
	var taken []outcome.Notice
	for _, reason := range slices.Sorted(maps.Keys(r.waiting)) {
		text := "refused " + reason
		if n := r.waiting[reason]; n > 1 {
			text = fmt.Sprintf("%s (%d times)", text, n)
		}
		taken = append(taken, outcome.Notice{Time: now, Text: text})
	}
	if r.others > 0 {
		taken = append(taken, outcome.Notice{Time: now, Text: fmt.Sprintf("refused %d more connections", r.others)})
	}
	clear(r.waiting)
	r.others = 0
	return taken
}
