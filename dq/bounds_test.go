package dq

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The most important property of the package: for every composition of operators, the bounds
// strictly contain the exact result.
func TestBoundsContainExact(t *testing.T) {
	for name, m := range map[string]method{"cheapest": cheapest, "direct": forceDirect, "fast": forceFast} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				c := &Calculator{conv: convolver{force: m}}
				drawTree(rt, c, rapid.IntRange(0, 2).Draw(rt, "depth")).check(rt)
			})
		})
	}
}

func TestRebinContainsExact(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		x := drawLeaf(rt)
		width := x.d.Width() + time.Duration(rapid.Int64Range(0, 9000).Draw(rt, "wider"))
		d, err := Rebin(x.d, width)
		if err != nil {
			rt.Fatal(err)
		}
		pair{d, x.ref}.check(rt)
	})
}
