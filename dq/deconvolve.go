package dq

import (
	"fmt"
	"math"
	"sort"
	"time"
)

// A NoResidualError means that no ΔQ in sequence with the part gives the whole. It shows where
// the bounds prove this: within At, the whole succeeds with probability at least Needs, but the
// part followed by any ΔQ succeeds with probability at most Possible.
type NoResidualError struct {
	At              time.Duration
	Needs, Possible float64
}

func (e *NoResidualError) Error() string {
	return fmt.Sprintf("no residual exists: within %v the whole needs a probability of %.6g, and the part allows at most %.6g",
		e.At, e.Needs, e.Possible)
}

// An UndecidedError means that the bounds of a part do not show whether the part alone meets a
// QTA. The requirement lies between the bounds at the given point.
type UndecidedError struct {
	Required Step
	Final    bool   // the requirement on overall success; Required.T is then 0
	Reached  Bounds // the bounds on the probability of the part at this point
}

func (e *UndecidedError) Error() string {
	within := fmt.Sprintf(" within %v", e.Required.T)
	if e.Final {
		within = ""
	}
	return fmt.Sprintf("the bounds cannot tell whether anything is left:%s the whole needs a probability of %.6g, and the part alone reaches between %.6g and %.6g",
		within, e.Required.P, e.Reached.Lo, e.Reached.Hi)
}

// A Residual is the rest of a sequence after a part has been removed.
type Residual struct {
	// Bounds contains each ΔQ that, in sequence with some ΔQ within the bounds of the part, gives
	// a ΔQ within the bounds of the whole.
	Bounds *DeltaQ

	// Estimate, in sequence with the part, gives the whole as closely as possible. It is the
	// quotient of the two if that is a distribution, and otherwise the ΔQ of greatest likelihood.
	Estimate *DeltaQ

	// Error is the largest distance between the whole and Estimate in sequence with the part. It is
	// near 0 for a true quotient. If it is large, the whole is not a sequence of the part and
	// something independent of it.
	Error float64
	At    time.Duration // the first time at which the distance is Error
}

// maxDeconvolved is the largest total number of bins of both operands for a deconvolution. Above
// it, the operands are rebinned, because the cost is quadratic.
const maxDeconvolved = 2048

// Deconvolve returns the residual R of whole = part ⊕ R. It returns a [*NoResidualError] if the
// bounds prove that no residual exists, and [ErrNoData] if one of the two is empty. Operands with
// more than 2048 bins in total are rebinned.
//
// From F_W = F_P ⊕ F_R, two bounds follow for all times τ and t:
//
//	F_P(a)·F_R(τ) ≤ F_W(τ+a)
//	F_W(t) ≤ F_R(τ)·F_P(t) + (s_R − F_R(τ))·F_P(t−τ).
func Deconvolve(whole, part *DeltaQ) (*Residual, error) {
	var c Calculator
	if _, err := c.align([]*DeltaQ{whole, part}, maxDeconvolved); err != nil {
		return nil, err
	}
	w, p := c.aligned[0], c.aligned[1]
	bounds, err := residualBounds(w, p)
	if err != nil {
		return nil, err
	}
	r := &Residual{Bounds: bounds, Estimate: estimate(w, p)}
	again, err := Sequential(r.Estimate, p)
	if err != nil {
		return nil, err
	}
	eachStep(again, w, func(at time.Duration, a, b Bounds) bool {
		if d := max(math.Abs(a.Lo-b.Lo), math.Abs(a.Hi-b.Hi)); d > r.Error {
			r.Error, r.At = d, at
		}
		return true
	})
	return r, nil
}

// residualBounds applies both inequalities at all edges.
func residualBounds(w, p *DeltaQ) (*DeltaQ, error) {
	n, ws, ps := w.Bins(), w.At(w.Bins()), p.At(p.Bins())
	if ws.Lo > ps.Hi+Tolerance {
		return nil, &NoResidualError{At: w.Horizon(), Needs: ws.Lo, Possible: ps.Hi}
	}
	success := 1.0 // an upper bound
	if ps.Lo > 0 {
		success = min(1, divUp(ws.Hi, ps.Lo))
	}
	out := new(DeltaQ)
	out.resize(w.width, n)
	for k := range n + 1 {
		hi := residualAbove(w, p, k, success)
		lo, at := residualBelow(w, p, k, success)
		if lo > hi+Tolerance {
			possible := addUp(mulUp(p.At(at).Hi, hi), mulUp(subUp(success, hi), p.At(at-k-1).Hi))
			return nil, &NoResidualError{At: w.edge(at), Needs: w.At(at).Lo, Possible: possible}
		}
		// The upper bound rises with k, because the whole does. A lower bound at one time is also
		// a lower bound at every later time.
		out.lo[k], out.hi[k] = min(lo, hi), hi
		if k > 0 {
			out.lo[k] = max(out.lo[k], out.lo[k-1])
		}
	}
	// If the part succeeds, the whole exceeds the horizon by at least as much as the residual.
	out.excess = w.excess.given(ps.Lo)
	out.trim()
	return out, nil
}

// residualAbove returns an upper bound of F_R within bin k, by F_W(τ+a)/F_P(a).
func residualAbove(w, p *DeltaQ, k int, success float64) float64 {
	hi := success
	for a := range p.lo {
		if p.lo[a] > 0 {
			hi = min(hi, divUp(w.At(k+a).Hi, p.lo[a]))
		}
	}
	return hi
}

// residualBelow returns a lower bound of F_R at edge k, and the edge of the whole that it results
// from. A bound above 1 means a contradiction.
func residualBelow(w, p *DeltaQ, k int, success float64) (lo float64, at int) {
	for i := k; i < len(w.lo); i++ {
		later, all := p.At(i-k-1).Hi, p.At(i).Hi
		need := subDown(w.lo[i], mulUp(success, later))
		if need <= Tolerance {
			continue
		}
		bound := math.Inf(1)
		if all > later {
			bound = divDown(need, subUp(all, later))
		}
		if bound > lo {
			lo, at = bound, i
		}
	}
	return lo, at
}

// estimate returns a ΔQ between the quotient of the lower distributions and that of the upper
// ones.
func estimate(w, p *DeltaQ) *DeltaQ {
	lo := quotient(w.lo, p.lo)
	hi := quotient(w.hi, p.hi)
	n := max(len(lo), len(hi)) - 1
	out := new(DeltaQ)
	out.resize(w.width, n)
	for k := range n + 1 {
		a, b := lo[min(k, len(lo)-1)], hi[min(k, len(hi)-1)]
		out.lo[k], out.hi[k] = min(a, b), max(a, b)
	}
	out.trim()
	return out
}

// quotient returns the distribution function r with w = p ⊕ r, or the closest one. Division is
// stable from one end of the density and may amplify rounding errors from the other. If it is
// unstable from both ends, or if no true quotient exists, r is fitted.
func quotient(w, p []float64) []float64 {
	dw, dp := appendDensity(nil, w), appendDensity(nil, p)
	from := supportOf(w).from - supportOf(p).from
	n := len(dw) - len(dp) + 1
	if w[len(w)-1] == 0 || p[len(p)-1] == 0 {
		return []float64{0}
	}
	if from >= 0 && n >= 1 {
		for _, r := range [][]float64{divide(dw, dp, n), flip(divide(flip(dw), flip(dp), n))} {
			if isQuotient(dw, dp, r) {
				return cumulative(r, from)
			}
		}
	}
	// Fit on all delays that a residual may have.
	return cumulative(fit(appendAll(w), appendAll(p)), 0)
}

// appendAll returns the density of f from 0 to its last edge.
func appendAll(f []float64) []float64 {
	out, before := make([]float64, 0, len(f)), 0.0
	for _, v := range f {
		out = append(out, v-before)
		before = v
	}
	return out
}

// divide returns the first n terms of the power series w/p. p[0] must not be 0.
func divide(w, p []float64, n int) []float64 {
	r := make([]float64, n)
	for k := range r {
		var sum accumulator
		sum.add(w[k])
		for j := 1; j <= k && j < len(p); j++ {
			sum.add(float64(-p[j] * r[k-j]))
		}
		r[k] = sum.sum() / p[0]
	}
	return r
}

func flip(x []float64) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[len(x)-1-i] = v
	}
	return out
}

// quotientError is the tolerance for a quotient: for negative values, and for the distance of its
// product from the whole.
const quotientError = 1e-9

// isQuotient reports whether r is a distribution and r times p is w, within quotientError. It
// sets negative values within the tolerance to 0.
func isQuotient(w, p, r []float64) bool {
	var sum float64
	for i, v := range r {
		if !(v >= -quotientError) {
			return false
		}
		r[i] = max(0, v)
		sum += r[i]
	}
	if sum > 1+quotientError {
		return false
	}
	product := make([]float64, len(w))
	for i, a := range r {
		for j, b := range p {
			product[i+j] += float64(a * b)
		}
	}
	var distance float64
	for i, v := range product {
		distance += v - w[i]
		if math.Abs(distance) > quotientError {
			return false
		}
	}
	return true
}

// cumulative returns the distribution function of a density that starts at an edge.
func cumulative(density []float64, from int) []float64 {
	out := make([]float64, from, from+len(density))
	var sum accumulator
	for _, v := range density {
		sum.add(v)
		out = append(out, min(1, sum.sum()))
	}
	return out
}

// fitRounds is the number of iterations of fit. After that many, the changes are far smaller than
// bins can show.
const fitRounds = 200

// fit returns the non-negative r of greatest likelihood for w = p ⊕ r. It uses the iteration of
// Richardson (1972) and Lucy (1974), which preserves the sum.
func fit(w, p []float64) []float64 {
	n := len(w)
	r, product, ratio := make([]float64, n), make([]float64, n), make([]float64, n)
	var sumP float64
	for _, v := range p {
		sumP += v
	}
	for i := range r {
		r[i] = 1 // the first iteration gives the same result from any start with equal masses
	}
	for range fitRounds {
		clear(product)
		for j, b := range p {
			if b != 0 {
				for i, a := range r[:n-min(j, n)] {
					product[i+j] += float64(a * b)
				}
			}
		}
		for i := range ratio {
			ratio[i] = 0
			if product[i] > 0 {
				ratio[i] = w[i] / product[i]
			}
		}
		for i := range r {
			var s float64
			for j := 0; j < len(p) && i+j < n; j++ {
				s += float64(p[j] * ratio[i+j])
			}
			r[i] = float64(r[i] * (s / sumP))
		}
	}
	return bounded(r)
}

// bounded scales r down to a sum of at most 1.
func bounded(r []float64) []float64 {
	var sum float64
	for _, v := range r {
		sum += v
	}
	if sum > 1 {
		for i := range r {
			r[i] /= sum
		}
	}
	return r
}

// A Budget is the delay or failure that a QTA on a sequence leaves for the other parts, if one
// part is known.
type Budget struct {
	// Delay is the longest fixed delay that the rest may have if it never fails. Failure is the
	// highest probability of failure that the rest may have if it takes no time. With either of
	// them the QTA is certainly met.
	Delay   time.Duration
	Failure float64

	// Floor contains points that every rest must reach. This is necessary but not sufficient. The
	// points are at the edges of bins of the part, up to edge MaxBins.
	Floor []Step
}

// BudgetFor returns what q leaves for the other parts of a sequence that contains part. It returns
// a [*NoResidualError] if part alone certainly fails q, an [*UndecidedError] if its bounds do not
// show whether it does, and [ErrNoData] if part is empty.
func BudgetFor(q QTA, part *DeltaQ) (Budget, error) {
	j, err := q.Judge(part)
	if err != nil {
		return Budget{}, err
	}
	if err := missedBy(part, j); err != nil {
		return Budget{}, err
	}
	b := Budget{Delay: Unreached, Failure: 1}
	for _, p := range j.Points {
		reached := addDown(p.Required.P, p.Probability.Lo)
		if p.Required.P == 0 {
			continue
		}
		b.Failure = min(b.Failure, max(0, subDown(1, divUp(p.Required.P, reached))))
		if !p.Final {
			b.Delay = min(b.Delay, p.Required.T-metFrom(part, p.Required.P))
		}
	}
	b.Floor = floor(q, part)
	return b, nil
}

// metFrom returns the first edge from which on d certainly meets a required probability, as AtLeast
// decides. Some edge must meet it. A quantile may be later: if d has no end, it ignores the
// Tolerance.
func metFrom(d *DeltaQ, p float64) time.Duration {
	return d.edge(sort.SearchFloat64s(d.lo, lessTolerance(p)))
}

// missedBy returns an error for the first point of a judgement that the part certainly misses. If
// there is no such point, the error is for the first one that the part may miss.
func missedBy(part *DeltaQ, j Judgement) error {
	var undecided error
	for _, p := range j.Points {
		at := part.Bins()
		if !p.Final {
			at = part.index(p.Required.T)
		}
		reached := part.At(at)
		switch {
		case p.Met == No:
			return &NoResidualError{At: p.Required.T, Needs: p.Required.P, Possible: reached.Hi}
		case p.Met == CannotTell && undecided == nil:
			undecided = &UndecidedError{Required: p.Required, Final: p.Final, Reached: reached}
		}
	}
	return undecided
}

// floor applies the second inequality of Deconvolve to the points of q, at the edges of bins.
func floor(q QTA, part *DeltaQ) []Step {
	if len(q.steps) == 0 {
		return nil
	}
	var out []Step
	last := 0.0
	for k := 0; part.edge(k) <= q.steps[len(q.steps)-1].T && k <= MaxBins; k++ {
		if bound := floorAt(q, part, part.edge(k)); bound > last+Tolerance {
			out = append(out, Step{part.edge(k), bound})
			last = bound
		}
	}
	return out
}

// floorAt returns the lowest value that the distribution function of the rest may have at a time.
func floorAt(q QTA, part *DeltaQ, at time.Duration) float64 {
	var bound float64
	for _, s := range q.steps {
		if s.T < at {
			continue
		}
		later, all := part.At(part.index(s.T-at)).Hi, part.At(part.index(s.T)).Hi
		if need := subDown(s.P, later); need > Tolerance && all > later {
			bound = max(bound, min(1, divDown(need, subUp(all, later))))
		}
	}
	return bound
}
