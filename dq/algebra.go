package dq

import "time"

// The operators as functions: each has a Calculator of its own and returns a new
// ΔQ. See the methods of [Calculator] of the same names.

// Sequential is [Calculator.Sequential] into a new DeltaQ.
func Sequential(xs ...*DeltaQ) (*DeltaQ, error) {
	return fresh(func(c *Calculator, d *DeltaQ) error { return c.Sequential(d, xs...) })
}

// FirstToFinish is [Calculator.FirstToFinish] into a new DeltaQ.
func FirstToFinish(xs ...*DeltaQ) (*DeltaQ, error) {
	return fresh(func(c *Calculator, d *DeltaQ) error { return c.FirstToFinish(d, xs...) })
}

// AllToFinish is [Calculator.AllToFinish] into a new DeltaQ.
func AllToFinish(xs ...*DeltaQ) (*DeltaQ, error) {
	return fresh(func(c *Calculator, d *DeltaQ) error { return c.AllToFinish(d, xs...) })
}

// Choice is [Calculator.Choice] into a new DeltaQ.
func Choice(weights []float64, xs ...*DeltaQ) (*DeltaQ, error) {
	return fresh(func(c *Calculator, d *DeltaQ) error { return c.Choice(d, weights, xs...) })
}

// Scale is [Calculator.Scale] into a new DeltaQ.
func Scale(x *DeltaQ, p float64) (*DeltaQ, error) {
	return fresh(func(c *Calculator, d *DeltaQ) error { return c.Scale(d, x, p) })
}

// Rebin is [Calculator.Rebin] into a new DeltaQ.
func Rebin(x *DeltaQ, width time.Duration) (*DeltaQ, error) {
	return fresh(func(c *Calculator, d *DeltaQ) error { return c.Rebin(d, x, width) })
}

// Timeout is [Calculator.Timeout] into a new DeltaQ.
func Timeout(x *DeltaQ, t time.Duration) (*DeltaQ, error) {
	return fresh(func(c *Calculator, d *DeltaQ) error { return c.Timeout(d, x, t) })
}

// Retry is [Calculator.Retry] into a new DeltaQ.
func Retry(x *DeltaQ, t time.Duration, attempts int) (*DeltaQ, error) {
	return fresh(func(c *Calculator, d *DeltaQ) error { return c.Retry(d, x, t, attempts) })
}

// RetryOverlap is [Calculator.RetryOverlap] into a new DeltaQ.
func RetryOverlap(x *DeltaQ, t time.Duration, attempts int) (*DeltaQ, error) {
	return fresh(func(c *Calculator, d *DeltaQ) error { return c.RetryOverlap(d, x, t, attempts) })
}

func fresh(f func(*Calculator, *DeltaQ) error) (*DeltaQ, error) {
	d := new(DeltaQ)
	if err := f(new(Calculator), d); err != nil {
		return nil, err
	}
	return d, nil
}
