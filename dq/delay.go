package dq

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"
)

// ParseDelay reads a delay as [time.ParseDuration] does, such as 1.5ms or 1h30m, but only if the
// result is exact. It returns [ErrDelay] if the text is not a delay, if it is not a whole number
// of nanoseconds, such as 0.6ns, or if it is out of range.
func ParseDelay(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%w: %q: want a number with a unit, such as 1.5ms", ErrDelay, text)
	}
	if exact := nanoseconds(text); exact.Cmp(big.NewRat(int64(d), 1)) != 0 {
		return 0, fmt.Errorf("%w: %q is not a whole number of nanoseconds", ErrDelay, text)
	}
	return d, nil
}

// FormatDelay writes a delay d ≥ 0 exactly, so that [ParseDelay] reads it. It uses the largest unit
// in which the delay is at least one, but minutes and hours only if the result is whole.
func FormatDelay(d time.Duration) string {
	switch {
	case d >= time.Hour && d%time.Hour == 0:
		return decimal(d, time.Hour) + "h"
	case d >= time.Minute && d%time.Minute == 0:
		return decimal(d, time.Minute) + "m"
	case d >= time.Second || d == 0:
		return decimal(d, time.Second) + "s"
	case d >= time.Millisecond:
		return decimal(d, time.Millisecond) + "ms"
	case d >= time.Microsecond:
		return decimal(d, time.Microsecond) + "us"
	}
	return decimal(d, time.Nanosecond) + "ns"
}

// decimal returns d/unit as a decimal. If d is not a whole number of units, the unit must be a
// power of ten.
func decimal(d, unit time.Duration) string {
	whole := strconv.FormatInt(int64(d/unit), 10)
	rest := d % unit
	if rest == 0 {
		return whole
	}
	digits := strconv.FormatInt(int64(unit+rest), 10)[1:] // with leading zeros
	return whole + "." + strings.TrimRight(digits, "0")
}

// nanoseconds returns the exact value of a text that time.ParseDuration accepts.
func nanoseconds(text string) *big.Rat {
	rest := strings.TrimLeft(text, "+-")
	sum := new(big.Rat)
	for rest != "" {
		number := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789."))]
		rest = rest[len(number):]
		unit := rest[:len(rest)-len(strings.TrimLeft(rest, "hmsnuµμ"))]
		rest = rest[len(unit):]
		x, _ := new(big.Rat).SetString("0" + number) // "0.5" for ".5"
		one, _ := time.ParseDuration("1" + unit)
		sum.Add(sum, x.Mul(x, big.NewRat(int64(one), 1)))
	}
	if strings.HasPrefix(text, "-") {
		sum.Neg(sum)
	}
	return sum
}
