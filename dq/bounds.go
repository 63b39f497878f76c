package dq

import (
	"math"
	"time"
)

// Bounds contain an exact figure: Lo ≤ exact ≤ Hi. Bounds of a probability are in [0, 1]. For other
// figures, the function that returns them documents the unit.
type Bounds struct{ Lo, Hi float64 }

// Contains reports whether Lo ≤ v ≤ Hi.
func (b Bounds) Contains(v float64) bool { return b.Lo <= v && v <= b.Hi }

// Width is Hi − Lo: how little is known.
func (b Bounds) Width() float64 { return b.Hi - b.Lo }

// Mid is halfway between Lo and Hi.
func (b Bounds) Mid() float64 { return b.Lo + (b.Hi-b.Lo)/2 }

// Unreached is the Hi of an [Interval] whose end is not known to be reached: the
// outcome may fail instead. It is greater than every delay.
const Unreached = time.Duration(math.MaxInt64)

// An Interval contains an exact delay: Lo ≤ exact ≤ Hi, with Hi possibly [Unreached].
type Interval struct{ Lo, Hi time.Duration }

// Contains reports whether Lo ≤ t ≤ Hi.
func (v Interval) Contains(t time.Duration) bool { return v.Lo <= t && t <= v.Hi }

// Finite reports whether the upper end is a delay, not [Unreached].
func (v Interval) Finite() bool { return v.Hi != Unreached }

// Over is b/x for b ≥ 0 and x > 0, rounded outwards.
func (b Bounds) Over(x float64) Bounds { return Bounds{divDown(b.Lo, x), divUp(b.Hi, x)} }
