package figures

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/beamscope/beamscope/dq"
)

// Down and Up round to so many decimals, downwards and upwards; what is within slack of
// a rounded number already, stays that.
func Down(x float64, decimals int, slack float64) float64 {
	scale := math.Pow10(decimals)
	return math.Floor((x+slack)*scale) / scale
}

// Up is told of at [Down].
func Up(x float64, decimals int, slack float64) float64 {
	scale := math.Pow10(decimals)
	return math.Ceil((x-slack)*scale) / scale
}

// PercentSlack is the difference up to which two percentages count as equal.
const PercentSlack = 100 * dq.Tolerance

// PercentDown and PercentUp show a share as [Percent] does, one that is at least so
// much, and at most.
func PercentDown(share float64) string { return percent(Down(share*100, 2, PercentSlack)) }

// PercentUp is told of at [PercentDown].
func PercentUp(share float64) string { return percent(Up(share*100, 2, PercentSlack)) }

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
