package top

import (
	"time"

	"github.com/beamscope/beamscope/internal/engine/outcome"
)

// A tally contains the counts of one kind in one window, for a row or for the rest.
type tally struct {
	successes, failures, timeouts uint64
	total                         time.Duration // of the successes
	amount                        uint64
	starts                        uint64
	processor, dirty              time.Duration // of the successes
	delays                        []bucket      // of the successes; only non-empty buckets, in order
}

// A bucket is a non-empty bucket of [outcome.Delays]. Most buckets are empty, and each row has a
// list of these for every window.
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
	Beyond bool          // the quantile is among instances that did not succeed: usually at least dMax
	AtMost time.Duration // otherwise
}
