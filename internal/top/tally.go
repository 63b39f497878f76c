package top

import (
	"time"

	"github.com/beamscope/beamscope/internal/outcome"
)

// A tally is what was counted of one kind in one window: of a row, or of the rest.
type tally struct {
	successes, failures, timeouts uint64
	total                         time.Duration // of the successes
	amount                        uint64
	starts                        uint64
	processor, dirty              time.Duration // of the successes
	delays                        []bucket      // of the successes, those that are not empty, in order
}

// A bucket has the delays of one of [outcome.Delays]: most of them are empty, and a row
// has some for each window.
type bucket struct {
	index uint8
	count uint32
}

func tallyOf(g *outcome.Group) tally {
	t := tally{successes: g.Successes, failures: g.Failures, timeouts: g.Timeouts, total: g.Total, amount: g.Amount, starts: g.Starts, processor: g.Processor, dirty: g.Dirty}
	for i, n := range g.Delays {
		if n > 0 {
			t.delays = append(t.delays, bucket{uint8(i), n})
		}
	}
	return t
}

func (t *tally) instances() uint64 { return t.successes + t.failures + t.timeouts }

// A Quantile is a delay that a share of the instances do not exceed.
type Quantile struct {
	Some   bool          // there are instances
	Beyond bool          // it is among those that did not succeed: dMax at least, as a rule
	AtMost time.Duration // otherwise
}
