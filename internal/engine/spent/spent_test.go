package spent

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestWithin(t *testing.T) {
	var total Total
	if got := total.Within(0, 10); got != 0 {
		t.Errorf("%v before it was read", got)
	}
	for _, r := range []reading{{0, 5}, {10, 5}, {20, 25}, {30, 25}} {
		total.Read(r.at, r.total)
	}
	for _, w := range []struct {
		from, to int64
		want     float64
	}{{-5, 0, 0}, {0, 10, 0}, {10, 20, 20}, {12, 15, 6}, {5, 15, 10}, {20, 40, 0}, {-9, 99, 20}} {
		if got := total.Within(w.from, w.to); got != w.want {
			t.Errorf("[%d, %d): %v, want %v", w.from, w.to, got, w.want)
		}
	}
	total.Grow(40, 3)
	if got := total.Within(30, 40); got != 3 {
		t.Errorf("%v, want 3", got)
	}
}

// Consecutive windows sum up to the total, even if earlier readings are forgotten after each.
func TestWindowsHaveAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var total Total
		steps := rapid.SliceOfN(rapid.IntRange(0, 100), 1, 20).Draw(t, "steps")
		at, sum := int64(0), 0.0
		total.Read(at, sum)
		for _, n := range steps {
			at += rapid.Int64Range(1, 50).Draw(t, "time")
			sum += float64(n)
			total.Grow(at, float64(n))
		}
		var got float64
		length := rapid.Int64Range(1, 60).Draw(t, "window")
		for from := int64(0); from < at; from += length {
			n := total.Within(from, from+length)
			if n < -1e-9 {
				t.Fatalf("%v in the window from %d on", n, from)
			}
			got += n
			total.Forget(from + length)
		}
		if math.Abs(got-sum) > 1e-6 {
			t.Errorf("%v in all windows, want %v", got, sum)
		}
	})
}
