package dq

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

const ms = time.Millisecond

// sure returns x and panics on an error: the operands of the golden bits are valid.
func sure[T any](x T, err error) T {
	if err != nil {
		panic(err)
	}
	return x
}

func bitsGrid(width time.Duration, n int) Grid { return sure(NewGrid(width, n)) }

// A named is an operand of the golden bits with its name.
type named struct {
	name string
	x    *DeltaQ
}

// raw returns a ΔQ with these bounds.
func raw(width time.Duration, lo, hi []float64) *DeltaQ {
	return &DeltaQ{width: width, lo: lo, hi: hi}
}

// drawRaw returns a ΔQ of n bins with bounds that rise by steps of all sizes.
func drawRaw(r *rand.Rand, width time.Duration, n int) *DeltaQ {
	d := raw(width, make([]float64, n+1), make([]float64, n+1))
	var lo, hi float64
	for k := range d.lo {
		rise := (0.9 - hi) * r.Float64() / float64(1+r.IntN(n+1))
		lo, hi = max(lo, hi*r.Float64()), hi+rise
		if r.IntN(4) == 0 {
			lo = hi
		}
		d.lo[k], d.hi[k] = min(lo, hi), hi
	}
	return d
}

// drawCounts returns an observed ΔQ of about n instances in the bins of g.
func drawCounts(r *rand.Rand, g Grid, n int, failures, timeouts uint64) *Observed {
	counts := make([]uint64, g.Bins())
	for range n {
		counts[min(r.IntN(g.Bins()), r.IntN(g.Bins()))]++
	}
	return sure(FromCounts(g, counts, failures, timeouts))
}

// fewOperands are ΔQs of all kinds that have few bins.
func fewOperands() []named {
	r := rand.New(rand.NewPCG(1, 1))
	g := bitsGrid(ms, 8)
	return []named{
		{"never", Never()},
		{"immediate", Immediate()},
		{"unknown", Unknown()},
		{"wait", sure(Wait(g, 3*ms))},
		{"between", sure(Wait(g, 3*ms+ms/2))},
		{"uniform", sure(Uniform(g, 0, 10*ms))},
		{"uneven", sure(Uniform(bitsGrid(700*time.Microsecond, 9), 3300*time.Microsecond, 7700*time.Microsecond))},
		{"steps", sure(Steps(g, []Step{{ms + 1, 0.3}, {5 * ms, 0.9}}))},
		{"observed", sure(drawCounts(r, g, 97, 2, 3).DeltaQ())},
		{"other", sure(drawCounts(r, g, 60, 0, 0).DeltaQ())},
		{"exponential", sure(Exponential(g, 2*ms))},
		{"endless", sure(Pareto(bitsGrid(2*ms, 4), 2*ms, 0.9))},
		{"confident", sure(drawCounts(r, g, 70, 1, 0).Confident(0.05))},
		{"random", drawRaw(r, ms, 5)},
		{"wide", drawRaw(r, 3*ms, 3)},
	}
}

// moreOperands are fewOperands and others, each with a boundary of its own.
func moreOperands() []named {
	r := rand.New(rand.NewPCG(1, 2))
	g := bitsGrid(ms, 12)
	all := append(fewOperands(), []named{
		{"zero", new(DeltaQ)},
		{"nil", nil},
		{"wait0", sure(Wait(g, 0))},
		{"wait1", sure(Wait(g, ms))},
		{"waitLong", sure(Wait(g, 30*ms))},
		{"waitHalf", sure(Steps(g, []Step{{4 * ms, 0.5}}))},
		{"failing", sure(Steps(g, []Step{{0, 0.25}}))},
		{"ties", sure(Steps(g, []Step{{ms, 0.5}, {2 * ms, 0.5 + 1e-13}, {4 * ms, 0.5 + 1e-12}, {5 * ms, 0.5 + 3e-12}, {6 * ms, 1}}))},
		{"envelope", sure(Envelope(g, []BoundedStep{{ms, 0, 0.2}, {3*ms + 5, 0.1, 0.7}, {9 * ms, 0.6, 1}}))},
		{"envelope0", sure(Envelope(g, []BoundedStep{{0, 0.1, 0.4}, {2 * ms, 0.1, 0.9}}))},
		{"allFailed", sure(sure(FromCounts(g, make([]uint64, 12), 4, 1)).DeltaQ())},
		{"single", sure(sure(FromDelays(g, []time.Duration{7 * ms}, 0, 0)).DeltaQ())},
		{"ends", sure(sure(FromDelays(g, []time.Duration{0, 12 * ms, 12*ms - 1}, 1, 0)).DeltaQ())},
		{"certain", sure(drawCounts(r, g, 100, 0, 0).Confident(0.999))},
		{"confidentSamples", sure(ConfidentSamples(g, []time.Duration{ms, 2 * ms, 2*ms + 1, 9 * ms}, 1, 0.1))},
		{"samples", sure(Samples(g, []time.Duration{ms, 2 * ms, 2*ms + 1, 2*ms + 1, 9 * ms, 0}, 2))},
		{"heavy", sure(Pareto(g, ms, 1.5))},
		{"light", sure(Pareto(g, ms, 2.5))},
		{"normal", sure(Normal(g, 3*ms, 2*ms))},
		{"gamma", sure(Gamma(g, 3*ms, 1.7))},
		{"maybe", sure(Scale(Unknown(), 0.5))},
		{"late", sure(Choice([]float64{0.25, 0.75}, Unknown(), sure(Uniform(g, ms, 4*ms))))},
		{"lost", sure(AllToFinish(sure(Exponential(g, ms)), Never()))},
		{"half", raw(ms, []float64{0.5}, []float64{0.5})},
		{"vague", raw(ms, []float64{0.2}, []float64{0.7})},
		{"upper", raw(ms, []float64{0, 0, 0}, []float64{0.1, 0.4, 0.8})},
		{"tiny", raw(ms, []float64{0, 0x1p-1040, 0x1p-970, 0x1.3p-300}, []float64{0x1p-1060, 0x1p-1000, 0x1.1p-960, 0x1.7p-300})},
		{"full", raw(ms, []float64{0x1p-53, 0.5, 1 - 0x1p-53}, []float64{1.0 / 3, 1 - 0x1p-53, 1})},
		{"level", raw(ms, []float64{0, 0.4, 0.4, 0.4, 0.8, 0.8}, []float64{0, 0.4, 0.6, 0.6, 0.8, 0.8})},
		{"coarse", sure(Uniform(bitsGrid(5*ms, 2), 2*ms, 9*ms))},
		{"fine", sure(Steps(bitsGrid(MinWidth, 7), []Step{{1, 0.1}, {3 * MinWidth, 0.2}, {7*MinWidth - 1, 0.9}}))},
	}...)
	for _, n := range []int{1, 2, 4, 7, 16, 31} {
		all = append(all, named{fmt.Sprint("random", n), drawRaw(r, ms, n)})
	}
	return all
}

// bitsFloats are floats at the boundaries of the arithmetic, from 0 up.
var bitsFloats = []float64{
	0, math.SmallestNonzeroFloat64, 3 * math.SmallestNonzeroFloat64, 0x1p-1030, 0x1p-1022, 0x1.3p-1010, 0x1.3p-961,
	math.Nextafter(tiny, 0), tiny, math.Nextafter(tiny, 1), 0x1.9p-500, 0x1.3p-480, 0x1p-480, 0x1p-80, 0x1p-53, 1e-12, 0.1, 1.0 / 3, 0.5, 0.7, 1 - 0x1p-53,
	1, 1 + 0x1p-52, 3, 1e9 + 0.1, 1 << 53, 1e300, math.Inf(1),
}

// drawFloats returns n floats in [0, 1) of many sizes.
func drawFloats(r *rand.Rand, n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = math.Ldexp(r.Float64(), -r.IntN(12))
	}
	return x
}

// timesAround returns delays at the edges of d, next to them, and beyond the last edge.
func timesAround(d *DeltaQ) []time.Duration {
	ts := []time.Duration{-1, 0, 1}
	for k := 1; k <= min(d.Bins()+1, 6); k++ {
		e := time.Duration(k) * d.Width()
		ts = append(ts, e-1, e, e+1)
	}
	h := d.Horizon()
	return append(ts, h-1, h, h+1, h+d.Width()/2, 3*h+7)
}
