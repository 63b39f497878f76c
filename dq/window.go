package dq

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// The usual numbers of standard errors, see [Window.WriteStandardErrors].
const (
	Z68 = 1.0  // 68 % of a normal distribution, as in the thesis (5.1.3)
	Z95 = 1.96 // 95 %
)

// MaxWindow is the largest number of ΔQs in a Window.
const MaxWindow = 1024

// fixedOne is 1 as a fixed-point number: sums of these and of their squares are
// exact integers, so that inserting and removing leave no trace.
const fixedOne = 1 << 52

// A Window holds the distribution functions of the last ΔQs of a probe, and gives
// at each edge of its grid their mean with confidence bounds: wide bounds tell of
// a system that is not stationary. It is filled by Insert, which lets the oldest go
// when the window is full, and allocates nothing from then on.
type Window struct {
	grid    Grid
	ring    []held
	oldest  int
	held    int
	sums    []uint64
	squares []uint128
	halves  []uint64 // sums likewise; nil where there have only been exact ones

	// Memory for WriteBand.
	looked      []int     // edges
	covariances []float64 // by how far windows are apart
	quantiles   []float64 // of Student's distribution by degrees of freedom; 0 is unknown
	confidence  float64   // that they are for
}

// held is one of the ΔQs in a window: fixed-point values at the N+1 edges, and how far
// the bounds around them are away. Both are nil where none have been yet, and the
// latter is empty where the values are exact.
type held struct {
	values, halves []uint64
	instances      uint64
}

type uint128 struct{ hi, lo uint64 }

// NewWindow returns an empty window of up to capacity ΔQs. It returns [ErrGrid]
// for the zero grid and [ErrOperands] unless 1 ≤ capacity ≤ MaxWindow.
func NewWindow(g Grid, capacity int) (*Window, error) {
	if !g.valid() {
		return nil, fmt.Errorf("%w: the zero grid", ErrGrid)
	}
	if capacity < 1 || capacity > MaxWindow {
		return nil, fmt.Errorf("%w: window of %d: want 1 to %d", ErrOperands, capacity, MaxWindow)
	}
	w := &Window{grid: g, sums: make([]uint64, g.Bins()+1), squares: make([]uint128, g.Bins()+1)}
	w.ring = make([]held, capacity)
	return w, nil
}

// Len is the number of ΔQs held.
func (w *Window) Len() int { return w.held }

// Grid is the grid of the window.
func (w *Window) Grid() Grid { return w.grid }

// Insert adds the ECDF of o, and removes the oldest when the window is full. It
// returns [ErrNoData] where o is empty and [ErrGrid] where o is of another grid;
// then the window stays as it was.
func (w *Window) Insert(o *Observed) error {
	if o.Empty() {
		return ErrNoData
	}
	if o.Grid() != w.grid {
		return fmt.Errorf("%w: %v in a window of %v", ErrGrid, o.Grid(), w.grid)
	}
	n, sum := float64(o.Instances()), uint64(0)
	slot := w.slot()
	slot.instances = o.Instances()
	slot.halves = slot.halves[:0]
	for k := range slot.values {
		slot.values[k] = fixed(float64(sum) / n)
		sum += o.Count(k)
	}
	w.add(slot)
	return nil
}

// InsertCalculated adds a calculated ΔQ, of which the outcome behind it with the fewest
// has so many instances: as those of a mean, the values of a convolution vary no more
// than if they were counted from as many (Hoeffding, 1948: the parts of the variance of a
// U-statistic sum to no more than that of its kernel).
//
// What is added is what is known of d at the edges: its bounds there are the
// lower one from edge k on and the upper one up to it, lo[k] and hi[k−1], or lo[0] at
// the edge 0. The middle counts as the value, and half their distance widens the band:
// where d is exact at the edges, as what was observed is, the middle is its
// distribution function and the distance 0. What lies beyond dMax is left out.
//
// The bins of d have to be as wide as the grid's. InsertCalculated returns [ErrNoData]
// where d is empty or instances is 0, and [ErrGrid] where its bins are of another width.
func (w *Window) InsertCalculated(d *DeltaQ, instances uint64) error {
	if d.Empty() || instances == 0 {
		return ErrNoData
	}
	if !w.grid.valid() || d.Width() != w.grid.Width() && !d.isConstant() {
		return fmt.Errorf("%w: bins of %v in a window of %v", ErrGrid, d.Width(), w.grid)
	}
	if w.halves == nil {
		w.halves = make([]uint64, len(w.sums))
	}
	slot := w.slot()
	slot.instances = instances
	slot.halves = slices.Grow(slot.halves[:0], len(w.sums))[:len(w.sums)]
	before := d.At(0).Lo
	for k := range slot.values {
		b := d.At(k)
		lo, hi := fixed(b.Lo), fixed(max(b.Lo, before)) // a delay of exactly the edge is in the lower one alone
		half := (hi - lo) / 2
		slot.values[k], slot.halves[k] = lo+half, hi-lo-half
		before = b.Hi
	}
	w.add(slot)
	return nil
}

func fixed(p float64) uint64 { return uint64(math.RoundToEven(float64(p * fixedOne))) }

// slot is room for one more, made where there is none.
func (w *Window) slot() *held {
	if w.held == len(w.ring) {
		w.RemoveOldest()
	}
	place := w.at(w.held)
	if place.values == nil { // many a window never gets all that it may hold
		place.values = make([]uint64, w.grid.Bins()+1)
	}
	return place
}

// at is the place of the window i, counted from the oldest.
func (w *Window) at(i int) *held { return &w.ring[(w.oldest+i)%len(w.ring)] }

func (w *Window) add(h *held) {
	for k, x := range h.values {
		w.sums[k] += x
		hi, lo := bits.Mul64(x, x)
		var carry uint64
		w.squares[k].lo, carry = bits.Add64(w.squares[k].lo, lo, 0)
		w.squares[k].hi, _ = bits.Add64(w.squares[k].hi, hi, carry)
	}
	for k, x := range h.halves {
		w.halves[k] += x
	}
	w.held++
}

// RemoveOldest takes the oldest ΔQ out of the window, if there is one.
func (w *Window) RemoveOldest() {
	if w.held == 0 {
		return
	}
	for k, x := range w.ring[w.oldest].halves {
		w.halves[k] -= x
	}
	for k, x := range w.ring[w.oldest].values {
		w.sums[k] -= x
		hi, lo := bits.Mul64(x, x)
		var borrow uint64
		w.squares[k].lo, borrow = bits.Sub64(w.squares[k].lo, lo, 0)
		w.squares[k].hi, _ = bits.Sub64(w.squares[k].hi, hi, borrow)
	}
	w.oldest = (w.oldest + 1) % len(w.ring)
	w.held--
}

// A Band is a mean with bounds at each edge 0..N, in [0, 1].
type Band struct{ Mean, Lo, Hi []float64 }

// WriteStandardErrors writes to dst, whose memory it uses, the mean μ of the distribution
// functions held and μ ± (h + z·σ/√n), with σ the standard deviation of the population
// (thesis, eq. 5.7 to 5.9, the last without its misprint), and h the mean of what the bins
// hide of the calculated ones, 0 for observed ones; cut off at 0 and 1.
//
// These are the bounds of the thesis, and z standard errors is all that they are: they
// contain the long-run mean less often than a normal distribution would have it, where
// windows resemble the ones before them, where a share is near 0 or 1, and where windows
// are few. For bounds with a probability see [Window.WriteBand]. WriteStandardErrors
// returns [ErrNoData] for an empty window and [ErrProbability] for a z below 0 or not a
// number.
func (w *Window) WriteStandardErrors(dst *Band, z float64) error {
	if w.held == 0 {
		return ErrNoData
	}
	if !(z >= 0) {
		return fmt.Errorf("%w: z %v: want at least 0", ErrProbability, z)
	}
	w.resize(dst)
	scale := z / math.Sqrt(float64(w.held))
	for k := range w.sums {
		mean, half := w.mean(k), float64(scale*w.deviation(k))+w.hidden(k)
		dst.Mean[k], dst.Lo[k], dst.Hi[k] = mean, max(0, mean-half), min(1, mean+half)
	}
	return nil
}

// mean is the mean at edge k.
func (w *Window) mean(k int) float64 {
	return float64(w.sums[k]) / float64(float64(w.held)*fixedOne)
}

// hidden is the mean of what the bins hide at edge k.
func (w *Window) hidden(k int) float64 {
	if w.halves == nil {
		return 0
	}
	return float64(w.halves[k]) / float64(float64(w.held)*fixedOne)
}

// deviation is the standard deviation at edge k: √(nΣx² − (Σx)²)/n, with the
// difference exact in 128 bits. The sums are below 2^62, the squares below 2^114,
// n times them below 2^124.
func (w *Window) deviation(k int) float64 {
	n := uint64(w.held)
	hi, lo := bits.Mul64(w.squares[k].lo, n)
	hi += w.squares[k].hi * n
	sumHi, sumLo := bits.Mul64(w.sums[k], w.sums[k])
	lo, borrow := bits.Sub64(lo, sumLo, 0)
	hi, _ = bits.Sub64(hi, sumHi, borrow)
	if hi|lo == 0 {
		return 0 // as before the first delay and after the last
	}
	return math.Sqrt(float64(float64(hi)*0x1p64)+float64(lo)) / float64(float64(n)*fixedOne)
}
