package dq

import (
	"math"
	"math/rand/v2"
	"time"
)

func bitsOfObserved(c *corpus) {
	most := uint64(MaxInstances)
	c.of("NewObserved of the zero grid")(NewObserved(Grid{}))
	g := bitsGrid(ms, 4)
	c.of("NewObserved")(NewObserved(g))
	for i, a := range []struct {
		counts             []uint64
		failures, timeouts uint64
	}{
		{nil, 0, 0}, {[]uint64{1, 2, 3}, 0, 0}, {[]uint64{1, 2, 3, 4, 5}, 0, 0}, {[]uint64{0, 0, 0, 0}, 0, 0}, {[]uint64{1, 0, 2, 0}, 3, 4}, {[]uint64{most, 0, 0, 0}, 0, 0},
		{[]uint64{most + 1, 0, 0, 0}, 0, 0}, {[]uint64{most, 1, 0, 0}, 0, 0}, {[]uint64{most - 1, 1, 0, 0}, 0, 0}, {[]uint64{most - 1, 0, 0, 0}, 1, 0}, {[]uint64{most - 1, 0, 0, 0}, 1, 1},
		{[]uint64{0, 0, 0, 0}, most, 0}, {[]uint64{0, 0, 0, 0}, most + 1, 0}, {[]uint64{0, 0, 0, 0}, 0, most}, {[]uint64{0, 0, 0, 0}, 0, most + 1}, {[]uint64{0, 0, 0, 0}, ^uint64(0), 2},
		{[]uint64{^uint64(0), 2, 0, 0}, 0, 0}, {[]uint64{1, 2, 3, 4}, 0, ^uint64(0) - 2},
	} {
		c.of("FromCounts %d", i)(FromCounts(g, a.counts, a.failures, a.timeouts))
		o := sure(FromCounts(g, []uint64{1, 2, 3, 4}, 5, 6))
		err := o.Set(a.counts, a.failures, a.timeouts)
		c.of("Set %d", i)(o, err)
	}
	for i, counts := range [][]uint64{{5, ^uint64(0) - 2, 0, 0}, {5, ^uint64(0) - 4, 0, 0}, {5, 1 << 63, 1 << 63, 0}} {
		c.of("FromCounts of sums above all numbers, %d", i)(FromCounts(g, counts, 0, 0))
	}
	many := make([]uint64, 2048)
	for i := range many {
		many[i] = most
	}
	c.of("FromCounts of the sum 2^64")(FromCounts(bitsGrid(ms, len(many)), many, 1, 0))
	for _, k := range []uint64{most - 1, most, most + 1} {
		o := sure(NewObserved(g))
		err := o.AddFailures(k)
		c.of("AddFailures of all, %d", k)(o, err, o.AddTimeouts(1), o)
	}
	c.of("FromCounts of the zero grid")(FromCounts(Grid{}, nil, 0, 0))
	for i, delays := range [][]time.Duration{nil, {0}, {4 * ms}, {4*ms + 1}, {-1}, {ms, -1}, {ms, ms - 1, 2*ms + 1, 4*ms - 1, 9 * ms}} {
		c.of("FromDelays %d", i)(FromDelays(g, delays, 1, 2))
		c.of("FromDelays of too many, %d", i)(FromDelays(g, delays, most-1, 0))
		c.of("FromDelays of far too many, %d", i)(FromDelays(g, delays, most, 1))
		c.of("FromDelays of the zero grid, %d", i)(FromDelays(Grid{}, delays, 0, 0))
	}
	full := sure(FromCounts(g, []uint64{1, 2, 3, 4}, most-20, 7))
	for i, k := range []uint64{4, 3, 0, 4, ^uint64(0), most + 1, 1, most} {
		err := full.AddFailures(k)
		c.of("AddFailures %d", i)(full, err)
		err = full.AddTimeouts(k / 2)
		c.of("AddTimeouts %d", i)(full, err)
		err = full.Add(time.Duration(i) * ms)
		c.of("Add %d", i)(full, err)
	}
	r := rand.New(rand.NewPCG(8, 1))
	for i, o := range []*Observed{
		sure(NewObserved(g)), sure(FromCounts(g, []uint64{0, 0, 0, 0}, 3, 0)), sure(FromCounts(g, []uint64{0, 0, 0, 0}, 0, 3)), sure(FromCounts(g, []uint64{1, 0, 0, 0}, 0, 0)), sure(FromCounts(g, []uint64{0, 0, 0, 1}, 0, 0)),
		sure(FromCounts(g, []uint64{0, 5, 0, 1}, 2, 1)), sure(FromCounts(g, []uint64{25, 25, 25, 25}, 0, 0)), sure(FromCounts(g, []uint64{7, 0, 0, 93}, 0, 0)), sure(FromCounts(g, []uint64{1, 1, 1, most - 3}, 0, 0)),
		drawCounts(r, bitsGrid(ms, 9), 997, 3, 11), drawCounts(r, bitsGrid(7*MinWidth, 1), 31, 1, 0), {},
	} {
		c.of("counts %d", i)(o, o.Grid(), o.Instances(), o.Successes(), o.Failures(), o.Timeouts(), o.Empty(), o.Count(-1), o.Count(0), o.Count(o.grid.Bins()-1), o.Count(o.grid.Bins()))
		c.of("Success %d", i)(o.Success())
		c.of("IntangibleMass %d", i)(o.IntangibleMass())
		c.of("functions %d", i)(o.AppendPDF([]float64{3}), o.AppendECDF([]float64{4}))
		c.of("Earliest %d", i)(o.Earliest())
		c.of("Deadline %d", i)(o.Deadline())
		var within []any
		for _, t := range []time.Duration{-1, 0, 1, o.grid.width - 1, o.grid.width, o.grid.width + 1, 2*o.grid.width - 1, 2 * o.grid.width, o.grid.DMax() - 1, o.grid.DMax(), o.grid.DMax() + 1, time.Hour} {
			b, ok := o.ProbabilityWithin(t)
			within = append(within, b, ok)
		}
		c.of("ProbabilityWithin %d", i)(within...)
		n := float64(max(1, o.Instances()))
		for j, p := range []float64{math.NaN(), -0.1, 0, 1e-300, 1 / n, math.Nextafter(1/n, 0), math.Nextafter(1/n, 1), math.Nextafter(2/n, 1), 0.07, 0.25, math.Nextafter(0.25, 1), 0.25 + 0x1p-51, 0.25 + 0x1p-50, 0.25 + 0x1p-49, 0.5, 0.7, 0.75, 0.9, 0.99, 1 - 1/n, 1, math.Nextafter(1, 2)} {
			rank, ok := o.rank(p)
			v, found := o.Quantile(p)
			figure, shown := o.QuantileFigure(p)
			c.of("Quantile %d %d, %x", i, j, p)(rank, ok, v, found, figure, shown)
		}
		c.of("DeltaQ %d", i)(o.DeltaQ())
		dst := raw(7, []float64{7}, []float64{8})
		err := o.WriteDeltaQ(dst)
		c.of("WriteDeltaQ %d", i)(dst, err)
		for _, alpha := range []float64{math.NaN(), -1, 0, 1e-300, 0.01, 0.5, math.Nextafter(1, 0), 1} {
			c.of("Confident %d %x", i, alpha)(o.Confident(alpha))
			c.of("Epsilon %d %x", i, alpha)(Epsilon(o.Instances(), alpha))
		}
		clone := o.Clone()
		if o.grid.valid() {
			_ = o.Add(1)
		}
		c.of("Clone %d", i)(clone, o)
		o.Reset()
		c.of("Reset %d", i)(clone, o)
	}
	for _, n := range []uint64{0, 1, 2, 3, 100, most} {
		c.of("Epsilon of %d", n)(pairsOf(func(alpha float64) (float64, error) { return Epsilon(n, alpha) }, 0, 1e-9, 0.05, 1.0/3, 0.999, 1)...)
	}
	for _, epsilon := range []float64{0, 1e-9, 0.1, 1.0 / 3, 0.9, 1} {
		d := raw(ms, []float64{0, 0.1, 0.3, 1.0 / 3, 0.9}, []float64{0.05, 0.1, 0.9, 1 - 1e-9, 1})
		d.widenBy(epsilon)
		c.of("widenBy %v", epsilon)(d)
	}
}

func bitsOfRequirements(c *corpus) {
	type required struct {
		failure float64
		steps   []Step
	}
	var all []QTA
	for i, a := range []required{
		{0, nil}, {1, nil}, {0.1, nil}, {0.5, []Step{{4 * ms, 0.5}}}, {0.01, []Step{{5 * ms, 0.9}, {2 * ms, 0.3}, {2 * ms, 0.2}, {9 * ms, 0.95}}}, {0.1, []Step{{0, 0}, {0, 1}}}, {0.2, []Step{{3 * ms, 0.5}, {6 * ms, 0.5}, {7 * ms, 0.8}}},
		{1, []Step{{3*ms + 1, 1}}}, {0.999, []Step{{100 * ms, 0.001}}}, {0.3, []Step{{ms, 1e-13}, {4 * ms, 0.5 + 1e-12}}}, {0.1, []Step{{2 * ms, 0}, {8 * ms, 0.7}}}, {0.1 + 1e-13, []Step{{8*ms - 1, 0.9}}},
		{1e-300, []Step{{8 * ms, 1}}}, {1.0 / 3, []Step{{3 * ms, 1.0 / 3}, {5 * ms, 2.0 / 3}}},
		{-0.1, nil}, {1.1, nil}, {math.NaN(), nil}, {0, []Step{{ms, -0.1}}}, {0, []Step{{ms, 1}, {ms, 1.1}}}, {0, []Step{{-1, 0.5}}}, {0, []Step{{0, 0.5}, {-1, 0.6}}}, {0, []Step{{ms, math.NaN()}}},
	} {
		q, err := NewQTA(a.failure, a.steps...)
		c.of("NewQTA %d", i)(q, err, q.Steps(), q.MinSuccess(), q.MaxFailure())
		if err == nil {
			all = append(all, q)
		}
	}
	for i, p := range [][3]time.Duration{{0, 0, 0}, {1, 2, 3}, {2, 1, 3}, {1, 3, 2}, {2, 2, 3}, {1, 2, 2}, {-1, 0, 1}, {2 * ms, 4 * ms, 6 * ms}} {
		q, err := Quartiles(p[0], p[1], p[2], 0.05)
		c.of("Quartiles %d", i)(q, err)
		_, err = Quartiles(p[0], p[1], p[2], 1.05)
		c.of("Quartiles with an error %d", i)(err)
		if err == nil {
			all = append(all, q)
		}
	}
	all = append(all, QTA{})
	c.of("zero QTA")(QTA{}.MaxFailure(), QTA{}.MinSuccess(), QTA{}.Steps())
	for i, q := range all {
		dst := new(Judgement)
		for _, x := range moreOperands() {
			j, err := q.Judge(x.x)
			again := q.WriteJudgement(dst, x.x)
			c.of("Judge %d, %s", i, x.name)(j, err, q.Meets(x.x), dst, again)
			c.of("BudgetFor %d, %s", i, x.name)(BudgetFor(q, x.x))
			if !x.x.Empty() {
				c.of("floor %d, %s", i, x.name)(floor(q, x.x), floorAt(q, x.x, 0), floorAt(q, x.x, ms), floorAt(q, x.x, 3*ms), floorAt(q, x.x, 3*ms+1), floorAt(q, x.x, 9*ms))
			}
		}
		clone := dst.Clone()
		if dst.Slack != nil {
			dst.Slack.Time++
		}
		if dst.Hazard != nil {
			dst.Hazard.Time++
		}
		dst.Points[0].Final = !dst.Points[0].Final
		c.of("Clone %d", i)(clone, dst)
	}
	for i, j := range []Judgement{
		{}, {Points: []Point{{Met: Yes, Probability: Bounds{0.1, 0.2}}, {Met: Yes, Probability: Bounds{0.1, 0.2}}}},
		{Points: []Point{{Met: Yes, Probability: Bounds{-1e-13, 0.2}, Time: TimeMargin{-1, 5}, HasTime: true}, {Met: Yes, Probability: Bounds{0.3, 0.4}, Time: TimeMargin{3, 4}, HasTime: true}}},
		{Points: []Point{{Met: No, Probability: Bounds{-0.1, 0.2}}, {Met: No, Probability: Bounds{-0.1, 0.2}, Time: TimeMargin{-3, 4}, HasTime: true}}},
		{Points: []Point{{Met: CannotTell, Probability: Bounds{-0.1, 0.2}, Time: TimeMargin{-3, 4}, HasTime: true}, {Met: No, Probability: Bounds{-0.1, 0.2}, Time: TimeMargin{-3, 4}, HasTime: true}, {Met: Yes, Probability: Bounds{-9, 1}}}},
		{Points: []Point{{Met: No, Probability: Bounds{-0.1, 0.2}, Time: TimeMargin{0, 4}, HasTime: true}, {Met: No, Probability: Bounds{-0.2, 0.2}, Time: TimeMargin{2, 4}, HasTime: true}}},
		{Points: []Point{{Met: Yes, Probability: Bounds{1, 1}, Time: TimeMargin{7, 9}, HasTime: true}, {Met: Yes, Probability: Bounds{1, 1}, Time: TimeMargin{7, 9}, HasTime: true}, {Met: Yes, Probability: Bounds{1.5, 2}}}},
		{Points: []Point{{Met: No}, {Met: No, Time: TimeMargin{-2, -1}, HasTime: true}, {Met: Yes}}},
	} {
		c.of("margins %d", i)(j.slack(), j.hazard())
	}
}

func bitsOfDeconvolution(c *corpus) {
	few := fewOperands()
	line := func(name string, whole, part *DeltaQ) {
		c.of("Deconvolve %s", name)(Deconvolve(whole, part))
	}
	for _, x := range few {
		for _, y := range few {
			line(x.name+", "+y.name, x.x, y.x)
			line(x.name+" after "+y.name, sure(Sequential(y.x, x.x)), y.x)
		}
		line(x.name+", zero", x.x, new(DeltaQ))
		line("zero, "+x.name, nil, x.x)
	}
	r := rand.New(rand.NewPCG(9, 1))
	for i := range 40 {
		whole, part := drawRaw(r, ms, 1+r.IntN(12)), drawRaw(r, ms, r.IntN(8))
		var bounds []any
		for k := range whole.Bins() + 1 {
			for _, success := range []float64{1, 0.9, whole.hi[whole.Bins()]} {
				lo, at := residualBelow(whole, part, k, success)
				bounds = append(bounds, lo, at, residualAbove(whole, part, k, success))
			}
		}
		c.of("residual bounds %d", i)(bounds...)
		b, err := residualBounds(whole, part)
		c.of("residualBounds %d", i)(b, err)
		b, err = residualBounds(part, whole)
		c.of("residualBounds the other way %d", i)(b, err)
		c.of("estimate %d", i)(estimate(whole, part))
		c.of("quotient %d", i)(quotient(whole.hi, part.hi))
		exact := sure(Sequential(whole, part))
		c.of("quotient of a product %d", i)(quotient(exact.hi, part.hi), quotient(exact.lo, part.lo))
		w, p := drawFloats(r, 5), drawFloats(r, 3)
		c.of("divide %d", i)(divide(w, p, 3), divide(w, p, 1), divide(w, p, 5), flip(w), flip(flip(p)))
		c.of("fit %d", i)(fit(w, p), fit(p, p), fit(w, []float64{0, 0.5, 0}))
		c.of("sums %d", i)(cumulative(w, i%3), cumulative([]float64{0.7, 0.2, 0.3}, 1), appendAll(whole.lo), bounded(drawFloats(r, 3)), bounded(drawFloats(r, 20)))
	}
	for i, q := range []struct{ w, p, r []float64 }{
		{[]float64{0.25, 0.5, 0.25}, []float64{0.5, 0.5}, []float64{0.5, 0.5}}, {[]float64{0.25, 0.5, 0.25}, []float64{0.5, 0.5}, []float64{0.5, 0.5 + 1.9e-9}}, {[]float64{0.25, 0.5, 0.25}, []float64{0.5, 0.5}, []float64{0.5 + 1.1e-9, 0.5}},
		{[]float64{0.25, 0.5, 0.25}, []float64{0.5, 0.5}, []float64{0.5 - 2e-9, 0.5 + 2e-9}}, {[]float64{0.25, 0.5, 0.25}, []float64{0.5, 0.5}, []float64{0.5 - 2.1e-9, 0.5 + 2.1e-9}},
		{[]float64{0.5, 0, 0}, []float64{0.5}, []float64{1, -1e-9, 0}}, {[]float64{0.5, 0, 0}, []float64{0.5}, []float64{1, -1.1e-9, 0}}, {[]float64{0.5, 0, 0}, []float64{0.5}, []float64{1, -0.5e-9, 0.2e-9}},
		{[]float64{0.5, 0, 0}, []float64{0.5}, []float64{1, 1e-9, 0.1e-9}}, {[]float64{0.5, 0, 0}, []float64{0.5}, []float64{1, 0.9e-9, 0}}, {[]float64{1, 1e-9}, []float64{1, 0}, []float64{1}}, {[]float64{1, 1.1e-9}, []float64{1, 0}, []float64{1}},
		{[]float64{1}, []float64{1}, []float64{math.NaN()}}, {[]float64{0.5}, []float64{0.25}, []float64{2}}, {[]float64{0x1p-30}, []float64{0x1p-30}, []float64{1 + 1e-9}}, {[]float64{0x1p-30}, []float64{0x1p-30}, []float64{1 + 2e-9}},
	} {
		c.of("isQuotient %d", i)(isQuotient(q.w, q.p, q.r), q.r)
	}
	for i, q := range []struct{ w, p []float64 }{
		{[]float64{0}, []float64{0.5}}, {[]float64{0.5}, []float64{0}}, {[]float64{0, 0.5}, []float64{0, 0, 0.5}}, {[]float64{0, 0, 0.5}, []float64{0, 1}}, {[]float64{0.5}, []float64{1}}, {[]float64{0, 0.1, 0.5}, []float64{0, 0.2, 0.6, 1}},
		{[]float64{0.2, 0.6, 1}, []float64{0.2, 0.6, 1}}, {[]float64{0.1, 0.2}, []float64{0.1, 1}}, {[]float64{0.3, 0.3}, []float64{0.3}}, {[]float64{0.01, 0.4, 1}, []float64{0.9, 1}}, {[]float64{0.4, 0.99, 1}, []float64{0.1, 1}},
	} {
		c.of("quotient at the ends %d", i)(quotient(q.w, q.p))
	}
	tie := func(lo, hi float64) *DeltaQ { return raw(ms, []float64{0, lo}, []float64{0, hi}) }
	for i, by := range []float64{0, 0.5e-12, 1e-12, 1.001e-12, 2e-12, 1e-9} {
		b, err := residualBounds(tie(0.5+by, 0.6), tie(0.5, 0.5))
		c.of("residualBounds at a tie %d", i)(b, err)
		b, err = residualBounds(raw(ms, []float64{0.2, 0.4 + by, 0.5}, []float64{0.2, 0.4 + by, 0.5}), raw(ms, []float64{0.2, 0.4, 0.5}, []float64{0.2, 0.4, 0.5}))
		c.of("residualBounds near a tie %d", i)(b, err)
		b, err = residualBounds(raw(ms, []float64{0.2, 0.4 + by, 1}, []float64{0.2, 0.4 + by, 1}), raw(ms, []float64{0.2, 0.4, 1}, []float64{0.2, 0.4, 1}))
		c.of("residualBounds of a whole near a tie %d", i)(b, err)
	}
	c.of("residualBounds without success")(residualBounds(tie(0, 0), tie(0, 0.5)))
	// If there are more bins than that, both operands are rebinned.
	for _, n := range []int{maxDeconvolved - 4, maxDeconvolved - 3} {
		whole := raw(ms, make([]float64, n+1), make([]float64, n+1))
		whole.lo[n-2], whole.lo[n-1], whole.lo[n] = 0.25, 0.5, 0.75
		copy(whole.hi, whole.lo)
		part := raw(ms, []float64{0, 0, 0, 0.5, 0.75}, []float64{0, 0, 0, 0.5, 0.75})
		res, err := Deconvolve(whole, part)
		c.of("Deconvolve %d bins and 4", n)(res, err)
	}
	for i, err := range []error{
		&NoResidualError{At: 3 * ms, Needs: 1.0 / 3, Possible: 0.25}, &UndecidedError{Required: Step{ms, 0.7}, Reached: Bounds{0.1, 0.9}}, &UndecidedError{Required: Step{0, 0.7}, Final: true, Reached: Bounds{0.1, 1.0 / 3}},
	} {
		c.of("error %d", i)(err)
	}
}
