package dq

import (
	"fmt"
	"math"
	"time"
)

// The limits of a grid.
const (
	MinWidth    = time.Microsecond                       // the narrowest bin
	MaxWidth    = time.Duration(math.MaxInt64 / MaxBins) // the widest, 39 hours: so that no dMax overflows
	MaxBins     = 65536                                  // of any grid
	MaxBaseBins = 1000                                   // of a grid by [BaseGrid], as in the thesis
	MaxExponent = 10                                     // of a grid by [BaseGrid], as in the thesis; the least is -MaxExponent
)

// A Grid divides the delays from 0 to dMax into N bins of equal width. Bin i
// holds the delays t with i·width ≤ t < (i+1)·width; the last one holds dMax as
// well. The zero Grid is not valid: use a constructor. Grids are comparable.
type Grid struct {
	width time.Duration
	n     int
}

// NewGrid returns the grid of n bins of the given width. It returns [ErrGrid]
// unless MinWidth ≤ width ≤ MaxWidth and 1 ≤ n ≤ MaxBins.
func NewGrid(width time.Duration, n int) (Grid, error) {
	if err := checkWidth(width); err != nil {
		return Grid{}, err
	}
	if n < 1 || n > MaxBins {
		return Grid{}, fmt.Errorf("%w: %d bins: want 1 to %d", ErrGrid, n, MaxBins)
	}
	return Grid{width: width, n: n}, nil
}

func checkWidth(width time.Duration) error {
	if width < MinWidth {
		return fmt.Errorf("%w: bin width %v: want at least %v", ErrGrid, width, MinWidth)
	}
	if width > MaxWidth {
		return fmt.Errorf("%w: bin width %v: want at most %v", ErrGrid, width, MaxWidth)
	}
	return nil
}

// BaseGrid returns the grid of n bins of width base·2^exponent, so that
// dMax = base·2^exponent·n (thesis, eq. 5.3). Grids of the same base have widths
// that divide each other. It returns [ErrGrid] unless base ≥ MinWidth, exponent
// is in -MaxExponent..MaxExponent, n is in 1..MaxBaseBins and the width is a
// whole number of nanoseconds and a width NewGrid takes.
func BaseGrid(base time.Duration, exponent, n int) (Grid, error) {
	if base < MinWidth {
		return Grid{}, fmt.Errorf("%w: base %v: want at least %v", ErrGrid, base, MinWidth)
	}
	if exponent < -MaxExponent || exponent > MaxExponent {
		return Grid{}, fmt.Errorf("%w: exponent %d: want %d to %d", ErrGrid, exponent, -MaxExponent, MaxExponent)
	}
	if n < 1 || n > MaxBaseBins {
		return Grid{}, fmt.Errorf("%w: %d bins: want 1 to %d", ErrGrid, n, MaxBaseBins)
	}
	width, err := scaleByPower(base, exponent)
	if err != nil {
		return Grid{}, err
	}
	return NewGrid(width, n)
}

// scaleByPower returns base·2^exponent, for |exponent| ≤ MaxExponent.
func scaleByPower(base time.Duration, exponent int) (time.Duration, error) {
	if exponent < 0 {
		d := time.Duration(1) << -exponent
		if base%d != 0 {
			return 0, fmt.Errorf("%w: base %v times 2^%d is not a whole number of nanoseconds", ErrGrid, base, exponent)
		}
		return base / d, nil
	}
	if base > MaxWidth>>exponent {
		return 0, fmt.Errorf("%w: base %v times 2^%d: want a bin width of at most %v", ErrGrid, base, exponent, MaxWidth)
	}
	return base << exponent, nil
}

// DMaxGrid returns the grid that divides 0 to dMax into n bins. It never rounds a width: it returns
// [ErrGrid] if dMax/n is not a whole number of nanoseconds, or if NewGrid does not accept dMax/n
// and n.
func DMaxGrid(dMax time.Duration, n int) (Grid, error) {
	if n < 1 || n > MaxBins {
		return Grid{}, fmt.Errorf("%w: %d bins: want 1 to %d", ErrGrid, n, MaxBins)
	}
	if dMax%time.Duration(n) != 0 {
		return Grid{}, fmt.Errorf("%w: dMax %v over %d bins is not a whole number of nanoseconds a bin", ErrGrid, dMax, n)
	}
	return NewGrid(dMax/time.Duration(n), n)
}

// Width is the width of a bin.
func (g Grid) Width() time.Duration { return g.width }

// Bins is the number of bins, N.
func (g Grid) Bins() int { return g.n }

// DMax is the upper edge of the last bin, N·width: an instance that takes longer
// has timed out.
func (g Grid) DMax() time.Duration { return g.Edge(g.n) }

// Edge is i·width, the lower edge of bin i. The edges of a grid are 0..N.
func (g Grid) Edge(i int) time.Duration { return time.Duration(i) * g.width }

// Bin is the bin of a delay, in 0..N-1: ⌊t/width⌋, and the last bin for t = dMax.
// It is false for t > dMax, which is a timeout, and for t < 0.
func (g Grid) Bin(t time.Duration) (int, bool) {
	switch dMax := g.DMax(); {
	case t < 0 || t > dMax:
		return 0, false
	case t == dMax:
		return g.n - 1, g.n > 0
	}
	return int(t / g.width), true
}

func (g Grid) valid() bool { return g.n > 0 }

// String is the grid as "50 bins of 1ms".
func (g Grid) String() string { return fmt.Sprintf("%d bins of %v", g.n, g.width) }
