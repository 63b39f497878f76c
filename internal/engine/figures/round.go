package figures

import (
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/beamscope/beamscope/dq"
)

// PercentDown shows a share like [Percent], rounded down, as a lower bound. A share that differs
// from a decimal by at most 1e-12 of it counts as that decimal, because 0.07 has no exact float64.
func PercentDown(share float64) string { return Down(share*100, 2) + "%" }

// AtLeast shows a share that is a lower bound. A share below 1 is never shown as 100 %.
func AtLeast(share float64) string {
	text := PercentDown(share)
	if share < 1 && text == "100.00%" {
		text = "99.99%"
	}
	return "≥" + text
}

// PercentUp shows a share like [PercentDown], rounded up, as an upper bound.
func PercentUp(share float64) string { return Up(share*100, 2) + "%" }

// Down and Up write x ≥ 0 with a fixed number of decimals, as a lower and an upper bound. A number
// that differs from a decimal by at most 1e-12 of it counts as that decimal.
func Down(x float64, decimals int) string { return fixed(x, decimals, floor) }

// Up is described at [Down].
func Up(x float64, decimals int) string { return fixed(x, decimals, ceil) }

func fixed(number float64, decimals int, round func(*big.Rat, int) *big.Rat) string {
	x := new(big.Rat).SetFloat64(number)
	n := nearest(x, decimals)
	limit := new(big.Rat).Mul(n, new(big.Rat).SetFloat64(dq.Tolerance))
	if d := new(big.Rat).Sub(x, n); d.Abs(d).Cmp(limit) > 0 {
		n = round(x, decimals)
	}
	return n.FloatString(decimals)
}

// Probability shows the bounds of a probability: as one figure if both look the same, and otherwise
// as the lower bound, such as ≥99.98%.
func Probability(b dq.Bounds) string {
	if text := Percent(b.Hi); text == Percent(b.Lo) {
		return text
	}
	if text := PercentDown(b.Lo); text == PercentUp(b.Hi) {
		return text
	}
	return AtLeast(b.Lo)
}

// DelayDown and DelayUp show a delay like [Delay], as a lower and an upper bound.
func DelayDown(d time.Duration) string {
	last := lastDigit(d)
	return Delay(d / last * last)
}

// DelayUp shows an upper bound, see [DelayDown].
func DelayUp(d time.Duration) string {
	last := lastDigit(d)
	return Delay((d + last - 1) / last * last)
}

// lastDigit returns the value of one unit in the last digit shown for a delay of this size.
func lastDigit(d time.Duration) time.Duration {
	last, _ := Unit(d)
	for range decimals(float64(d) / float64(last)) {
		last /= 10
	}
	return last
}

// Between shows an interval of delays, rounded outwards: 3.25…4.50ms, or ≥3.25ms if it has no end.
// If both ends are the same, they are one delay.
func Between(v dq.Interval) string {
	if !v.Finite() {
		return "≥" + DelayDown(v.Lo)
	}
	if v.Lo == v.Hi {
		return Delay(v.Lo)
	}
	lo, hi := DelayDown(v.Lo), DelayUp(v.Hi)
	if v.Lo == 0 {
		return "0…" + hi
	}
	_, a := Unit(v.Lo)
	if _, b := Unit(v.Hi); a == b {
		lo = strings.TrimSuffix(lo, a)
	}
	return lo + "…" + hi
}

// ExactDelay shows a delay with all its digits: 18.25ms.
func ExactDelay(d time.Duration) string {
	if d == 0 {
		return "0"
	}
	unit, name := Unit(d)
	text := strconv.FormatFloat(float64(d)/float64(unit), 'f', 9, 64)
	return strings.TrimRight(strings.TrimRight(text, "0"), ".") + name
}
