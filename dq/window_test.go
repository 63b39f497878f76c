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
		if err := w.WriteBand(&b, z); err != nil {
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

// After any inserting and removing a window is what a fresh one would be, to the
// last bit.
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
		if err := errors.Join(w.WriteBand(&a, Z95), fresh.WriteBand(&b, Z95)); err != nil {
			rt.Fatal(err)
		}
		for k := range a.Mean {
			if a.Mean[k] != b.Mean[k] || a.Lo[k] != b.Lo[k] || a.Hi[k] != b.Hi[k] {
				rt.Fatalf("edge %d: %v and %v", k, a, b)
			}
		}
	})
}

func TestWindowOfTheSame(t *testing.T) {
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
	if err := w.WriteBand(&b, Z95); err != nil {
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
		"empty window":  {w.WriteBand(&b, Z68), ErrNoData},
		"no calculated": {w.InsertCalculated(new(DeltaQ)), ErrNoData},
	} {
		if !errors.Is(tt.err, tt.want) {
			t.Errorf("%s: %v, want %v", name, tt.err, tt.want)
		}
	}
	w.RemoveOldest() // of none
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
	b := Band{make([]float64, 0, 101), make([]float64, 0, 101), make([]float64, 0, 101)}
	if n := testing.AllocsPerRun(100, func() {
		if err := errors.Join(w.Insert(o), w.WriteBand(&b, Z95)); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
