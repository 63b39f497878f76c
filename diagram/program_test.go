package diagram

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/beamscope/beamscope/dq"
)

const ms = time.Millisecond

func wait(t testing.TB, d time.Duration) *dq.DeltaQ {
	t.Helper()
	g, err := dq.NewGrid(ms, 100)
	if err != nil {
		t.Fatal(err)
	}
	x, err := dq.Wait(g, d)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func compile(t testing.TB, source string) *Program {
	t.Helper()
	p, err := Compile(mustParse(t, source))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestEvaluate(t *testing.T) {
	p := compile(t, `
		whole = s:front -> a:both(z, s:front) -> p:pick[0.25, 0.75](x, y);
		front = x -> f:race(y, z);
		alone = x;`)
	delays := map[string]time.Duration{"x": 1 * ms, "y": 5 * ms, "z": 3 * ms}
	err := p.Evaluate(func(name string) *dq.DeltaQ { return wait(t, delays[name]) })
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"whole", "both", "pick", "front", "race", "alone"}, p.Names()); diff != "" {
		t.Error(diff)
	}
	for name, want := range map[string][2]time.Duration{ // the quartile and the maximum
		"race": {3 * ms, 3 * ms}, "front": {4 * ms, 4 * ms}, "both": {4 * ms, 4 * ms},
		"pick": {1 * ms, 5 * ms}, "whole": {9 * ms, 13 * ms}, "alone": {1 * ms, 1 * ms}, "x": {1 * ms, 1 * ms},
	} {
		v, ok := p.Value(name)
		if !ok {
			t.Fatalf("%s: no value", name)
		}
		for i, at := range []float64{0.25, 1} {
			if q, ok := v.Quantile(at); !ok || q != (dq.Interval{Lo: want[i], Hi: want[i]}) {
				t.Errorf("%s: Quantile(%v) = %v, %v, want %v", name, at, q, ok, want[i])
			}
		}
	}
	if _, ok := p.Value("nobody"); ok {
		t.Error("a value of an unknown name")
	}
	if diff := cmp.Diff([]string{"x", "y", "z"}, p.Behind("front")); diff != "" {
		t.Error(diff)
	}
}

// Missing data is treated neither as a perfect outcome nor as one that always fails.
func TestEvaluateWithoutData(t *testing.T) {
	p := compile(t, "a1 = x -> y; b1 = f:g(y, z); c1 = s:a1 -> z;")
	for range 2 { // the second time, values of the first run remain in memory
		err := p.Evaluate(func(name string) *dq.DeltaQ {
			if name == "x" {
				return nil
			}
			return wait(t, ms)
		})
		if err != nil {
			t.Fatal(err)
		}
		for name, empty := range map[string]bool{"a1": true, "b1": false, "c1": true} {
			if v, _ := p.Value(name); v.Empty() != empty {
				t.Errorf("%s: %v", name, v)
			}
		}
		if err := p.Evaluate(func(string) *dq.DeltaQ { return wait(t, ms) }); err != nil {
			t.Fatal(err)
		}
		if v, _ := p.Value("c1"); v.Empty() {
			t.Error("no data stays")
		}
	}
}

func TestCompileRefuses(t *testing.T) {
	for name, f := range map[string]*File{
		"undefined": {Definitions: []*Definition{{Name: "a", Expr: &Reuse{Name: "b"}}}},
		"circle":    {Definitions: []*Definition{{Name: "a", Expr: &Reuse{Name: "a"}}}},
	} {
		if _, err := Compile(f); !errors.Is(err, ErrUnknown) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// hundred returns a diagram of a hundred probes over fifty outcomes of 1000 bins.
func hundred(t testing.TB) (*Program, func(string) *dq.DeltaQ, func()) {
	t.Helper()
	var b strings.Builder
	for i := range 100 {
		x, y := i%50, (i+1)%50
		switch i % 4 {
		case 0, 1:
			fmt.Fprintf(&b, "d%d = o%d -> o%d;\n", i, x, y)
		case 2:
			fmt.Fprintf(&b, "d%d = f:d%d(o%d, o%d);\n", i, i, x, y)
		case 3:
			fmt.Fprintf(&b, "d%d = a:d%d(o%d, o%d);\n", i, i, x, y)
		}
	}
	g, err := dq.NewGrid(ms, 1000)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	observed, values := map[string]*dq.Observed{}, map[string]*dq.DeltaQ{}
	counts := make([]uint64, 1000)
	fill := func() {
		for i := range 50 {
			name := fmt.Sprintf("o%d", i)
			if observed[name] == nil {
				if observed[name], err = dq.NewObserved(g); err != nil {
					t.Fatal(err)
				}
				values[name] = new(dq.DeltaQ)
			}
			for k := range counts {
				counts[k] = r.Uint64N(20)
			}
			if err := errors.Join(observed[name].Set(counts, 1, 1), observed[name].WriteDeltaQ(values[name])); err != nil {
				t.Fatal(err)
			}
		}
	}
	fill()
	return compile(t, b.String()), func(name string) *dq.DeltaQ { return values[name] }, fill
}

func TestEvaluateAllocatesNothing(t *testing.T) {
	p, outcome, _ := hundred(t)
	n := testing.AllocsPerRun(3, func() {
		if err := p.Evaluate(outcome); err != nil {
			t.Fatal(err)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A whole window, from new counts to confidence bounds, allocates no memory.
func TestWindowAllocatesNothing(t *testing.T) {
	p := compile(t, "p = x -> y; q = f:race(x, s:p) -> a:both(x, y);")
	g, err := dq.NewGrid(ms, 200)
	if err != nil {
		t.Fatal(err)
	}
	observed, err := dq.NewObserved(g)
	if err != nil {
		t.Fatal(err)
	}
	held, err := dq.NewWindow(g, 3)
	if err != nil {
		t.Fatal(err)
	}
	var value dq.DeltaQ
	var band dq.Band
	q, _ := p.Value("q")
	counts, n := make([]uint64, 200), uint64(0)
	allocations := testing.AllocsPerRun(10, func() {
		for i := range counts {
			n += 7
			counts[i] = n % 100
		}
		err := errors.Join(
			observed.Set(counts, 1, 1), observed.WriteDeltaQ(&value),
			p.Evaluate(func(string) *dq.DeltaQ { return &value }),
			held.InsertCalculated(q, 100), held.WriteBand(&band, 0.95))
		if err != nil {
			t.Fatal(err)
		}
	})
	if allocations != 0 || q.Empty() || len(band.Mean) != 201 {
		t.Errorf("%v allocations, %d bins, %d edges", allocations, q.Bins(), len(band.Mean))
	}
}

// BenchmarkHundredOutcomes measures one window of a hundred probes of 1000 bins. Half of the probes
// are sequences, and all outcomes are new. It calculates the ΔQs, and for each probe the
// confidence bounds over the last 30 windows.
func BenchmarkHundredOutcomes(b *testing.B) {
	p, outcome, fill := hundred(b)
	g, err := dq.NewGrid(ms, 1000)
	if err != nil {
		b.Fatal(err)
	}
	if err := p.Evaluate(outcome); err != nil {
		b.Fatal(err)
	}
	var definitions []*dq.DeltaQ
	var windows []*dq.Window
	for i := range 100 {
		w, err := dq.NewWindow(g, 30)
		if err != nil {
			b.Fatal(err)
		}
		d, _ := p.Value(fmt.Sprintf("d%d", i))
		definitions, windows = append(definitions, d), append(windows, w)
	}
	var band dq.Band
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		fill()
		b.StartTimer()
		if err := p.Evaluate(outcome); err != nil {
			b.Fatal(err)
		}
		for i, w := range windows {
			if err := errors.Join(w.InsertCalculated(definitions[i], 100), w.WriteBand(&band, 0.68)); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// Compile rejects a diagram that would use all memory, before any evaluation.
func TestCompileBoundsSize(t *testing.T) {
	var b strings.Builder
	fmt.Fprint(&b, "d0 = o0 -> o;\n")
	for i := 1; i <= MaxSteps; i++ {
		fmt.Fprintf(&b, "d%d = s:d%d -> s:d%d;\n", i, i-1, i-1)
	}
	f, err := Parse(b.String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Compile(f); !errors.Is(err, ErrSize) {
		t.Errorf("got %v, want ErrSize", err)
	}
}

// A branch of a choice without data may have any distribution: the bounds are wider by exactly
// its probability. Everything after the choice is calculated as well. The choice has no data only
// if no branch has data.
func TestChoiceWithoutABranch(t *testing.T) {
	p := compile(t, "whole = p:pick[0.99, 0.01](a, rare -> b) -> a; other = f:first(rare, a); s = p:none[0.5, 0.5](rare, rare -> b);")
	if err := p.Evaluate(func(name string) *dq.DeltaQ {
		if name == "rare" {
			return nil
		}
		return wait(t, 2*ms)
	}); err != nil {
		t.Fatal(err)
	}
	pick, _ := p.Value("pick")
	whole, _ := p.Value("whole")
	for _, tt := range []struct {
		d  *dq.DeltaQ
		at time.Duration
		dq.Bounds
	}{
		{pick, 1 * ms, dq.Bounds{Lo: 0, Hi: 0.01}}, {pick, 2 * ms, dq.Bounds{Lo: 0.99, Hi: 1}}, {pick, time.Hour, dq.Bounds{Lo: 0.99, Hi: 1}},
		{whole, 1 * ms, dq.Bounds{Lo: 0, Hi: 0}}, {whole, 3 * ms, dq.Bounds{Lo: 0, Hi: 0.01}}, {whole, 4 * ms, dq.Bounds{Lo: 0.99, Hi: 1}},
	} {
		got, ok := tt.d.ProbabilityWithin(tt.at)
		if !ok || got.Lo > tt.Lo || got.Hi < tt.Hi || got.Lo < tt.Lo-1e-15 || got.Hi > tt.Hi+1e-15 {
			t.Errorf("within %v: %v, want %v", tt.at, got, tt.Bounds)
		}
	}
	if v, ok := pick.Quantile(0.995); !ok || v.Finite() || v.Lo != 2*ms {
		t.Errorf("p99.5 is %v: it may be in the branch that is missing", v)
	}
	for _, name := range []string{"other", "none", "s"} {
		if d, _ := p.Value(name); !d.Empty() {
			t.Errorf("%s: %v, want no data", name, d)
		}
	}
}

func TestShare(t *testing.T) {
	p := compile(t, "whole = a -> p:pick[0.25, 0.75](b -> s:inner, c); inner = p:in[0.5, 0.5](d, c -> e); alone = d;")
	for _, tt := range []struct {
		name, outcome string
		want          float64
	}{
		{"whole", "a", 1}, {"whole", "b", 0.25}, {"whole", "c", 0.75}, {"whole", "d", 0.125}, {"whole", "e", 0.125},
		{"inner", "d", 0.5}, {"inner", "a", 0}, {"alone", "d", 1}, {"pick", "d", 0.125}, {"nobody", "d", 0}, {"whole", "nobody", 0},
	} {
		if got := p.Share(tt.name, tt.outcome); got != tt.want {
			t.Errorf("%s in %s: %v, want %v", tt.outcome, tt.name, got, tt.want)
		}
	}
}

// Timeouts and retries of a part of a diagram give the same results as those of package dq.
func TestEvaluateTimes(t *testing.T) {
	p := compile(t, "cut = t:cut[5ms](a -> b); again = r:tries[3, 5ms](s:cut) -> a; more = o:more[2, 1ms](a -> b);")
	g, err := dq.NewGrid(ms, 100)
	if err != nil {
		t.Fatal(err)
	}
	must := func(d *dq.DeltaQ, err error) *dq.DeltaQ {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	a, b := must(dq.Uniform(g, 0, 4*ms)), must(dq.Exponential(g, 3*ms))
	if err := p.Evaluate(func(name string) *dq.DeltaQ { return map[string]*dq.DeltaQ{"a": a, "b": b}[name] }); err != nil {
		t.Fatal(err)
	}
	both := must(dq.Sequential(a, b))
	cut := must(dq.Timeout(both, 5*ms))
	for name, want := range map[string]*dq.DeltaQ{
		"cut":   cut,
		"again": must(dq.Sequential(must(dq.Retry(cut, 5*ms, 3)), a)),
		"more":  must(dq.RetryOverlap(both, ms, 2)),
	} {
		if got, _ := p.Value(name); !got.Equal(want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

// Uses returns the number of uses and the weights that were calculated by hand.
func TestUses(t *testing.T) {
	program, err := Compile(mustParse(t, `
		one = a;
		whole = a -> f:first(b, a) -> p:maybe[0.25,0.75](b -> b, s:one) -> r:tries[3, 5ms](c) -> t:limit[1s](d) -> o:hedge[2, 1ms](d);`))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]Use{
		"whole":   {{"a", 2.75, 3}, {"b", 1.5, 3}, {"c", 3, 3}, {"d", 3, 3}},
		"maybe":   {{"a", 0.75, 1}, {"b", 0.5, 2}},
		"one":     {{"a", 1, 1}},
		"unknown": nil,
	} {
		got := program.Uses(name)
		slices.SortFunc(got, func(x, y Use) int { return strings.Compare(x.Outcome, y.Outcome) })
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s, -want +got:\n%s", name, diff)
		}
	}
}

// Each name is listed once, in order, and is found by lookup.
func TestNamesAreOnce(t *testing.T) {
	const source = "one = f:one(x, y -> x); two = s:one -> a:both(y, z); alone = z;"
	f, p := mustParse(t, source), compile(t, source)
	for name, test := range map[string]struct{ got, want []string }{
		"outcomes":       {f.Outcomes(), []string{"x", "y", "z"}},
		"names":          {p.Names(), []string{"one", "two", "both", "alone"}},
		"behind two":     {p.Behind("two"), []string{"x", "y", "z"}},
		"behind a third": {p.Behind("three"), nil},
	} {
		if diff := cmp.Diff(test.want, test.got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
	for i, name := range []string{"one", "two", "alone"} {
		if f.Lookup(name) != f.Definitions[i] {
			t.Errorf("%s is not found", name)
		}
	}
	if f.Lookup("three") != nil {
		t.Error("three is found")
	}
	if diff := cmp.Diff([]Use{{"z", 1, 1}}, p.Uses("alone")); diff != "" {
		t.Errorf("uses of alone: -want +got:\n%s", diff)
	}
	for outcome, want := range map[string]float64{"x": 1, "z": 1} {
		if got := p.Share("two", outcome); math.Abs(got-want) > 0 {
			t.Errorf("the share of %s is %v, want %v", outcome, got, want)
		}
	}
	if err := p.Evaluate(func(string) *dq.DeltaQ { return nil }); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"x", "one", "both"} {
		if d, ok := p.Value(name); !ok || !d.Empty() {
			t.Errorf("%s without data: %v, %v", name, d, ok)
		}
	}
}
