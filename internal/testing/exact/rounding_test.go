package exact_test

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// Sequences in which rounding matters: with many operands, with many bins, with masses so small
// that their products underflow, and with small masses next to far larger ones.
func TestSequencesAreExactExceptForRounding(t *testing.T) {
	for name, parts := range map[string]func(*forest) []*leaf{
		"60 of 3 delays": func(f *forest) []*leaf {
			return repeat(60, func() *leaf { return f.stepsAt(1, []int{0, 1, 2}, f.rising(3, 1)) })
		},
		"30 observed, most of them without failures": func(f *forest) []*leaf {
			return repeat(30, func() *leaf { return f.counted(1, 4, false) })
		},
		"two of 300 delays": func(f *forest) []*leaf {
			return repeat(2, func() *leaf { return f.dense(300) })
		},
		"two observed on 300 bins": func(f *forest) []*leaf {
			return repeat(2, func() *leaf { return f.counted(1, 300, false) })
		},
		"three of 130, observed or not": func(f *forest) []*leaf {
			return []*leaf{f.dense(130), f.counted(1, 130, false), f.counted(1, 131, true)}
		},
		"products underflow": func(f *forest) []*leaf {
			return repeat(3, func() *leaf { return f.stepsAt(1, []int{0, 1, 3}, f.rising(3, 0x1p-400)) })
		},
		"products are subnormal": func(f *forest) []*leaf {
			return repeat(2, func() *leaf { return f.stepsAt(1, []int{0, 1, 3, 4}, f.rising(4, 0x1p-530)) })
		},
		"small beside great": func(f *forest) []*leaf {
			return repeat(4, func() *leaf { return f.stepsAt(1, []int{0, 2, 3}, append(f.rising(2, 0x1p-60), 1)) })
		},
		"small beside great on 200 bins": func(f *forest) []*leaf {
			return repeat(2, func() *leaf {
				l := f.rising(200, 0x1p-70)
				return f.stepsAt(1, count(201), append(l, 1-0x1p-53))
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(5) {
				f := newForest(t, seed, time.Microsecond, 1)
				var nodes []*node
				for i, l := range parts(f) {
					l.text, l.uses = fmt.Sprintf("x%d", i), 1
					f.leaves[l.text] = l.model
					nodes = append(nodes, &l.node)
				}
				f.evaluate(f.compose("-", nodes), f.contains, f.tight)
			}
		})
	}
}

func repeat(n int, draw func() *leaf) []*leaf {
	var all []*leaf
	for range n {
		all = append(all, draw())
	}
	return all
}

// rising draws n rising probabilities of at most most, spread over the whole range.
func (f *forest) rising(n int, most float64) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = (float64(i) + f.random.Float64()) / float64(n) * most
	}
	return out
}

// dense returns a model of n delays of random masses, most of them of the order of 1/n.
func (f *forest) dense(n int) *leaf {
	sums, sum := make([]float64, n), 0.0
	for i := range sums {
		sum = math.Min(1, sum+f.random.ExpFloat64()/float64(n)*0.9)
		sums[i] = sum
	}
	return f.stepsAt(1, count(n), sums)
}

func count(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}
