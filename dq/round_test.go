package dq

import (
	"fmt"
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// Each function returns the exact result if that is a float64, and otherwise a float64 next to it
// on the required side.
func TestRounding(t *testing.T) {
	number := rapid.OneOf(
		rapid.Float64Range(0, 1),
		rapid.SampledFrom([]float64{0, 1, 0.5, 0x1p-53, 1 - 0x1p-53, 0x1p-500, 0x1p-1000, 5e-324, math.Nextafter(tiny, 0), tiny}),
	)
	operations := map[string]struct {
		down, up func(a, b float64) float64
		exact    func(a, b *big.Rat) *big.Rat
	}{
		"mul": {mulDown, mulUp, new(big.Rat).Mul},
		"add": {addDown, addUp, new(big.Rat).Add},
		"sub": {subDown, subUp, new(big.Rat).Sub},
		"div": {divDown, divUp, new(big.Rat).Quo},
	}
	check := func(t require, a, b float64) {
		for name, op := range operations {
			if name == "div" && (b == 0 || a/b > 1e300) {
				continue
			}
			exact := op.exact(new(big.Rat).SetFloat64(a), new(big.Rat).SetFloat64(b))
			lo, hi := op.down(a, b), op.up(a, b)
			if new(big.Rat).SetFloat64(lo).Cmp(exact) > 0 || new(big.Rat).SetFloat64(hi).Cmp(exact) < 0 {
				t.Fatal(fmt.Sprintf("%s(%g, %g): %g to %g do not contain %v", name, a, b, lo, hi, exact))
			}
			if hi > up(up(lo)) {
				t.Fatal(fmt.Sprintf("%s(%g, %g): %g and %g are further apart than necessary", name, a, b, lo, hi))
			}
			if f, ok := exact.Float64(); ok && f >= tiny && min(a, b) >= tiny && (lo != f || hi != f) {
				t.Fatal(fmt.Sprintf("%s(%g, %g): %g to %g, exactly %g", name, a, b, lo, hi, f))
			}
		}
	}
	ends := []float64{
		0, 5e-324, 3 * 5e-324, 0x1p-1000, 0x1.8p-1000, math.Nextafter(tiny, 0), tiny, math.Nextafter(tiny, 1), 3 * 0x1p-500, 0x1p-400, 0x1.5p-62,
		0x1p-53, 1. / 3, 0.5, math.Nextafter(0.5, 1), 1 - 0x1p-53, 1, math.Nextafter(1, 2), 3, 7e9,
	}
	for _, a := range ends {
		for _, b := range ends {
			check(t, a, b)
		}
		checkRoot(t, a)
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := number.Draw(t, "a"), number.Draw(t, "b")
		check(t, a, b)
		checkRoot(t, a)
		checkRoot(t, a*a)
	})
}

// checkRoot checks that the bounds of a square root contain it and are next to each other, and that
// they are equal if the root is a float64.
func checkRoot(t require, x float64) {
	lo, hi := rootDown(x), rootUp(x)
	least, most := rat(lo), rat(hi)
	if exact := rat(x); least.Mul(least, least).Cmp(exact) > 0 || most.Mul(most, most).Cmp(exact) < 0 {
		t.Fatal(fmt.Sprintf("root of %g: %g to %g", x, lo, hi))
	}
	if hi > up(up(lo)) || x >= tiny && hi > up(lo) {
		t.Fatal(fmt.Sprintf("root of %g: %g and %g are further apart than necessary", x, lo, hi))
	}
	if r := math.Sqrt(x); new(big.Rat).Mul(rat(r), rat(r)).Cmp(rat(x)) == 0 && (x >= tiny || x == 0) && (lo != r || hi != r) {
		t.Fatal(fmt.Sprintf("root of %g: %g to %g, exactly %g", x, lo, hi, r))
	}
}
