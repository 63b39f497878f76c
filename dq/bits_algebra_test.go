package dq

import (
	"math"
	"math/rand/v2"
	"time"
)

func bitsOfDeltaQ(c *corpus) {
	for _, x := range moreOperands() {
		d := x.x
		c.of("%s", x.name)(d)
		c.of("figures of %s", x.name)(d.Empty(), d.Width(), d.Bins(), d.Horizon(), d.Bounded(), d.String())
		c.of("success of %s", x.name)(d.Success())
		c.of("failure of %s", x.name)(d.IntangibleMass())
		c.of("Earliest of %s", x.name)(d.Earliest())
		c.of("Deadline of %s", x.name)(d.Deadline())
		c.of("AppendBounds of %s", x.name)(d.AppendBounds([]float64{7}, []float64{8, 9}))
		c.of("Clone of %s", x.name)(d.Clone(), d.Equal(d.Clone()))
		var at []Bounds
		for k := -2; k <= d.Bins()+2; k++ {
			at = append(at, d.At(k))
		}
		c.of("At of %s", x.name)(at)
		var within []any
		for _, t := range timesAround(d) {
			b, ok := d.ProbabilityWithin(t)
			within = append(within, b, ok)
		}
		c.of("ProbabilityWithin of %s", x.name)(within...)
		ps := []float64{math.NaN(), math.Inf(1), -0.1, -1e-300, 0, 1e-300, 1e-13, 1e-12, 2e-12, 0.1, 0.25, 0.3, 0.5, 0.5 + 1e-13, 0.7, 0.9, 1 - 1e-12, 1 - 1e-13, 1, 1 + 1e-15}
		for k := range min(d.Bins(), 6) + 1 {
			b := d.At(k)
			for _, p := range []float64{b.Lo, b.Hi} {
				ps = append(ps, p, math.Nextafter(p, 2), p+Tolerance, p+Tolerance/2, p+2*Tolerance, math.Nextafter(p+Tolerance, 2))
			}
		}
		var quantiles []any
		for _, p := range ps {
			v, ok := d.Quantile(p)
			quantiles = append(quantiles, v, ok)
		}
		c.of("Quantile of %s", x.name)(quantiles...)
		if d == nil {
			continue
		}
		cleared := d.Clone()
		cleared.Clear()
		c.of("Clear of %s", x.name)(cleared, cleared.Width(), cap(cleared.lo) > 0)
		err := sure(NewObserved(bitsGrid(ms, 2))).WriteDeltaQ(cleared)
		c.of("nothing after Clear of %s", x.name)(cleared, err)
		err = sure(FromCounts(bitsGrid(ms, 3), []uint64{1, 2, 4}, 1, 0)).WriteDeltaQ(cleared)
		c.of("DeltaQ after Clear of %s", x.name)(cleared, err)
		if d.Empty() {
			continue
		}
		k, mass, ok := d.atom()
		c.of("kind of %s", x.name)(k, mass, ok, d.isConstant(), supportOf(d.lo), supportOf(d.hi), supportOf(d.lo).len(), firstPositive(d.lo), firstPositive(d.hi), firstFull(d.lo), firstFull(d.hi))
		var edges, indices []int64
		for k := range d.Bins() + 2 {
			edges = append(edges, int64(d.edge(k)), int64(nextEdge(d, k)))
		}
		for _, t := range timesAround(d)[1:] {
			indices = append(indices, int64(d.index(t)))
		}
		c.of("edges of %s", x.name)(edges, indices)
		trimmed := d.Clone()
		trimmed.trim()
		c.of("trim of %s", x.name)(trimmed)
		c.of("appendDensity of %s", x.name)(appendDensity([]float64{5}, d.lo), appendDensity(nil, d.hi))
		difference, same := twins([]*DeltaQ{d})
		c.of("twins of %s", x.name)(difference, same)
	}
	var none *DeltaQ
	none.Clear()
	c.of("figures of a nil one")(none.Width(), none.Bounded(), none.Horizon())
	for _, mass := range []Bounds{{}, {0, 0.5}, {0.3, 0.4}, {1, 1}} {
		for _, k := range []int{0, 1, 5} {
			d := raw(ms, []float64{1, 2, 3, 4}, []float64{5, 6, 7, 8})
			d.excess = unbounded()
			d.setAtom(2*ms, k, mass)
			c.of("setAtom %d %v", k, mass)(d)
		}
	}
	c.of("withLength")(len(withLength(nil, 0)), len(withLength(make([]float64, 3), 2)), withLength([]float64{1, 2, 3}, 2), len(withLength([]float64{1}, 5)))
	for _, p := range []float64{math.NaN(), -1e-300, 0, 0.3, 1, math.Nextafter(1, 2)} {
		c.of("checkProbability %v", p)(checkProbability(p))
	}
	for i, d := range []*DeltaQ{
		raw(ms, []float64{0.1, 0.1, 0.1}, []float64{0.1, 0.1, 0.1}), raw(ms, []float64{0, 0.1, 0.1}, []float64{0, 0, 0.1}), raw(ms, []float64{0, 0.1, 0.1}, []float64{0.1, 0.1, 0.1}),
		raw(ms, []float64{0, 0}, []float64{0, 0}), raw(ms, []float64{0.2, 0.5, 0.5, 0.5}, []float64{0.3, 0.5, 0.5, 0.5}), raw(ms, []float64{0.2, 0.4, 0.4, 0.4}, []float64{0.3, 0.5, 0.5, 0.5}),
	} {
		open := d.Clone()
		open.excess = excess{1, 1}
		d.trim()
		open.trim()
		c.of("trim %d", i)(d, open)
	}
}

func bitsOfOrders(c *corpus) {
	for v := Verdict(-1); v <= 4; v++ {
		c.of("verdict %d", int(v))(v.String())
	}
	for _, v := range []Verdict{CannotTell, Yes, No} {
		c.of("and %v", v)(int(v), v.and(CannotTell), v.and(Yes), v.and(No))
	}
	for o := Order(-1); o <= 6; o++ {
		c.of("order %d", int(o))(o.String())
	}
	for i, b := range []Bounds{{0, 0}, {0.2, 0.2}, {0.2, 0.4}, {0.5 - 1e-12, 0.5 - 1e-12}, {0.5 - 2e-12, 0.5 - 2e-12}, {0.5 - 2e-12, 0.5 - 1e-13}, {0, 1}, {1, 1}} {
		c.of("reaches %d", i)(reaches(b, 0), reaches(b, 0.2), reaches(b, 0.3), reaches(b, 0.4), reaches(b, 0.5), reaches(b, 1))
	}
}

// listSteps lists the arguments of the calls that eachStep makes, up to most calls.
func listSteps(x, y *DeltaQ, most int) []any {
	var out []any
	eachStep(x, y, func(t time.Duration, a, b Bounds) bool {
		out = append(out, t, a, b)
		most--
		return most > 0
	})
	return out
}

func bitsOfPairs(c *corpus) {
	few := fewOperands()
	calculator := new(Calculator)
	for _, x := range few {
		for _, y := range few {
			pair := x.name + ", " + y.name
			c.of("Sequential %s", pair)(Sequential(x.x, y.x))
			c.of("FirstToFinish %s", pair)(FirstToFinish(x.x, y.x))
			c.of("AllToFinish %s", pair)(AllToFinish(x.x, y.x))
			c.of("Choice %s", pair)(Choice([]float64{0.3, 0.7}, x.x, y.x))
			c.of("order of %s", pair)(AtMost(x.x, y.x), Compare(x.x, y.x), x.x.Equal(y.x))
			c.of("Diverge %s", pair)(Diverge(x.x, y.x))
		}
	}
	more := moreOperands()
	for _, x := range more {
		var sequences, first, all, choices, orders, distances, steps []any
		for _, y := range more {
			add := func(to *[]any, f func(dst *DeltaQ) error) {
				dst := raw(7, []float64{7}, []float64{8})
				err := f(dst)
				*to = append(*to, dst, err)
			}
			add(&sequences, func(dst *DeltaQ) error { return calculator.Sequential(dst, x.x, y.x) })
			add(&first, func(dst *DeltaQ) error { return calculator.FirstToFinish(dst, x.x, y.x) })
			add(&all, func(dst *DeltaQ) error { return calculator.AllToFinish(dst, x.x, y.x) })
			add(&choices, func(dst *DeltaQ) error { return calculator.Choice(dst, []float64{0.9, 0.1}, x.x, y.x) })
			add(&choices, func(dst *DeltaQ) error { return calculator.Choice(dst, []float64{0, 1}, x.x, y.x) })
			orders = append(orders, AtMost(x.x, y.x), Compare(x.x, y.x), x.x.Equal(y.x))
			v, err := Diverge(x.x, y.x)
			distances = append(distances, v, err)
			if !x.x.Empty() && !y.x.Empty() {
				steps = append(append(steps, listSteps(x.x, y.x, 1000)...), listSteps(x.x, y.x, 2)...)
			}
		}
		c.of("Sequential %s with all", x.name)(sequences...)
		c.of("FirstToFinish %s with all", x.name)(first...)
		c.of("AllToFinish %s with all", x.name)(all...)
		c.of("Choice %s with all", x.name)(choices...)
		c.of("orders of %s and all", x.name)(orders...)
		c.of("Diverge %s and all", x.name)(distances...)
		c.of("eachStep of %s and all", x.name)(steps...)
	}
}

func bitsOfOperators(c *corpus) {
	few, more := fewOperands(), moreOperands()
	get := func(name string) *DeltaQ {
		for _, x := range more {
			if x.name == name {
				return x.x
			}
		}
		panic(name)
	}
	c.of("Sequential of none")(Sequential())
	c.of("FirstToFinish of none")(FirstToFinish())
	c.of("AllToFinish of none")(AllToFinish())
	c.of("Choice of none")(Choice(nil))
	for _, x := range more {
		c.of("Sequential %s", x.name)(Sequential(x.x))
		c.of("FirstToFinish %s", x.name)(FirstToFinish(x.x))
		c.of("AllToFinish %s", x.name)(AllToFinish(x.x))
		c.of("Choice %s", x.name)(Choice([]float64{1}, x.x))
		c.of("Sequential %s thrice", x.name)(Sequential(x.x, x.x, x.x))
		c.of("FirstToFinish %s thrice", x.name)(FirstToFinish(x.x, x.x, x.x))
		c.of("AllToFinish %s thrice", x.name)(AllToFinish(x.x, x.x, x.x))
		c.of("Choice %s thrice", x.name)(Choice([]float64{0.2, 0.3, 0.5}, x.x, x.x, x.x))
		c.of("Sequential %s and exact delays", x.name)(Sequential(get("wait"), x.x, get("waitHalf"), get("wait1")))
		c.of("Scale %s", x.name)(pairsOf(func(p float64) (*DeltaQ, error) { return Scale(x.x, p) }, -1e-300, 0, 1e-300, 0.3, 1.0/3, 1, math.Nextafter(1, 2), math.NaN())...)
		w := x.x.Width()
		c.of("Rebin %s", x.name)(pairsOf(func(width time.Duration) (*DeltaQ, error) { return Rebin(x.x, width) },
			0, MinWidth-1, MinWidth, w-1, w, w+1, w+w/2, 2*w, 3*w-1, 7*w, 100*w, MaxWidth, MaxWidth+1)...)
		c.of("Timeout %s", x.name)(pairsOf(func(t time.Duration) (*DeltaQ, error) { return Timeout(x.x, t) }, append(timesAround(x.x), math.MinInt64, math.MaxInt64)...)...)
		for i, t := range []time.Duration{-1, 0, MinWidth / 2, w / 2, w - 1, w, w + 1, 2*w + w/2, 5 * w, x.x.Horizon(), x.x.Horizon() + 1} {
			attempts := []int{1, 2, 3, 7}
			if t > 0 && t < w/2 {
				attempts = attempts[:3]
			}
			c.of("Retry %s %d, %d", x.name, t, i)(pairsOf(func(n int) (*DeltaQ, error) { return Retry(x.x, t, n) }, attempts...)...)
			c.of("RetryOverlap %s %d, %d", x.name, t, i)(pairsOf(func(n int) (*DeltaQ, error) { return RetryOverlap(x.x, t, n) }, attempts...)...)
		}
	}
	least, most := 1-weightSlack, 1+weightSlack // of a sum of weights, rounded
	for i, weights := range [][]float64{
		{0.75, math.Nextafter(least, 0) - 0.75 + 0x1p-55}, {0.75, least - 0.75 + 0x1p-55}, {0.75, math.Nextafter(least, 1) - 0.75 + 0x1p-55},
		{0.75, math.Nextafter(most, 0) - 0.75 + 0x1p-54}, {0.75, most - 0.75 + 0x1p-54}, {0.75, math.Nextafter(most, 2) - 0.75 + 0x1p-54},
		{1}, {0.5, 0.5, 0}, {0.5, 0.5}, {0.5, 0.5 + 1e-9}, {0.5, 0.5 + 0.9e-9}, {0.5, 0.5 - 0.9e-9}, {0.5, 0.5 - 1.1e-9}, {0.5, 0.5 + 1.1e-9}, {0.6, -0.1}, {1.1, 0}, {0, 1}, {1, 0},
		{math.NaN(), 1}, {1.0 / 3, 2.0 / 3}, {0.1, 0.2}, {0.9, 0.9}, {1e-10, 1 - 1e-10}, {1e-300, 1},
	} {
		c.of("Choice of weights %d", i)(Choice(weights, get("random"), get("late")))
		c.of("weightSum %d", i)(weightSum(weights))
	}
	for i := range 12 {
		weights := drawFloats(rand.New(rand.NewPCG(4, uint64(i))), 3)
		sum := weights[0] + weights[1] + weights[2]
		for k := range weights {
			weights[k] /= sum
		}
		weights[0] += float64(i-6) * 1e-10
		c.of("Choice of drawn weights %d", i)(Choice(weights, get("exponential"), get("normal"), get("light")))
	}
	// A calculator is used again, and writes over an operand.
	calculator := new(Calculator)
	for i, x := range few {
		y := few[(i+3)%len(few)].x
		for _, f := range []struct {
			name string
			f    func(dst *DeltaQ) error
		}{
			{"Sequential", func(dst *DeltaQ) error { return calculator.Sequential(dst, dst, y) }},
			{"FirstToFinish", func(dst *DeltaQ) error { return calculator.FirstToFinish(dst, y, dst) }},
			{"AllToFinish", func(dst *DeltaQ) error { return calculator.AllToFinish(dst, dst, dst) }},
			{"Choice", func(dst *DeltaQ) error { return calculator.Choice(dst, []float64{0.25, 0.75}, dst, y) }},
			{"Scale", func(dst *DeltaQ) error { return calculator.Scale(dst, dst, 0.9) }},
			{"Rebin", func(dst *DeltaQ) error { return calculator.Rebin(dst, dst, 2*dst.Width()) }},
			{"Timeout", func(dst *DeltaQ) error { return calculator.Timeout(dst, dst, 2500*time.Microsecond) }},
			{"Retry", func(dst *DeltaQ) error { return calculator.Retry(dst, dst, 2500*time.Microsecond, 2) }},
			{"RetryOverlap", func(dst *DeltaQ) error { return calculator.RetryOverlap(dst, dst, 1500*time.Microsecond, 2) }},
		} {
			dst := x.x.Clone()
			err := f.f(dst)
			c.of("%s over %s", f.name, x.name)(dst, err)
		}
		dst := x.x.Clone()
		err := calculator.Sequential(dst, y, new(DeltaQ))
		c.of("error over %s", x.name)(dst, err)
	}
	r := rand.New(rand.NewPCG(4, 1))
	for i := range 12 {
		xs := []*DeltaQ{drawRaw(r, ms, 1+r.IntN(9)), drawRaw(r, ms, 1+r.IntN(9)), drawRaw(r, 2*ms, r.IntN(5)), get("wait"), get("exponential")}
		c.of("Sequential of five, %d", i)(Sequential(xs...))
		c.of("FirstToFinish of five, %d", i)(FirstToFinish(xs...))
		c.of("AllToFinish of five, %d", i)(AllToFinish(xs...))
		c.of("Choice of five, %d", i)(Choice([]float64{0.1, 0.2, 0.3, 0.15, 0.25}, xs...))
	}
	for i, d := range []*DeltaQ{
		raw(ms, []float64{0.1, 0.2, 0.15, 0.3, 0.1}, []float64{0.4, 0.3, 0.5, 0.45, 0.9}), raw(ms, []float64{0.2, 0.1}, []float64{0.3, 0.2}), raw(ms, []float64{0.3}, []float64{0.4}),
		raw(ms, []float64{0, 0.5, 0.5 - 0x1p-54}, []float64{0.5, 0.5 + 0x1p-52, 0.5}),
	} {
		calculator := &Calculator{out: *d.Clone()}
		calculator.out.excess = excess{float64(i % 2), float64(i % 2)}
		var dst DeltaQ
		err := calculator.finish(&dst)
		c.of("finish %d", i)(dst, err)
	}
}

func bitsOfWidths(c *corpus) {
	g := bitsGrid(ms, 10)
	wide := raw(MaxWidth, make([]float64, 3), []float64{0, 0.5, 1})
	half := raw(MaxWidth/2, make([]float64, 4), []float64{0, 0.5, 0.6, 1})
	for _, n := range []int{1, 2, 3, 7, 10} {
		for _, most := range []int{1, 2, 3, 5, 9, 10, 11, 20, 30, 100} {
			u := sure(Uniform(g, 0, time.Duration(n)*ms))
			xs := []*DeltaQ{u, sure(Wait(g, 3*ms+1)), u}
			c.of("widthForSum %d %d", n, most)(widthForSum(xs, ms, most))
			c.of("widthForSum of wide ones %d %d", n, most)(widthForSum([]*DeltaQ{wide, half}, MaxWidth/time.Duration(n), most))
			var calculator Calculator
			width, err := calculator.align(xs, most)
			c.of("align %d %d", n, most)(width, err, calculator.aligned, calculator.bins())
		}
	}
	more := moreOperands()
	for _, x := range more {
		if xs := []*DeltaQ{x.x, x.x}; !x.x.Empty() {
			c.of("binsTogether %s", x.name)(binsTogether(xs, 1), binsTogether(xs, MinWidth), binsTogether(xs, ms), binsTogether(xs, 3*ms), binsTogether(xs, time.Second))
		}
		c.of("commonWidth %s", x.name)(commonWidth([]*DeltaQ{x.x}))
		c.of("commonWidth %s and others", x.name)(commonWidth([]*DeltaQ{more[1].x, x.x, more[3].x}))
		c.of("commonWidth of constants, %s", x.name)(commonWidth([]*DeltaQ{more[1].x, x.x, raw(3*ms, []float64{0.5}, []float64{0.5})}))
	}
	// Results of more than MaxBins bins get wider ones.
	long := raw(ms, make([]float64, MaxBins), make([]float64, MaxBins))
	long.lo[MaxBins-1], long.hi[MaxBins-1] = 0.3, 0.4
	for _, n := range []int{0, 1, 2} {
		d, err := Sequential(long, sure(Wait(g, time.Duration(n)*ms)))
		c.of("Sequential of %d bins and %d", MaxBins-1, n)(d.Width(), d.Bins(), d.At(d.Bins()-1), d.At(d.Bins()), err)
	}
	d, err := FirstToFinish(long, sure(Uniform(g, 0, 4*ms)))
	c.of("FirstToFinish of many bins")(d.Width(), d.Bins(), d.At(0), d.At(4), d.At(d.Bins()), err)
	d, err = Choice([]float64{0.5, 0.5}, long, long)
	c.of("Choice of many bins")(d.Width(), d.Bins(), d.At(0), d.At(d.Bins()), err)
	widest := raw(MaxWidth, make([]float64, MaxBins), make([]float64, MaxBins))
	widest.lo[MaxBins-1], widest.hi[MaxBins-1] = 1, 1
	_, err = Sequential(widest, widest)
	c.of("Sequential of too wide ones")(err)
}

func bitsOfRetries(c *corpus) {
	x := drawRaw(rand.New(rand.NewPCG(5, 1)), MinWidth, 3)
	wide := func(bins int, width time.Duration) *DeltaQ {
		d := raw(width, make([]float64, bins+1), make([]float64, bins+1))
		d.lo[bins], d.hi[bins] = 0.3, 0.4
		return d
	}
	for i, a := range []struct {
		x        *DeltaQ
		t        time.Duration
		attempts int
	}{
		{x, 65532 * MinWidth, 1}, {x, 65533 * MinWidth, 1}, {x, 65533*MinWidth + 1, 1}, {x, 65534 * MinWidth, 1}, {x, 65535 * MinWidth, 2}, {x, 65536 * MinWidth, 3},
		{wide(3, MaxWidth/2), MaxModelDelay, 1000}, {wide(3, MaxWidth/2+1), MaxModelDelay, 1000}, {wide(3, MaxWidth/2-1), MaxModelDelay, 1000}, {wide(3, MaxWidth), MaxModelDelay, 1000}, {wide(3, ms), MaxModelDelay, 1000},
		{wide(1472, MaxWidth), MaxModelDelay, 1000}, {wide(1473, MaxWidth), MaxModelDelay, 1000}, {wide(1471, MaxWidth), MaxModelDelay, 1000},
		{wide(60000, MaxWidth), (math.MaxInt64 - 60000*MaxWidth) / 8, 7}, {wide(60000, MaxWidth), (math.MaxInt64-60000*MaxWidth)/8 + 1, 7},
		{wide(5, ms), 3 * ms, 4}, {wide(5, 1), 65536, 1}, {wide(5, 1), 65531, 1}, {wide(5, 1), 65532, 1},
	} {
		var calculator Calculator
		d, err := calculator.widen(a.x, a.t, a.attempts)
		c.of("widen %d", i)(d, err, len(calculator.spare))
	}
	for _, t := range []time.Duration{-1, 0, 1, MaxModelDelay, MaxModelDelay + 1} {
		for _, attempts := range []int{-1, 0, 1, MaxAttempts, MaxAttempts + 1} {
			c.of("checkRetry %d %d", t, attempts)(checkRetry(x, t, attempts), checkRetry(new(DeltaQ), t, attempts))
		}
	}
	for i, y := range []*DeltaQ{raw(ms, []float64{0.5, 1}, []float64{0.7, 1}), raw(ms, []float64{0.5, 1 - 0x1p-53}, []float64{0.7, 1})} {
		d, err := Retry(y, 100*ms, MaxAttempts)
		c.of("Retry of a certain one %d", i)(d.Width(), d.Bins(), d.At(0), d.At(d.Bins()), err)
	}
	for _, attempts := range []int{1, 13, 60} {
		c.of("Retry many times, %d", attempts)(Retry(x, 2500, attempts))
		c.of("RetryOverlap many times, %d", attempts)(RetryOverlap(x, 2500, attempts))
	}
	for _, y := range moreOperands() {
		if y.x.Empty() {
			continue
		}
		var out []float64
		for _, t := range timesAround(y.x)[2:] {
			for _, until := range timesAround(y.x)[2:] {
				if t > 0 && until > 0 {
					out = append(out, y.x.before(until, t))
				}
			}
		}
		c.of("before of %s", y.name)(out)
		out = nil
		for _, at := range timesAround(y.x)[1:] {
			for _, attempts := range []int{1, 2, 5} {
				for _, t := range []time.Duration{700 * time.Microsecond, ms, 2500 * time.Microsecond} {
					out = append(out, y.x.overlapDown(at, t, attempts))
					if at > 0 {
						out = append(out, y.x.overlapUp(at, t, attempts))
					}
				}
			}
		}
		c.of("overlap of %s", y.name)(out)
	}
	for _, left := range bitsFloats {
		if left > 1 {
			break
		}
		var out []float64
		for _, f := range bitsFloats {
			if f <= 1 {
				out = append(out, afterDown(left, f), afterUp(left, f))
			}
		}
		c.of("after %x", left)(out)
	}
	s := retryState{t: 3, last: 4, left: 1}
	for i, attempt := range []time.Duration{0, 0, 1, 3, 3, 4, 9} {
		rest := s.advance(attempt, attempt*3+1, func(left float64) float64 { return left / 2 })
		c.of("advance %d, %d", attempt, i)(rest, s)
	}
}
