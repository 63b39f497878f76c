package dq

import "time"

// A Verdict is the answer to a question about figures known within bounds.
type Verdict int

// The verdicts. The zero Verdict is CannotTell.
const (
	CannotTell Verdict = iota // the bounds leave it open
	Yes
	No
)

// String returns "yes", "no" or "cannot tell".
func (v Verdict) String() string {
	switch v {
	case Yes:
		return "yes"
	case No:
		return "no"
	}
	return "cannot tell"
}

// An Order is the relation of two ΔQs in the partial order.
type Order int

// The relations. The zero Order is Unordered.
const (
	Unordered    Order = iota // the bounds leave it open
	Equal                     // each is at least as good as the other
	Less                      // the first is at least as good as the second
	Greater                   // the second is at least as good as the first
	Incomparable              // each is better than the other somewhere: their functions cross
)

// String returns "cannot tell", "equal", "less", "greater" or "incomparable".
func (o Order) String() string {
	switch o {
	case Equal:
		return "equal"
	case Less:
		return "less"
	case Greater:
		return "greater"
	case Incomparable:
		return "incomparable"
	}
	return "cannot tell"
}

// AtMost reports whether x ≤ y: x is at least as good as y, so its distribution function is nowhere
// below that of y (thesis, 2.1.4). Yes and No hold for every pair of distributions within the
// bounds, by [AtLeast]. Without data the answer is CannotTell.
func AtMost(x, y *DeltaQ) Verdict {
	if x.Empty() || y.Empty() {
		return CannotTell
	}
	verdict := Yes
	eachStep(x, y, func(_ time.Duration, a, b Bounds) bool {
		switch {
		case !AtLeast(a.Hi, b.Lo):
			verdict = No
		case !AtLeast(a.Lo, b.Hi):
			verdict = CannotTell
		}
		return verdict != No
	})
	return verdict
}

// Compare places x and y in the partial order of ΔQs. The result is Less if x ≤ y is certain and y
// ≤ x is possible.
func Compare(x, y *DeltaQ) Order {
	le, ge := AtMost(x, y), AtMost(y, x)
	switch {
	case le == Yes && ge == Yes:
		return Equal
	case le == Yes:
		return Less
	case ge == Yes:
		return Greater
	case le == No && ge == No:
		return Incomparable
	}
	return Unordered
}
