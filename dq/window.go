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

// fixedOne is 1 as a fixed-point number. Sums of fixed-point numbers and of their squares are exact
// integers, so inserting a ΔQ and removing it leaves no rounding error.
const fixedOne = 1 << 52

// A Window holds the distribution functions of the last ΔQs of an outcome, and gives their mean with
// confidence bounds at each edge of its grid. Wide bounds show a system that is not stationary.
// Insert adds a ΔQ, and drops the oldest one if the window is full. A full window allocates
// nothing.
type Window struct {
	grid    Grid
	ring    []held
	oldest  int
	held    int
	sums    []uint64 // nil until there is a ΔQ
	squares []uint128
	halves  []uint64 // the sums of the half-widths; nil if all values so far were exact

	// looked and the fields below are working memory for WriteBand.
	looked      []int     // edges
	values      []float64 // at those edges, by edge and then by window
	covariances []float64 // by the distance between windows
	quantiles   []float64 // quantiles of Student's distribution by degrees of freedom; 0 means unknown
	confidence  float64   // the confidence that quantiles belongs to
}

// held is one of the ΔQs in a window: its fixed-point values at the edges. Most observed ΔQs have few different
// values, so only the edges where they change are held. If there are many of these, and for a calculated ΔQ, the
// values at all N+1 edges are held, and edges is empty.
type held struct {
	edges     []uint16 // the values change here, each less one; the value before the first is 0
	values    []uint64
	halves    []uint64 // half-widths of the bounds around the values; empty if the values are exact
	instances uint64
}

// mostSteps returns the largest number of changes that take less room than the values at all edges.
func mostSteps(edges int) int { return edges * 8 / 10 }

// at returns the value at edge k.
func (h *held) at(k int) uint64 {
	if len(h.edges) == 0 && len(h.values) > 0 {
		return h.values[k]
	}
	n, found := slices.BinarySearchFunc(h.edges, k, func(edge uint16, k int) int { return int(edge) + 1 - k })
	switch {
	case found:
		return h.values[n]
	case n == 0:
		return 0
	}
	return h.values[n-1]
}

// each calls do for each run of edges with the same value that is not 0. The run ends before edge to.
func (h *held) each(edges int, do func(value uint64, from, to int)) {
	if len(h.edges) == 0 {
		for k, x := range h.values {
			do(x, k, k+1)
		}
		return
	}
	for i, edge := range h.edges {
		to := edges
		if i+1 < len(h.edges) {
			to = int(h.edges[i+1]) + 1
		}
		do(h.values[i], int(edge)+1, to)
	}
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
	return &Window{grid: g, ring: make([]held, capacity)}, nil
}

// edges returns the number of edges.
func (w *Window) edges() int { return w.grid.Bins() + 1 }

// Len is the number of ΔQs held.
func (w *Window) Len() int { return w.held }

// Grid is the grid of the window.
func (w *Window) Grid() Grid { return w.grid }

// Bytes is the number of bytes that the ΔQs in the window need: 10 for each different value of an observed one,
// but at most 8 for each edge, and 16 for each edge of a calculated one.
func (w *Window) Bytes() int {
	n := 0
	for i := range w.held {
		h := w.at(i)
		n += 2*len(h.edges) + 8*(len(h.values)+len(h.halves))
	}
	return n
}

// Insert adds the ECDF of o. If the window is full, it first removes the oldest one. It returns
// [ErrNoData] if o is empty and [ErrGrid] if o has another grid, and then does not change the
// window.
func (w *Window) Insert(o *Observed) error {
	if o.Empty() {
		return ErrNoData
	}
	if o.Grid() != w.grid {
		return fmt.Errorf("%w: %v in a window of %v", ErrGrid, o.Grid(), w.grid)
	}
	slot := w.slot()
	slot.instances = o.Instances()
	slot.halves = slot.halves[:0]
	slot.observe(o, w.edges())
	w.add(slot)
	return nil
}

// observe sets the values to those of an observed ΔQ.
func (h *held) observe(o *Observed, edges int) {
	steps := 0
	for _, c := range o.counts {
		if c > 0 {
			steps++
		}
	}
	n, sum := float64(o.Instances()), uint64(0)
	if steps > mostSteps(edges) {
		h.edges, h.values = h.edges[:0], withRoom(h.values, edges)
		for k := range edges {
			h.values = append(h.values, fixed(float64(sum)/n))
			sum += o.Count(k)
		}
		return
	}
	h.edges, h.values = withRoom(h.edges, steps), withRoom(h.values, steps)
	for bin, c := range o.counts {
		if c > 0 {
			sum += c
			h.edges, h.values = append(h.edges, uint16(bin)), append(h.values, fixed(float64(sum)/n))
		}
	}
}

// withRoom returns an empty slice with room for n values: the memory of x, unless that is too small, or much
// too large.
func withRoom[T any](x []T, n int) []T {
	const spare = 32
	if cap(x) < n || cap(x) > 2*n+spare {
		return make([]T, 0, n)
	}
	return x[:0]
}

// InsertCalculated adds a calculated ΔQ. instances is the smallest number of instances of the
// outcomes that it is calculated from: like a mean, the values of a convolution vary no more than
// if they were counted from that many instances (Hoeffding, 1948: the parts of the variance of a
// U-statistic sum to no more than that of its kernel).
//
// The window stores what is known about d at the edges. The bounds at edge k are lo[k] and hi[k−1],
// or lo[0] at the edge 0: the lower bound holds from edge k on and the upper bound up to it. The
// middle of them counts as the value, and half their distance widens the band. If d is exact at the
// edges, as an observed ΔQ is, the middle is its distribution function and the distance is 0.
// Delays beyond dMax are left out.
//
// The bins of d must have the width of the grid's. InsertCalculated returns [ErrNoData] if d is
// empty or instances is 0, and [ErrGrid] if its bins have another width.
func (w *Window) InsertCalculated(d *DeltaQ, instances uint64) error {
	if d.Empty() || instances == 0 {
		return ErrNoData
	}
	if !w.grid.valid() || d.Width() != w.grid.Width() && !d.isConstant() {
		return fmt.Errorf("%w: bins of %v in a window of %v", ErrGrid, d.Width(), w.grid)
	}
	slot := w.slot()
	if w.halves == nil {
		w.halves = make([]uint64, w.edges())
	}
	slot.instances = instances
	slot.edges = slot.edges[:0]
	slot.values, slot.halves = withRoom(slot.values, w.edges())[:w.edges()], withRoom(slot.halves, w.edges())[:w.edges()]
	before := d.At(0).Lo
	for k := range w.sums {
		b := d.At(k)
		lo, hi := fixed(b.Lo), fixed(max(b.Lo, before)) // a delay of exactly the edge is in the lower bound only
		half := (hi - lo) / 2
		slot.values[k], slot.halves[k] = lo+half, hi-lo-half
		before = b.Hi
	}
	w.add(slot)
	return nil
}

func fixed(p float64) uint64 { return uint64(math.RoundToEven(float64(p * fixedOne))) }

// slot returns a place for one more ΔQ. If the window is full, it first removes the oldest one.
func (w *Window) slot() *held {
	if w.held == len(w.ring) {
		w.RemoveOldest()
	}
	if w.sums == nil { // allocate late: many outcomes have no instances
		w.sums, w.squares = make([]uint64, w.edges()), make([]uint128, w.edges())
	}
	return w.at(w.held)
}

// at returns the place of the i-th ΔQ. The oldest one is number 0.
func (w *Window) at(i int) *held { return &w.ring[(w.oldest+i)%len(w.ring)] }

func (w *Window) add(h *held) {
	h.each(w.edges(), func(x uint64, from, to int) {
		hi, lo := bits.Mul64(x, x)
		sums, squares := w.sums[from:to], w.squares[from:to]
		for k := range sums {
			var carry uint64
			sums[k] += x
			squares[k].lo, carry = bits.Add64(squares[k].lo, lo, 0)
			squares[k].hi, _ = bits.Add64(squares[k].hi, hi, carry)
		}
	})
	for k, x := range h.halves {
		w.halves[k] += x
	}
	w.held++
}

// RemoveOldest removes the oldest ΔQ from the window, if there is one.
func (w *Window) RemoveOldest() {
	if w.held == 0 {
		return
	}
	h := &w.ring[w.oldest]
	for k, x := range h.halves {
		w.halves[k] -= x
	}
	h.each(w.edges(), func(x uint64, from, to int) {
		hi, lo := bits.Mul64(x, x)
		sums, squares := w.sums[from:to], w.squares[from:to]
		for k := range sums {
			var borrow uint64
			sums[k] -= x
			squares[k].lo, borrow = bits.Sub64(squares[k].lo, lo, 0)
			squares[k].hi, _ = bits.Sub64(squares[k].hi, hi, borrow)
		}
	})
	w.oldest = (w.oldest + 1) % len(w.ring)
	w.held--
}

// A Band is a mean with bounds at each edge 0..N, in [0, 1].
type Band struct{ Mean, Lo, Hi []float64 }

// WriteStandardErrors writes to dst, whose memory it uses, the mean μ of the distribution functions
// and μ ± (h + z·σ/√n), cut off at 0 and 1. σ is the standard deviation of the population (thesis,
// eq. 5.7 to 5.9, the last without its misprint). h is the mean uncertainty within the bins of the
// calculated ΔQs, 0 for observed ones.
//
// These are the bounds of the thesis, and they are only z standard errors. They contain the
// long-run mean less often than a normal distribution suggests, if windows resemble the ones before
// them, if a share is near 0 or 1, or if there are few windows. For bounds with a probability see
// [Window.WriteBand]. WriteStandardErrors returns [ErrNoData] for an empty window and
// [ErrProbability] for a z below 0 or not a number.
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

// mean returns the mean at edge k.
func (w *Window) mean(k int) float64 {
	return float64(w.sums[k]) / float64(float64(w.held)*fixedOne)
}

// hidden returns the mean of the half-widths at edge k, which is the uncertainty within the bins.
func (w *Window) hidden(k int) float64 {
	if w.halves == nil {
		return 0
	}
	return float64(w.halves[k]) / float64(float64(w.held)*fixedOne)
}

// deviation returns the standard deviation at edge k: √(nΣx² − (Σx)²)/n, with the difference
// exact in 128 bits. The sums are below 2^62, the squares below 2^114, n times them below 2^124.
func (w *Window) deviation(k int) float64 {
	n := uint64(w.held)
	hi, lo := bits.Mul64(w.squares[k].lo, n)
	hi += w.squares[k].hi * n
	sumHi, sumLo := bits.Mul64(w.sums[k], w.sums[k])
	lo, borrow := bits.Sub64(lo, sumLo, 0)
	hi, _ = bits.Sub64(hi, sumHi, borrow)
	if hi|lo == 0 {
		return 0 // as before the first delay and after the last one
	}
	return math.Sqrt(float64(float64(hi)*0x1p64)+float64(lo)) / float64(float64(n)*fixedOne)
}
