package exact_test

import (
	"fmt"
	"math"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/beamscope/beamscope/diagram"
	"github.com/beamscope/beamscope/dq"
)

const depth = 6

// seeds returns the number of diagrams that a test draws.
func seeds() uint64 {
	if testing.Short() {
		return 300
	}
	return 1500
}

// For any diagram, the bounds contain the exact figures at each point in time. Delays and timeouts
// lie anywhere in bins of several widths.
func TestBoundsContainExact(t *testing.T) {
	for seed := range seeds() {
		f := newForest(t, seed, 500*time.Nanosecond, 2, 3, 4, 5)
		f.evaluate(f.draw(int(seed)%(depth+1)), f.contains)
		if t.Failed() {
			return
		}
	}
}

// If all delays are on edges, the bounds equal those of the earliest and the latest delays, except
// for the documented rounding: no bound is inflated.
func TestBoundsAreTight(t *testing.T) {
	deepest := 0
	for seed := range seeds() {
		f := newForest(t, seed, time.Microsecond, 1)
		root := f.draw(int(seed) % (depth + 1))
		deepest = max(deepest, root.depth)
		f.evaluate(root, f.contains, f.tight)
		if t.Failed() {
			return
		}
	}
	if deepest < depth {
		t.Errorf("the deepest diagram has a depth of %d", deepest)
	}
}

// evaluate evaluates a drawn diagram with package diagram, and checks its operators.
func (f *forest) evaluate(root *node, checks ...func(n *node, d *dq.DeltaQ) error) {
	f.t.Helper()
	source := strings.Join(f.definitions, "\n") + "\nroot = " + root.text + ";"
	file, err := diagram.Parse(source)
	if err != nil {
		f.t.Fatalf("%v\n%s", err, source)
	}
	program, err := diagram.Compile(file)
	if err != nil {
		f.t.Fatalf("%v\n%s", err, source)
	}
	if err := program.Evaluate(func(name string) *dq.DeltaQ { return f.leaves[name] }); err != nil {
		f.t.Fatalf("%v\n%s", err, source)
	}
	nodes := append([]*node{{name: "root", value: root.value, slack: root.slack, spread: root.spread}}, f.operators...)
	for _, n := range nodes {
		d, ok := program.Value(n.name)
		if !ok {
			if n.name == "root" {
				f.t.Fatal("no root")
			}
			continue // draw has dropped the component that contained it, because that was too large
		}
		for _, check := range checks {
			if err := check(n, d); err != nil {
				f.t.Errorf("%s: %v\n%s", n.name, err, source)
				for name, x := range f.leaves {
					lo, hi := x.AppendBounds(nil, nil)
					f.t.Logf("%s: width %v, lo %v, hi %v", name, x.Width(), lo, hi)
				}
				return
			}
		}
	}
}

// quantiles are the probabilities whose quantiles are checked.
var quantiles = []float64{1e-300, 1e-9, 0.05, 0.1, 0.25, 0.5, 0.9, 0.99, 1 - 1e-9, 1}

// contains checks that the bounds of n contain the exact figures.
func (f *forest) contains(n *node, d *dq.DeltaQ) error {
	within := n.value.exact.Within(n.value.late.Len() + 12)
	var before dq.Bounds
	for t, share := range within {
		b, ok := d.ProbabilityWithin(f.time(t))
		if !ok || share.Cmp(b.Lo) < 0 || share.Cmp(b.Hi) > 0 {
			return fmt.Errorf("within %v: %v does not contain %v: off by %g and %g", f.time(t), b, share.Float64(), share.Minus(b.Lo), share.Minus(b.Hi))
		}
		if b.Lo < before.Lo || b.Hi < before.Hi || b.Lo > b.Hi || b.Lo < 0 || b.Hi > 1 {
			return fmt.Errorf("within %v: %v after %v", f.time(t), b, before)
		}
		before = b
	}
	success, ok := d.Success()
	if share := n.value.exact.Success(); !ok || share.Cmp(success.Lo) < 0 || share.Cmp(success.Hi) > 0 {
		return fmt.Errorf("success: %v does not contain %v", success, share.Float64())
	}
	failure, ok := d.IntangibleMass()
	if share := n.value.exact.Failure(); !ok || share.Cmp(failure.Lo) < 0 || share.Cmp(failure.Hi) > 0 {
		return fmt.Errorf("failure: %v does not contain %v", failure, share.Float64())
	}
	for _, p := range quantiles {
		if err := f.containsQuantile(n, d, p); err != nil {
			return err
		}
	}
	return f.containsMean(n, d)
}

// atTie returns the least probability that counts as p according to package dq.
func atTie(p float64) float64 { return p - min(1e-12, p/2) }

func (f *forest) containsQuantile(n *node, d *dq.DeltaQ, p float64) error {
	v, ok := d.Quantile(p)
	earliest, reachedAtTie := n.value.exact.Quantile(atTie(p))
	exactly, reached := n.value.exact.Quantile(p)
	switch {
	case !ok && reached:
		return fmt.Errorf("quantile %v: never, want %v", p, f.time(exactly))
	case ok && reached && v.Lo > f.time(exactly):
		return fmt.Errorf("quantile %v: %v, want %v", p, v, f.time(exactly))
	case ok && reachedAtTie && v.Hi < f.time(earliest), ok && !reachedAtTie && v.Finite():
		return fmt.Errorf("quantile %v: %v, want at least %v", p, v, f.time(earliest))
	}
	return nil
}

func (f *forest) containsMean(n *node, d *dq.DeltaQ) error {
	m, ok := d.Moments()
	mean, some := n.value.exact.Mean()
	if !some {
		return nil
	}
	mean.Mul(mean, new(big.Rat).SetInt64(int64(f.tick)))
	if !ok || rational(m.Mean.Lo).Cmp(mean) > 0 || !math.IsInf(m.Mean.Hi, 1) && rational(m.Mean.Hi).Cmp(mean) < 0 {
		return fmt.Errorf("mean: %v ns does not contain %v", m.Mean, mean.FloatString(9))
	}
	return nil
}

// tight checks that the bounds of n equal the values of the earliest and of the latest delays
// within the slack of n. Bins are one tick wide.
func (f *forest) tight(n *node, d *dq.DeltaQ) error {
	length := n.value.late.Len() + 12
	early, late := n.value.early.Within(length), n.value.late.Within(length)
	for t := range length {
		b, _ := d.ProbabilityWithin(f.time(t))
		if late[t].Cmp(b.Lo) < 0 || early[t].Cmp(b.Hi) > 0 {
			return fmt.Errorf("within %v: %v is less than %v to %v", f.time(t), b, late[t].Float64(), early[t].Float64())
		}
		if under, over := late[t].Minus(b.Lo), -early[t].Minus(b.Hi); under > n.slack || over > n.slack {
			return fmt.Errorf("within %v: %v is too wide by %g and %g, want up to %g", f.time(t), b, under, over, n.slack)
		}
	}
	return f.tightMean(n, d)
}

// tightMean checks that the bounds of a mean of exact delays differ only by rounding.
func (f *forest) tightMean(n *node, d *dq.DeltaQ) error {
	m, ok := d.Moments()
	if !ok || n.spread || n.value.exact.Len() == 0 {
		return nil
	}
	success := n.value.late.Success().Float64()
	bins := float64(n.value.late.Len())
	if want := float64(f.tick) * bins * (2*n.slack/success + 8*ulp); m.Mean.Width() > want {
		return fmt.Errorf("mean: %v is %g wide, want up to %g", m.Mean, m.Mean.Width(), want)
	}
	return nil
}
