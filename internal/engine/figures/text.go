package figures

import (
	"strconv"
	"time"
)

// Delay shows a duration with three significant digits and its unit: 6.50ms.
func Delay(d time.Duration) string {
	unit, name := Unit(d)
	return significant(float64(d)/float64(unit)) + name
}

// AtMost shows an upper bound of a delay: ≤6.50ms. It is rounded up, never down.
func AtMost(d time.Duration) string {
	return "≤" + DelayUp(d)
}

// Unsure formats a delay that may be longer: ?6.50ms. It is rounded up.
func Unsure(d time.Duration) string { return "?" + DelayUp(d) }

// Unit returns the unit in which a delay of this size is shown, with its name: s, ms
// or µs.
func Unit(d time.Duration) (unit time.Duration, name string) {
	switch {
	case d >= time.Second:
		return time.Second, "s"
	case d >= time.Millisecond:
		return time.Millisecond, "ms"
	}
	return time.Microsecond, "µs"
}

// Percent shows a share in percent, with two decimals and its sign. Only 1 is shown as 100 %, and
// only 0 as 0 %.
func Percent(share float64) string {
	text := percent(share * 100)
	switch {
	case share < 1 && text == "100.00%":
		return "99.99%"
	case share > 0 && text == "0.00%":
		return "<0.01%"
	}
	return text
}

func percent(x float64) string { return strconv.FormatFloat(x, 'f', 2, 64) + "%" }

func significant(x float64) string {
	return strconv.FormatFloat(x, 'f', decimals(x), 64)
}

// decimals returns the number of decimals that give three significant digits.
func decimals(x float64) int {
	switch {
	case x >= 100:
		return 0
	case x >= 10:
		return 1
	}
	return 2
}
