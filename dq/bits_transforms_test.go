package dq

import (
	"math"
	"math/rand/v2"
)

func drawComplex(r *rand.Rand, n int) []complex128 {
	z := make([]complex128, n)
	for i := range z {
		z[i] = complex(r.Float64()-0.3, r.Float64()-0.5)
	}
	return z
}

func bitsOfTransforms(c *corpus) {
	r := rand.New(rand.NewPCG(6, 1))
	for n := 1; n <= 512; n *= 2 {
		t := newTransform(n)
		c.of("newTransform %d", n)(t.n, t.stages, t.roots, t.reversed, t.odd())
		c.of("reversedRoots %d", n)(t.reversedRoots(), t.reversed, t.reversedRoots())
		z := drawComplex(r, n)
		t.forward(z)
		c.of("forward %d", n)(z)
		t.backward(z)
		c.of("backward %d", n)(z)
		butterflies(z)
		c.of("butterflies %d", n)(z)
		lo, hi := make([]float64, n), make([]float64, n)
		split(lo, hi, z)
		c.of("split %d", n)(lo, hi)
		for m := max(1, 2*n-3); m <= 2*n; m++ {
			out := make([]float64, m)
			interleave(out, z)
			c.of("interleave %d %d", n, m)(out)
		}
		for m := max(1, n-2); m <= n; m++ {
			re, im := drawFloats(r, m), drawFloats(r, max(1, m-1))
			z := make([]complex128, n)
			c.of("packBoth %d %d", n, m)(packBoth(z, re, im), packBoth(make([]complex128, n), im, re), z)
		}
		for m := max(1, 2*n-3); m <= 2*n; m++ {
			z := make([]complex128, n)
			c.of("packEvenOdd %d %d", n, m)(packEvenOdd(z, drawFloats(r, m)), z)
		}
	}
	z := drawComplex(r, 9)
	for i := range 8 {
		a, b := z[i], z[i+1]
		c.of("complex numbers %d", i)(product(a, b), mulConj(a, b))
		c.of("separate %d", i)(separate(a, b))
		x, y := drawComplex(r, 3), drawComplex(r, 3)
		multiplyPair(x, y, 0, 0)
		multiplyPair(x, y, 1, 2)
		c.of("multiplyPair %d", i)(x)
		multiplyTwinPair(x, y, 0, 0, a)
		multiplyTwinPair(x, y, 1, 2, b)
		c.of("multiplyTwinPair %d", i)(x)
	}
	less := math.Copysign(0, -1)
	re, im := make([]float64, 2), make([]float64, 2)
	split(re, im, []complex128{complex(less, 1), complex(2, less)})
	c.of("split of zeros")(re, im)
	c.of("fastError of nothing")(fastError(2, 8, 8, 0, 0), fastError(2, 8, 8, 0x1p-1030, 0x1p-1030))
	for _, x := range []float64{-1, math.Copysign(0, -1), 0, 1e-300, 2} {
		c.of("atLeastZero %v", x)(atLeastZero(x))
	}
	for _, k := range []int{2, 3, 7} {
		for _, size := range []int{1, 2, 64, 100, 128, 65536} {
			c.of("fastError %d %d", k, size)(fastError(k, size, size, 2.7, 0.3), fastError(k, size/2+1, size, 0.1, 0.1), fastError(k, 1, size, 3, 1))
		}
	}
	for n := range 8 {
		x := drawFloats(r, n)
		y := append([]float64{1e16}, x...)
		sumUp(x)
		sumUp(y)
		c.of("sumUp %d", n)(x, y)
	}
	for i, s := range []support{{0, 0}, {0, 3}, {1, 3}, {2, 2}, {3, 3}, {0, 4}} {
		sums := []float64{-0.1, 0.2, 0.4, 0.7, 0.9}
		for j, a := range []struct{ total, factor, offset float64 }{{0.5, 1, 0}, {0.5, 0.7, 0.1}, {0.4, 1.1, -0.25}, {1, 1 - 0x1p-50, -0x1p-1030}} {
			f := []float64{5, 6, 7, 8, 9}
			cumulate(f, sums, s, a.total, a.factor, a.offset)
			c.of("cumulate %d %d", i, j)(f, s.len())
		}
	}
}

func bitsOfConvolutions(c *corpus) {
	r := rand.New(rand.NewPCG(7, 1))
	// steady returns an operand whose lower density equals its upper density, moved by one bin.
	steady := func(n int) *DeltaQ {
		g := bitsGrid(ms, n)
		o := drawCounts(r, g, 20+n, 1, 0)
		o.counts[0]++
		o.counts[n-1]++
		o.ok += 2
		return sure(o.DeltaQ())
	}
	uneven := func(n int) *DeltaQ {
		d := drawRaw(r, ms, n)
		d.lo[n], d.hi[n] = max(d.lo[n], 0.8), 0.95
		return d
	}
	// early returns an operand whose upper density is all in the first bin.
	early := func(n int) *DeltaQ {
		d := uneven(n)
		for k := range d.hi {
			d.hi[k] = min(d.hi[n], 0.95+float64(k)/100)
		}
		return d
	}
	for _, kind := range []struct {
		name string
		draw func(n int) *DeltaQ
	}{{"twins", steady}, {"others", uneven}, {"early ones", early}} {
		for _, k := range []int{2, 3, 5} {
			for n := 1; n <= 90; n++ {
				if n > 12 && k == 5 && n%3 > 0 {
					continue
				}
				xs := make([]*DeltaQ, k)
				for i := range xs {
					xs[i] = kind.draw(max(1, n-i*(n%3)))
				}
				var v convolver
				d := v.densities(xs)
				// The error shows which method was used.
				c.of("densities of %d %s of %d bins", k, kind.name, n)(d.lo, d.hi, d.twins, d.err)
				if n <= 20 || n%16 < 2 {
					v.force = forceDirect
					d := v.densities(xs)
					c.of("directly, %d %s of %d bins", k, kind.name, n)(d.lo, d.hi, d.twins, d.err)
					v.force = forceFast
					d = v.densities(xs)
					c.of("fast, %d %s of %d bins", k, kind.name, n)(d.lo, d.hi, d.twins, d.err, v.cached, len(v.cache), len(v.plans))
				}
			}
		}
		for _, n := range []int{100, 127, 128, 129, 255, 256, 257, 600} {
			x, y := kind.draw(n), kind.draw(n/2+1)
			c.of("Sequential of %s of %d bins", kind.name, n)(Sequential(x, y))
			c.of("Sequential of %s of %d bins and exact delays", kind.name, n)(Sequential(x, sure(Steps(bitsGrid(ms, 9), []Step{{5 * ms, 0.7}})), y, Immediate()))
			c.of("Sequential of %s of %d bins, and without end", kind.name, n)(Sequential(x, sure(Exponential(bitsGrid(ms, 40), 5*ms))))
		}
	}
	// Both methods cost the same.
	stairs := func(n int, lower, upper float64) *DeltaQ {
		d := raw(ms, make([]float64, n), make([]float64, n))
		for k := range d.lo {
			d.lo[k], d.hi[k] = lower*float64(k+1)/float64(n), upper*math.Sqrt(float64(k+1)/float64(n))
		}
		return d
	}
	for i, n := range []int{31, 32, 33} {
		var v convolver
		d := v.densities([]*DeltaQ{stairs(27, 0.7, 0.8), stairs(n, 0.6, 0.9)})
		c.of("densities of 27 and %d values", n)(d.lo, d.hi, d.twins, d.err)
		c.of("Sequential with a vague delay %d", i)(Sequential(stairs(n, 0.7, 0.8), raw(ms, []float64{0, 0, 0.3}, []float64{0, 0, 0.7}), stairs(9, 0.5, 1), raw(ms, []float64{0.1}, []float64{1.0 / 3})))
	}
	for i, hi := range []float64{2e-13, math.Nextafter(2e-13, 1), math.Nextafter(2e-13, 0)} {
		difference, ok := twins([]*DeltaQ{raw(ms, []float64{0, 1e-13}, []float64{hi, hi})})
		c.of("twins at the limit %d", i)(difference, ok)
	}
	// The same calculator with operands that change.
	calculator, dst := new(Calculator), new(DeltaQ)
	calculator.conv.force = forceFast
	x, y := uneven(40), uneven(33)
	for i := range 12 {
		switch i % 4 {
		case 1:
			x.lo[19] = (x.lo[19] + x.lo[18]) / 2
		case 2:
			y.hi[20] = (y.hi[20] + y.hi[21]) / 2
		case 3:
			y, x = x, y
		}
		if i == 6 {
			*x = *steady(35)
			*y = *steady(20)
		}
		err := calculator.Sequential(dst, x, y, x)
		c.of("operands that change %d", i)(dst, err, calculator.conv.cached, len(calculator.conv.cache), len(calculator.conv.plans))
	}
	// The transform of an operand is computed again if the operand has changed, and only then.
	for _, p := range []packing{packPair, packTwin} {
		var v convolver
		d, plan := raw(ms, []float64{0, 0.25, 0.5}, []float64{0.25, 0.5, 0.75}), newTransform(8)
		kept := func() bool {
			s := v.spectrum(d, plan, p)
			marked := s.norm < 0
			s.norm = -1
			return marked
		}
		c.of("spectra that are kept, packing %d", int(p))(kept(), kept(), kept(), len(v.cache))
		d.lo[1] = 0.125
		c.of("spectra of another lower bound, packing %d", int(p))(kept(), kept(), len(v.cache))
		d.hi[1] = 0.625
		c.of("spectra of another upper bound, packing %d", int(p))(kept(), kept(), len(v.cache))
		plan = newTransform(16)
		c.of("spectra of another size, packing %d", int(p))(kept(), kept(), len(v.cache))
	}
	// Cached transforms are dropped when there is no more room.
	var v convolver
	for i, size := range []int{8, maxCached - 16, 8, 1, 16, maxCached - 17} {
		if size > 1000 {
			v.cached += size // as if there were such a one
			c.of("room %d", i)(v.cached, len(v.cache))
			continue
		}
		s := v.newSpectrum(cacheKey{new(DeltaQ), size, packPair})
		c.of("newSpectrum %d", i)(len(s.z), s.norm, len(s.lo), v.cached, len(v.cache))
	}
	// Densities whose difference is close to the largest one that counts as equal.
	for i, by := range []float64{0, 1e-15, 0.4e-13, 0.499e-13, 0.5e-13, 0.501e-13, 0.6e-13, 1e-12, math.NaN()} {
		d := raw(ms, []float64{0, 0.25, 0.5, 0.75}, []float64{0.25, 0.5 + by, 0.75, 0.75})
		difference, ok := twins([]*DeltaQ{d})
		c.of("twins %d", i)(difference, ok)
		difference, ok = twins([]*DeltaQ{d, d})
		c.of("twins twice %d", i)(difference, ok)
		c.of("Sequential of near twins %d", i)(Sequential(d, d))
	}
	for i := range 6 {
		a, f := drawFloats(r, i+1), drawRaw(r, ms, 3+i)
		var v convolver
		c.of("multiply %d", i)(v.multiply(a, f.hi), v.multiply(f.lo, f.hi), v.multiply(a, f.lo))
	}
}
