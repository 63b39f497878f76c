package dq

import "slices"

// direct convolves by multiplying all pairs of values. All terms are non-negative, so the
// relative error of each value of the result is at most half an ulp for each term and operation.
func (v *convolver) direct(xs []*DeltaQ, twins bool) density {
	v.hi = appendDensity(v.hi[:0], xs[0].hi)
	terms := 4
	for _, x := range xs[1:] {
		terms += x.Bins() + 5
		v.hi = v.multiply(v.hi, x.hi)
	}
	if !twins {
		v.lo = appendDensity(v.lo[:0], xs[0].lo)
		for _, x := range xs[1:] {
			v.lo = v.multiply(v.lo, x.lo)
		}
	}
	return density{lo: v.lo, hi: v.hi, err: sumBound{relative: ulps(terms), absolute: underflow}}
}

// multiply convolves a with the density of the distribution function f. The result is in working
// memory of the convolver. multiply keeps a as working memory for the next call.
func (v *convolver) multiply(a, f []float64) []float64 {
	s := supportOf(f)
	n := len(a) + s.len() - 1
	out := slices.Grow(v.tmp[:0], n)[:n]
	clear(out)
	before := 0.0
	for j, value := range f[s.from : s.to+1] {
		p := value - before
		before = value
		if p == 0 {
			continue
		}
		row := out[j : j+len(a)]
		for i, q := range a {
			row[i] += float64(p * q)
		}
	}
	v.tmp = a
	return out
}

// appendDensity appends the density of the distribution function f on its support.
func appendDensity(dst, f []float64) []float64 {
	s, before := supportOf(f), 0.0
	for _, value := range f[s.from : s.to+1] {
		dst = append(dst, value-before)
		before = value
	}
	return dst
}
