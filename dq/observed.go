package dq

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// MaxInstances is the largest number of instances of one [Observed]: up to it
// every count is exact as a float64.
const MaxInstances = 1 << 53

// An Observed is an observed ΔQ: the outcome instances that ended in a window,
// counted by bin. The denominator n of every probability is all of them,
// successes, failures and timeouts (thesis, eq. 5.1).
//
// An Observed of a valid grid is made by [NewObserved], filled with Set or the Add
// methods, and can be used again after Reset.
type Observed struct {
	grid     Grid
	counts   []uint64
	ok       uint64
	failures uint64
	timeouts uint64
}

// NewObserved returns an observed ΔQ without data. It returns [ErrGrid] for the
// zero Grid.
func NewObserved(g Grid) (*Observed, error) {
	if !g.valid() {
		return nil, fmt.Errorf("%w: the zero grid", ErrGrid)
	}
	return &Observed{grid: g, counts: make([]uint64, g.Bins())}, nil
}

// FromCounts returns the observed ΔQ for the number of successes in each bin of the grid, and the
// numbers of failures and of timeouts. See [Observed.Set] for the errors.
func FromCounts(g Grid, counts []uint64, failures, timeouts uint64) (*Observed, error) {
	o, err := NewObserved(g)
	if err != nil {
		return nil, err
	}
	if err := o.Set(counts, failures, timeouts); err != nil {
		return nil, err
	}
	return o, nil
}

// FromDelays returns the observed ΔQ for the delays of instances that ended, and the numbers of
// failures and of timeouts. A delay above dMax counts as one more timeout. See [Observed.Add] for
// the errors.
func FromDelays(g Grid, delays []time.Duration, failures, timeouts uint64) (*Observed, error) {
	o, err := FromCounts(g, make([]uint64, g.Bins()), failures, timeouts)
	if err != nil {
		return nil, err
	}
	for i, d := range delays {
		if err := o.Add(d); err != nil {
			return nil, fmt.Errorf("delay %d: %w", i, err)
		}
	}
	return o, nil
}

// Set replaces the counts; it copies counts. It returns [ErrCounts], and does not change o, unless
// there is one count for each bin and at most [MaxInstances] instances in all.
func (o *Observed) Set(counts []uint64, failures, timeouts uint64) error {
	if len(counts) != o.grid.Bins() {
		return fmt.Errorf("%w: %d counts for %v", ErrCounts, len(counts), o.grid)
	}
	var ok, n uint64
	for _, c := range counts {
		if ok, n = ok+c, n+c; c > MaxInstances || n > MaxInstances {
			return errTooMany()
		}
	}
	for _, c := range [2]uint64{failures, timeouts} {
		if n += c; c > MaxInstances || n > MaxInstances {
			return errTooMany()
		}
	}
	copy(o.counts, counts)
	o.ok, o.failures, o.timeouts = ok, failures, timeouts
	return nil
}

func errTooMany() error {
	return fmt.Errorf("%w: more than %d instances", ErrCounts, uint64(MaxInstances))
}

// Add counts one instance that ended after the delay t. If t is above dMax, the instance counts as
// a timeout. Add returns [ErrDelay] for t < 0, and [ErrCounts] if o is full.
func (o *Observed) Add(t time.Duration) error {
	if t < 0 {
		return fmt.Errorf("%w: %v", ErrDelay, t)
	}
	if o.Instances() >= MaxInstances {
		return errTooMany()
	}
	bin, within := o.grid.Bin(t)
	if !within {
		o.timeouts++
		return nil
	}
	o.counts[bin]++
	o.ok++
	return nil
}

// AddFailures counts k instances that failed. It returns [ErrCounts] if there would be more than
// [MaxInstances].
func (o *Observed) AddFailures(k uint64) error { return o.addIntangible(&o.failures, k) }

// AddTimeouts counts k instances that timed out. It returns [ErrCounts] if there would be more than
// [MaxInstances].
func (o *Observed) AddTimeouts(k uint64) error { return o.addIntangible(&o.timeouts, k) }

func (o *Observed) addIntangible(field *uint64, k uint64) error {
	if k > MaxInstances || o.Instances()+k > MaxInstances {
		return errTooMany()
	}
	*field += k
	return nil
}

// Reset removes all instances and keeps the grid.
func (o *Observed) Reset() {
	clear(o.counts)
	o.ok, o.failures, o.timeouts = 0, 0, 0
}

// Grid is the grid of the bins.
func (o *Observed) Grid() Grid { return o.grid }

// Instances is the number of all instances, n: successes, failures and timeouts.
func (o *Observed) Instances() uint64 { return o.ok + o.failures + o.timeouts }

// Successes is the number of instances that ended within dMax.
func (o *Observed) Successes() uint64 { return o.ok }

// Failures is the number of instances that failed.
func (o *Observed) Failures() uint64 { return o.failures }

// Timeouts is the number of instances that did not end within dMax.
func (o *Observed) Timeouts() uint64 { return o.timeouts }

// Count is the number of successes in bin i, and 0 if there is no such bin.
func (o *Observed) Count(i int) uint64 {
	if i < 0 || i >= len(o.counts) {
		return 0
	}
	return o.counts[i]
}

// Empty reports whether there are no instances, and so no probabilities. A nil o is empty.
func (o *Observed) Empty() bool { return o == nil || o.Instances() == 0 }

// Success is the fraction of all instances that ended within dMax, in [0, 1]. It returns false
// without data.
func (o *Observed) Success() (float64, bool) { return o.fraction(o.ok) }

// IntangibleMass is the fraction of all instances that failed or timed out, in [0, 1]. It returns
// false without data.
func (o *Observed) IntangibleMass() (float64, bool) { return o.fraction(o.failures + o.timeouts) }

func (o *Observed) fraction(k uint64) (float64, bool) {
	n := o.Instances()
	if n == 0 {
		return 0, false
	}
	return float64(k) / float64(n), true
}

// AppendPDF appends to dst the fraction of all instances in each of the N bins
// (thesis, eq. 5.1) and returns it. They sum to Success. Without data it appends
// nothing.
func (o *Observed) AppendPDF(dst []float64) []float64 {
	n := float64(o.Instances())
	if n == 0 {
		return dst
	}
	for _, c := range o.counts {
		dst = append(dst, float64(c)/n)
	}
	return dst
}

// AppendECDF appends to dst the N+1 values of the empirical distribution function
// at the edges of the bins and returns it: 0 at edge 0, at edge i the fraction of
// all instances in the bins below it, Success at dMax (thesis, eq. 5.2). A delay
// that lies exactly on an edge counts above it. Without data it appends nothing.
func (o *Observed) AppendECDF(dst []float64) []float64 {
	n := float64(o.Instances())
	if n == 0 {
		return dst
	}
	dst = append(dst, 0)
	var sum uint64
	for _, c := range o.counts {
		sum += c
		dst = append(dst, float64(sum)/n)
	}
	return dst
}

// ProbabilityWithin returns bounds on the fraction of all instances that ended within t. The
// lower bound counts the bins that end by t, and the upper bound those that begin by t. From dMax
// on, and below 0, the two are the same up to rounding. It returns false without data.
func (o *Observed) ProbabilityWithin(t time.Duration) (Bounds, bool) {
	n := float64(o.Instances())
	if n == 0 {
		return Bounds{}, false
	}
	if t < 0 {
		return Bounds{}, true
	}
	full, begun := len(o.counts), len(o.counts)
	if t < o.grid.DMax() {
		full = int(t / o.grid.Width())
		begun = full + 1
	}
	var sum uint64
	for _, c := range o.counts[:full] {
		sum += c
	}
	b := Bounds{Lo: divDown(float64(sum), n)}
	for _, c := range o.counts[full:begun] {
		sum += c
	}
	b.Hi = divUp(float64(sum), n)
	return b, true
}

// Quantile returns bounds on the p-quantile over all instances: the least delay within which at
// least p·n of the n instances ended. This is the delay of the instance of rank ⌈p·n⌉, and 0 for
// p = 0. The bounds are the edges of that instance's bin.
//
// If p·n differs from a whole number by no more than the rounding of p, it counts as that number:
// 0.07 of 100 instances are 7, although the float64 is above 0.07.
//
// Quantile returns false if the quantile is in the intangible mass, without data, and for p
// outside [0, 1].
func (o *Observed) Quantile(p float64) (Interval, bool) {
	rank, ok := o.rank(p)
	if !ok {
		return Interval{}, false
	}
	if rank == 0 {
		return Interval{}, true
	}
	var sum uint64
	for i, c := range o.counts {
		if sum += c; sum >= rank {
			return Interval{o.grid.Edge(i), o.grid.Edge(i + 1)}, true
		}
	}
	return Interval{}, false
}

// rank returns ⌈p·n⌉ if there is such an instance.
func (o *Observed) rank(p float64) (uint64, bool) {
	n := o.Instances()
	if n == 0 || !(p >= 0 && p <= 1) {
		return 0, false
	}
	x := float64(p * float64(n))
	rank := math.Ceil(x)
	if near := math.Round(x); math.Abs(x-near) <= float64(0x1p-50*x) {
		rank = near
	}
	return uint64(rank), true
}

// Clone returns a copy of o that shares nothing with it.
func (o *Observed) Clone() *Observed {
	c := *o
	c.counts = slices.Clone(o.counts)
	return &c
}

// QuantileFigure returns a single figure for Quantile(p): the upper bound. So the exact quantile is
// never above the figure, and at most a bin below it. It returns false if Quantile does.
func (o *Observed) QuantileFigure(p float64) (time.Duration, bool) {
	v, ok := o.Quantile(p)
	return v.Hi, ok
}

// Earliest returns the bin of the fastest success, as an interval. It returns false if there is no
// success.
func (o *Observed) Earliest() (Interval, bool) {
	for i, c := range o.counts {
		if c > 0 {
			return Interval{o.grid.Edge(i), o.grid.Edge(i + 1)}, true
		}
	}
	return Interval{}, false
}

// Deadline returns the bin of the slowest success, as an interval. It returns false if there is no
// success.
func (o *Observed) Deadline() (Interval, bool) {
	for i := len(o.counts) - 1; i >= 0; i-- {
		if o.counts[i] > 0 {
			return Interval{o.grid.Edge(i), o.grid.Edge(i + 1)}, true
		}
	}
	return Interval{}, false
}
