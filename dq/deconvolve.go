package dq

import (
	"fmt"
	"math"
	"time"
)

// A NoResidualError says that no ΔQ exists that makes the whole out of the part,
// and where that is seen: within At the whole is done with probability at least
// Needs, while the part, with whatever follows it, can reach Possible at most.
type NoResidualError struct {
	At              time.Duration
	Needs, Possible float64
}

func (e *NoResidualError) Error() string {
	return fmt.Sprintf("no residual exists: within %v the whole needs a probability of %.6g, and the part allows at most %.6g",
		e.At, e.Needs, e.Possible)
}

// An UndecidedError says that the bounds of a part cannot tell whether the part alone meets a
// QTA, and where: the bounds are on both sides of what is required there.
type UndecidedError struct {
	Required Step
	Final    bool   // the requirement is that on success at all; Required.T is 0 then
	Reached  Bounds // the probability of the part there
}

func (e *UndecidedError) Error() string {
	within := fmt.Sprintf(" within %v", e.Required.T)
	if e.Final {
		within = ""
	}
	return fmt.Sprintf("the bounds cannot tell whether anything is left:%s the whole needs a probability of %.6g, and the part alone reaches between %.6g and %.6g",
		within, e.Required.P, e.Reached.Lo, e.Reached.Hi)
}

// A Residual is what is left of a whole when a part is taken out of the sequence.
type Residual struct {
	// Bounds contain every ΔQ that makes, in sequence with one within the bounds
	// of the part, one within the bounds of the whole.
	Bounds *DeltaQ

	// Estimate is one that reproduces the whole: the quotient of the two where it
	// is a distribution, otherwise the one of greatest likelihood.
	Estimate *DeltaQ

	// Error is the largest distance of Estimate, in sequence with the part, from
	// the whole. It is near 0 for a true quotient. Where it is large, the whole is
	// no sequence of the part and something independent of it.
	Error float64
	At    time.Duration // the first time at which the distance is that large
}

// maxDeconvolved is the number of bins above which a deconvolution, whose cost is
// quadratic, uses wider ones: of both operands together.
const maxDeconvolved = 2048

// Deconvolve returns the residual R of whole = part ⊕ R. It returns a
// [*NoResidualError] where the bounds prove that there is none, and [ErrNoData]
// where one of the two is empty. Operands of more than 2048 bins together are rebinned.
//
// With F_W = F_P ⊕ F_R the bounds follow for all times τ and t from
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
	success := 1.0 // at most
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
		// The upper bound rises with k, as the whole does. What bounds the residual from below at
		// one time bounds it at the later ones.
		out.lo[k], out.hi[k] = min(lo, hi), hi
		if k > 0 {
			out.lo[k] = max(out.lo[k], out.lo[k-1])
		}
	}
	// The whole exceeds the horizon by at least as much as the residual does, wherever the
	// part succeeds.
	out.excess = w.excess.given(ps.Lo)
	out.trim()
	return out, nil
}

// residualAbove bounds F_R within bin k from above by F_W(τ+a)/F_P(a).
func residualAbove(w, p *DeltaQ, k int, success float64) float64 {
	hi := success
	for a := range p.lo {
		if p.lo[a] > 0 {
			hi = min(hi, divUp(w.At(k+a).Hi, p.lo[a]))
		}
	}
	return hi
}

// residualBelow bounds F_R at edge k from below, and tells the edge of the whole
// that does it. A bound above 1 is the sign of a contradiction.
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

// estimate is the quotient of the lower distributions and that of the upper ones.
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

// quotient is the distribution function r with w = p ⊕ r, or as near as can be.
// Division from the one end grows rounding errors where division from the other
// does not; where both do, or where there is no true quotient, it is fitted.
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

// appendAll is the density of f from 0 to its last edge.
func appendAll(f []float64) []float64 {
	out, before := make([]float64, 0, len(f)), 0.0
	for _, v := range f {
		out = append(out, v-before)
		before = v
	}
	return out
}

// divide is the first n terms of the power series w/p; p[0] is not 0.
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

// quotientError is how far a quotient may be from non-negative, and its product
// from the whole.
const quotientError = 1e-9

// isQuotient tells that r is a distribution and times p is w. It sets what is
// negative by no more than rounding to 0.
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

// cumulative is the distribution function of a density that starts at an edge.
func cumulative(density []float64, from int) []float64 {
	out := make([]float64, from, from+len(density))
	var sum accumulator
	for _, v := range density {
		sum.add(v)
		out = append(out, min(1, sum.sum()))
	}
	return out
}

// fitRounds is the number of steps of fit: after them the change is far below what
// bins can show.
const fitRounds = 200

// fit finds the non-negative r of greatest likelihood for w = p ⊕ r, by the
// iteration of Richardson (1972) and Lucy (1974), which keeps the sum.
func fit(w, p []float64) []float64 {
	n := len(w)
	r, product, ratio := make([]float64, n), make([]float64, n), make([]float64, n)
	var sumP float64
	for _, v := range p {
		sumP += v
	}
	for i := range r {
		r[i] = 1 // in the first round any start with all masses the same becomes the same
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

// A Budget is what a QTA on a sequence leaves for the rest of it, given one part.
type Budget struct {
	// Delay is the longest fixed delay the rest may have, if it never fails;
	// Failure the highest probability of failure it may have, if it takes no time.
	// Both are guaranteed to meet the QTA.
	Delay   time.Duration
	Failure float64

	// Floor are points that every rest has to reach, whatever its shape: necessary
	// and, alone, not sufficient.
	Floor []Step
}

// BudgetFor returns what q leaves for the rest of a sequence of which part is a
// part. It returns a [*NoResidualError] where part alone certainly fails q, an
// [*UndecidedError] where its bounds cannot tell whether it does, and [ErrNoData] where part
// is empty.
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
		if p.HasTime && !p.Final {
			b.Delay = min(b.Delay, max(0, p.Time.Lo))
		}
	}
	b.Floor = floor(q, part)
	return b, nil
}

// missedBy returns an error for the first point of a judgement that a part certainly misses.
// Where there is none, the error is for the first point that the part may miss.
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

// floor applies the second inequality of Deconvolve to the points of q, at edges.
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

// floorAt is the least value at a time of the distribution function of the rest.
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
