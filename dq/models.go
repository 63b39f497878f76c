package dq

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// MaxModelDelay is the largest delay of a model, 104 days: up to it nanoseconds
// are exact as a float64.
const MaxModelDelay = time.Duration(1 << 53)

// The models below take their bin width from a grid. Where their longest delay
// needs more than [MaxBins] bins, the width is multiplied by a whole number.
// The grid's dMax matters only to a model without an end.

// Never returns never: the ΔQ of an outcome that always fails, the bottom of
// the algebra.
func Never() *DeltaQ {
	d := new(DeltaQ)
	d.setAtom(MinWidth, 0, Bounds{})
	return d
}

// Immediate returns the ΔQ of an outcome that is always done at once: the neutral
// element of Sequential and AllToFinish.
func Immediate() *DeltaQ {
	d := new(DeltaQ)
	d.setAtom(MinWidth, 0, Bounds{1, 1})
	return d
}

// Wait returns the ΔQ of an outcome that always takes t: exact where t is on an
// edge, otherwise bounded by the edges next to it. It returns [ErrGrid] for the
// zero grid and [ErrDelay] unless 0 ≤ t ≤ MaxModelDelay.
func Wait(g Grid, t time.Duration) (*DeltaQ, error) {
	return Steps(g, []Step{{t, 1}})
}

// Uniform returns the ΔQ of a delay uniform on [from, to], which may be equal. It
// returns [ErrGrid] for the zero grid and [ErrDelay] unless
// 0 ≤ from ≤ to ≤ MaxModelDelay.
func Uniform(g Grid, from, to time.Duration) (*DeltaQ, error) {
	if from == to {
		return Wait(g, to)
	}
	if from > to {
		return nil, fmt.Errorf("%w: uniform from %v to %v", ErrDelay, from, to)
	}
	d, err := newModel(g, from, to)
	if err != nil {
		return nil, err
	}
	span := float64(to - from)
	for k := range d.lo {
		at, next := d.edge(k), d.edge(k+1)
		d.lo[k] = divDown(float64(min(max(at, from), to)-from), span)
		d.hi[k] = divUp(float64(min(max(next, from), to)-from), span)
	}
	d.trim()
	return d, nil
}

// newModel returns a DeltaQ, not filled, with room for delays up to longest.
func newModel(g Grid, shortest, longest time.Duration) (*DeltaQ, error) {
	if !g.valid() {
		return nil, fmt.Errorf("%w: the zero grid", ErrGrid)
	}
	if shortest < 0 {
		return nil, fmt.Errorf("%w: %v", ErrDelay, shortest)
	}
	if longest > MaxModelDelay {
		return nil, fmt.Errorf("%w: %v: want at most %v", ErrDelay, longest, MaxModelDelay)
	}
	n := ceilDiv(longest, g.Width())
	width := g.Width() * ceilDiv(n, MaxBins)
	if longest == 0 {
		width = g.Width()
	}
	d := new(DeltaQ)
	d.resize(width, int(ceilDiv(longest, width)))
	return d, nil
}

func ceilDiv(a, b time.Duration) time.Duration {
	q := a / b
	if a%b != 0 {
		q++
	}
	return q
}

// Exponential returns the ΔQ of a delay that is exponential with the given mean,
// F(t) = 1 − exp(−t/mean). It has no end: the grid's dMax is the horizon, beyond
// which the lower bound does not rise. It returns [ErrGrid] for the zero grid and
// [ErrDelay] unless 0 < mean ≤ MaxModelDelay and dMax ≤ MaxModelDelay.
func Exponential(g Grid, mean time.Duration) (*DeltaQ, error) {
	if mean <= 0 || mean > MaxModelDelay {
		return nil, fmt.Errorf("%w: exponential with mean %v", ErrDelay, mean)
	}
	d, err := newModel(g, 0, g.DMax())
	if err != nil {
		return nil, err
	}
	// Quotient and Expm1 are each within an ulp; F is no steeper in its relative
	// error than its argument.
	const below, above = 1 - 0x1p-50, 1 + 0x1p-50
	f := func(t time.Duration) float64 { return -math.Expm1(-float64(t) / float64(mean)) }
	for k := range d.lo {
		d.lo[k] = mulDown(f(d.edge(k)), below)
		d.hi[k] = min(1, mulUp(f(d.edge(k+1)), above))
	}
	d.hi[d.Bins()] = 1
	// E[T−H; T>H] = m·exp(−H/m), and E[(T−H)²; T>H] = 2m²·exp(−H/m), for the mean m.
	beyond := math.Exp(-float64(d.Horizon())/float64(mean)) * (1 + 1e-12)
	beyond = max(beyond, math.SmallestNonzeroFloat64)
	d.excess = excess{mulUp(float64(mean), beyond), mulUp(float64(mean), rootUp(mulUp(2, beyond)))}
	return d, nil
}

// A Step says that the probability of success within T is P, for T up to that of
// the next step.
type Step struct {
	T time.Duration
	P float64
}

// Steps returns the ΔQ of a step function: F(t) is the P of the last step with
// T ≤ t, and 0 before the first. It returns [ErrOperands] without a step,
// [ErrGrid] for the zero grid, [ErrDelay] unless the delays rise from step to step
// within 0..MaxModelDelay, and [ErrProbability] unless the probabilities are in
// [0, 1] and do not fall.
func Steps(g Grid, steps []Step) (*DeltaQ, error) {
	if err := checkSteps(steps); err != nil {
		return nil, err
	}
	d, err := newModel(g, steps[0].T, steps[len(steps)-1].T)
	if err != nil {
		return nil, err
	}
	i, j := 0, 0
	for k := range d.lo {
		for i < len(steps) && steps[i].T <= d.edge(k) {
			i++
		}
		for j < len(steps) && steps[j].T < d.edge(k+1) {
			j++
		}
		d.lo[k], d.hi[k] = stepValue(steps, i), stepValue(steps, j)
	}
	d.trim()
	return d, nil
}

func stepValue(steps []Step, passed int) float64 {
	if passed == 0 {
		return 0
	}
	return steps[passed-1].P
}

func checkSteps(steps []Step) error {
	if len(steps) == 0 {
		return fmt.Errorf("%w: no step", ErrOperands)
	}
	for i, s := range steps {
		if err := checkProbability(s.P); err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
		if s.T < 0 || i > 0 && s.T <= steps[i-1].T {
			return fmt.Errorf("%w: step %d at %v: want rising delays", ErrDelay, i+1, s.T)
		}
		if i > 0 && s.P < steps[i-1].P {
			return fmt.Errorf("%w: step %d falls from %v to %v", ErrProbability, i+1, steps[i-1].P, s.P)
		}
	}
	return nil
}

// Samples returns the ΔQ of the delays of instances that succeeded, each as likely
// as the other, and of a number of instances that failed. Nothing is cut at the
// grid's dMax. It returns [ErrNoData] where there is no instance at all,
// [ErrGrid] for the zero grid, [ErrDelay] for a delay outside 0..MaxModelDelay and
// [ErrCounts] for more than [MaxInstances].
func Samples(g Grid, delays []time.Duration, failures uint64) (*DeltaQ, error) {
	if failures > MaxInstances || failures+uint64(len(delays)) > MaxInstances {
		return nil, errTooMany()
	}
	n := float64(failures + uint64(len(delays)))
	if n == 0 {
		return nil, fmt.Errorf("%w: no sample", ErrNoData)
	}
	if len(delays) == 0 {
		return Never(), nil
	}
	sorted := slices.Sorted(slices.Values(delays))
	d, err := newModel(g, sorted[0], sorted[len(sorted)-1])
	if err != nil {
		return nil, err
	}
	for k := range d.lo {
		at, _ := slices.BinarySearch(sorted, d.edge(k)+1)
		below, _ := slices.BinarySearch(sorted, d.edge(k+1))
		d.lo[k] = divDown(float64(at), n)
		d.hi[k] = divUp(float64(below), n)
	}
	d.trim()
	return d, nil
}
