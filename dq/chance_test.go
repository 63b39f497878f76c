package dq_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/beamscope/beamscope/diagram"
	"github.com/beamscope/beamscope/dq"
)

// If the diagram is right and its outcomes are independent, at most a share of RunChance of the
// windows has a Chance of RunChance or less, and no divergence is lasting. The test covers every
// operator, outcomes that are used several times, few and many instances, windows of different
// sizes, and wholes that are observed on the instances of their parts.
func TestChanceIsNotUnderstated(t *testing.T) {
	const runs, windows = 12, 60
	for _, source := range []string{
		"p = a -> b;", "p = a -> a;", "p = a -> a -> a -> a;", "p = a:x(a, b);", "p = a:x(a, a, a);", "p = f:x(a, b);", "p = f:x(a, a);",
		"p = p:x[0.3,0.7](a, b);", "p = p:x[0.5,0.5](a -> a, b);", "p = a -> f:x(b, a:y(a, b)) -> c;",
	} {
		for _, instances := range []int{20, 300} {
			t.Run(fmt.Sprintf("%s of %d", source, instances), func(t *testing.T) {
				t.Parallel()
				own := instances == 20 // the whole is observed on its own instances, otherwise on those of its parts
				random := rand.New(rand.NewPCG(uint64(instances), 24))
				tests, surprising, lasting := 0, 0, 0
				for range runs {
					n := newNull(t, source, random)
					for range windows {
						d, ok := n.window(instances/2+random.IntN(instances), own)
						if !ok {
							continue // a choice never took one of its branches
						}
						tests++
						if d.Chance <= dq.RunChance {
							surprising++
						}
						if d.Lasting > 0 {
							lasting++
						}
					}
				}
				if tests < runs*windows/2 {
					t.Fatalf("%d windows", tests)
				}
				if surprising > tests/100 || lasting > 0 {
					t.Errorf("of %d windows, %d diverge beyond chance and %d are lasting", tests, surprising, lasting)
				}
			})
		}
	}
}

// A null is a system without any dependence to detect.
type null struct {
	t          *testing.T
	random     *rand.Rand
	file       *diagram.File
	program    *diagram.Program
	grid       dq.Grid
	comparison *dq.Comparison
	mean       map[string]float64 // the mean delay of each outcome, in bins
	failure    map[string]float64
	drawn      map[string][]instance // since the start of the window
}

type instance struct {
	delay time.Duration
	ok    bool
}

func newNull(t *testing.T, source string, random *rand.Rand) *null {
	t.Helper()
	file, err := diagram.Parse(source)
	if err != nil {
		t.Fatal(err)
	}
	program, err := diagram.Compile(file)
	if err != nil {
		t.Fatal(err)
	}
	grid, err := dq.NewGrid(time.Millisecond, 400)
	if err != nil {
		t.Fatal(err)
	}
	c, err := dq.NewComparison(grid, grid.DMax(), 30)
	if err != nil {
		t.Fatal(err)
	}
	n := &null{t: t, random: random, file: file, program: program, grid: grid, comparison: c, mean: map[string]float64{}, failure: map[string]float64{}}
	for _, name := range file.Outcomes() {
		n.mean[name], n.failure[name] = 20+40*random.Float64(), 0.2*random.Float64()
	}
	return n
}

// draw returns the delay of an instance of an outcome. It returns false if the instance fails.
func (n *null) draw(name string) (time.Duration, bool) {
	d := time.Duration(n.random.ExpFloat64() * n.mean[name] * float64(time.Millisecond))
	ok := n.random.Float64() >= n.failure[name]
	n.drawn[name] = append(n.drawn[name], instance{d, ok})
	return d, ok
}

// window compares a window with the given number of instances of the whole and of each outcome.
// If own is false, the instances of the outcomes are the ones that the whole consists of;
// otherwise they are drawn separately.
func (n *null) window(instances int, own bool) (dq.Divergence, bool) {
	n.t.Helper()
	whole := n.file.Definitions[0].Expr
	n.drawn = make(map[string][]instance)
	observed := n.sample(instances, func() (time.Duration, bool) { return n.whole(whole) })
	if own {
		n.drawn = make(map[string][]instance)
		for _, name := range n.file.Outcomes() {
			for range instances {
				n.draw(name)
			}
		}
	}
	leaves, sizes := make(map[string]*dq.DeltaQ), make(map[string]uint64)
	for _, name := range n.file.Outcomes() {
		all := n.drawn[name]
		if len(all) == 0 {
			return dq.Divergence{}, false
		}
		sizes[name] = uint64(len(all))
		leaves[name] = n.sample(len(all), func() (time.Duration, bool) {
			i := all[0]
			all = all[1:]
			return i.delay, i.ok
		})
	}
	if err := n.program.Evaluate(func(name string) *dq.DeltaQ { return leaves[name] }); err != nil {
		n.t.Fatal(err)
	}
	calculated, ok := n.program.Value("p")
	if !ok {
		n.t.Fatal("nothing is calculated")
	}
	var s dq.Sampling
	for _, u := range n.program.Uses("p") {
		s.Add(u.Weight, u.Times, sizes[u.Outcome])
	}
	if err := n.comparison.Insert(observed, uint64(instances), calculated, s); err != nil {
		n.t.Fatal(err)
	}
	d, _, err := n.comparison.Diverge()
	if err != nil {
		n.t.Fatal(err)
	}
	return d, true
}

// whole draws an instance of an expression. It follows the meaning of the expression and does not
// use the algebra.
func (n *null) whole(e diagram.Expr) (time.Duration, bool) {
	switch e := e.(type) {
	case *diagram.Outcome:
		return n.draw(e.Name)
	case *diagram.Sequence:
		var sum time.Duration
		all := true
		for _, p := range e.Parts {
			d, ok := n.whole(p)
			sum, all = sum+d, all && ok
		}
		return sum, all
	case *diagram.Operator:
		if e.Kind == diagram.Choice {
			at := n.random.Float64()
			for i, w := range e.Weights {
				if at -= w; at < 0 || i == len(e.Weights)-1 {
					return n.whole(e.Parts[i])
				}
			}
		}
		slowest, fastest, all, one := time.Duration(0), time.Hour, true, false
		for _, p := range e.Parts {
			d, ok := n.whole(p)
			slowest, all = max(slowest, d), all && ok
			if ok {
				fastest, one = min(fastest, d), true
			}
		}
		if e.Kind == diagram.FirstToFinish {
			return fastest, one
		}
		return slowest, all
	}
	n.t.Fatalf("%T", e)
	return 0, false
}

// sample returns a ΔQ of the given number of instances.
func (n *null) sample(instances int, draw func() (time.Duration, bool)) *dq.DeltaQ {
	n.t.Helper()
	counts, failures := make([]uint64, n.grid.Bins()), uint64(0)
	for range instances {
		d, ok := draw()
		if bin := int(d / n.grid.Width()); ok && bin < len(counts) {
			counts[bin]++
		} else {
			failures++
		}
	}
	o, err := dq.FromCounts(n.grid, counts, failures, 0)
	if err != nil {
		n.t.Fatal(err)
	}
	d, err := o.DeltaQ()
	if err != nil {
		n.t.Fatal(err)
	}
	return d
}
