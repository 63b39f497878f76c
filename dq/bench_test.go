package dq

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// BenchmarkTransform is one forward transform.
func BenchmarkTransform(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{64, 2048, 131072} {
		plan, x := newTransform(size), make([]complex128, size)
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) {
			for i := range x {
				x[i] = complex(r.Float64(), r.Float64())
			}
			for i := 0; b.Loop(); i++ {
				plan.forward(x)
				if i%64 == 0 {
					for i := range x {
						x[i] = complex(r.Float64(), r.Float64())
					}
				}
			}
		})
	}
}

// BenchmarkConvolve is one convolution of two observed ΔQs of N bins, both bounds,
// with the operands new each time. "pairs" is the fast method for bounds that are
// not the same density, "reused" that for operands that have not changed.
func BenchmarkConvolve(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{10, 20, 50, 100, 200, 1000, 4000, 32768} {
		old, next := [2]*DeltaQ{random(b, r, n), random(b, r, n)}, [2]*DeltaQ{random(b, r, n), random(b, r, n)}
		uneven := next
		uneven[0] = uneven[0].Clone()
		uneven[0].hi[0] = uneven[0].hi[1] // no longer the same density as lo
		run := func(name string, m method, a, c [2]*DeltaQ) {
			b.Run(fmt.Sprintf("%s/N=%d", name, n), func(b *testing.B) {
				calc, dst := &Calculator{conv: convolver{force: m}}, new(DeltaQ)
				x, y := a[0].Clone(), a[1].Clone()
				for i := 0; b.Loop(); i++ {
					from := a
					if i%2 == 0 {
						from = c
					}
					copyInto(x, from[0])
					copyInto(y, from[1])
					if err := calc.Sequential(dst, x, y); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		if n <= 4000 {
			run("direct", forceDirect, old, next)
		}
		run("fast", forceFast, old, next)
		run("pairs", forceFast, uneven, [2]*DeltaQ{uneven[0], old[1]})
		run("reused", forceFast, old, old)
	}
}

func copyInto(dst, src *DeltaQ) {
	dst.resize(src.width, src.Bins())
	copy(dst.lo, src.lo)
	copy(dst.hi, src.hi)
}

// BenchmarkDeconvolve is a residual that has to be fitted, the slowest case.
func BenchmarkDeconvolve(b *testing.B) {
	g := mustGrid(b, ms, 1000)
	m := must(b)
	part, whole := m(Uniform(g, 0, 1000*ms)), m(Uniform(g, 100*ms, 2000*ms))
	for b.Loop() {
		if _, err := Deconvolve(whole, part); err != nil {
			b.Fatal(err)
		}
	}
}
