package dq

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The heart of the package: whatever is composed of whatever, the bounds contain
// the exact result, strictly.
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
