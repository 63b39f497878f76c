package dq

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
	"pgregory.net/rapid"
)

var updateCoverage = flag.Bool("update-coverage", false, "write the table of coverage into docs/reference/confidence.md")

func TestStudent(t *testing.T) {
	for _, confidence := range []float64{0.01, 0.5, 0.68, 0.95, 0.999, 1 - 1e-9} {
		for _, df := range []int{1, 2, 3, 7, 29, 100, 1023} {
			want := distuv.StudentsT{Sigma: 1, Nu: float64(df)}.Quantile((1 + confidence) / 2)
			if got := student(confidence, df); math.Abs(got-want) > 1e-6*want {
				t.Errorf("%v, %d degrees of freedom: %v, want %v", confidence, df, got, want)
			}
		}
	}
}

// Wilson's interval with correction for continuity, as calculated by Newcombe (1998), table I: 81
// of 263, 15 of 148, 0 of 20, 1 of 29. The interval always contains the share itself, even if
// that is 0 or 1.
func TestScore(t *testing.T) {
	for _, tt := range []struct{ found, n, lo, hi float64 }{
		{81, 263, 0.2535, 0.3682}, {15, 148, 0.0598, 0.1644}, {0, 20, 0, 0.2005}, {1, 29, 0.0018, 0.1963},
	} {
		lo, hi := score(tt.found/tt.n, tt.n, Z95)
		if math.Abs(lo-tt.lo) > 1e-4 || math.Abs(hi-tt.hi) > 1e-4 {
			t.Errorf("%v of %v: %.4f to %.4f, want %v to %v", tt.found, tt.n, lo, hi, tt.lo, tt.hi)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		p, n, z := rapid.Float64Range(0, 1).Draw(rt, "p"), rapid.Float64Range(0.01, 1e6).Draw(rt, "n"), rapid.Float64Range(0.01, 1e6).Draw(rt, "z")
		if lo, hi := score(p, n, z); !(0 <= lo && lo <= p && p <= hi && hi <= 1) {
			rt.Fatalf("%v of %v: %v to %v", p, n, lo, hi)
		}
	})
}

// A wandering is a series of windows of a changing system. Delays are normally distributed. Their
// mean changes from window to window as a first-order autoregressive process.
type wandering struct {
	windows, instances int
	spread             float64 // the spread of the mean, in standard deviations of the delays
	correlation        float64 // the correlation of consecutive windows
}

// coverageShares are the shares whose bounds are checked, at the edges at which the long-run mean
// reaches them. A delay x in [-8, 8) is in bin 20·(x+8).
var coverageShares = []float64{0.1, 0.5, 0.9, 0.99, 0.999}

func (w wandering) edges() []int {
	var edges []int
	for _, share := range coverageShares {
		x := math.Sqrt2 * math.Erfinv(2*share-1) * math.Sqrt(1+w.spread*w.spread)
		edges = append(edges, int(math.Round(20*(x+8))))
	}
	return edges
}

// longRun returns the value of the long-run mean at an edge.
func (w wandering) longRun(edge int) float64 {
	x := float64(edge)/20 - 8
	return 0.5 * math.Erfc(-x/math.Sqrt(2*(1+w.spread*w.spread)))
}

// fill fills a window with one series.
func (w wandering) fill(t testing.TB, r *rand.Rand, into *Window) {
	counts := make([]uint64, into.Grid().Bins())
	at := r.NormFloat64()
	for range w.windows {
		clear(counts)
		for range w.instances {
			x := r.NormFloat64() - w.spread*at
			counts[min(max(int(20*(x+8)), 0), len(counts)-1)]++
		}
		o, err := FromCounts(into.Grid(), counts, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := into.Insert(o); err != nil {
			t.Fatal(err)
		}
		at = w.correlation*at + math.Sqrt(1-w.correlation*w.correlation)*r.NormFloat64()
	}
}

// coverage returns, for each share, how often it is within bounds of 95 %, the mean width of
// these bounds, and how often it is within 1.96 standard errors.
func (w wandering) coverage(t testing.TB, series int) (within, width, thesis []float64) {
	r := rand.New(rand.NewPCG(uint64(w.windows), uint64(w.instances)))
	edges := w.edges()
	within, width, thesis = make([]float64, len(edges)), make([]float64, len(edges)), make([]float64, len(edges))
	var band Band
	for range series {
		window, err := NewWindow(mustGrid(t, ms, 320), w.windows)
		if err != nil {
			t.Fatal(err)
		}
		w.fill(t, r, window)
		if err := window.WriteBand(&band, 0.95); err != nil {
			t.Fatal(err)
		}
		for i, k := range edges {
			if want := w.longRun(k); band.Lo[k] <= want && want <= band.Hi[k] {
				within[i] += 1 / float64(series)
			}
			width[i] += (band.Hi[k] - band.Lo[k]) / float64(series)
		}
		if err := window.WriteStandardErrors(&band, Z95); err != nil {
			t.Fatal(err)
		}
		for i, k := range edges {
			if want := w.longRun(k); band.Lo[k] <= want && want <= band.Hi[k] {
				thesis[i] += 1 / float64(series)
			}
		}
	}
	return within, width, thesis
}

// Bounds of 95 % contain the long-run mean in at least 95 of 100 series, even for shares near 1,
// for few windows, and for windows that resemble each other. The table in the documentation
// contains the results of this test.
func TestCoverage(t *testing.T) {
	const series = 400
	header := []string{"windows", "instances of each", "spread of the mean", "correlation"}
	for _, s := range coverageShares {
		header = append(header, fmt.Sprint(s))
	}
	lines := []string{"| " + strings.Join(header, " | ") + " |", strings.Repeat("|---", len(header)) + "|"}
	for _, w := range []wandering{
		{10, 50, 0, 0}, {10, 50, 0.3, 0.5}, {10, 50, 0.3, 0.9}, {10, 50, 1, 0.9}, {10, 500, 0.3, 0.9},
		{30, 50, 0, 0}, {30, 50, 0.3, 0}, {30, 50, 0.3, 0.5}, {30, 50, 0.3, 0.9}, {30, 50, 1, 0.9}, {30, 500, 0.3, 0.9},
		{100, 50, 0, 0}, {100, 50, 0.3, 0.5}, {100, 50, 0.3, 0.9}, {3, 50, 0, 0}, {3, 200, 0.3, 0.9},
	} {
		within, width, thesis := w.coverage(t, series)
		cells := []string{fmt.Sprint(w.windows), fmt.Sprint(w.instances), fmt.Sprint(w.spread), fmt.Sprint(w.correlation)}
		for i, share := range within {
			// With 400 series and a true coverage of 95 %, the share found is below 92.5 % in
			// fewer than two of 100 cases.
			if share < 0.925 {
				t.Errorf("%+v: %v is within the bounds of 95 %% in %.1f %% of the series", w, coverageShares[i], 100*share)
			}
			cells = append(cells, fmt.Sprintf("%.0f %% ±%.3f (%.0f %%)", 100*share, width[i]/2, 100*thesis[i]))
		}
		lines = append(lines, "| "+strings.Join(cells, " | ")+" |")
	}
	table := strings.Join(lines, "\n") + "\n"
	const path = "../docs/reference/confidence.md"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(page), "<!-- coverage -->\n")
	old, after, ok2 := strings.Cut(rest, "<!-- end of coverage -->\n")
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table", path)
	}
	if *updateCoverage {
		if err := os.WriteFile(path, []byte(before+"<!-- coverage -->\n"+table+"<!-- end of coverage -->\n"+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if old != table {
		t.Errorf("%s has another table: run go test ./dq -run TestCoverage -update-coverage. It is now\n%s", path, table)
	}
}

// The bounds also hold for a calculated ΔQ: a sequence of two outcomes with the same number of
// instances each.
func TestCoverageOfCalculated(t *testing.T) {
	const series, windows, instances = 300, 30, 50
	r := rand.New(rand.NewPCG(1, 2))
	g := mustGrid(t, ms, 20)
	exact := make([]float64, 20) // two uniform delays of 0 to 9 bins: bins 0 to 18
	for i := range 10 {
		for j := range 10 {
			for k := i + j + 1; k < 20; k++ {
				exact[k] += 0.01
			}
		}
	}
	covered := map[int]int{3: 0, 9: 0, 16: 0, 18: 0}
	var band Band
	for range series {
		w, err := NewWindow(g, windows)
		if err != nil {
			t.Fatal(err)
		}
		for range windows {
			var parts [2]*DeltaQ
			for i := range parts {
				counts := make([]uint64, 20)
				for range instances {
					counts[r.IntN(10)]++
				}
				if parts[i], err = mustCounts(t, g, counts, 0, 0).DeltaQ(); err != nil {
					t.Fatal(err)
				}
			}
			d, err := Sequential(parts[0], parts[1])
			if err != nil {
				t.Fatal(err)
			}
			if err := w.InsertCalculated(d, instances); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.WriteBand(&band, 0.95); err != nil {
			t.Fatal(err)
		}
		for k := range covered {
			if band.Lo[k] <= exact[k-1]+1e-9 && exact[k]-1e-9 <= band.Hi[k] {
				covered[k]++
			}
		}
	}
	for k, n := range covered {
		if float64(n) < 0.92*series {
			t.Errorf("edge %d: within the bounds in %d of %d series", k, n, series)
		}
	}
}

// The bounds surround the mean. The bounds of a single window exclude nothing. At delay 0 the
// bounds are exact.
func TestBandSurroundsMean(t *testing.T) {
	g := mustGrid(t, ms, 4)
	rapid.Check(t, func(rt *rapid.T) {
		w, err := NewWindow(g, 40)
		if err != nil {
			rt.Fatal(err)
		}
		n := rapid.IntRange(1, 60).Draw(rt, "windows")
		for range n {
			counts := rapid.SliceOfN(rapid.Uint64Range(0, 9), 4, 4).Draw(rt, "counts")
			if err := w.Insert(mustCounts(t, g, counts, 1, 0)); err != nil {
				rt.Fatal(err)
			}
		}
		var b Band
		confidence := rapid.Float64Range(0.01, 0.999).Draw(rt, "confidence")
		if err := w.WriteBand(&b, confidence); err != nil {
			rt.Fatal(err)
		}
		for k := range b.Mean {
			if !(0 <= b.Lo[k] && b.Lo[k] <= b.Mean[k] && b.Mean[k] <= b.Hi[k] && b.Hi[k] <= 1) {
				rt.Fatalf("edge %d: %v in %v to %v", k, b.Mean[k], b.Lo[k], b.Hi[k])
			}
			if n == 1 && k > 0 && (b.Lo[k] != 0 || b.Hi[k] != 1) {
				rt.Fatalf("edge %d of one window: %v to %v", k, b.Lo[k], b.Hi[k])
			}
		}
		if b.Lo[0] != 0 || b.Hi[0] != 0 {
			rt.Fatalf("at 0: %v to %v", b.Lo[0], b.Hi[0])
		}
		if allocations := testing.AllocsPerRun(5, func() { _ = w.WriteBand(&b, confidence) }); allocations > 0 {
			rt.Fatalf("%v allocations", allocations)
		}
	})
	w, err := NewWindow(g, 3)
	if err != nil {
		t.Fatal(err)
	}
	var b Band
	if err := w.WriteBand(&b, 0.95); !errors.Is(err, ErrNoData) {
		t.Errorf("an empty window: %v", err)
	}
	if err := w.Insert(mustCounts(t, g, []uint64{1, 0, 0, 0}, 0, 0)); err != nil {
		t.Fatal(err)
	}
	for _, confidence := range []float64{0, 1, -1, math.NaN()} {
		if err := w.WriteBand(&b, confidence); !errors.Is(err, ErrProbability) {
			t.Errorf("confidence %v: %v", confidence, err)
		}
	}
}

// Each bound on a share solves its equation: the distance from the bound to the share, less half
// an instance, is z standard deviations of a sample whose true share is the bound.
func TestScoreSolvesItsEquation(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 32))
	for range 2000 {
		n, z := math.Exp(10*r.Float64()), math.Exp(3*r.Float64()-1)
		p := r.Float64()
		lo, hi := score(p, n, z)
		deviation := func(x float64) float64 { return z * math.Sqrt(x*(1-x)/n) }
		switch {
		case n*p < 1:
			if lo != 0 {
				t.Fatalf("%v of %v: from %v, want 0", p, n, lo)
			}
		case math.Abs(p-lo-0.5/n-deviation(lo)) > 1e-12*(1+z*z):
			t.Fatalf("%v of %v, z %v: from %v", p, n, z, lo)
		}
		switch {
		case n*(1-p) < 1:
			if hi != 1 {
				t.Fatalf("%v of %v: to %v, want 1", p, n, hi)
			}
		case math.Abs(hi-p-0.5/n-deviation(hi)) > 1e-12*(1+z*z):
			t.Fatalf("%v of %v, z %v: to %v", p, n, z, hi)
		}
	}
	// Rounding would move these bounds a little below 0 and above 1: they are one instance from the
	// ends, with quantiles as large as those of few windows and a high confidence.
	if lo, _ := score(6.6429574899714e-09, 1.5112718707569042e+08, 684731.260257401); !(lo >= 0) || lo > 1e-12 {
		t.Errorf("from %v, want 0", lo)
	}
	if _, hi := score(0.9999999933570425, 1.5112718707569042e+08, 684731.260257401); !(hi <= 1) || hi < 1-1e-12 {
		t.Errorf("to %v, want 1", hi)
	}
	if lo, hi := score(0.5, 2, 1); lo == 0 || hi == 1 {
		t.Errorf("an instance on either side: %v to %v", lo, hi)
	}
}

// At delay 0 the bounds are equal to the mean, even for calculated ΔQs with delays of 0.
func TestBandAtZero(t *testing.T) {
	w, err := NewWindow(mustGrid(t, ms, 2), 2)
	if err != nil {
		t.Fatal(err)
	}
	d := &DeltaQ{width: ms, lo: []float64{0.25, 0.5}, hi: []float64{0.5, 1}}
	for range 2 {
		if err := w.InsertCalculated(d, 10); err != nil {
			t.Fatal(err)
		}
	}
	var b Band
	if err := w.WriteBand(&b, 0.95); err != nil || b.Mean[0] != 0.25 || b.Lo[0] != 0.25 || b.Hi[0] != 0.25 {
		t.Errorf("%+v, %v", b, err)
	}
}

// windowOf returns a window of the given grid and counts, the oldest first.
func windowOf(t testing.TB, g Grid, counts ...[]uint64) *Window {
	t.Helper()
	w, err := NewWindow(g, len(counts))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range counts {
		if err := w.Insert(mustCounts(t, g, c, 0, 0)); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// Windows that do not differ, or that differ in opposite directions, count as no better than
// independent ones. If they differ, the estimated variance of the mean makes the correlation time
// n/(n−1). The time is then increased for the number of windows.
func TestCorrelationIsNotNegative(t *testing.T) {
	g := mustGrid(t, ms, 2)
	for _, n := range []int{7, 8, 9, 30, 200} {
		same, opposite := make([][]uint64, n), make([][]uint64, n)
		for i := range n {
			same[i], opposite[i] = []uint64{50, 50}, []uint64{50, 50}
		}
		opposite[0], opposite[1] = []uint64{20, 80}, []uint64{80, 20}
		windows := float64(n)
		for _, tt := range []struct {
			counts [][]uint64
			time   float64
		}{{same, 1}, {opposite, windows / (windows - 1)}} {
			got := windowOf(t, g, tt.counts...).correlation()
			want := tt.time * (1 + 3*math.Sqrt(tt.time/windows)) * (1 + 10/windows)
			if math.Abs(got-want) > 1e-8*want { // ten iterations
				t.Errorf("%d windows: a correlation time of %v, want %v", n, got, want)
			}
			if n < 9 && windows/got >= 2 {
				t.Errorf("%d windows count as %v independent ones", n, windows/got)
			}
		}
	}
}

// The quantile for a few windows has one degree of freedom, and that for more windows has n/τ − 1,
// rounded down.
func TestDegreesOfFreedom(t *testing.T) {
	g := mustGrid(t, ms, 2)
	for n, df := range map[int]float64{2: 1, 3: 1, 9: 1, 12: 2, 30: 13} {
		counts := make([][]uint64, n)
		for i := range counts {
			counts[i] = []uint64{1e6, 1e6}
		}
		w := windowOf(t, g, counts...)
		if got := math.Floor(float64(n) / w.correlation()); max(1, got-1) != df {
			t.Fatalf("%d windows count as %v independent ones", n, got)
		}
		var b Band
		if err := w.WriteBand(&b, 0.95); err != nil {
			t.Fatal(err)
		}
		// The windows do not differ, so their instances count in full.
		z := distuv.StudentsT{Sigma: 1, Nu: df}.Quantile(0.975)
		lo, hi := score(0.5, 2e6*float64(n), z)
		if math.Abs(b.Lo[1]-lo) > 1e-9 || math.Abs(b.Hi[1]-hi) > 1e-9 {
			t.Errorf("%d windows: %v to %v, want %v to %v", n, b.Lo[1], b.Hi[1], lo, hi)
		}
	}
}

// Quantiles are kept by degrees of freedom, whatever the order in which they are needed.
func TestQuantilesAreCached(t *testing.T) {
	w := new(Window)
	for _, confidence := range []float64{0.5, 0.95} {
		for _, df := range []int{1, 2, 3, 9, 4, 10, 3} {
			if got, want := w.quantile(confidence, df), student(confidence, df); got != want {
				t.Errorf("%v, %d degrees of freedom: %v, want %v", confidence, df, got, want)
			}
		}
	}
}

// The sum of autocovariances ends before the first pair that is not positive. If the first
// autocovariance is above two standard errors, 2γ₀/√n, the sum is at least that of a geometric
// series, with a ratio of at least 0 and at most 1 − 2/n.
func TestSumOfCovariances(t *testing.T) {
	for name, tt := range map[string]struct {
		covariances []float64 // at the distances 0, 1, 2 and so on; 0 behind them
		v, want     float64
	}{
		"none":                              {[]float64{1}, 0, 1},
		"of the mean":                       {[]float64{1}, 0.125, 1.125 + 8*0.25}, // the pairs up to half the windows
		"ends at a sum of 0":                {[]float64{1, 0.25, -0.25, 0.5, 0.5}, 0, 1},
		"ends below 0":                      {[]float64{1, 0.25, -0.5, 0.5, 0.5}, 0, 1},
		"goes on above 0":                   {[]float64{1, 0.25, -0.125, 0.5, 0.5}, 0, 1 + 2*0.125 + 2},
		"two standard errors":               {[]float64{15, 8, 4}, 0, 15 + 2*12},
		"above two standard errors":         {[]float64{14, 8, 4}, 0, 14 + 2*8/(1-0.5)},
		"the second is negative":            {[]float64{16, 12, -12}, 0, 16 + 2*12},
		"the second is larger":              {[]float64{16, 12, 14}, 0, 16 + 2*12*8},
		"the geometric series sums to less": {[]float64{16, 12, 3, 12, 12}, 0, 16 + 2*(12+3+12+12)},
	} {
		w := &Window{held: 16, covariances: append(tt.covariances, make([]float64, 17-len(tt.covariances))...)}
		if got := w.sumOfCovariances(tt.v); math.Abs(got-tt.want) > 1e-12*tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}
