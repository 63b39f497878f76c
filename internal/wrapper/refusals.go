package wrapper

import (
	"fmt"
	"maps"
	"slices"

	"github.com/beamscope/beamscope/internal/outcome"
)

// maxReasons bounds the reasons for refusals that wait to be taken.
const maxReasons = 20

// refusals count the connections that were refused, by reason. They are not among the other
// notices, where one that connects all the time leaves no room for them.
type refusals struct {
	total   uint64            // since the beginning
	waiting map[string]uint64 // by reason, since they were last taken
	others  uint64            // of further reasons
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

// take returns what was refused since it was last called, as notices of a time.
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
