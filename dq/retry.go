package dq

import (
	"fmt"
	"math"
	"time"
)

// MaxAttempts is the largest number of attempts of a retry.
const MaxAttempts = 1000

// Retry writes to dst the ΔQ of an outcome that is tried up to attempts times, one
// attempt after the other: one that is not done within t is given up, and the next
// starts then; when the last is not done within t either, the whole has failed.
// By the time τ, j = min(⌊τ/t⌋, attempts−1) attempts were given up, so that
//
//	1 − R(τ) = (1−F(t))ʲ · (1 − F(min(τ−j·t, t))).
//
// It returns [ErrOperands] unless 1 ≤ attempts ≤ MaxAttempts, [ErrDelay] unless
// 0 < t ≤ MaxModelDelay, and [ErrGrid] where the whole is too long for the widest
// bins.
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

// A retryState follows the attempts of a retry as time goes on.
type retryState struct {
	t     time.Duration // of one attempt
	last  int           // attempt, counted from 0
	tried int           // attempts given up
	left  float64       // a bound on the probability that all of those were
}

// advance goes on to the attempt under way and returns the time since its start.
func (r *retryState) advance(attempt, now time.Duration, giveUp func(float64) float64) time.Duration {
	for ; r.tried < r.last && time.Duration(r.tried) < attempt; r.tried++ {
		r.left = giveUp(r.left)
	}
	return now - time.Duration(r.tried)*r.t
}

// before is the upper bound of F at any time below until and up to t.
func (d *DeltaQ) before(until, t time.Duration) float64 {
	if until > t {
		return d.hi[d.index(t)]
	}
	return d.hi[min(int(ceilDiv(until, d.width))-1, d.Bins())]
}

// afterDown and afterUp are 1 − left·(1−f), exact for left = 1 and left = 0.
func afterDown(left, f float64) float64 {
	if left == 1 {
		return f
	}
	return max(f, subDown(1, mulUp(left, subUp(1, f))))
}

func afterUp(left, f float64) float64 {
	if left == 1 {
		return f
	}
	return subUp(1, mulDown(left, subDown(1, f)))
}

// RetryOverlap writes to dst the ΔQ of an outcome of which one more attempt is
// started each t, up to attempts in all, none of them given up; the first to be
// done counts: 1 − Πⱼ(1 − F(τ−j·t)), j = 0..attempts−1. The errors are those of
// Retry.
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

// overlapDown is the lower bound of an overlapping retry at a time.
func (d *DeltaQ) overlapDown(at, t time.Duration, attempts int) float64 {
	var f float64
	for j := time.Duration(0); j < time.Duration(attempts) && j*t <= at; j++ {
		f = addDown(f, mulDown(d.lo[d.index(at-j*t)], subDown(1, f)))
	}
	return f
}

// overlapUp is the upper bound of an overlapping retry before a time.
func (d *DeltaQ) overlapUp(until, t time.Duration, attempts int) float64 {
	var f float64
	for j := time.Duration(0); j < time.Duration(attempts) && j*t < until; j++ {
		f = min(1, addUp(f, mulUp(d.before(until-j*t, Unreached), subUp(1, f))))
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

// widen returns x, on bins so wide that all attempts take at most MaxBins.
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
