package top

import (
	"time"

	"github.com/beamscope/beamscope/internal/outcome"
)

// A tally is what was counted of one kind: of a row, or of several together, in one
// window or in several.
type tally struct {
	successes, failures, timeouts uint64
	total                         time.Duration // of the successes
	amount                        uint64
	delays                        []bucket // of the successes, those that are not empty, in order
}

// A bucket has the delays of one of [outcome.Delays]: most of them are empty, and a row
// has some for each window.
type bucket struct {
	index uint8
	count uint64
}

func tallyOf(g *outcome.Group) tally {
	t := tally{successes: g.Successes, failures: g.Failures, timeouts: g.Timeouts, total: g.Total, amount: g.Amount}
	for i, n := range g.Delays {
		if n > 0 {
			t.delays = append(t.delays, bucket{uint8(i), uint64(n)})
		}
	}
	return t
}

func (t *tally) instances() uint64 { return t.successes + t.failures + t.timeouts }

// add adds another tally, and leaves that as it is.
func (t *tally) add(u *tally) {
	t.successes += u.successes
	t.failures += u.failures
	t.timeouts += u.timeouts
	t.total += u.total
	t.amount += u.amount
	t.delays = merged(t.delays, u.delays)
}

// merged returns the buckets of both, and changes none of them.
func merged(a, b []bucket) []bucket {
	if len(b) == 0 {
		return a
	}
	all := make([]bucket, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0].index < b[0].index:
			all, a = append(all, a[0]), a[1:]
		case a[0].index > b[0].index:
			all, b = append(all, b[0]), b[1:]
		default:
			all = append(all, bucket{a[0].index, a[0].count + b[0].count})
			a, b = a[1:], b[1:]
		}
	}
	return append(append(all, a...), b...)
}

// A Quantile is a delay that a share of the instances do not exceed.
type Quantile struct {
	Some   bool          // there are instances
	Beyond bool          // it is among those that did not succeed: dMax at least, as a rule
	AtMost time.Duration // otherwise
}

// quantile returns the quantile p, from 0 to 1, of all instances whose delay was noted,
// and of those that did not succeed.
func (t *tally) quantile(p float64) Quantile {
	n := t.failures + t.timeouts
	for _, b := range t.delays {
		n += b.count
	}
	if n == 0 {
		return Quantile{}
	}
	rank := min(max(uint64(p*float64(n)+0.999999999), 1), n)
	for _, b := range t.delays {
		if rank <= b.count {
			_, hi := outcome.BucketBounds(int(b.index))
			return Quantile{Some: true, AtMost: hi}
		}
		rank -= b.count
	}
	return Quantile{Some: true, Beyond: true}
}
