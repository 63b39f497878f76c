package figures

import (
	"math/big"
	"strings"
)

// Near is the relative distance up to which a table writes a figure as "≈" and a decimal. It is far
// above the error of binary rounding and far below the precision of a table's digits.
const Near = 1e-9

// Outward writes the interval from lo to hi, with 0 ≤ lo ≤ hi, so that the text contains the
// interval. Tables use no other function to round. It has three forms, each with a limited number
// of decimals:
//
//	4.031–5.132   from lo, rounded down, to hi, rounded up
//	4             exactly this number
//	≈4            all of the interval is within Near of this number
func Outward(lo, hi *big.Rat, decimals int) string { return outward(lo, hi, decimals, nil) }

// OutwardPercent is Outward for percentages. A percentage is near a number only if their
// differences from 100 are near each other too.
func OutwardPercent(lo, hi *big.Rat, decimals int) string {
	return outward(lo, hi, decimals, big.NewRat(100, 1))
}

func outward(lo, hi *big.Rat, decimals int, whole *big.Rat) string {
	n := nearest(lo, decimals)
	if lo.Cmp(n) == 0 && hi.Cmp(n) == 0 {
		return trimmed(n, decimals)
	}
	if near(lo, n, whole) && near(hi, n, whole) {
		return "≈" + trimmed(n, decimals)
	}
	return RoundDown(lo, decimals) + "–" + RoundUp(hi, decimals)
}

// near reports whether x is within Near of n, relative to n and also relative to whole − n, unless
// whole is nil.
func near(x, n, whole *big.Rat) bool {
	scale := n
	if whole != nil {
		if rest := new(big.Rat).Sub(whole, n); rest.Cmp(n) < 0 {
			scale = rest
		}
	}
	distance := new(big.Rat).Sub(x, n)
	limit := new(big.Rat).Mul(scale, new(big.Rat).SetFloat64(Near))
	return distance.Abs(distance).Cmp(limit) <= 0
}

// RoundDown and RoundUp write x ≥ 0 with a limited number of decimals.
func RoundDown(x *big.Rat, decimals int) string { return trimmed(floor(x, decimals), decimals) }

// RoundUp is described at [RoundDown].
func RoundUp(x *big.Rat, decimals int) string { return trimmed(ceil(x, decimals), decimals) }

// floor, ceil and nearest round x ≥ 0 to decimals.
func floor(x *big.Rat, decimals int) *big.Rat { return rounded(x, decimals, new(big.Rat)) }

func ceil(x *big.Rat, decimals int) *big.Rat {
	down := floor(x, decimals)
	if down.Cmp(x) == 0 {
		return down
	}
	return down.Add(down, new(big.Rat).Inv(pow10(decimals)))
}

func nearest(x *big.Rat, decimals int) *big.Rat { return rounded(x, decimals, big.NewRat(1, 2)) }

// rounded returns ⌊x·10^decimals + offset⌋ / 10^decimals.
func rounded(x *big.Rat, decimals int, offset *big.Rat) *big.Rat {
	scale := pow10(decimals)
	scaled := new(big.Rat).Mul(x, scale)
	scaled.Add(scaled, offset)
	units := new(big.Int).Div(scaled.Num(), scaled.Denom())
	return scaled.SetInt(units).Quo(scaled, scale)
}

func pow10(n int) *big.Rat {
	return new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil))
}

// trimmed formats a number with at most the given number of decimals, without zeros at its end.
func trimmed(x *big.Rat, decimals int) string {
	text := x.FloatString(decimals)
	if decimals > 0 {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}
