package dq

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

func bitsOfStudent(c *corpus) {
	for _, df := range []int{1, 2, 3, 4, 5, 8, 17, 30, 100, 1000} {
		for _, confidence := range []float64{0.01, 0.5, 0.9, 0.95, 0.999, 1 - 1e-9} {
			c.of("student %v %d", confidence, df)(student(confidence, df))
		}
		var rests, powers []float64
		for _, t := range []float64{0x1p-20, 0.1, 1, math.Sqrt(float64(df)), 2.5, 40, 1e6} {
			rests = append(rests, studentRest(t, df))
		}
		for _, y := range []float64{0, 1e-300, 0.1, 0.5, 1 - 0x1p-53, 1} {
			powers = append(powers, halfPower(y, df))
		}
		c.of("studentRest %d", df)(rests)
		c.of("halfPower %d", df)(powers)
		c.of("beta %d", df)(beta(df))
	}
	// Here the width of the search is exactly 1e-9 of its upper end.
	tie := 1e9 * 0x1p-30
	c.of("student at a tie")(float64(1e-9*tie) == 0x1p-30, student(1-studentRest(tie-0x1p-31, 1), 1))
	c.of("student at the end")(student(1-0x1p-53, 1), student(1-0x1p-50, 1), student(1-0x1p-53, 2), student(1, 3), student(0x1p-40, 1))
	for _, a := range []float64{0.5, 1, 2.5, 50} {
		c.of("series %v", a)(series(a, 0.5, 0), series(a, 0.5, 1e-20), series(a, 0.5, 0.3), series(a, a, 0.5), series(0.5, a, 0.5))
	}
}

// bandsOf adds lines with all results that a window provides.
func bandsOf(c *corpus, name string, w *Window, dst *Band) {
	write := func(f func(*Band, float64) error) func(float64) (Band, error) {
		return func(x float64) (Band, error) {
			err := f(dst, x)
			return Band{slices.Clone(dst.Mean), slices.Clone(dst.Lo), slices.Clone(dst.Hi)}, err
		}
	}
	c.of("WriteBand %s", name)(pairsOf(write(w.WriteBand), 0.5, 0.95, 0.999)...)
	c.of("WriteStandardErrors %s", name)(pairsOf(write(w.WriteStandardErrors), 0, Z68, Z95, 7)...)
	if w.held == 0 {
		return
	}
	tau, size := w.correlation(), w.size()
	var edges []float64
	value := func(i, k int) float64 { return float64(w.at(i).at(k)) / fixedOne }
	for k := range w.sums {
		edges = append(edges, w.mean(k), w.hidden(k), w.deviation(k), w.effect(k, tau, size), w.variance(k, tau), value(0, k), value(w.held-1, k))
	}
	c.of("edges %s", name)(edges)
	c.of("correlation %s", name)(tau, size, w.looked, w.covariances, w.pooledEffect(tau, size), w.sumOfCovariances(0), w.sumOfCovariances(1e-5), w.sumOfCovariances(0.1))
}

func bitsOfWindows(c *corpus) {
	g := bitsGrid(ms, 6)
	for _, capacity := range []int{-1, 0, 1, 2, MaxWindow, MaxWindow + 1} {
		w, err := NewWindow(g, capacity)
		c.of("NewWindow %d", capacity)(w != nil, err)
		_, err = NewWindow(Grid{}, capacity)
		c.of("NewWindow of the zero grid %d", capacity)(err)
	}
	r := rand.New(rand.NewPCG(10, 1))
	var band Band
	for _, s := range []struct {
		name     string
		capacity int
		inserts  int
		draw     func(i int) *Observed
	}{
		{"one", 1, 3, func(i int) *Observed { return drawCounts(r, g, 5+i, 1, 0) }},
		{"few", 5, 9, func(i int) *Observed { return drawCounts(r, g, 50+10*i, uint64(i), 1) }},
		{"same", 9, 12, func(int) *Observed { return sure(FromCounts(g, []uint64{0, 3, 9, 7, 0, 0}, 1, 0)) }},
		{"immediate", 9, 9, func(int) *Observed { return sure(FromCounts(g, []uint64{9, 0, 0, 0, 0, 0}, 0, 0)) }},
		{"failing", 9, 10, func(i int) *Observed { return sure(FromCounts(g, []uint64{0, 0, 0, 0, 0, 0}, uint64(i)+1, 2)) }},
		{"drifting", 20, 26, func(i int) *Observed {
			o := drawCounts(r, g, 30, 0, 1)
			o.counts[i/6] += uint64(60)
			o.ok += 60
			return o
		}},
		{"alternating", 16, 18, func(i int) *Observed {
			o := drawCounts(r, g, 30, 0, 1)
			o.counts[i%2*4] += uint64(50)
			o.ok += 50
			return o
		}},
		{"long", 150, 160, func(i int) *Observed {
			o := drawCounts(r, g, 30, 0, 1)
			o.counts[int(3+2.5*math.Sin(float64(i)/16*1))] += 20
			o.ok += 20
			return o
		}},
	} {
		w := sure(NewWindow(g, s.capacity))
		bandsOf(c, s.name+" empty", w, &band)
		w.RemoveOldest()
		for i := range s.inserts {
			o := s.draw(i)
			err := w.Insert(o)
			if s.inserts < 30 || i == 63 || i == 64 || i == 65 || i == 127 || i == 130 || i >= 158 {
				c.of("Insert %s %d", s.name, i)(w, err, w.Len(), w.Grid())
				bandsOf(c, s.name+" of "+time.Duration(i).String(), w, &band)
			}
		}
		for i := range min(s.inserts, 6) {
			w.RemoveOldest()
			c.of("RemoveOldest %s %d", s.name, i)(w, w.Len())
			bandsOf(c, s.name+" without "+time.Duration(i).String(), w, &band)
		}
		c.of("Insert nothing %s", s.name)(w.Insert(sure(NewObserved(g))), w.Insert(sure(FromCounts(bitsGrid(2*ms, 6), make([]uint64, 6), 1, 0))), w.Insert(sure(FromCounts(bitsGrid(ms, 7), make([]uint64, 7), 1, 0))), w)
	}
	near := sure(NewWindow(g, 5))
	for i, first := range []uint64{1 << 51, 1<<51 + 1, 1<<51 + 3, 1<<51 - 2, 1<<51 + 1<<9} {
		c.of("Insert near ones %d", i)(near.Insert(sure(FromCounts(g, []uint64{first, 1<<52 - first, 0, 0, 0, 0}, 0, 0))))
		bandsOf(c, "near "+time.Duration(i).String(), near, new(Band))
		band, standard := Band{Mean: []float64{7}, Hi: make([]float64, 20)}, Band{Lo: make([]float64, 20)}
		c.of("near ones into other memory %d", i)(near.WriteBand(&band, 0.5), near.WriteStandardErrors(&standard, 0.5), band, standard)
	}
	w := sure(NewWindow(g, 10))
	for i := range 14 {
		a, b := drawCounts(r, g, 20+i, 0, 1), drawCounts(r, g, 33, 1, 0)
		d := sure(Sequential(sure(a.DeltaQ()), sure(b.DeltaQ())))
		if i%3 == 1 {
			d = sure(Choice([]float64{0.9, 0.1}, d, Unknown()))
		}
		if i%5 == 4 {
			c.of("Insert among calculated %d", i)(w.Insert(a), w)
		}
		err := w.InsertCalculated(d, a.Instances())
		c.of("InsertCalculated %d", i)(w, err)
		bandsOf(c, "calculated "+time.Duration(i).String(), w, &band)
	}
	for i := range 11 {
		w.RemoveOldest()
		c.of("RemoveOldest of calculated %d", i)(w, w.held)
	}
	for _, x := range moreOperands() {
		w := sure(NewWindow(g, 3))
		c.of("InsertCalculated %s", x.name)(w.InsertCalculated(x.x, 0), w.InsertCalculated(x.x, 7), w, new(Window).InsertCalculated(x.x, 7))
	}
	for _, confidence := range []float64{math.NaN(), -0.1, 0, 0x1p-50, math.Nextafter(1, 0), 1} {
		w := sure(NewWindow(g, 3))
		_ = w.Insert(drawCounts(r, g, 9, 0, 0))
		c.of("WriteBand of confidence %x", confidence)(w.WriteBand(&band, confidence), band)
		c.of("WriteStandardErrors of z %x", confidence)(w.WriteStandardErrors(&band, confidence), band)
	}
	var q Window
	c.of("quantile")(q.quantile(0.95, 3), q.quantile(0.95, 1), q.quantiles, q.quantile(0.9, 1), slices.Clone(q.quantiles), q.quantile(0.9, 1), q.quantile(0.9, 5), q.quantiles, q.confidence)
	for _, p := range []float64{0, 1e-9, 0.01, 0.1, 1.0 / 3, 0.5, 0.9, 0.99, 1} {
		for _, n := range []float64{0.5, 1, 2, 9.99, 10, 10.01, 100, 1e6} {
			var all []any
			for _, z := range []float64{0.01, 1, math.Sqrt2, 1.96, 12} {
				lo, hi := score(p, n, z)
				all = append(all, lo, hi)
			}
			c.of("score %v %v", p, n)(all...)
		}
	}
	for _, p := range []float64{0, 0x1p-54, 0x1p-53, 0x1.8p-52, 0x1p-52, 0.1, 0.5, 1} {
		c.of("fixed %x", p)(fixed(p), independentVariance(p, 7))
	}
}

func bitsOfComparisons(c *corpus) {
	g := bitsGrid(ms, 6)
	for _, capacity := range []int{-1, 0, 1, 2, MaxWindow, MaxWindow + 1} {
		for _, dMax := range []time.Duration{0, 5*ms - 1, 5 * ms, 5*ms + 1, 6*ms - 1, 6 * ms, 6*ms + 1} {
			x, err := NewComparison(g, dMax, capacity)
			if capacity > 2 {
				x = nil
			}
			c.of("NewComparison %d %d", capacity, dMax)(x, err)
		}
		_, err := NewComparison(Grid{}, 0, capacity)
		c.of("NewComparison of the zero grid %d", capacity)(err)
	}
	r := rand.New(rand.NewPCG(11, 1))
	for _, s := range []struct {
		name     string
		dMax     time.Duration
		capacity int
		inserts  int
		scale    func(i int) float64
		n        int
	}{
		{"one", 6 * ms, 1, 3, func(int) float64 { return 1 }, 40},
		{"alike", 6 * ms, 7, 10, func(int) float64 { return 1 }, 60},
		{"apart", 5*ms + 1, 13, 20, func(int) float64 { return 0.6 }, 200},
		{"lately", 5*ms + ms/2, 12, 14, func(i int) float64 { return 1 - float64(min(i, 12))/20 }, 300},
		{"once", 6 * ms, 12, 13, func(i int) float64 { return 1 - 0.9*float64(i%7/6) }, 100},
	} {
		x := sure(NewComparison(g, s.dMax, s.capacity))
		add := func(name string) {
			v, windows, err := x.Diverge()
			c.of("Diverge %s %s", s.name, name)(v, windows, err, x.Len())
			if x.held > 0 {
				var lasting []float64
				for length := 1; runs*length <= x.held; length++ {
					lasting = append(lasting, x.lasting(length))
				}
				c.of("lasting %s %s", s.name, name)(lasting, x.last(1), x.last(x.held), x.run, x.sum)
			}
		}
		x.RemoveOldest()
		add("empty")
		for i := range s.inserts {
			o := drawCounts(r, g, s.n+i, 0, 1)
			calculated := sure(Scale(sure(drawCounts(r, g, s.n, 0, 2).DeltaQ()), s.scale(i)))
			if i%4 == 3 {
				calculated = sure(Sequential(sure(Uniform(bitsGrid(ms/2, 4), 0, 2*ms)), sure(Uniform(bitsGrid(ms/2, 4), 0, 2*ms))))
			}
			var sampling Sampling
			if i%3 > 0 {
				sampling.Add(1, float64(i%4), uint64(s.n))
				sampling.Add(0.3, 1, 50)
			}
			err := x.Insert(sure(o.DeltaQ()), o.Instances(), calculated, sampling)
			c.of("Insert %s %d", s.name, i)(x, err, sampling)
			add(time.Duration(i).String())
		}
		c.of("Insert nothing %s", s.name)(x.Insert(nil, 3, Never(), Sampling{}), x.Insert(Never(), 0, Never(), Sampling{}), x.Insert(Never(), 3, nil, Sampling{}), x)
		for i := range 4 {
			x.RemoveOldest()
			add("without " + time.Duration(i).String())
		}
		short := named{"short", raw(ms-1, []float64{0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6}, []float64{0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7})}
		for _, y := range append(moreOperands(), short) {
			if y.x.Empty() {
				continue
			}
			var within []Bounds
			for k := range g.Bins() + 1 {
				within = append(within, x.within(y.x, k))
			}
			c.of("within %s %s", s.name, y.name)(within)
		}
	}
	for n := range 11 {
		a, b := drawFloats(r, n), drawFloats(r, n)
		addTo(a, b)
		c.of("addTo %d", n)(a)
	}
	for i, p := range []couple{
		{n: 2, spread: 2, above: []float64{-0.1, 0.2, 0.5, 0.1}, below: []float64{0.1, -0.3, -0.6, -0.2}}, {n: 3, spread: 3, bias: 0.1, above: []float64{-0.2, -0.2, -0.9}, below: []float64{0.1, 0.1, 0.8}},
		{n: 1, above: []float64{0}, below: []float64{0}}, {n: 1, spread: 0.01, above: []float64{-0.5, -0.5}, below: []float64{-0.5, -0.5}}, {n: 1, spread: 0.01, above: []float64{0.5, 0.5}, below: []float64{-0.5, -0.5}},
		{n: 1, spread: 0.01, above: []float64{-1, -1.5}, below: []float64{0.5, 0.75}}, {n: 7, spread: 5, bias: 0.3, above: []float64{1, 2, 3}, below: []float64{-1.5, -2.5, -3.7}},
	} {
		v := p.diverge(ms)
		c.of("diverge %d", i)(v)
		p.add(&couple{n: 1, spread: 0.5, bias: 0.25, above: []float64{0.1, 0.2, 0.3, 0.4}[:len(p.above)], below: []float64{-0.1, -0.3, -0.5, -0.7}[:len(p.above)]})
		c.of("add %d", i)(p)
		p.clear()
		c.of("clear %d", i)(p)
	}
	for _, distance := range []float64{-1, 0, 0.01, 0.1, 1.0 / 3, 1} {
		for _, spread := range []float64{0, 1e-3, 0.05, 0.3, 2} {
			c.of("chance %v %v", distance, spread)(chance(distance, spread, 0), chance(distance, spread, 0.05), chance(distance, spread, 1), chance(distance, spread, distance))
		}
	}
	var sampling Sampling
	for i, a := range []struct {
		weight, times float64
		m             uint64
	}{{1, 1, 3}, {1, 0, 7}, {0.3, 2, 7}, {1.0 / 3, 5, 1}, {0, 9, 2}, {1, 3, MaxInstances}} {
		sampling.Add(a.weight, a.times, a.m)
		c.of("Sampling %d", i)(sampling)
	}
}
