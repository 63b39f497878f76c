package dq

import (
	"errors"
	"math"
	"testing"
	"time"

	"gonum.org/v1/gonum/stat/distuv"
	"pgregory.net/rapid"
)

// A continuousCase is a model with the same distribution from another library, in milliseconds.
type continuousCase struct {
	d         *DeltaQ
	err       error
	within    func(t float64) float64
	mean, sd  float64 // infinite ones are +Inf
	leastHere float64 // the smallest delay
}

func drawContinuous(rt *rapid.T, g Grid) continuousCase {
	delay := rapid.Int64Range(int64(ms)/10, int64(200*ms)).Draw(rt, "delay")
	d, x := time.Duration(delay), float64(delay)/float64(ms)
	inf := math.Inf(1)
	switch rapid.SampledFrom([]string{"exponential", "gamma", "weibull", "pareto", "log-normal", "normal"}).Draw(rt, "model") {
	case "gamma":
		shape := rapid.OneOf(rapid.Float64Range(0.05, 3), rapid.Float64Range(3, 300)).Draw(rt, "shape")
		m, err := Gamma(g, d, shape)
		return continuousCase{m, err, distuv.Gamma{Alpha: shape, Beta: shape / x}.CDF, x, x / math.Sqrt(shape), 0}
	case "weibull":
		shape := rapid.Float64Range(0.3, 20).Draw(rt, "shape")
		r := distuv.Weibull{K: shape, Lambda: x}
		m, err := Weibull(g, d, shape)
		return continuousCase{m, err, r.CDF, r.Mean(), r.StdDev(), 0}
	case "pareto":
		shape := rapid.Float64Range(0.3, 20).Draw(rt, "shape")
		r := distuv.Pareto{Xm: x, Alpha: shape}
		m, err := Pareto(g, d, shape)
		c := continuousCase{m, err, r.CDF, inf, inf, x}
		if shape > 1 {
			c.mean = r.Mean()
		}
		if shape > 2 {
			c.sd = r.StdDev()
		}
		return c
	case "log-normal":
		sigma := rapid.Float64Range(0.01, 2).Draw(rt, "sigma")
		r := distuv.LogNormal{Mu: math.Log(x), Sigma: sigma}
		m, err := LogNormal(g, d, sigma)
		return continuousCase{m, err, r.CDF, r.Mean(), r.StdDev(), 0}
	case "normal":
		sd := rapid.Int64Range(int64(ms)/10, delay/8+int64(ms)/10).Draw(rt, "sd")
		m, err := Normal(g, d, time.Duration(sd))
		c := continuousCase{m, err, distuv.Normal{Mu: x, Sigma: float64(sd) / float64(ms)}.CDF, x, float64(sd) / float64(ms), -1}
		if x < 6*c.sd {
			c.mean, c.sd = math.NaN(), math.NaN() // delays below 0 count as 0, so these differ
		}
		return c
	}
	m, err := Exponential(g, d)
	return continuousCase{m, err, distuv.Exponential{Rate: 1 / x}.CDF, x, x, 0}
}

// At the edges, the bounds of a model are the distribution function that another library
// calculates. The moments contain those of the distribution.
func TestContinuousModels(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		g := mustGrid(t, ms/time.Duration(rapid.IntRange(1, 10).Draw(rt, "bins a ms")), rapid.IntRange(10, 2000).Draw(rt, "bins"))
		c := drawContinuous(rt, g)
		if c.err != nil {
			rt.Fatal(c.err)
		}
		d, n := c.d, c.d.Bins()
		if d.Bounded() || d.Horizon() < g.DMax() || d.hi[n] != 1 {
			rt.Fatalf("%v: bounded %v", d, d.Bounded())
		}
		const slack = 1e-11 // the accuracy of the other library
		for k := 0; k <= n; k += 1 + n/100 {
			at := c.within(float64(d.edge(k)) / float64(ms))
			if c.leastHere >= float64(d.edge(k))/float64(ms) {
				at = 0
			}
			if math.Abs(d.lo[k]-at) > slack {
				rt.Fatalf("at %v: at least %v, want %v", d.edge(k), d.lo[k], at)
			}
			if k < n && math.Abs(d.hi[k]-c.within(float64(d.edge(k+1))/float64(ms))) > slack && d.hi[k] > 0 {
				rt.Fatalf("before %v: at most %v", d.edge(k+1), d.hi[k])
			}
		}
		v, ok := d.Moments()
		if !ok {
			rt.Fatal("no moments")
		}
		holds := func(name string, b Bounds, want float64) {
			want *= 1e6
			if math.IsNaN(want) {
				return
			}
			if b.Lo > want*(1+1e-9) || b.Hi < want*(1-1e-9) {
				rt.Fatalf("%s: %v does not contain %v", name, b, want)
			}
		}
		holds("mean", v.Mean, c.mean)
		holds("standard deviation", v.SD, c.sd)
	})
}

// With a distant horizon and narrow bins, the bounds of the moments are tight.
func TestContinuousMoments(t *testing.T) {
	m := must(t)
	g := mustGrid(t, ms/10, 20000) // 2 s
	for name, tt := range map[string]struct {
		d        *DeltaQ
		mean, sd float64 // in ms
	}{
		"gamma":      {m(Gamma(g, 20*ms, 2.5)), 20, 20 / math.Sqrt(2.5)},
		"weibull":    {m(Weibull(g, 20*ms, 0.7)), distuv.Weibull{K: 0.7, Lambda: 20}.Mean(), distuv.Weibull{K: 0.7, Lambda: 20}.StdDev()},
		"log-normal": {m(LogNormal(g, 20*ms, 0.8)), 20 * math.Exp(0.32), 20 * math.Exp(0.32) * math.Sqrt(math.Expm1(0.64))},
		"normal":     {m(Normal(g, 20*ms, 2*ms)), 20, 2},
		"pareto":     {m(Pareto(g, 20*ms, 4)), 80.0 / 3, distuv.Pareto{Xm: 20, Alpha: 4}.StdDev()},
	} {
		v, _ := tt.d.Moments()
		if !v.Mean.Contains(tt.mean*1e6) || v.Mean.Width() > 2e5 || !v.SD.Contains(tt.sd*1e6) || v.SD.Width() > 2e5+0.02*tt.sd*1e6 {
			t.Errorf("%s: %+v, want %v and %v ms", name, v, tt.mean, tt.sd)
		}
	}
}

// Where one distribution is a special case of another, both have the same bounds except for
// rounding.
func TestContinuousSpecialCases(t *testing.T) {
	m := must(t)
	g := mustGrid(t, ms, 300)
	want := m(Exponential(g, 7*ms))
	for name, d := range map[string]*DeltaQ{"gamma": m(Gamma(g, 7*ms, 1)), "weibull": m(Weibull(g, 7*ms, 1))} {
		for k := range want.lo {
			if math.Abs(d.lo[k]-want.lo[k]) > 1e-15 || math.Abs(d.hi[k]-want.hi[k]) > 1e-15 {
				t.Errorf("%s: at %v: %v, want %v", name, d.edge(k), d.At(k), want.At(k))
			}
		}
	}
	// A sum of three exponential delays is a gamma distribution of shape 3.
	sum, gamma := m(Sequential(want, want, want)), m(Gamma(g, 21*ms, 3))
	for k := range gamma.lo[:g.Bins()] {
		if b, a := sum.At(k), gamma.At(k); a.Lo > b.Hi || a.Hi < b.Lo {
			t.Errorf("at %v: %v and %v exclude each other", gamma.edge(k), a, b)
		}
	}
}

func TestContinuousModelsRefuse(t *testing.T) {
	g := mustGrid(t, ms, 10)
	for name, tt := range map[string]struct{ err, want error }{
		"gamma with shape 0":        {second(Gamma(g, ms, 0)), ErrShape},
		"gamma with no shape":       {second(Gamma(g, ms, math.NaN())), ErrShape},
		"gamma with mean 0":         {second(Gamma(g, 0, 1)), ErrDelay},
		"weibull with shape 2000":   {second(Weibull(g, ms, 2000)), ErrShape},
		"pareto from 0":             {second(Pareto(g, 0, 2)), ErrDelay},
		"pareto with shape 0":       {second(Pareto(g, ms, 0)), ErrShape},
		"log-normal with sigma 0":   {second(LogNormal(g, ms, 0)), ErrShape},
		"log-normal with sigma 11":  {second(LogNormal(g, ms, 11)), ErrShape},
		"normal with deviation 0":   {second(Normal(g, ms, 0)), ErrDelay},
		"normal with mean below 0":  {second(Normal(g, -1, ms)), ErrDelay},
		"normal on no grid":         {second(Normal(Grid{}, ms, ms)), ErrGrid},
		"pareto beyond all delays":  {second(Pareto(g, math.MaxInt64, 2)), ErrDelay},
		"envelope without points":   {second(Envelope(g, nil)), ErrOperands},
		"envelope upside down":      {second(Envelope(g, []BoundedStep{{ms, .5, .4}})), ErrProbability},
		"envelope that falls":       {second(Envelope(g, []BoundedStep{{ms, .5, .6}, {2 * ms, .4, .7}})), ErrProbability},
		"envelope going back":       {second(Envelope(g, []BoundedStep{{ms, .5, .6}, {ms, .5, .7}})), ErrDelay},
		"envelope above 1":          {second(Envelope(g, []BoundedStep{{ms, .5, 1.5}})), ErrProbability},
		"envelope with what is not": {second(Envelope(g, []BoundedStep{{ms, math.NaN(), 1}})), ErrProbability},
	} {
		if !errors.Is(tt.err, tt.want) {
			t.Errorf("%s: %v, want %v", name, tt.err, tt.want)
		}
	}
}

// An envelope contains every step function between its points.
func TestEnvelope(t *testing.T) {
	m := must(t)
	points := []BoundedStep{{1500 * time.Microsecond, 0.2, 0.3}, {4 * ms, 0.5, 0.8}, {5 * ms, 0.9, 0.95}}
	d := m(Envelope(mustGrid(t, ms, 1), points))
	for k, want := range []Bounds{{0, .3}, {0, .8}, {.2, .8}, {.2, .8}, {.5, .95}, {.9, .95}} {
		if got := d.At(k); got != want {
			t.Errorf("bin %d: %v, want %v", k, got, want)
		}
	}
	if d.Bins() != 5 || !d.Bounded() {
		t.Errorf("%v", d)
	}
	rapid.Check(t, func(rt *rapid.T) {
		var points []BoundedStep
		var steps []Step
		at, lo, hi, p := time.Duration(0), 0.0, 0.0, 0.0
		for range rapid.IntRange(1, 6).Draw(rt, "points") {
			at += time.Duration(rapid.Int64Range(1, int64(3*ms)).Draw(rt, "delay"))
			lo = rapid.Float64Range(lo, 1).Draw(rt, "lo")
			hi = rapid.Float64Range(max(lo, hi), 1).Draw(rt, "hi")
			p = rapid.Float64Range(max(lo, p), hi).Draw(rt, "p")
			points = append(points, BoundedStep{at, lo, hi})
			steps = append(steps, Step{at, p})
		}
		g := mustGrid(t, ms, 1)
		d := m(Envelope(g, points))
		pair{d, refSteps(steps)}.check(rt)
	})
}

// The bounds of a model rise even where the error of the calculation makes them fall: a lower bound
// holds at every later time, and an upper bound at every earlier one.
func TestModelRises(t *testing.T) {
	at := []Bounds{{0.25, 0.5}, {0.125, 0.625}, {0.5, 0.75}, {0.375, 0.5625}, {0.75, 0.875}}
	c := continuous{
		within: func(t time.Duration) Bounds { return at[t/ms] },
		beyond: func(time.Duration) excess { return excess{1, 1} },
	}
	d, err := c.model(mustGrid(t, ms, 4))
	if err != nil {
		t.Fatal(err)
	}
	for k, want := range []Bounds{{0.25, 0.5625}, {0.25, 0.5625}, {0.5, 0.5625}, {0.5, 0.875}, {0.75, 1}} {
		if got := d.At(k); got != want {
			t.Errorf("bin %d: %v, want %v", k, got, want)
		}
	}
}
