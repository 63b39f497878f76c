package dq

import (
	"errors"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func mustGrid(t testing.TB, width time.Duration, n int) Grid {
	t.Helper()
	g, err := NewGrid(width, n)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestBaseGrid(t *testing.T) {
	tests := []struct {
		base        time.Duration
		exponent, n int
		width       time.Duration // 0: an error
	}{
		{ms, 0, 50, ms},
		{ms, 10, 1000, 1024 * ms},
		{ms, -3, 50, 125 * time.Microsecond},
		{ms, -6, 1, 15625},
		{1024 * time.Microsecond, -10, 1, time.Microsecond},
		{ms, -7, 50, 0},                   // 7812.5 ns
		{ms, -10, 50, 0},                  // 976.5625 ns
		{time.Microsecond, -1, 50, 0},     // 500 ns: below the narrowest
		{1000, 1, 1, 2000},                //
		{999, 1, 1, 0},                    // base below 1 µs
		{ms, 11, 1, 0},                    //
		{ms, -11, 1, 0},                   //
		{ms, 0, 0, 0},                     //
		{ms, 0, 1001, 0},                  //
		{math.MaxInt64, 10, 1, 0},         // would overflow
		{MaxWidth, 1, 1, 0},               //
		{MaxWidth, 0, 1000, MaxWidth},     //
		{time.Duration(-1) * ms, 0, 1, 0}, //
	}
	for _, tt := range tests {
		g, err := BaseGrid(tt.base, tt.exponent, tt.n)
		if tt.width == 0 {
			if !errors.Is(err, ErrGrid) {
				t.Errorf("BaseGrid(%v, %d, %d) = %v, %v, want ErrGrid", tt.base, tt.exponent, tt.n, g, err)
			}
			continue
		}
		if err != nil || g.Width() != tt.width || g.Bins() != tt.n || g.DMax() != tt.width*time.Duration(tt.n) {
			t.Errorf("BaseGrid(%v, %d, %d) = %v, %v, want width %v", tt.base, tt.exponent, tt.n, g, err, tt.width)
		}
	}
}

func TestDMaxGrid(t *testing.T) {
	tests := []struct {
		dMax  time.Duration
		n     int
		width time.Duration // 0: an error
	}{
		{50 * ms, 50, ms},
		{50 * ms, 65536, 0},
		{65536 * time.Microsecond, 65536, time.Microsecond},
		{ms, 1001, 0},
		{ms, 3, 0},
		{ms, 1000, time.Microsecond},
		{0, 1, 0},
		{-ms, 1, 0},
		{ms, 0, 0},
		{ms, -1, 0},
		{time.Hour, 65537, 0},
	}
	for _, tt := range tests {
		g, err := DMaxGrid(tt.dMax, tt.n)
		if tt.width == 0 {
			if !errors.Is(err, ErrGrid) {
				t.Errorf("DMaxGrid(%v, %d) = %v, %v, want ErrGrid", tt.dMax, tt.n, g, err)
			}
			continue
		}
		if err != nil || g.Width() != tt.width || g.DMax() != tt.dMax {
			t.Errorf("DMaxGrid(%v, %d) = %v, %v, want width %v", tt.dMax, tt.n, g, err, tt.width)
		}
	}
}

func TestGridBin(t *testing.T) {
	g := mustGrid(t, ms, 50)
	tests := []struct {
		t   time.Duration
		bin int // -1: none
	}{
		{0, 0}, {ms - 1, 0}, {ms, 1}, {49 * ms, 49}, {50*ms - 1, 49},
		{50 * ms, 49}, {50*ms + 1, -1}, {-1, -1}, {math.MaxInt64, -1}, {math.MinInt64, -1},
	}
	for _, tt := range tests {
		bin, ok := g.Bin(tt.t)
		if !ok {
			bin = -1
		}
		if bin != tt.bin {
			t.Errorf("Bin(%d) = %d, want %d", tt.t, bin, tt.bin)
		}
	}
	if _, ok := (Grid{}).Bin(0); ok {
		t.Error("the zero grid has a bin")
	}
}

func drawGrid(rt *rapid.T) Grid {
	width := time.Duration(rapid.Int64Range(int64(MinWidth), int64(MaxWidth)).Draw(rt, "width"))
	g, err := NewGrid(width, rapid.IntRange(1, MaxBins).Draw(rt, "bins"))
	if err != nil {
		rt.Fatal(err)
	}
	return g
}

func TestGridBinHoldsItsDelay(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		g := drawGrid(rt)
		d := time.Duration(rapid.Int64Range(0, int64(g.DMax())).Draw(rt, "delay"))
		i, ok := g.Bin(d)
		if !ok || i < 0 || i >= g.Bins() {
			rt.Fatalf("%v: Bin(%d) = %d, %v", g, d, i, ok)
		}
		if d < g.Edge(i) || d > g.Edge(i+1) || d == g.Edge(i+1) && d != g.DMax() {
			rt.Fatalf("%v: %d in bin %d", g, d, i)
		}
	})
}
