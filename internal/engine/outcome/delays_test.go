package outcome_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/beamscope/beamscope/internal/engine/outcome"
)

// Every delay lies within the bounds of its bucket. Buckets have no gaps between them. From 4 ns
// on, no bucket is wider than a quarter of its delays.
func TestBuckets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, 1<<43).Draw(t, "delay"))
		lo, hi := outcome.BucketBounds(outcome.Bucket(d))
		if d < lo || d >= hi {
			t.Fatalf("%d is not from %d to %d", d, lo, hi)
		}
		if lo >= 4 && (hi-lo)*4 > lo {
			t.Fatalf("the bucket from %d to %d is wide", lo, hi)
		}
	})
	for i := range outcome.DelayBuckets - 1 {
		_, hi := outcome.BucketBounds(i)
		if lo, _ := outcome.BucketBounds(i + 1); lo != hi {
			t.Errorf("bucket %d ends at %d, the next one begins at %d", i, hi, lo)
		}
	}
	if got := outcome.Bucket(math.MaxInt64); got != outcome.DelayBuckets-1 {
		t.Errorf("the longest delay is in bucket %d", got)
	}
}

// A quantile lies within the returned bounds.
func TestDelaysQuantile(t *testing.T) {
	if _, _, ok := outcome.Delays(nil).Quantile(0.5, 0); ok {
		t.Error("no delays have a quantile")
	}
	rapid.Check(t, func(t *rapid.T) {
		delays := rapid.SliceOfN(rapid.Int64Range(0, 1<<40), 1, 50).Draw(t, "delays")
		var d outcome.Delays
		for _, x := range delays {
			one := make(outcome.Delays, outcome.DelayBuckets)
			one[outcome.Bucket(time.Duration(x))]++
			d.Add(one)
		}
		slices.Sort(delays)
		n := rapid.IntRange(1, len(delays)).Draw(t, "rank")
		lo, hi, ok := d.Quantile(float64(n)/float64(len(delays)), 0)
		want := time.Duration(delays[n-1])
		if !ok || want < lo || want >= hi {
			t.Fatalf("quantile %d of %d is %d: from %d to %d, %v", n, len(delays), want, lo, hi, ok)
		}
	})
}

// The rank of a quantile is exact even for very many delays, and for shares without an exact
// binary representation.
func TestDelaysQuantileRank(t *testing.T) {
	fast, slow := outcome.Bucket(time.Microsecond), outcome.Bucket(time.Second)
	for _, tt := range []struct {
		p          float64
		fast, slow uint32
		others     uint64
		want       time.Duration
		beyond     bool
	}{
		{p: 0.5, fast: 1 << 31, slow: 1 << 31, want: time.Microsecond},
		{p: 0.5, fast: 1<<31 - 1, slow: 1<<31 + 1, want: time.Second},
		{p: 0.75, fast: 3 << 24, slow: 1 << 24, want: time.Microsecond},
		{p: 0.07, fast: 7, slow: 93, want: time.Microsecond},
		{p: 0.99, fast: 99, others: 1, want: time.Microsecond},
		{p: 0.99, fast: 98, others: 2, beyond: true},
		{p: 0.5, others: 3, beyond: true},
		{p: 1, fast: 1, want: time.Microsecond},
		{p: 0, fast: 1, slow: 5, want: time.Microsecond},
	} {
		d := make(outcome.Delays, outcome.DelayBuckets)
		d[fast], d[slow] = tt.fast, tt.slow
		lo, hi, ok := d.Quantile(tt.p, tt.others)
		if ok == tt.beyond || ok && (tt.want < lo || tt.want >= hi) {
			t.Errorf("%+v: from %v to %v, %v", tt, lo, hi, ok)
		}
	}
}
