// The digest command calculates with all of package dq and prints a digest of the bits
// of each kind of result, and of all of them.
package main

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"math"
	"math/rand/v2"
	"time"

	"github.com/beamscope/beamscope/dq"
)

const ms = time.Millisecond

func main() {
	all := sha256.New()
	for _, part := range []struct {
		name string
		run  func(hash.Hash)
	}{{"models", models}, {"operators", operators}, {"observed", observed}, {"series", series}} {
		h := sha256.New()
		part.run(h)
		sum := h.Sum(nil)
		all.Write(sum)
		fmt.Printf("%s %x\n", part.name, sum[:8])
	}
	fmt.Printf("all %x\n", all.Sum(nil))
}

func must[T any](x T, err error) T {
	if err != nil {
		panic(err)
	}
	return x
}

func put(h hash.Hash, xs ...float64) {
	for _, x := range xs {
		binary.Write(h, binary.LittleEndian, math.Float64bits(x))
	}
}

func putDelta(h hash.Hash, d *dq.DeltaQ) {
	lo, hi := d.AppendBounds(nil, nil)
	put(h, lo...)
	put(h, hi...)
	put(h, float64(d.Width()))
	if m, ok := d.Moments(); ok {
		put(h, m.Mean.Lo, m.Mean.Hi, m.SD.Lo, m.SD.Hi)
	}
}

func grid(width time.Duration, bins int) dq.Grid { return must(dq.NewGrid(width, bins)) }

func all(g dq.Grid) []*dq.DeltaQ {
	return []*dq.DeltaQ{
		must(dq.Exponential(g, 7*ms)), must(dq.Gamma(g, 20*ms, 2.3)), must(dq.Weibull(g, 9*ms, 0.7)), must(dq.Pareto(g, 3*ms, 2.2)),
		must(dq.LogNormal(g, 11*ms, 0.9)), must(dq.Normal(g, 30*ms, 4*ms)), must(dq.Uniform(g, 3*ms+7, 17*ms+5)),
		must(dq.Steps(g, []dq.Step{{T: ms + 1, P: 0.3}, {T: 5 * ms, P: 0.9}})),
	}
}

func models(h hash.Hash) {
	for _, g := range []dq.Grid{grid(ms, 200), grid(ms/10, 3000)} {
		for _, d := range all(g) {
			putDelta(h, d)
		}
	}
}

func operators(h hash.Hash) {
	for _, bins := range []int{40, 500, 5000} { // directly, and by transforms
		xs := all(grid(250*ms/time.Duration(bins), bins))
		putDelta(h, must(dq.Sequential(xs...)))
		putDelta(h, must(dq.Sequential(xs[6], xs[6], xs[6])))
		putDelta(h, must(dq.FirstToFinish(xs...)))
		putDelta(h, must(dq.AllToFinish(xs...)))
		putDelta(h, must(dq.Choice([]float64{0.3, 0.3, 0.4}, xs[:3]...)))
		for _, x := range xs {
			putDelta(h, must(dq.Scale(x, 0.97)))
			putDelta(h, must(dq.Retry(x, 8*ms+3, 3)))
			putDelta(h, must(dq.RetryOverlap(x, 5*ms+1, 3)))
			putDelta(h, must(dq.Rebin(x, 7*ms)))
		}
	}
}

func counts(r *rand.Rand, g dq.Grid, n int, mean time.Duration) *dq.Observed {
	o := must(dq.NewObserved(g))
	for range n {
		if err := o.Add(time.Duration(float64(r.Uint64N(1<<20)) / (1 << 19) * float64(mean))); err != nil {
			panic(err)
		}
	}
	return o
}

func observed(h hash.Hash) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, bins := range []int{50, 1000} {
		g := grid(50*ms/time.Duration(bins), bins)
		a, b := counts(r, g, 997, 8*ms), counts(r, g, 1003, 5*ms)
		x, y := must(a.DeltaQ()), must(b.DeltaQ())
		whole := must(dq.Sequential(x, y)) // twins
		putDelta(h, whole)
		putDelta(h, must(a.Confident(0.05)))
		residual := must(dq.Deconvolve(whole, y))
		putDelta(h, residual.Bounds)
		putDelta(h, residual.Estimate)
		put(h, residual.Error)
		q := must(dq.Quartiles(5*ms, 12*ms, 20*ms, 0.02))
		j := must(q.Judge(whole))
		for _, p := range j.Points {
			put(h, p.Probability.Lo, p.Probability.Hi)
		}
		for p := 0.01; p < 1; p += 0.07 {
			v, _ := whole.Quantile(p)
			put(h, float64(v.Lo), float64(v.Hi))
		}
	}
}

func series(h hash.Hash) {
	r := rand.New(rand.NewPCG(3, 4))
	g := grid(ms, 50)
	w := must(dq.NewWindow(g, 20))
	var band dq.Band
	for range 30 {
		o := counts(r, g, 50+r.IntN(300), 8*ms)
		d := must(o.DeltaQ())
		if err := w.Insert(o); err != nil {
			panic(err)
		}
		if err := w.InsertCalculated(must(dq.Rebin(must(dq.Sequential(d, d)), ms)), o.Instances()); err != nil {
			panic(err)
		}
		if err := w.WriteBand(&band, 0.95); err != nil {
			panic(err)
		}
		put(h, band.Mean...)
		put(h, band.Lo...)
		put(h, band.Hi...)
		v := must(dq.Diverge(d, must(dq.Scale(d, 0.9))))
		put(h, v.Distance.Lo, v.Distance.Hi, v.Nominal)
	}
}
