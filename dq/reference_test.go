package dq

import (
	"maps"
	"math/big"
	"slices"
	"time"

	"pgregory.net/rapid"
)

// A reference is an exact ΔQ: finitely many delays in nanoseconds with rational probabilities.
// Every operator is calculated by enumeration.
type reference map[int64]*big.Rat

func rat(x float64) *big.Rat { return new(big.Rat).SetFloat64(x) }

func (r reference) put(t int64, p *big.Rat) {
	if r[t] == nil {
		r[t] = new(big.Rat)
	}
	r[t].Add(r[t], p)
}

func (r reference) total() *big.Rat { return r.within(1 << 62) }

func (r reference) within(t int64) *big.Rat {
	sum := new(big.Rat)
	for at, p := range r {
		if at <= t {
			sum.Add(sum, p)
		}
	}
	return sum
}

func (r reference) times() []int64 { return slices.Sorted(maps.Keys(r)) }

func refWait(t int64) reference { return reference{t: big.NewRat(1, 1)} }

func refSteps(steps []Step) reference {
	r, before := reference{}, new(big.Rat)
	for _, s := range steps {
		p := rat(s.P)
		r.put(int64(s.T), new(big.Rat).Sub(p, before))
		before = p
	}
	return r
}

func (r reference) seq(x reference) reference {
	out := reference{}
	for a, p := range r {
		for b, q := range x {
			out.put(a+b, new(big.Rat).Mul(p, q))
		}
	}
	return out
}

// combine returns the ΔQ with the distribution function f(F, G) at every time.
func (r reference) combine(x reference, f func(a, b *big.Rat) *big.Rat) reference {
	out, before := reference{}, new(big.Rat)
	times := append(r.times(), x.times()...)
	slices.Sort(times)
	for _, t := range slices.Compact(times) {
		now := f(r.within(t), x.within(t))
		out.put(t, new(big.Rat).Sub(now, before))
		before = now
	}
	return out
}

func (r reference) ftf(x reference) reference {
	return r.combine(x, func(a, b *big.Rat) *big.Rat {
		return new(big.Rat).Sub(new(big.Rat).Add(a, b), new(big.Rat).Mul(a, b))
	})
}

func (r reference) atf(x reference) reference {
	return r.combine(x, func(a, b *big.Rat) *big.Rat { return new(big.Rat).Mul(a, b) })
}

func (r reference) scale(p *big.Rat) reference {
	out := reference{}
	for t, q := range r {
		out.put(t, new(big.Rat).Mul(p, q))
	}
	return out
}

func (r reference) plus(x reference) reference {
	out := reference{}
	for _, d := range []reference{r, x} {
		for t, p := range d {
			out.put(t, p)
		}
	}
	return out
}

func refChoice(weights []float64, xs []reference) reference {
	sum := new(big.Rat)
	for _, w := range weights {
		sum.Add(sum, rat(w))
	}
	out := reference{}
	for i, x := range xs {
		out = out.plus(x.scale(new(big.Rat).Quo(rat(weights[i]), sum)))
	}
	return out
}

func (r reference) timeout(t int64) reference {
	out := reference{}
	for at, p := range r {
		if at <= t {
			out.put(at, p)
		}
	}
	return out
}

func (r reference) retry(t int64, attempts int) reference {
	out := r.timeout(t)
	if attempts == 1 {
		return out
	}
	again := refWait(t).seq(r.retry(t, attempts-1))
	return out.plus(again.scale(new(big.Rat).Sub(big.NewRat(1, 1), out.total())))
}

func (r reference) retryOverlap(t int64, attempts int) reference {
	if attempts == 1 {
		return r
	}
	return r.ftf(refWait(t).seq(r.retryOverlap(t, attempts-1)))
}

// A pair is a ΔQ with its exact reference.
type pair struct {
	d   *DeltaQ
	ref reference
}

// check fails unless the bounds strictly contain the exact distribution function at every edge,
// at every delay and just before it.
func (p pair) check(rt *rapid.T) {
	rt.Helper()
	var times []int64
	for k := 0; k <= p.d.Bins()+1; k++ {
		times = append(times, int64(p.d.edge(k)), int64(p.d.edge(k))+1)
	}
	for t := range p.ref {
		times = append(times, t, t-1)
	}
	times = append(times, 1<<61)
	slices.Sort(times)
	sorted, sum, next := p.ref.times(), new(big.Rat), 0
	for _, t := range times {
		for ; next < len(sorted) && sorted[next] <= t; next++ {
			sum.Add(sum, p.ref[sorted[next]])
		}
		b, _ := p.d.ProbabilityWithin(time.Duration(t))
		if rat(b.Lo).Cmp(sum) > 0 || rat(b.Hi).Cmp(sum) < 0 {
			f, _ := sum.Float64()
			rt.Fatalf("at %d ns: [%v, %v] does not contain %v", t, b.Lo, b.Hi, f)
		}
	}
	p.checkShape(rt)
}

// checkShape fails unless the bounds are distribution functions.
func (p pair) checkShape(rt *rapid.T) {
	rt.Helper()
	var before Bounds
	for k := range p.d.lo {
		b := p.d.At(k)
		if b.Lo > b.Hi || b.Lo < before.Lo || b.Hi < before.Hi || b.Lo < 0 || b.Hi > 1 {
			rt.Fatalf("edge %d: %v after %v", k, b, before)
		}
		before = b
	}
}

// widths that divide each other, and that do not.
var testWidths = []time.Duration{1000, 2000, 3000, 4000, 5001}

func drawLeaf(rt *rapid.T) pair {
	g, err := NewGrid(rapid.SampledFrom(testWidths).Draw(rt, "width"), 1)
	if err != nil {
		rt.Fatal(err)
	}
	switch rapid.IntRange(0, 9).Draw(rt, "leaf") {
	case 0:
		return pair{Never(), reference{}}
	case 1:
		return pair{Immediate(), refWait(0)}
	}
	times := rapid.SliceOfNDistinct(rapid.OneOf(rapid.Int64Range(0, 12000),
		rapid.Map(rapid.Int64Range(0, 12), func(k int64) int64 { return 1000 * k })), 1, 4, rapid.ID).Draw(rt, "times")
	slices.Sort(times)
	ps := rapid.SliceOfN(rapid.OneOf(rapid.Float64Range(0, 1),
		rapid.SampledFrom([]float64{0, 0.1, 0.25, 0.5, 1})), len(times), len(times)).Draw(rt, "ps")
	slices.Sort(ps)
	steps := make([]Step, len(times))
	for i, t := range times {
		steps[i] = Step{time.Duration(t), ps[i]}
	}
	d, err := Steps(g, steps)
	if err != nil {
		rt.Fatal(err)
	}
	return pair{d, refSteps(steps)}
}

// drawTree draws an expression and evaluates it both ways.
func drawTree(rt *rapid.T, c *Calculator, depth int) pair {
	if depth == 0 {
		return drawLeaf(rt)
	}
	out := new(DeltaQ)
	x := drawTree(rt, c, depth-1)
	t := rapid.Int64Range(1, 9000).Draw(rt, "t")
	n := rapid.IntRange(1, 3).Draw(rt, "attempts")
	var ref reference
	var err error
	switch rapid.IntRange(0, 7).Draw(rt, "operator") {
	case 0:
		y, z := drawTree(rt, c, depth-1), drawLeaf(rt)
		ref, err = x.ref.seq(y.ref).seq(z.ref), c.Sequential(out, x.d, y.d, z.d)
	case 1:
		y, z := drawTree(rt, c, depth-1), drawLeaf(rt)
		ref, err = x.ref.ftf(y.ref).ftf(z.ref), c.FirstToFinish(out, x.d, y.d, z.d)
	case 2:
		y, z := drawTree(rt, c, depth-1), drawLeaf(rt)
		ref, err = x.ref.atf(y.ref).atf(z.ref), c.AllToFinish(out, x.d, y.d, z.d)
	case 3:
		y, z := drawTree(rt, c, depth-1), drawLeaf(rt)
		w := rapid.SampledFrom([][]float64{{0.1, 0.2, 0.7}, {0, 0.5, 0.5}, {1. / 3, 1. / 3, 1. / 3}, {1, 0, 0}}).Draw(rt, "weights")
		ref, err = refChoice(w, []reference{x.ref, y.ref, z.ref}), c.Choice(out, w, x.d, y.d, z.d)
	case 4:
		p := rapid.Float64Range(0, 1).Draw(rt, "p")
		ref, err = x.ref.scale(rat(p)), c.Scale(out, x.d, p)
	case 5:
		ref, err = x.ref.timeout(t), c.Timeout(out, x.d, time.Duration(t))
	case 6:
		ref, err = x.ref.retry(t, n), c.Retry(out, x.d, time.Duration(t), n)
	case 7:
		ref, err = x.ref.retryOverlap(t, n), c.RetryOverlap(out, x.d, time.Duration(t), n)
	}
	if err != nil {
		rt.Fatal(err)
	}
	return pair{out, ref}
}
