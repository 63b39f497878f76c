package dq

import "time"

// A Curve is a function of delay that need not be a distribution: a sum or a
// difference of two distribution functions. Lo[k] ≤ exact ≤ Hi[k] for
// k·Width ≤ t < (k+1)·Width, and from the last k on.
type Curve struct {
	Width  time.Duration
	Lo, Hi []float64
}

// Add returns the sum of the distribution functions of x and y, in [0, 2], on the
// wider of their bins (thesis, eq. 5.6). It returns [ErrNoData] where one of them
// is empty. To multiply them is AllToFinish.
func Add(x, y *DeltaQ) (Curve, error) {
	return curve(x, y, func(a, b Bounds) Bounds { return Bounds{addDown(a.Lo, b.Lo), addUp(a.Hi, b.Hi)} })
}

// Subtract returns the distribution function of x less that of y, in [-1, 1]. See
// Add for the rest.
func Subtract(x, y *DeltaQ) (Curve, error) {
	return curve(x, y, func(a, b Bounds) Bounds { return Bounds{subDown(a.Lo, b.Hi), subUp(a.Hi, b.Lo)} })
}

// Multiply returns the product of the distribution functions of x and y, in
// [0, 1]. See Add for the rest.
func Multiply(x, y *DeltaQ) (Curve, error) {
	return curve(x, y, func(a, b Bounds) Bounds { return Bounds{mulDown(a.Lo, b.Lo), mulUp(a.Hi, b.Hi)} })
}

func curve(x, y *DeltaQ, f func(a, b Bounds) Bounds) (Curve, error) {
	var c Calculator
	width, err := c.align([]*DeltaQ{x, y}, 2*MaxBins)
	if err != nil {
		return Curve{}, err
	}
	out := Curve{Width: width}
	for k := range c.bins() + 1 {
		b := f(c.aligned[0].At(k), c.aligned[1].At(k))
		out.Lo, out.Hi = append(out.Lo, b.Lo), append(out.Hi, b.Hi)
	}
	return out, nil
}
