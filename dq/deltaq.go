package dq

import (
	"fmt"
	"slices"
	"sort"
	"time"
)

// A DeltaQ is a ΔQ known within bounds: two discrete distributions on the edges k·width of bins,
// one pessimistic and one optimistic. For the exact distribution function F, and every t ≥ 0,
//
//	lo[⌊t/width⌋] ≤ F(t) ≤ hi[⌊t/width⌋]
//
// where indices above n count as n. Discretisation moves a delay to one edge of
// its bin, up for lo and down for hi. Every operator is monotonic in each operand, so it can be
// applied to the lower and to the upper bounds separately, and the result contains the exact one.
// All arithmetic is rounded outwards.
//
// The zero DeltaQ and a nil pointer hold no data. Operators reject them with [ErrNoData], and
// methods that return a figure and a bool return false.
type DeltaQ struct {
	width  time.Duration
	lo, hi []float64 // n+1 values each, non-decreasing, 0 ≤ lo ≤ hi ≤ 1

	excess excess // how far successes exceed the horizon n·width
}

// Empty reports whether there is no data, as in the zero DeltaQ.
func (d *DeltaQ) Empty() bool { return d == nil || len(d.lo) == 0 }

// Width is the width of the bins.
func (d *DeltaQ) Width() time.Duration {
	if d == nil {
		return 0
	}
	return d.width
}

// Bins is the number of bins, n. The bounds have n+1 values. n is as small as the distribution
// allows: 0 for never.
func (d *DeltaQ) Bins() int {
	if d.Empty() {
		return 0
	}
	return len(d.lo) - 1
}

// Horizon is n·width. Only a model without an end, such as [Exponential], can have successes
// after it. Then Bounded returns false.
func (d *DeltaQ) Horizon() time.Duration { return time.Duration(d.Bins()) * d.Width() }

// Bounded reports whether there is no success after the horizon.
func (d *DeltaQ) Bounded() bool { return d == nil || d.excess == (excess{}) }

// AppendBounds appends the n+1 values of the lower and of the upper bound at the
// edges 0..n to lo and hi, and returns them.
func (d *DeltaQ) AppendBounds(lo, hi []float64) (lower, upper []float64) {
	if d.Empty() {
		return lo, hi
	}
	return append(lo, d.lo...), append(hi, d.hi...)
}

// At returns bounds on the distribution function within bin k, k·width ≤ t < (k+1)·width. They
// are zero for k < 0 and without data.
func (d *DeltaQ) At(k int) Bounds {
	if k < 0 || d.Empty() {
		return Bounds{}
	}
	k = min(k, d.Bins())
	return Bounds{d.lo[k], d.hi[k]}
}

// ProbabilityWithin returns bounds on the probability of success within t. It returns false
// without data.
func (d *DeltaQ) ProbabilityWithin(t time.Duration) (Bounds, bool) {
	if d.Empty() {
		return Bounds{}, false
	}
	if t < 0 {
		return Bounds{}, true
	}
	return d.At(d.index(t)), true
}

// index returns ⌊t/width⌋, but at most n.
func (d *DeltaQ) index(t time.Duration) int {
	return int(min(t/d.width, time.Duration(d.Bins())))
}

// Success returns bounds on the probability of success at all, lim F(t). It returns false without
// data.
func (d *DeltaQ) Success() (Bounds, bool) {
	if d.Empty() {
		return Bounds{}, false
	}
	return d.At(d.Bins()), true
}

// IntangibleMass returns bounds on the probability of failure, 1 − Success. It returns false
// without data.
func (d *DeltaQ) IntangibleMass() (Bounds, bool) {
	if d.Empty() {
		return Bounds{}, false
	}
	s := d.At(d.Bins())
	return Bounds{subDown(1, s.Hi), subUp(1, s.Lo)}, true
}

// Quantile returns bounds on the p-quantile over all executions, the least t with F(t) ≥ p. Hi is
// [Unreached] if the quantile may be in the intangible mass or after the horizon. Quantile
// returns false if it is certainly in the intangible mass, without data, and for p outside [0,
// 1].
//
// [Tolerance] decides ties: F(t) ≥ p means [AtLeast], so Hi is at least the exact quantile of p −
// Tolerance. Hi is below the exact quantile of p only if the exact F stays within Tolerance below
// p for a while. A model without an end approaches its probability of success but never reaches
// it. For that probability, Hi is always at least the exact quantile of p.
func (d *DeltaQ) Quantile(p float64) (Interval, bool) {
	if d.Empty() || !(p >= 0 && p <= 1) {
		return Interval{}, false
	}
	if p == 0 {
		return Interval{}, true
	}
	less := lessTolerance(p)
	from := sort.SearchFloat64s(d.hi, less)
	if from == len(d.hi) {
		return Interval{}, false
	}
	if d.Bounded() {
		p = less
	}
	v := Interval{d.edge(from), Unreached}
	if to := sort.SearchFloat64s(d.lo, p); to <= d.Bins() {
		v.Hi = d.edge(to)
	}
	return v, true
}

func (d *DeltaQ) edge(k int) time.Duration { return time.Duration(k) * d.width }

// Earliest returns bounds on the delay of the fastest success. Hi is [Unreached] if there may be
// no success. Earliest returns false if there is certainly no success, and without data.
func (d *DeltaQ) Earliest() (Interval, bool) {
	if d.Empty() || d.hi[d.Bins()] == 0 {
		return Interval{}, false
	}
	v := Interval{d.edge(firstPositive(d.hi)), Unreached}
	if k := firstPositive(d.lo); k <= d.Bins() {
		v.Hi = d.edge(k)
	}
	return v, true
}

// firstPositive returns the first index at which a non-decreasing function is positive, or the
// length of f if it is never positive.
func firstPositive(f []float64) int {
	return sort.Search(len(f), func(k int) bool { return f[k] > 0 })
}

// firstFull returns the first index at which a non-decreasing function has its last value.
func firstFull(f []float64) int { return sort.SearchFloat64s(f, f[len(f)-1]) }

// Deadline returns bounds on the delay of the slowest success. After it the distribution function
// does not grow any more. Hi is [Unreached] if d is not Bounded. Deadline returns false if no
// execution succeeds, and without data.
func (d *DeltaQ) Deadline() (Interval, bool) {
	n := d.Bins()
	if d.Empty() || d.hi[n] == 0 {
		return Interval{}, false
	}
	// F is below the success probability wherever hi is below lo[n].
	v := Interval{d.edge(sort.SearchFloat64s(d.hi, d.lo[n])), Unreached}
	if d.Bounded() {
		v.Hi = d.Horizon()
	}
	return v, true
}

// Equal reports whether d and x have the same bounds at all times, bit by bit. The widths of their
// bins may differ.
func (d *DeltaQ) Equal(x *DeltaQ) bool {
	if d.Empty() || x.Empty() {
		return d.Empty() == x.Empty()
	}
	if d.excess != x.excess {
		return false
	}
	var same bool
	eachStep(d, x, func(_ time.Duration, a, b Bounds) bool {
		same = a == b
		return same
	})
	return same
}

// eachStep calls f at each edge of d or x in order, with the bounds from that edge
// to the next, until f returns false.
func eachStep(d, x *DeltaQ, f func(t time.Duration, a, b Bounds) bool) {
	for i, j := 0, 0; ; {
		t := max(d.edge(i), x.edge(j))
		if !f(t, d.At(i), x.At(j)) {
			return
		}
		di, xj := nextEdge(d, i), nextEdge(x, j)
		if di == Unreached && xj == Unreached {
			return
		}
		if di <= xj {
			i++
		}
		if xj <= di {
			j++
		}
	}
}

func nextEdge(d *DeltaQ, k int) time.Duration {
	if k >= d.Bins() {
		return Unreached
	}
	return d.edge(k + 1)
}

// Clone returns a copy of d that shares nothing with it.
func (d *DeltaQ) Clone() *DeltaQ {
	if d.Empty() {
		return new(DeltaQ)
	}
	return &DeltaQ{width: d.width, lo: slices.Clone(d.lo), hi: slices.Clone(d.hi), excess: d.excess}
}

// String returns a short summary: the bin width, the number of bins, and the bounds of success.
func (d *DeltaQ) String() string {
	if d.Empty() {
		return "no data"
	}
	s := d.At(d.Bins())
	return fmt.Sprintf("%d bins of %v, success %.6g to %.6g", d.Bins(), d.width, s.Lo, s.Hi)
}

// trim removes the bins at the end in which the distribution function certainly does not change.
func (d *DeltaQ) trim() {
	n := d.Bins()
	for d.Bounded() && n > 0 && d.lo[n-1] == d.hi[n] {
		n--
	}
	d.lo, d.hi = d.lo[:n+1], d.hi[:n+1]
}

// resize makes room for n+1 values; they are not cleared.
func (d *DeltaQ) resize(width time.Duration, n int) {
	d.width, d.excess = width, excess{}
	d.lo, d.hi = withLength(d.lo, n+1), withLength(d.hi, n+1)
}

// withLength returns n values in the memory of x, or in new memory; they are not cleared.
func withLength(x []float64, n int) []float64 { return slices.Grow(x[:0], n)[:n] }

// setAtom makes d a single delay of k bins with a probability within mass.
func (d *DeltaQ) setAtom(width time.Duration, k int, mass Bounds) {
	if mass.Hi == 0 {
		k = 0
	}
	d.resize(width, k)
	clear(d.lo)
	clear(d.hi)
	d.lo[k], d.hi[k] = mass.Lo, mass.Hi
}

// atom returns the delay in bins and the success probability of a ΔQ in which every success has
// the same delay. It returns false for any other ΔQ.
func (d *DeltaQ) atom() (k int, mass Bounds, ok bool) {
	n := d.Bins()
	if !d.Bounded() || n > 0 && d.hi[n-1] != 0 {
		return 0, Bounds{}, false
	}
	return n, Bounds{d.lo[n], d.hi[n]}, true
}

// isConstant reports whether d has its final value from delay 0 on, as never does. Such a ΔQ has
// no edge that could be lost by rebinning.
func (d *DeltaQ) isConstant() bool { return len(d.lo) == 1 && d.Bounded() }

func checkProbability(p float64) error {
	if !(p >= 0 && p <= 1) {
		return fmt.Errorf("%w: %v: want 0 to 1", ErrProbability, p)
	}
	return nil
}

// Clear removes the data from d, and keeps its memory for the next result.
func (d *DeltaQ) Clear() {
	if d == nil {
		return
	}
	d.lo, d.hi, d.excess = d.lo[:0], d.hi[:0], excess{}
}
