package dq

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func mustCounts(t testing.TB, g Grid, counts []uint64, failures, timeouts uint64) *Observed {
	t.Helper()
	o, err := FromCounts(g, counts, failures, timeouts)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestObserved(t *testing.T) {
	g := mustGrid(t, ms, 4)
	o := mustCounts(t, g, []uint64{1, 0, 2, 1}, 3, 1)
	if o.Instances() != 8 || o.Successes() != 4 || o.Failures() != 3 || o.Timeouts() != 1 || o.Empty() {
		t.Errorf("instances %d, successes %d, failures %d, timeouts %d", o.Instances(), o.Successes(), o.Failures(), o.Timeouts())
	}
	if diff := cmp.Diff([]float64{0.125, 0, 0.25, 0.125}, o.AppendPDF(nil)); diff != "" {
		t.Errorf("PDF: %s", diff)
	}
	if diff := cmp.Diff([]float64{0, 0.125, 0.125, 0.375, 0.5}, o.AppendECDF(nil)); diff != "" {
		t.Errorf("ECDF: %s", diff)
	}
	if s, ok := o.Success(); s != 0.5 || !ok {
		t.Errorf("Success = %v, %v", s, ok)
	}
	if m, ok := o.IntangibleMass(); m != 0.5 || !ok {
		t.Errorf("IntangibleMass = %v, %v", m, ok)
	}
	if v, ok := o.Earliest(); !ok || v != (Interval{0, ms}) {
		t.Errorf("Earliest = %v, %v", v, ok)
	}
	if v, ok := o.Deadline(); !ok || v != (Interval{3 * ms, 4 * ms}) {
		t.Errorf("Deadline = %v, %v", v, ok)
	}
}

func TestObservedQuantile(t *testing.T) {
	o := mustCounts(t, mustGrid(t, ms, 4), []uint64{1, 0, 2, 1}, 3, 1)
	tests := []struct {
		p    float64
		want Interval
		ok   bool
	}{
		{0, Interval{0, 0}, true},
		{1e-300, Interval{0, ms}, true},
		{0.125, Interval{0, ms}, true},
		{0.126, Interval{2 * ms, 3 * ms}, true},
		{0.375, Interval{2 * ms, 3 * ms}, true},
		{0.5, Interval{3 * ms, 4 * ms}, true},
		{0.501, Interval{}, false}, // in the intangible mass
		{1, Interval{}, false},
		{-0.1, Interval{}, false},
		{1.1, Interval{}, false},
		{math.NaN(), Interval{}, false},
		{math.Inf(1), Interval{}, false},
	}
	for _, tt := range tests {
		v, ok := o.Quantile(tt.p)
		if v != tt.want || ok != tt.ok {
			t.Errorf("Quantile(%v) = %v, %v, want %v, %v", tt.p, v, ok, tt.want, tt.ok)
		}
		if f, ok := o.QuantileFigure(tt.p); f != tt.want.Hi || ok != tt.ok {
			t.Errorf("QuantileFigure(%v) = %v, %v", tt.p, f, ok)
		}
	}
}

// The float64 nearest to 0.07 is above 0.07, and 100 times it is above 7.
func TestObservedQuantileOfDecimal(t *testing.T) {
	o := mustCounts(t, mustGrid(t, ms, 100), slices.Repeat([]uint64{1}, 100), 0, 0)
	for i := 1; i <= 100; i++ {
		want := Interval{time.Duration(i-1) * ms, time.Duration(i) * ms}
		if v, ok := o.Quantile(float64(i) / 100); v != want || !ok {
			t.Errorf("Quantile(%v) = %v, %v, want %v", float64(i)/100, v, ok, want)
		}
	}
}

func TestObservedProbabilityWithin(t *testing.T) {
	o := mustCounts(t, mustGrid(t, ms, 4), []uint64{1, 0, 2, 1}, 3, 1)
	tests := []struct {
		t    time.Duration
		want Bounds
	}{
		{-1, Bounds{0, 0}},
		{0, Bounds{0, 0.125}},
		{ms - 1, Bounds{0, 0.125}},
		{ms, Bounds{0.125, 0.125}},
		{2 * ms, Bounds{0.125, 0.375}},
		{4*ms - 1, Bounds{0.375, 0.5}},
		{4 * ms, Bounds{0.5, 0.5}},
		{math.MaxInt64, Bounds{0.5, 0.5}},
	}
	for _, tt := range tests {
		if b, ok := o.ProbabilityWithin(tt.t); b != tt.want || !ok {
			t.Errorf("ProbabilityWithin(%v) = %v, %v, want %v", tt.t, b, ok, tt.want)
		}
	}
}

// Without instances there is no data. This is neither a failure nor the identity of an operator.
func TestObservedWithoutData(t *testing.T) {
	o, err := NewObserved(mustGrid(t, ms, 4))
	if err != nil {
		t.Fatal(err)
	}
	if !o.Empty() {
		t.Error("not empty")
	}
	if _, ok := o.Success(); ok {
		t.Error("a success probability without data")
	}
	if _, ok := o.IntangibleMass(); ok {
		t.Error("an intangible mass without data")
	}
	if _, ok := o.Quantile(0); ok {
		t.Error("a quantile without data")
	}
	if _, ok := o.ProbabilityWithin(ms); ok {
		t.Error("a probability without data")
	}
	if o.AppendPDF(nil) != nil || o.AppendECDF(nil) != nil {
		t.Error("a PDF or ECDF without data")
	}
}

func TestObservedRefuses(t *testing.T) {
	g := mustGrid(t, ms, 2)
	for _, tt := range []struct {
		counts             []uint64
		failures, timeouts uint64
	}{
		{[]uint64{1}, 0, 0},
		{[]uint64{1, 2, 3}, 0, 0},
		{nil, 0, 0},
		{[]uint64{MaxInstances, 1}, 0, 0},
		{[]uint64{math.MaxUint64, 1}, 0, 0},
		{[]uint64{1, 1}, math.MaxUint64, 0},
		{[]uint64{1, 1}, 0, math.MaxUint64 - 1},
		{[]uint64{1, 1}, MaxInstances - 2, 1},
	} {
		if _, err := FromCounts(g, tt.counts, tt.failures, tt.timeouts); !errors.Is(err, ErrCounts) {
			t.Errorf("FromCounts(%v) = %v, want ErrCounts", tt, err)
		}
	}
	if _, err := FromDelays(g, []time.Duration{ms, -1}, 0, 0); !errors.Is(err, ErrDelay) {
		t.Errorf("FromDelays of a negative delay: %v", err)
	}
	for _, err := range []error{
		second(NewObserved(Grid{})),
		second(FromCounts(Grid{}, nil, 0, 0)),
		second(FromDelays(Grid{}, nil, 0, 0)),
	} {
		if !errors.Is(err, ErrGrid) {
			t.Errorf("the zero grid: %v", err)
		}
	}
	full := mustCounts(t, g, []uint64{MaxInstances, 0}, 0, 0)
	for _, err := range []error{full.Add(0), full.AddFailures(1), full.AddTimeouts(math.MaxUint64)} {
		if !errors.Is(err, ErrCounts) {
			t.Errorf("one too many: %v", err)
		}
	}
	if full.Instances() != MaxInstances {
		t.Error("a refused instance was counted")
	}
}

func second[T any](_ T, err error) error { return err }

func TestObservedResetAndSet(t *testing.T) {
	o := mustCounts(t, mustGrid(t, ms, 2), []uint64{1, 2}, 3, 4)
	o.Reset()
	if !o.Empty() || o.Count(0) != 0 || o.Count(7) != 0 || o.Count(-1) != 0 {
		t.Error("Reset left instances")
	}
	counts := []uint64{5, 6}
	if err := o.Set(counts, 0, 0); err != nil {
		t.Fatal(err)
	}
	counts[0] = 9
	if o.Count(0) != 5 || o.Instances() != 11 {
		t.Error("Set did not copy")
	}
}

// The bounds from the bins contain the exact figures of the delays.
func TestObservedBoundsContainExact(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(rt, "bins")
		g := mustGrid(t, ms, n)
		// Delays are multiples of a quarter of a bin, so that some are on edges, and up to one
		// bin beyond dMax.
		quarters := rapid.SliceOfN(rapid.IntRange(0, 4*n+4), 0, 40).Draw(rt, "delays")
		delays := make([]time.Duration, len(quarters))
		for i, q := range quarters {
			delays[i] = time.Duration(q) * ms / 4
		}
		failures := rapid.Uint64Range(0, 10).Draw(rt, "failures")
		o, err := FromDelays(g, delays, failures, 0)
		if err != nil {
			rt.Fatal(err)
		}
		if o.Instances() != uint64(len(delays))+failures {
			rt.Fatalf("%d instances", o.Instances())
		}
		slices.Sort(delays)
		checkWithin(rt, o, delays)
		checkQuantiles(rt, o, delays)
	})
}

func checkWithin(rt *rapid.T, o *Observed, sorted []time.Duration) {
	for at := time.Duration(0); at <= o.Grid().DMax(); at += ms / 8 {
		k, _ := slices.BinarySearch(sorted, at+1)
		b, ok := o.ProbabilityWithin(at)
		if ok == o.Empty() {
			rt.Fatal("data and no data")
		}
		// Lo·n ≤ k ≤ Hi·n. k and n are small enough that the products are sufficiently exact.
		n := float64(o.Instances())
		if ok && (b.Lo*n > float64(k)+1e-9 || b.Hi*n < float64(k)-1e-9) {
			rt.Fatalf("within %v: %v does not contain %d/%v", at, b, k, n)
		}
	}
}

func checkQuantiles(rt *rapid.T, o *Observed, sorted []time.Duration) {
	n := o.Instances()
	for rank := uint64(1); rank <= n; rank++ {
		v, ok := o.Quantile(float64(rank) / float64(n))
		if want := rank <= o.Successes(); ok != want {
			rt.Fatalf("rank %d of %d: %v, %v", rank, n, v, ok)
		}
		if ok && !v.Contains(sorted[rank-1]) {
			rt.Fatalf("rank %d of %d: %v does not contain %v", rank, n, v, sorted[rank-1])
		}
	}
}
