package outcome

import (
	"math"
	"math/bits"
	"slices"
	"time"
)

// A Group is the part of an outcome's instances that have something in common.
type Group struct {
	Key     string // "<0.123.0>", "lists:seq/2", a node, a port; "" for the rest together
	Process PID    // the process, where the group is one
	Name    string // of the process, where the VM can tell; "" otherwise

	Successes, Failures, Timeouts uint64
	Total                         time.Duration // sum of the delays of the successes
	Amount                        uint64        // as of Counts
	Delays                        Delays        // of the successes

	// With Accounts. Processor and Dirty are of the slices that are successes: the
	// time on a processor, and the time on dirty schedulers, on a processor or not.
	Starts           uint64 // of instances that are paired in the order of their starts
	Processor, Dirty time.Duration
}

// Instances returns how many instances are in the group.
func (g Group) Instances() uint64 { return g.Successes + g.Failures + g.Timeouts }

// Add returns the sum of two groups, under the key of the first. It shares no memory with
// them.
func (g Group) Add(h Group) Group {
	sum := g
	sum.Successes += h.Successes
	sum.Failures += h.Failures
	sum.Timeouts += h.Timeouts
	sum.Total += h.Total
	sum.Amount += h.Amount
	sum.Starts += h.Starts
	sum.Processor += h.Processor
	sum.Dirty += h.Dirty
	sum.Delays = slices.Clone(g.Delays)
	sum.Delays.Add(h.Delays)
	return sum
}

// DelayBuckets is how many buckets there are in [Delays].
const DelayBuckets = 172

// Delays counts delays in buckets whose bounds are a quarter of a power of two apart, so
// that a bucket is at most a quarter as wide as the delays in it. It is nil, or as long
// as DelayBuckets.
type Delays []uint32

// Bucket returns the bucket of a delay. The last one has all that are longer.
func Bucket(d time.Duration) int {
	ns := uint64(max(d, 0))
	if ns < 4 {
		return int(ns)
	}
	e := bits.Len64(ns) - 1
	return min((e-1)*4+int(ns>>(e-2)&3), DelayBuckets-1)
}

// BucketBounds returns the delays from lo, and below hi, that a bucket has.
func BucketBounds(i int) (lo, hi time.Duration) {
	if i < 4 {
		return time.Duration(i), time.Duration(i + 1)
	}
	e, sub := i/4+1, i%4
	width := time.Duration(1) << (e - 2)
	lo = (4 + time.Duration(sub)) * width
	return lo, lo + width
}

// Add adds other delays.
func (d *Delays) Add(other Delays) {
	if *d == nil && other != nil {
		*d = make(Delays, DelayBuckets)
	}
	for i, n := range other {
		(*d)[i] += n
	}
}

// Quantile returns bounds of the delay that a share p of the successes do not exceed, and
// of so many other instances, which have no delay because they did not succeed. ok is
// false where the quantile is among those, or there are no instances.
func (d Delays) Quantile(p float64, others uint64) (lo, hi time.Duration, ok bool) {
	all := others
	for _, n := range d {
		all += uint64(n)
	}
	if all == 0 {
		return 0, 0, false
	}
	rank := rankOf(p, all)
	var below uint64
	for i, n := range d {
		if below += uint64(n); below >= rank {
			lo, hi = BucketBounds(i)
			return lo, hi, true
		}
	}
	return 0, 0, false
}

// rounding is by how much a share times a number may be too large at most, relatively: 7
// of 100 are 0.07 · 100, which is 7.000000000000001.
const rounding = 1e-15

// rankOf returns which of n instances in their order, from 1 on, is the quantile p.
func rankOf(p float64, n uint64) uint64 {
	rank := math.Ceil(p * float64(n) * (1 - rounding))
	return min(max(uint64(rank), 1), n)
}
