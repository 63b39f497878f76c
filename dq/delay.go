package dq

import (
	"fmt"
	"math/big"
	"strings"
	"time"
)

// ParseDelay reads a delay as [time.ParseDuration] does, such as 1.5ms or 1h30m, and
// exactly: it returns [ErrDelay] for a text that is no delay, for one that is not a
// whole number of nanoseconds, such as 0.6ns, and for one that is out of range.
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

// nanoseconds is the exact value of a text that time.ParseDuration takes.
func nanoseconds(text string) *big.Rat {
	rest := strings.TrimLeft(text, "+-")
	sum := new(big.Rat)
	for rest != "" && rest != "0" {
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
