package dq

import (
	"fmt"
	"slices"
	"sort"
	"time"
)

// A DeltaQ is a ΔQ known within bounds: two discrete distributions on the edges
// k·width of bins, one pessimistic, one optimistic. For the exact distribution
// function F, and every t ≥ 0,
//
//	lo[⌊t/width⌋] ≤ F(t) ≤ hi[⌊t/width⌋]
//
// where an index beyond the last, n, stands for n. Discretisation moves a delay to
// one edge of its bin, up for lo and down for hi; every operator is monotonic in
// each operand, so it may be applied to the lower and to the upper bounds alone,
// and what comes out contains the exact result. All arithmetic is rounded outwards.
//
// The zero DeltaQ holds no data: operators refuse it with [ErrNoData], and what it
// is asked is false. A nil one is the same.
type DeltaQ struct {
	width  time.Duration
	lo, hi []float64 // n+1 values each, non-decreasing, 0 ≤ lo ≤ hi ≤ 1

	excess excess // how much successes exceed the horizon n·width
}

// Empty tells that there is no data: the zero DeltaQ.
func (d *DeltaQ) Empty() bool { return d == nil || len(d.lo) == 0 }

// Width is the width of the bins.
func (d *DeltaQ) Width() time.Duration {
	if d == nil {
		return 0
	}
	return d.width
}

// Bins is the number of bins, n; the bounds have n+1 values. It is as small as the
// distribution allows: 0 for never.
func (d *DeltaQ) Bins() int {
	if d.Empty() {
		return 0
	}
	return len(d.lo) - 1
}

// Horizon is n·width. Only a model that has no end, such as [Exponential], can
// have successes after it; then Bounded is false.
func (d *DeltaQ) Horizon() time.Duration { return time.Duration(d.Bins()) * d.Width() }

// Bounded tells that no success comes after the horizon.
func (d *DeltaQ) Bounded() bool { return d == nil || d.excess == (excess{}) }

// AppendBounds appends the n+1 values of the lower and of the upper bound at the
// edges 0..n to lo and hi, and returns them.
func (d *DeltaQ) AppendBounds(lo, hi []float64) (lower, upper []float64) {
	if d.Empty() {
		return lo, hi
	}
	return append(lo, d.lo...), append(hi, d.hi...)
}

// At bounds the distribution function within bin k, k·width ≤ t < (k+1)·width.
// It is zero for k < 0 and without data.
func (d *DeltaQ) At(k int) Bounds {
	if k < 0 || d.Empty() {
		return Bounds{}
	}
	k = min(k, d.Bins())
	return Bounds{d.lo[k], d.hi[k]}
}

// ProbabilityWithin bounds the probability of success within t. It is false
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

// index is ⌊t/width⌋, at most n.
func (d *DeltaQ) index(t time.Duration) int {
	return int(min(t/d.width, time.Duration(d.Bins())))
}

// Success bounds the probability of success at all, lim F(t). It is false without
// data.
func (d *DeltaQ) Success() (Bounds, bool) {
	if d.Empty() {
		return Bounds{}, false
	}
	return d.At(d.Bins()), true
}

// IntangibleMass bounds the probability of failure, 1 − Success. It is false
// without data.
func (d *DeltaQ) IntangibleMass() (Bounds, bool) {
	if d.Empty() {
		return Bounds{}, false
	}
	s := d.At(d.Bins())
	return Bounds{subDown(1, s.Hi), subUp(1, s.Lo)}, true
}

// Quantile bounds the p-quantile over all executions, the least t with
// F(t) ≥ p. Hi is [Unreached] where the quantile may fall in the intangible mass,
// or after the horizon. Quantile is false where it certainly falls in the
// intangible mass, without data, and for p outside [0, 1].
//
// At ties [Tolerance] decides: F(t) ≥ p is [AtLeast], so Hi is at least the exact
// quantile of p − Tolerance. Only where the exact F stays within Tolerance below p for a
// while is Hi below the exact quantile of p. A model without end comes near its
// probability of success and never reaches it, so there Hi is at least the exact
// quantile of p in every case.
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
	if to := sort.SearchFloat64s(d.lo, p); to < len(d.lo) {
		v.Hi = d.edge(to)
	}
	return v, true
}

func (d *DeltaQ) edge(k int) time.Duration { return time.Duration(k) * d.width }

// Earliest bounds the delay of the fastest success. Hi is [Unreached] where there
// may be none. It is false where there is none, and without data.
func (d *DeltaQ) Earliest() (Interval, bool) {
	if d.Empty() || d.hi[d.Bins()] == 0 {
		return Interval{}, false
	}
	v := Interval{d.edge(firstPositive(d.hi)), Unreached}
	if k := firstPositive(d.lo); k < len(d.lo) {
		v.Hi = d.edge(k)
	}
	return v, true
}

// firstPositive is the first index of a positive value of a non-decreasing
// function, and its length where there is none.
func firstPositive(f []float64) int {
	return sort.Search(len(f), func(k int) bool { return f[k] > 0 })
}

// firstFull is the first index at which a non-decreasing function has reached its
// last value.
func firstFull(f []float64) int { return sort.SearchFloat64s(f, f[len(f)-1]) }

// Deadline bounds the delay of the slowest success: after it the distribution
// function does not grow any more. Hi is [Unreached] where d is not Bounded. It is
// false where no execution succeeds, and without data.
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

// Equal tells whether d and x hold the same bounds at all times, bit by bit,
// whatever the width of their bins.
func (d *DeltaQ) Equal(x *DeltaQ) bool {
	if d.Empty() || x.Empty() {
		return d.Empty() == x.Empty()
	}
	if d.excess != x.excess {
		return false
	}
	same := true
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

// String is a summary for people: width, bins, and the bounds of success.
func (d *DeltaQ) String() string {
	if d.Empty() {
		return "no data"
	}
	s := d.At(d.Bins())
	return fmt.Sprintf("%d bins of %v, success %.6g to %.6g", d.Bins(), d.width, s.Lo, s.Hi)
}

// trim takes away the bins at the end in which nothing can happen any more.
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

// atom is the delay, in bins, and the probability of a d that is exactly one delay
// or a failure.
func (d *DeltaQ) atom() (k int, mass Bounds, ok bool) {
	n := d.Bins()
	if !d.Bounded() || n > 0 && d.hi[n-1] != 0 {
		return 0, Bounds{}, false
	}
	return n, Bounds{d.lo[n], d.hi[n]}, true
}

// isConstant tells that d is at its only value from the start, as never is: it has
// no edge that another width could miss.
func (d *DeltaQ) isConstant() bool { return len(d.lo) == 1 && d.Bounded() }

func checkProbability(p float64) error {
	if !(p >= 0 && p <= 1) {
		return fmt.Errorf("%w: %v: want 0 to 1", ErrProbability, p)
	}
	return nil
}

// Clear makes d empty, with no data, and keeps its memory for the next result.
func (d *DeltaQ) Clear() {
	if d == nil {
		return
	}
	d.lo, d.hi, d.excess = d.lo[:0], d.hi[:0], excess{}
}
