package dq

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func mustComparison(t require, g Grid, capacity int) *Comparison {
	t.Helper()
	c, err := NewComparison(g, g.DMax(), capacity)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// require is the common part of *testing.T and *rapid.T.
type require interface {
	Helper()
	Fatal(...any)
}

func drawObserved(t *rapid.T, g Grid, label string) *Observed {
	counts := rapid.SliceOfN(rapid.Uint64Range(0, 50), g.Bins(), g.Bins()).Draw(t, label)
	counts[0]++
	o, err := FromCounts(g, counts, rapid.Uint64Range(0, 20).Draw(t, label+" failures"), 0)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func deltaQOf(t require, o *Observed) *DeltaQ {
	t.Helper()
	d, err := o.DeltaQ()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// With a single pair, a Comparison gives the same result as Diverge on the same grid, except for
// rounding. Distance.Hi is larger, because it also holds between the edges.
func TestComparisonOfOnePair(t *testing.T) {
	g, err := NewGrid(time.Millisecond, 8)
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		x, y := drawObserved(t, g, "x"), drawObserved(t, g, "y")
		c := mustComparison(t, g, 3)
		if err := c.Insert(deltaQOf(t, x), x.Instances(), deltaQOf(t, y), sampled(y.Instances())); err != nil {
			t.Fatal(err)
		}
		got, windows, err := c.Diverge()
		if err != nil || windows != 1 {
			t.Fatalf("%d windows, %v", windows, err)
		}
		want, err := Diverge(deltaQOf(t, x), deltaQOf(t, y))
		if err != nil {
			t.Fatal(err)
		}
		near := func(a, b float64) bool { return math.Abs(a-b) < 1e-9 }
		if !near(got.Distance.Lo, want.Distance.Lo) || !near(got.Nominal, want.Nominal) ||
			got.Distance.Hi < want.Distance.Hi-1e-9 {
			t.Fatalf("%+v, want %+v", got, want)
		}
	})
}

// sampled returns the Sampling of a ΔQ that is itself a sample of m instances.
func sampled(m uint64) (s Sampling) {
	s.Add(1, 1, m)
	return s
}

// A difference that is too small to stand out from chance in one window is found if it lasts. In
// sixteen windows of 2000 instances, 5 % are three bins later than calculated, which bins do not
// hide: the distance is 0.05. By hand, the spread of both samples together is √2/√32000, so the
// chance is 5·2·exp(−2·(0.05·√32000/√2)²) with the five tests over 1, 2, 4, 8 and 16 windows.
func TestSmallDifferencesAddUp(t *testing.T) {
	g, err := NewGrid(time.Millisecond, 4)
	if err != nil {
		t.Fatal(err)
	}
	observed, _ := FromCounts(g, []uint64{600, 0, 0, 1400}, 0, 0)
	calculated, _ := FromCounts(g, []uint64{700, 0, 0, 1300}, 0, 0)
	c := mustComparison(t, g, 30)
	insert := func() Divergence {
		if err := c.Insert(deltaQOf(t, observed), 2000, deltaQOf(t, calculated), sampled(2000)); err != nil {
			t.Fatal(err)
		}
		d, _, err := c.Diverge()
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	if d := insert(); d.Chance <= RunChance || d.Lasting != 0 {
		t.Errorf("one window: %+v", d)
	}
	for range 14 {
		insert()
	}
	d := insert()
	x := 0.05 * math.Sqrt(32000) / math.Sqrt2
	if want := 10 * math.Exp(-2*x*x); math.Abs(d.Chance/want-1) > 1e-9 || math.Abs(d.Distance.Lo-0.05) > 1e-12 || !d.Slower {
		t.Errorf("%+v, want a distance of 0.05 by chance with %v", d, want)
	}
	for range 14 {
		d = insert()
	}
	if math.Abs(d.Lasting-0.05) > 1e-12 {
		t.Errorf("after thirty windows the divergence is not lasting: %+v", d)
	}
}

// A single bad window is not a lasting divergence, neither while it is held nor afterwards. Three
// bad windows in a row are. Earlier windows do not matter.
func TestLasting(t *testing.T) {
	g, err := NewGrid(time.Millisecond, 4)
	if err != nil {
		t.Fatal(err)
	}
	good, _ := FromCounts(g, []uint64{0, 5000, 0, 0}, 0, 0)
	bad, _ := FromCounts(g, []uint64{0, 0, 0, 5000}, 0, 0)
	for _, before := range []int{0, 1, 5, 30} {
		c := mustComparison(t, g, 30)
		step := func(o *Observed) float64 {
			if err := c.Insert(deltaQOf(t, o), 5000, deltaQOf(t, good), sampled(5000)); err != nil {
				t.Fatal(err)
			}
			d, _, err := c.Diverge()
			if err != nil {
				t.Fatal(err)
			}
			return d.Lasting
		}
		for range before {
			step(good)
		}
		if l := step(bad); l != 0 {
			t.Errorf("%d windows and a bad one: lasting %v", before, l)
		}
		for n := range 40 {
			if l := step(good); l != 0 {
				t.Errorf("%d good windows after a bad one: lasting %v", n+1, l)
			}
		}
		if a, b, d := step(bad), step(bad), step(bad); a != 0 || b != 0 || d != 1 {
			t.Errorf("three bad windows: lasting %v, %v, %v", a, b, d)
		}
		// The last run of eight windows contains a bad one for eight more windows.
		for range 8 {
			step(good)
		}
		for n := range 30 {
			if l := step(good); l != 0 {
				t.Errorf("%d windows after the end: lasting %v", n+9, l)
			}
		}
	}
}

// Removed pairs leave no trace.
func TestComparisonRemovesPairs(t *testing.T) {
	g, err := NewGrid(time.Millisecond, 5)
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.IntRange(1, 5).Draw(t, "capacity")
		sliding, fresh := mustComparison(t, g, capacity), mustComparison(t, g, capacity)
		pairs := rapid.IntRange(capacity, 12).Draw(t, "pairs")
		for i := range pairs {
			x, y := drawObserved(t, g, "x"), drawObserved(t, g, "y")
			for _, c := range []*Comparison{sliding, fresh} {
				if c == fresh && i < pairs-capacity {
					continue
				}
				if err := c.Insert(deltaQOf(t, x), x.Instances(), deltaQOf(t, y), sampled(y.Instances())); err != nil {
					t.Fatal(err)
				}
			}
		}
		a, n, _ := sliding.Diverge()
		b, m, _ := fresh.Diverge()
		if diff := cmp.Diff(b, a); diff != "" || n != m {
			t.Fatal(n, m, diff)
		}
	})
}

// In steady use, a Comparison allocates no memory.
func TestComparisonAllocatesNothing(t *testing.T) {
	g, err := NewGrid(time.Millisecond, 100)
	if err != nil {
		t.Fatal(err)
	}
	o, _ := FromDelays(g, []time.Duration{time.Millisecond, 7 * time.Millisecond}, 1, 0)
	d := deltaQOf(t, o)
	c := mustComparison(t, g, 30)
	if n := testing.AllocsPerRun(100, func() {
		if err := c.Insert(d, 3, d, sampled(3)); err != nil {
			t.Fatal(err)
		}
		if _, _, err := c.Diverge(); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Invalid input is rejected and changes nothing.
func TestComparisonRefuses(t *testing.T) {
	g, err := NewGrid(time.Millisecond, 4)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewComparison(Grid{}, 0, 1); err == nil {
		t.Error("the zero grid was accepted")
	}
	for _, capacity := range []int{0, MaxWindow + 1} {
		if _, err := NewComparison(g, g.DMax(), capacity); err == nil {
			t.Errorf("capacity %d was accepted", capacity)
		}
	}
	c := mustComparison(t, g, 2)
	if _, _, err := c.Diverge(); err != ErrNoData {
		t.Errorf("no pairs: %v", err)
	}
	if err := c.Insert(new(DeltaQ), 0, Immediate(), sampled(1)); err != ErrNoData || c.Len() != 0 {
		t.Errorf("an empty ΔQ: %v, %d held", err, c.Len())
	}
}

// Delays beyond dMax are not compared, even if the last bin extends beyond dMax. Between 9 and 12
// ms all instances of the calculated ΔQ succeed. The observed ΔQ has a dMax of 10 ms, and all its
// instances timed out. This does not prove a difference at 10 ms.
func TestComparisonEndsAtDMax(t *testing.T) {
	wide, err := NewGrid(3*time.Millisecond, 4)
	if err != nil {
		t.Fatal(err)
	}
	narrow, err := NewGrid(time.Millisecond, 10)
	if err != nil {
		t.Fatal(err)
	}
	calculated, _ := FromCounts(wide, []uint64{0, 0, 0, 1000}, 0, 0)
	observed, _ := FromCounts(narrow, make([]uint64, 10), 0, 1000)
	c, err := NewComparison(wide, narrow.DMax(), 3)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Insert(deltaQOf(t, observed), 1000, deltaQOf(t, calculated), sampled(1000)); err != nil {
		t.Fatal(err)
	}
	if d, _, _ := c.Diverge(); d.Distance.Lo != 0 || d.Chance != 1 {
		t.Errorf("%+v", d)
	}
	for _, dMax := range []time.Duration{9 * time.Millisecond, 12*time.Millisecond + 1} {
		if _, err := NewComparison(wide, dMax, 3); err == nil {
			t.Errorf("a dMax of %v was accepted", dMax)
		}
	}
}
