package dq

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// Each function is next to the exact result on its side, and exact where that is a
// float64.
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
	rapid.Check(t, func(t *rapid.T) {
		a, b := number.Draw(t, "a"), number.Draw(t, "b")
		for name, op := range operations {
			if name == "div" && (b == 0 || a/b > 1e300) {
				continue
			}
			exact := op.exact(new(big.Rat).SetFloat64(a), new(big.Rat).SetFloat64(b))
			lo, hi := op.down(a, b), op.up(a, b)
			if new(big.Rat).SetFloat64(lo).Cmp(exact) > 0 || new(big.Rat).SetFloat64(hi).Cmp(exact) < 0 {
				t.Fatalf("%s(%g, %g): %g to %g do not contain %v", name, a, b, lo, hi, exact)
			}
			if hi > up(up(lo)) {
				t.Fatalf("%s(%g, %g): %g and %g are further apart than they need be", name, a, b, lo, hi)
			}
			if f, ok := exact.Float64(); ok && f >= tiny && min(a, b) >= tiny && (lo != f || hi != f) {
				t.Fatalf("%s(%g, %g): %g to %g, exactly %g", name, a, b, lo, hi, f)
			}
		}
	})
}
