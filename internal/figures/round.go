package figures

import (
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/beamscope/beamscope/dq"
)

// PercentDown shows a share as [Percent] does, rounded down: it is at least so much. A
// share within 1e-12 of a decimal, relative to it, is that decimal, as 0.07 has no exact
// float64.
func PercentDown(share float64) string { return percentRounded(share, floor) }

// AtLeast shows a share that is one at least: of what is not all, less than all.
func AtLeast(share float64) string {
	text := PercentDown(share)
	if share < 1 && text == "100.00%" {
		text = "99.99%"
	}
	return "≥" + text
}

// PercentUp shows a share as [PercentDown] does, rounded up: it is at most so much.
func PercentUp(share float64) string { return percentRounded(share, ceil) }

func percentRounded(share float64, round func(*big.Rat, int) *big.Rat) string {
	x := new(big.Rat).SetFloat64(share)
	x.Mul(x, big.NewRat(100, 1))
	n := nearest(x, 2)
	limit := new(big.Rat).Mul(n, new(big.Rat).SetFloat64(dq.Tolerance))
	if d := new(big.Rat).Sub(x, n); d.Abs(d).Cmp(limit) > 0 {
		n = round(x, 2)
	}
	return n.FloatString(2) + "%"
}

// DelayDown and DelayUp show a delay as [Delay] does, one that is at least so long, and
// at most.
func DelayDown(d time.Duration) string {
	last := lastDigit(d)
	return Delay(d / last * last)
}

// DelayUp is told of at [DelayDown].
func DelayUp(d time.Duration) string {
	last := lastDigit(d)
	return Delay((d + last - 1) / last * last)
}

// lastDigit is what the last digit of a delay of this size stands for.
func lastDigit(d time.Duration) time.Duration {
	last, _ := Unit(d)
	for range decimals(float64(d) / float64(last)) {
		last /= 10
	}
	return last
}

// Between shows an interval of delays, rounded outwards: 3.25…4.50ms, or ≥3.25ms where
// it has no end. Where both ends are the same, they are one delay.
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
