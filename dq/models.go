package dq

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// MaxModelDelay is the largest delay of a model, 104 days: up to it nanoseconds
// are exact as a float64.
const MaxModelDelay = time.Duration(1 << 53)

// The models below take their bin width from a grid. If the longest delay of a model needs more
// than [MaxBins] bins, the width is multiplied by a whole number. The grid's dMax matters only to
// models without an end.

// Never returns never: the ΔQ of an outcome that always fails, the bottom of
// the algebra.
func Never() *DeltaQ {
	d := new(DeltaQ)
	d.setAtom(MinWidth, 0, Bounds{})
	return d
}

// Unknown returns the ΔQ of an unknown outcome: at any delay its distribution function is from 0 to
// 1. Results that use it, above all from [Calculator.Choice], have bounds that allow for every
// possibility.
func Unknown() *DeltaQ {
	d := new(DeltaQ)
	d.setAtom(MinWidth, 0, Bounds{0, 1})
	d.excess = unbounded()
	return d
}

// Immediate returns the ΔQ of an outcome that is always done at once: the neutral
// element of Sequential and AllToFinish.
func Immediate() *DeltaQ {
	d := new(DeltaQ)
	d.setAtom(MinWidth, 0, Bounds{1, 1})
	return d
}

// Wait returns the ΔQ of an outcome that always takes t. The ΔQ is exact if t is on an edge, and
// otherwise bounded by the edges next to it. Wait returns [ErrGrid] for the zero grid and
// [ErrDelay] unless 0 ≤ t ≤ MaxModelDelay.
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
	return d, nil
}

// newModel returns a DeltaQ with room for delays up to longest. It does not set the values.
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

// A Step means that the probability of success within a delay is P, for delays from T up to the T
// of the next step.
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

// A BoundedStep means that the probability of success within T is from Lo to Hi.
type BoundedStep struct {
	T      time.Duration
	Lo, Hi float64
}

// Envelope returns the ΔQ of a delay whose distribution function has known bounds at some delays:
// between two of them it is at least the Lo of the first and at most the Hi of the second. There is
// no success after the last. It returns [ErrOperands] without a point, [ErrGrid] for the zero grid,
// [ErrDelay] unless the delays rise from point to point within 0..MaxModelDelay, and
// [ErrProbability] unless 0 ≤ Lo ≤ Hi ≤ 1 and neither falls.
func Envelope(g Grid, points []BoundedStep) (*DeltaQ, error) {
	lower, upper := make([]Step, len(points)), make([]Step, len(points))
	for i, p := range points {
		lower[i], upper[i] = Step{p.T, p.Lo}, Step{p.T, p.Hi}
		if p.Lo > p.Hi {
			return nil, fmt.Errorf("%w: point %d is from %v down to %v", ErrProbability, i+1, p.Lo, p.Hi)
		}
	}
	if err := cmp.Or(checkSteps(lower), checkSteps(upper)); err != nil {
		return nil, err
	}
	d, err := newModel(g, points[0].T, points[len(points)-1].T)
	if err != nil {
		return nil, err
	}
	passed, ahead := 0, 0
	for k := range d.lo {
		for passed < len(points) && points[passed].T <= d.edge(k) {
			passed++
		}
		for ahead < len(points)-1 && points[ahead].T < d.edge(k+1) {
			ahead++
		}
		d.lo[k], d.hi[k] = stepValue(lower, passed), points[ahead].Hi
	}
	d.trim()
	return d, nil
}

// Samples returns the ΔQ of the delays of successful instances, all with the same probability, and
// of a number of failed instances. It cuts nothing at the grid's dMax. It returns [ErrNoData]
// without instances, [ErrGrid] for the zero grid, [ErrDelay] for a delay outside 0..MaxModelDelay
// and [ErrCounts] for more than [MaxInstances].
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
	return d, nil
}
