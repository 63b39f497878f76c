package dq

import (
	"fmt"
	"math"
	"time"
)

// MaxAttempts is the largest number of attempts of a retry.
const MaxAttempts = 1000

// Retry writes to dst the ΔQ of an outcome that is tried up to attempts times, one attempt after
// the other. An attempt that is not done within t is given up, and the next one starts at that
// time. If the last attempt is not done within t, the whole fails. By the time τ, j = min(⌊τ/t⌋,
// attempts−1) attempts were given up, so that
//
//	1 − R(τ) = (1−F(t))ʲ · (1 − F(min(τ−j·t, t))).
//
// It returns [ErrOperands] unless 1 ≤ attempts ≤ MaxAttempts, [ErrDelay] unless 0 < t ≤
// MaxModelDelay, and [ErrGrid] if the whole is too long for the widest bins.
func (c *Calculator) Retry(dst, x *DeltaQ, t time.Duration, attempts int) error {
	if err := checkRetry(x, t, attempts); err != nil {
		return err
	}
	if x.lo[x.index(t)] == 1 {
		return c.Timeout(dst, x, t)
	}
	x, err := c.widen(x, t, attempts)
	if err != nil {
		return err
	}
	c.out.resize(x.width, int(ceilDiv(t*time.Duration(attempts), x.width)))
	givenUp := Bounds{subDown(1, x.hi[x.index(t)]), subUp(1, x.lo[x.index(t)])}
	lower := retryState{t: t, last: attempts - 1, left: 1}
	upper := lower
	for k := range c.out.lo {
		at, until := x.edge(k), x.edge(k+1)
		rest := lower.advance(at/t, at, func(left float64) float64 { return mulUp(left, givenUp.Hi) })
		c.out.lo[k] = afterDown(lower.left, x.lo[x.index(min(rest, t))])
		rest = upper.advance(ceilDiv(until, t)-1, until, func(left float64) float64 { return mulDown(left, givenUp.Lo) })
		c.out.hi[k] = afterUp(upper.left, x.before(rest, t))
	}
	return c.finish(dst)
}

// A retryState follows the attempts of a retry over time.
type retryState struct {
	t     time.Duration // the duration of one attempt
	last  int           // the number of the last attempt, counted from 0
	tried int           // the number of attempts given up so far
	left  float64       // a bound on the probability that all of these attempts were given up
}

// advance moves on to the given attempt, at most the last one, and returns the time since that
// attempt started.
func (r *retryState) advance(attempt, now time.Duration, giveUp func(float64) float64) time.Duration {
	for ; r.tried < r.last && time.Duration(r.tried) < attempt; r.tried++ {
		r.left = giveUp(r.left)
	}
	return now - time.Duration(r.tried)*r.t
}

// before returns the upper bound of F at all times below until and at most t.
func (d *DeltaQ) before(until, t time.Duration) float64 {
	if until > t {
		return d.hi[d.index(t)]
	}
	return d.hi[min(int(ceilDiv(until, d.width))-1, d.Bins())]
}

// afterDown and afterUp bound 1 − left·(1−f). They are exact for left = 1 and left = 0.
func afterDown(left, f float64) float64 {
	return max(f, subDown(1, mulUp(left, subUp(1, f))))
}

func afterUp(left, f float64) float64 {
	if left == 1 {
		return f
	}
	return subUp(1, mulDown(left, subDown(1, f)))
}

// RetryOverlap writes to dst the ΔQ of an outcome that starts another attempt every t, up to
// attempts in all. Earlier attempts go on, and the first to succeed counts: 1 − Πⱼ(1 − F(τ−j·t)), j
// = 0..attempts−1. The errors are those of Retry.
func (c *Calculator) RetryOverlap(dst, x *DeltaQ, t time.Duration, attempts int) error {
	if err := checkRetry(x, t, attempts); err != nil {
		return err
	}
	x, err := c.widen(x, t, attempts)
	if err != nil {
		return err
	}
	length := t*time.Duration(attempts-1) + x.Horizon()
	c.out.resize(x.width, int(ceilDiv(length, x.width)))
	for k := range c.out.lo {
		c.out.lo[k] = x.overlapDown(x.edge(k), t, attempts)
		c.out.hi[k] = x.overlapUp(x.edge(k+1), t, attempts)
	}
	c.out.excess = x.excess.times(attempts)
	return c.finish(dst)
}

// overlapDown returns the lower bound of an overlapping retry at a time.
func (d *DeltaQ) overlapDown(at, t time.Duration, attempts int) float64 {
	var f float64
	for j := time.Duration(0); j < time.Duration(attempts) && j*t <= at; j++ {
		f = addDown(f, mulDown(d.lo[d.index(at-j*t)], subDown(1, f)))
	}
	return f
}

// overlapUp returns the upper bound of an overlapping retry before a time.
func (d *DeltaQ) overlapUp(until, t time.Duration, attempts int) float64 {
	var f float64
	for j := time.Duration(0); j < time.Duration(attempts) && j*t < until; j++ {
		// F falls with j, so f is at least F here: the sum stays at most 1.
		f = addUp(f, mulUp(d.before(until-j*t, Unreached), subUp(1, f)))
	}
	return f
}

func checkRetry(x *DeltaQ, t time.Duration, attempts int) error {
	if x.Empty() {
		return ErrNoData
	}
	if attempts < 1 || attempts > MaxAttempts {
		return fmt.Errorf("%w: %d attempts: want 1 to %d", ErrOperands, attempts, MaxAttempts)
	}
	if t <= 0 || t > MaxModelDelay {
		return fmt.Errorf("%w: retry after %v: want above 0, at most %v", ErrDelay, t, MaxModelDelay)
	}
	return nil
}

// widen returns x on bins wide enough that all attempts together take at most MaxBins bins.
func (c *Calculator) widen(x *DeltaQ, t time.Duration, attempts int) (*DeltaQ, error) {
	if t > (math.MaxInt64-x.Horizon())/time.Duration(attempts+1) {
		return nil, fmt.Errorf("%w: %d attempts of %v", ErrDelay, attempts, t)
	}
	length := t*time.Duration(attempts) + x.Horizon()
	factor := ceilDiv(ceilDiv(length, x.width), MaxBins)
	if factor <= 1 {
		return x, nil
	}
	if x.width > MaxWidth/factor {
		return nil, fmt.Errorf("%w: %d attempts of %v", ErrGrid, attempts, t)
	}
	if len(c.spare) == 0 {
		c.spare = make([]DeltaQ, 1)
	}
	rebin(&c.spare[0], x, x.width*factor)
	return &c.spare[0], nil
}
