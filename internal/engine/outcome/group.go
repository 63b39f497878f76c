package outcome

import (
	"math"
	"math/bits"
	"slices"
	"time"
)

// A Group is a part of an outcome's instances that share a property.
type Group struct {
	Key     string // "<0.123.0>", "lists:seq/2", a node, a port; "" for the rest
	Process PID    // the process, if the group is one
	Name    string // name of the process, or "" if unknown

	Successes, Failures, Timeouts uint64
	Total                         time.Duration // sum of the delays of the successes
	Amount                        uint64        // as in Counts
	Delays                        Delays        // of the successes

	// These are set with Accounts. Processor and Dirty are for successful slices: the time on a
	// processor, and the time on dirty schedulers, whether on a processor or not.
	Starts           uint64 // of instances that are paired in the order of their starts
	Processor, Dirty time.Duration
}

// Instances returns the number of instances in the group.
func (g Group) Instances() uint64 { return g.Successes + g.Failures + g.Timeouts }

// Add returns the sum of two groups, with the key of the first. It shares no memory with them.
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

// DelayBuckets is the number of buckets in [Delays].
const DelayBuckets = 172

// Delays counts delays in buckets. The bounds of the buckets are a quarter of a power of two
// apart, so a bucket is at most a quarter as wide as the delays in it. Delays is nil or has
// DelayBuckets entries.
type Delays []uint32

// Bucket returns the bucket of a delay. The last bucket contains all longer delays.
func Bucket(d time.Duration) int {
	ns := uint64(max(d, 0))
	if ns < 4 {
		return int(ns)
	}
	e := bits.Len64(ns) - 1
	return min((e-1)*4+int(ns>>(e-2)&3), DelayBuckets-1)
}

// BucketBounds returns the bounds of a bucket, which contains the delays from lo to below hi.
func BucketBounds(i int) (lo, hi time.Duration) {
	if i < 4 {
		return time.Duration(i), time.Duration(i + 1)
	}
	e, sub := i/4+1, i%4
	width := time.Duration(1) << (e - 2)
	lo = (4 + time.Duration(sub)) * width
	return lo, lo + width
}

// Add adds other to d.
func (d *Delays) Add(other Delays) {
	if *d == nil && other != nil {
		*d = make(Delays, DelayBuckets)
	}
	for i, n := range other {
		(*d)[i] += n
	}
}

// Quantile returns bounds of the p-quantile of the delay over the successes and a number of other
// instances. The others did not succeed and so have no delay. ok is false if the quantile falls
// among those, or if there are no instances.
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

// rounding is the largest relative error by which a share times a number may be too large. For
// example 7 of 100 is 0.07 · 100, which gives 7.000000000000001.
const rounding = 1e-15

// rankOf returns the rank of the quantile p among n instances, from 1 on.
func rankOf(p float64, n uint64) uint64 {
	rank := math.Ceil(p * float64(n) * (1 - rounding))
	return min(max(uint64(rank), 1), n)
}
