package dq

import (
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"
)

// Three ECDF values 0, 0.5, 1 at one edge: μ = 0.5, σ² = 1/6, σ/√3 = √2/6.
func TestWindowBand(t *testing.T) {
	g := mustGrid(t, ms, 2)
	w, err := NewWindow(g, 3)
	if err != nil {
		t.Fatal(err)
	}
	for _, counts := range [][]uint64{{0, 2}, {1, 1}, {2, 0}} {
		if err := w.Insert(mustCounts(t, g, counts, 0, 0)); err != nil {
			t.Fatal(err)
		}
	}
	var b Band
	for _, z := range []float64{Z68, Z95} {
		if err := w.WriteStandardErrors(&b, z); err != nil {
			t.Fatal(err)
		}
		half := z * math.Sqrt2 / 6
		if b.Mean[1] != 0.5 || math.Abs(b.Hi[1]-0.5-half) > 1e-15 || math.Abs(b.Lo[1]-0.5+half) > 1e-15 {
			t.Errorf("z = %v: %v", z, b)
		}
		if b.Lo[2] != 1 || b.Hi[2] != 1 || b.Lo[0] != 0 || b.Hi[0] != 0 {
			t.Errorf("at the ends: %v", b)
		}
	}
}

// However many different values a ΔQ has, a window holds the value at each edge, and never needs more memory
// for them than a word for each edge.
func TestWindowHoldsValues(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		bins := rapid.IntRange(1, 200).Draw(rt, "bins")
		g := mustGrid(t, ms, bins)
		w, err := NewWindow(g, 3)
		if err != nil {
			rt.Fatal(err)
		}
		for range rapid.IntRange(1, 8).Draw(rt, "windows") {
			counts := make([]uint64, bins)
			for range rapid.IntRange(0, 2*bins).Draw(rt, "instances") {
				counts[rapid.IntRange(0, bins-1).Draw(rt, "bin")]++
			}
			o := mustCounts(t, g, counts, 1, 0)
			if err := w.Insert(o); err != nil {
				rt.Fatal(err)
			}
			h, sum := w.at(w.held-1), uint64(0)
			for k := range bins + 1 {
				if got, want := h.at(k), fixed(float64(sum)/float64(o.Instances())); got != want {
					rt.Fatalf("%d at edge %d, want %d", got, k, want)
				}
				sum += o.Count(k)
			}
			const word, spare = 8, 32 * (8 + 2)
			if bytes := w.Bytes(); bytes > w.Len()*word*(bins+1) {
				rt.Fatalf("%d bytes for %d windows of %d bins", bytes, w.Len(), bins)
			}
			if room := 2*cap(h.edges) + word*cap(h.values); room > 3*word*(bins+1)+spare {
				rt.Fatalf("room for %d bytes for %d bins", room, bins)
			}
		}
	})
}

// A window of ΔQs with few instances needs little memory, however many bins there are.
func TestWindowOfFewInstances(t *testing.T) {
	const windows, instances, bins = 60, 10, 1000
	g := mustGrid(t, ms, bins)
	w, err := NewWindow(g, windows)
	if err != nil {
		t.Fatal(err)
	}
	counts := make([]uint64, bins)
	for i := range instances {
		counts[i*97] = 1
	}
	room := 0
	for range windows {
		if err := w.Insert(mustCounts(t, g, counts, 0, 0)); err != nil {
			t.Fatal(err)
		}
		room += 2*cap(w.at(w.held-1).edges) + 8*cap(w.at(w.held-1).values)
	}
	if want := windows * instances * (2 + 8); room > want || w.Bytes() != want {
		t.Errorf("%d bytes in %d, want %d", w.Bytes(), room, want)
	}
}

// After any sequence of inserts and removals, a window is identical to a new one with the same
// content, to the last bit.
func TestWindowDoesNotDrift(t *testing.T) {
	g := mustGrid(t, ms, 3)
	rapid.Check(t, func(rt *rapid.T) {
		size := rapid.IntRange(1, 5).Draw(rt, "size")
		w, err := NewWindow(g, size)
		if err != nil {
			rt.Fatal(err)
		}
		var all []*Observed
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			counts := rapid.SliceOfN(rapid.Uint64Range(0, 9), 3, 3).Draw(rt, "counts")
			o := mustCounts(t, g, counts, 1, 0)
			if err := w.Insert(o); err != nil {
				rt.Fatal(err)
			}
			all = append(all, o)
		}
		fresh, err := NewWindow(g, size)
		if err != nil {
			rt.Fatal(err)
		}
		for _, o := range all[max(0, len(all)-size):] {
			if err := fresh.Insert(o); err != nil {
				rt.Fatal(err)
			}
		}
		var a, b Band
		if err := errors.Join(w.WriteStandardErrors(&a, Z95), fresh.WriteStandardErrors(&b, Z95)); err != nil {
			rt.Fatal(err)
		}
		for k := range a.Mean {
			if a.Mean[k] != b.Mean[k] || a.Lo[k] != b.Lo[k] || a.Hi[k] != b.Hi[k] {
				rt.Fatalf("edge %d: %v and %v", k, a, b)
			}
		}
	})
}

// deltaQ returns a ΔQ in bins of 1 ms with the given bounds.
func deltaQ(lo, hi []float64) *DeltaQ { return &DeltaQ{width: ms, lo: lo, hi: hi} }

// At edge k a calculated ΔQ is between lo[k] and hi[k−1]. By hand: the first is
// 0, 0.25±0.25, 0.75±0.25, 1 and the second 0, 0.5±0.5, 1, 1.
func TestWindowOfCalculated(t *testing.T) {
	g := mustGrid(t, ms, 3)
	w, err := NewWindow(g, 3)
	if err != nil {
		t.Fatal(err)
	}
	first := deltaQ([]float64{0, 0, 0.5, 1}, []float64{0.5, 1, 1, 1})
	second := deltaQ([]float64{0, 0, 1}, []float64{1, 1, 1})
	check := func(what string, mean, lo, hi []float64) {
		t.Helper()
		var b Band
		if err := w.WriteStandardErrors(&b, Z68); err != nil {
			t.Fatal(err)
		}
		for k := range mean {
			if math.Abs(b.Mean[k]-mean[k])+math.Abs(b.Lo[k]-lo[k])+math.Abs(b.Hi[k]-hi[k]) > 1e-15 {
				t.Errorf("%s, edge %d: %v in %v…%v, want %v in %v…%v", what, k, b.Mean[k], b.Lo[k], b.Hi[k], mean[k], lo[k], hi[k])
			}
		}
	}
	if err := w.InsertCalculated(first, 100); err != nil {
		t.Fatal(err)
	}
	check("one", []float64{0, 0.25, 0.75, 1}, []float64{0, 0, 0.5, 1}, []float64{0, 0.5, 1, 1})
	if err := w.InsertCalculated(second, 100); err != nil {
		t.Fatal(err)
	}
	// The half-widths have the means 0.375 and 0.125, the middles σ = 0.125 each.
	part := 0.125 / math.Sqrt2
	check("two", []float64{0, 0.375, 0.875, 1},
		[]float64{0, 0, 0.75 - part, 1}, []float64{0, 0.75 + part, 1, 1})
	w.RemoveOldest()
	check("the second", []float64{0, 0.5, 1, 1}, []float64{0, 0, 1, 1}, []float64{0, 1, 1, 1})

	// An observed ΔQ is exact, even if it replaces a calculated one.
	for range 3 {
		if err := w.Insert(mustCounts(t, g, []uint64{1, 2, 1}, 0, 0)); err != nil {
			t.Fatal(err)
		}
	}
	exact := []float64{0, 0.25, 0.75, 1}
	check("observed", exact, exact, exact)
}

// If a calculated ΔQ is a single observed outcome, its values are exact, and the window has the
// same mean as for the observed ΔQ.
func TestWindowOfCalculatedLeaf(t *testing.T) {
	g := mustGrid(t, ms, 4)
	rapid.Check(t, func(rt *rapid.T) {
		observed, err := NewWindow(g, 3)
		if err != nil {
			rt.Fatal(err)
		}
		calculated, err := NewWindow(g, 3)
		if err != nil {
			rt.Fatal(err)
		}
		for range rapid.IntRange(1, 7).Draw(rt, "windows") {
			o := mustCounts(t, g, rapid.SliceOfN(rapid.Uint64Range(0, 9), 4, 4).Draw(rt, "counts"), 1, 0)
			d, err := o.DeltaQ()
			if err != nil {
				rt.Fatal(err)
			}
			if err := errors.Join(observed.Insert(o), calculated.InsertCalculated(d, 100)); err != nil {
				rt.Fatal(err)
			}
		}
		var a, b Band
		if err := errors.Join(observed.WriteStandardErrors(&a, Z95), calculated.WriteStandardErrors(&b, Z95)); err != nil {
			rt.Fatal(err)
		}
		for k := range a.Mean {
			if math.Abs(a.Mean[k]-b.Mean[k])+math.Abs(a.Lo[k]-b.Lo[k])+math.Abs(a.Hi[k]-b.Hi[k]) > 1e-12 {
				rt.Fatalf("edge %d: observed %v, calculated %v", k, a, b)
			}
		}
	})
}

func TestWindowOfEqualDistributions(t *testing.T) {
	g := mustGrid(t, ms, 3)
	w, err := NewWindow(g, MaxWindow)
	if err != nil {
		t.Fatal(err)
	}
	o := mustCounts(t, g, []uint64{1, 1, 1}, 0, 0)
	for range MaxWindow {
		if err := w.Insert(o); err != nil {
			t.Fatal(err)
		}
	}
	var b Band
	if err := w.WriteStandardErrors(&b, Z95); err != nil {
		t.Fatal(err)
	}
	if b.Lo[1] != b.Mean[1] || b.Hi[1] != b.Mean[1] || math.Abs(b.Mean[1]-1./3) > 1e-15 {
		t.Errorf("no variance, but %v", b)
	}
}

func TestWindowRefuses(t *testing.T) {
	g := mustGrid(t, ms, 3)
	w, err := NewWindow(g, 2)
	if err != nil {
		t.Fatal(err)
	}
	other := mustCounts(t, mustGrid(t, ms, 4), []uint64{1, 0, 0, 0}, 0, 0)
	var b Band
	for name, tt := range map[string]struct{ err, want error }{
		"zero grid":     {second(NewWindow(Grid{}, 1)), ErrGrid},
		"no capacity":   {second(NewWindow(g, 0)), ErrOperands},
		"too long":      {second(NewWindow(g, MaxWindow+1)), ErrOperands},
		"no data":       {w.Insert(mustCounts(t, g, make([]uint64, 3), 0, 0)), ErrNoData},
		"another grid":  {w.Insert(other), ErrGrid},
		"empty window":  {w.WriteStandardErrors(&b, Z68), ErrNoData},
		"no calculated": {w.InsertCalculated(new(DeltaQ), 100), ErrNoData},
	} {
		if !errors.Is(tt.err, tt.want) {
			t.Errorf("%s: %v, want %v", name, tt.err, tt.want)
		}
	}
	w.RemoveOldest() // nothing to remove
	if w.Len() != 0 {
		t.Error("not empty")
	}
}

func TestWindowAllocatesNothing(t *testing.T) {
	g := mustGrid(t, ms, 100)
	w, err := NewWindow(g, 30)
	if err != nil {
		t.Fatal(err)
	}
	o := mustCounts(t, g, make([]uint64, 100), 7, 0)
	d, err := o.DeltaQ()
	if err != nil {
		t.Fatal(err)
	}
	b := Band{make([]float64, 0, 101), make([]float64, 0, 101), make([]float64, 0, 101)}
	for range 30 { // until the window is full
		if err := w.InsertCalculated(d, 100); err != nil {
			t.Fatal(err)
		}
	}
	if n := testing.AllocsPerRun(100, func() {
		if err := errors.Join(w.Insert(o), w.InsertCalculated(d, 100), w.WriteStandardErrors(&b, Z95)); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
