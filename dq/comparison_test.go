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

// require is what a test of either kind has.
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

// Of one pair it says what Diverge says: the same to within rounding, on the same
// grid. Distance.Hi is wider, as it holds between the edges too.
func TestComparisonOfOnePair(t *testing.T) {
	g, err := NewGrid(time.Millisecond, 8)
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		x, y := drawObserved(t, g, "x"), drawObserved(t, g, "y")
		c := mustComparison(t, g, 3)
		if err := c.Insert(deltaQOf(t, x), x.Instances(), deltaQOf(t, y), y.Instances()); err != nil {
			t.Fatal(err)
		}
		got, windows, err := c.Diverge()
		if err != nil || windows != 1 {
			t.Fatalf("%d windows, %v", windows, err)
		}
		want, err := Diverge(deltaQOf(t, x), x.Instances(), deltaQOf(t, y), y.Instances())
		if err != nil {
			t.Fatal(err)
		}
		near := func(a, b float64) bool { return math.Abs(a-b) < 1e-9 }
		if !near(got.Distance.Lo, want.Distance.Lo) || !near(got.Nominal, want.Nominal) ||
			math.Abs(got.PValue-want.PValue) > 1e-6 || got.Distance.Hi < want.Distance.Hi-1e-9 {
			t.Fatalf("%+v, want %+v", got, want)
		}
	})
}

// A difference too small to be told from chance in one window is found when it
// lasts. Sixteen windows of 100 instances, 10 % of which are one bin later than
// calculated: the distance is 0.1, and the p-value that of 1600 instances against
// 1600, times the five tests over 1, 2, 4, 8 and 16 windows.
func TestSmallDifferencesAddUp(t *testing.T) {
	g, err := NewGrid(time.Millisecond, 4)
	if err != nil {
		t.Fatal(err)
	}
	observed, _ := FromCounts(g, []uint64{0, 50, 50, 0}, 0, 0)
	calculated, _ := FromCounts(g, []uint64{0, 60, 40, 0}, 0, 0)
	c := mustComparison(t, g, 30)
	insert := func() {
		if err := c.Insert(deltaQOf(t, observed), 100, deltaQOf(t, calculated), 100); err != nil {
			t.Fatal(err)
		}
	}
	insert()
	if d, _, _ := c.Diverge(); d.PValue < 0.5 {
		t.Errorf("one window: p %v", d.PValue)
	}
	for range 15 {
		insert()
	}
	d, windows, err := c.Diverge()
	if err != nil || windows != 16 {
		t.Fatalf("%d windows, %v", windows, err)
	}
	// The bounds of both jump over the middle of a bin, so Lo is 0 and the middle
	// of the bounds is 0.05 apart at 1 ms and at 2 ms.
	n := 800.0
	lambda := (math.Sqrt(n) + 0.12 + 0.11/math.Sqrt(n)) * 0.05
	want := 5 * 2 * (math.Exp(-2*lambda*lambda) - math.Exp(-8*lambda*lambda) + math.Exp(-18*lambda*lambda))
	if math.Abs(d.Nominal-0.05) > 1e-12 || math.Abs(d.PValue-min(1, want)) > 1e-9 || d.At != time.Millisecond || !d.Slower {
		t.Errorf("%+v, want nominal 0.05, p %v", d, want)
	}
}

// What has been let go leaves no trace.
func TestComparisonForgets(t *testing.T) {
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
				if err := c.Insert(deltaQOf(t, x), x.Instances(), deltaQOf(t, y), y.Instances()); err != nil {
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

// Steady use allocates nothing.
func TestComparisonAllocatesNothing(t *testing.T) {
	g, err := NewGrid(time.Millisecond, 100)
	if err != nil {
		t.Fatal(err)
	}
	o, _ := FromDelays(g, []time.Duration{time.Millisecond, 7 * time.Millisecond}, 1, 0)
	d := deltaQOf(t, o)
	c := mustComparison(t, g, 30)
	if n := testing.AllocsPerRun(100, func() {
		if err := c.Insert(d, 3, d, 3); err != nil {
			t.Fatal(err)
		}
		if _, _, err := c.Diverge(); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// What cannot be compared is refused and changes nothing.
func TestComparisonRefuses(t *testing.T) {
	g, err := NewGrid(time.Millisecond, 4)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewComparison(Grid{}, 0, 1); err == nil {
		t.Error("the zero grid was taken")
	}
	for _, capacity := range []int{0, MaxWindow + 1} {
		if _, err := NewComparison(g, g.DMax(), capacity); err == nil {
			t.Errorf("capacity %d was taken", capacity)
		}
	}
	c := mustComparison(t, g, 2)
	if _, _, err := c.Diverge(); err != ErrNoData {
		t.Errorf("no pairs: %v", err)
	}
	if err := c.Insert(new(DeltaQ), 0, Immediate(), 1); err != ErrNoData || c.Len() != 0 {
		t.Errorf("an empty ΔQ: %v, %d held", err, c.Len())
	}
}

// What comes after dMax is not compared, also where the last bin extends beyond it:
// between 9 and 12 ms one has succeeded by and by, and the other, whose dMax is 10 ms,
// has timed out. At 10 ms that is not known to be a difference.
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
	if err := c.Insert(deltaQOf(t, observed), 1000, deltaQOf(t, calculated), 1000); err != nil {
		t.Fatal(err)
	}
	if d, _, _ := c.Diverge(); d.Distance.Lo != 0 || d.Certain != 1 {
		t.Errorf("%+v", d)
	}
	for _, dMax := range []time.Duration{9 * time.Millisecond, 12*time.Millisecond + 1} {
		if _, err := NewComparison(wide, dMax, 3); err == nil {
			t.Errorf("a dMax of %v was taken", dMax)
		}
	}
}
