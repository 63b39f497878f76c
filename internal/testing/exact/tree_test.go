package exact_test

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/testing/exact"
)

// distributions are three forms of one distribution: the exact one, and those with the earliest and
// the latest delays that the bins of its leaves allow.
type distributions struct{ early, exact, late exact.Dist }

func all(d exact.Dist) distributions { return distributions{d, d, d} }

func (d distributions) each(f func(exact.Dist) exact.Dist) distributions {
	return distributions{f(d.early), f(d.exact), f(d.late)}
}

func fold(parts []*node, f func(x, y exact.Dist) exact.Dist) distributions {
	out := parts[0].value
	for _, p := range parts[1:] {
		out = distributions{f(out.early, p.value.early), f(out.exact, p.value.exact), f(out.late, p.value.late)}
	}
	return out
}

// A node is part of a random diagram, as text and as its exact value.
type node struct {
	text  string // as a component
	name  string // of an operator or a definition
	value distributions
	depth int
	uses  int // number of leaves, with repetition

	spread bool // the positions of delays within their bins are unknown

	// slack is how far the bounds may lie beyond the early and the late value.
	slack float64
}

// A leaf is an outcome of a random diagram, both as a ΔQ of package dq and as exact distributions.
type leaf struct {
	node
	model *dq.DeltaQ
}

// A forest makes random diagrams.
type forest struct {
	t      testing.TB
	random *rand.Rand
	tick   time.Duration
	widths []int // widths of bins, in ticks

	leaves      map[string]*dq.DeltaQ
	operators   []*node
	named       int
	definitions []string
}

func newForest(t testing.TB, seed uint64, tick time.Duration, widths ...int) *forest {
	return &forest{t: t, random: rand.New(rand.NewPCG(seed, 31)), tick: tick, widths: widths, leaves: map[string]*dq.DeltaQ{}}
}

const (
	mostUses  = 24  // limit on the leaves of a diagram, counted once for each attempt
	mostTicks = 160 // limit on the ticks of the slowest success
)

// draw draws a diagram of this depth, or a less deep one if that would grow too large.
func (f *forest) draw(depth int) *node {
	if depth == 0 {
		return &f.leaf().node
	}
	parts := []*node{f.draw(depth - 1)}
	kind := "->afptro"[f.random.IntN(8):][:1]
	if strings.Contains("->afp", kind) {
		for range 1 + f.random.IntN(2) {
			if f.random.IntN(8) == 0 && !parts[0].inline() {
				parts = append(parts, parts[0]) // used twice
			} else {
				parts = append(parts, f.draw(f.random.IntN(min(3, depth))))
			}
		}
	}
	f.random.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	n := f.compose(kind, parts)
	if n.uses > mostUses || n.value.late.Len() > mostTicks {
		return parts[0]
	}
	f.operators = append(f.operators, n)
	if sequence := !n.inline(); sequence || f.random.IntN(2) == 0 {
		f.definitions = append(f.definitions, n.name+" = "+n.text+";")
		n.text = "s:" + n.name
	}
	return n
}

// inline reports whether a node is an operator without a definition of its own.
func (n *node) inline() bool { return len(n.text) > 1 && n.text[1] == ':' && n.text[0] != 's' }

// compose combines components by an operator of the language, or into a sequence if the kind is -
// or >.
func (f *forest) compose(kind string, parts []*node) *node {
	f.named++
	name := fmt.Sprintf("n%d", f.named)
	n := &node{name: name}
	for _, p := range parts {
		n.depth = max(n.depth, p.depth+1)
		n.uses += p.uses
		n.slack += p.slack
		n.spread = n.spread || p.spread
	}
	after, attempts := 1+f.random.IntN(12), 1+f.random.IntN(3)
	switch kind {
	case "-", ">":
		n.value = fold(parts, exact.Sequence)
		n.slack += sequenceSlack(parts)
		n.text = texts(parts, " -> ")
	case "a":
		n.value = fold(parts, exact.All)
		n.text = fmt.Sprintf("a:%s(%s)", name, texts(parts, ", "))
	case "f":
		n.value = fold(parts, exact.First)
		n.text = fmt.Sprintf("f:%s(%s)", name, texts(parts, ", "))
	case "p":
		weights, written := f.weights(len(parts))
		n.value = distributions{choose(weights, parts, early), choose(weights, parts, itself), choose(weights, parts, late)}
		n.text = fmt.Sprintf("p:%s[%s](%s)", name, written, texts(parts, ", "))
	case "t":
		n.value = parts[0].value.each(func(d exact.Dist) exact.Dist { return d.Timeout(after) })
		n.text = fmt.Sprintf("t:%s[%v](%s)", name, f.time(after), texts(parts, ", "))
	case "r":
		n.value = parts[0].value.each(func(d exact.Dist) exact.Dist { return d.Retry(after, attempts) })
		n.text = fmt.Sprintf("r:%s[%d, %v](%s)", name, attempts, f.time(after), texts(parts, ", "))
		n.repeat(attempts)
	case "o":
		n.value = parts[0].value.each(func(d exact.Dist) exact.Dist { return d.Overlap(after, attempts) })
		n.text = fmt.Sprintf("o:%s[%d, %v](%s)", name, attempts, f.time(after), texts(parts, ", "))
		n.repeat(attempts)
	}
	n.slack += 8 * ulp * float64(len(parts))
	return n
}

func (n *node) repeat(attempts int) {
	n.uses *= attempts
	n.slack = float64(attempts) * (n.slack + 8*ulp)
}

func texts(parts []*node, separator string) string {
	var all []string
	for _, p := range parts {
		all = append(all, p.text)
	}
	return strings.Join(all, separator)
}

func (f *forest) time(ticks int) time.Duration { return time.Duration(ticks) * f.tick }

func early(d distributions) exact.Dist  { return d.early }
func itself(d distributions) exact.Dist { return d.exact }
func late(d distributions) exact.Dist   { return d.late }

func choose(weights []*big.Rat, parts []*node, of func(distributions) exact.Dist) exact.Dist {
	var xs []exact.Dist
	for _, p := range parts {
		xs = append(xs, of(p.value))
	}
	return exact.Choice(weights, xs)
}

// weights draws the weights of a choice. Their sum is 1, or nearly 1.
func (f *forest) weights(n int) (weights []*big.Rat, written string) {
	left := 1.0
	var texts []string
	for i := range n {
		w := left
		if i < n-1 {
			w = left * (0.05 + 0.9*f.random.Float64())
		}
		left -= w
		texts = append(texts, fmt.Sprint(w))
		weights = append(weights, rational(w))
	}
	return weights, strings.Join(texts, ", ")
}

func rational(x float64) *big.Rat { return new(big.Rat).SetFloat64(x) }

// ulp is the unit in the last place of 1.
const ulp = 0x1p-52

// sequenceSlack returns twice the error that package dq documents for a convolution. For the direct
// method, that is half an ulp for each term and operation. For transforms, it is the error of
// Higham's theorem 24.2 in the 2-norm. A bound may be that far off in both directions.
func sequenceSlack(parts []*node) float64 {
	length, edges := 1, 8
	for _, p := range parts {
		edges += p.value.late.Len() + 8
		length += p.value.late.Len()
	}
	slack := 2 * ulp * float64(edges)
	if length > 40 { // the fast method may be cheaper
		stages := math.Ceil(math.Log2(float64(length))) + 1
		slack += float64(len(parts)+2) * 10 * ulp * stages * math.Sqrt(float64(length))
	}
	return slack
}

// leaf draws an outcome.
func (f *forest) leaf() *leaf {
	name := fmt.Sprintf("x%d", len(f.leaves))
	width := f.widths[f.random.IntN(len(f.widths))]
	l := &leaf{}
	switch f.random.IntN(10) {
	case 0:
		l.model, l.value = dq.Never(), all(exact.Never())
	case 1:
		l.model, l.value = dq.Immediate(), all(exact.At(0))
	case 2, 3, 4:
		l = f.counted(width, 1+f.random.IntN(6), f.random.IntN(3) == 0)
	default:
		l = f.steps(width, 1+f.random.IntN(5))
	}
	l.text, l.uses = name, 1
	f.leaves[name] = l.model
	return l
}

// counted returns an observed outcome. Only the bin of each of its instances is known.
func (f *forest) counted(width, bins int, sparse bool) *leaf {
	counts, failures := make([]uint64, bins), f.random.Uint64N(50)
	n := failures
	for k := range counts {
		if !sparse || f.random.IntN(3) > 0 {
			counts[k] = 1 + f.random.Uint64N(200)
		}
		n += counts[k]
	}
	if n == 0 {
		failures, n = 1, 1
	}
	earliest, exactly, latest := zeros(width*bins+1), zeros(width*bins+1), zeros(width*bins+1)
	for k, c := range counts {
		add(earliest, k*width, c, n)
		add(latest, (k+1)*width, c, n)
		add(exactly, k*width+f.random.IntN(width), c, n)
	}
	o, err := dq.FromCounts(f.grid(width, bins), counts, failures/2, failures-failures/2)
	if err != nil {
		f.t.Fatal(err)
	}
	d, err := o.DeltaQ()
	if err != nil {
		f.t.Fatal(err)
	}
	return &leaf{node{value: distributions{exact.New(earliest), exact.New(exactly), exact.New(latest)}, slack: ulp, spread: true}, d}
}

func zeros(n int) []*big.Rat {
	out := make([]*big.Rat, n)
	for i := range out {
		out[i] = new(big.Rat)
	}
	return out
}

func add(dst []*big.Rat, t int, count, n uint64) {
	dst[t].Add(dst[t], new(big.Rat).SetFrac(new(big.Int).SetUint64(count), new(big.Int).SetUint64(n)))
}

// steps returns a model with some delays. Some of them may have no mass, and some very little. The
// early and late forms are right only if all delays are on edges of bins of one width.
func (f *forest) steps(width, n int) *leaf {
	at := make([]int, n)
	for i := range at {
		at[i] = f.random.IntN(4*n + 1)
	}
	slices.Sort(at)
	at = slices.Compact(at)
	sums := make([]float64, len(at))
	for i := range sums {
		switch f.random.IntN(6) {
		case 0:
			sums[i] = float64(f.random.IntN(11)) / 10
		case 1:
			sums[i] = math.Ldexp(f.random.Float64(), -f.random.IntN(200))
		default:
			sums[i] = f.random.Float64()
		}
	}
	slices.Sort(sums)
	return f.stepsAt(width, at, sums)
}

func (f *forest) stepsAt(width int, at []int, sums []float64) *leaf {
	masses := zeros(at[len(at)-1] + 1)
	var steps []dq.Step
	before := new(big.Rat)
	for i, t := range at {
		steps = append(steps, dq.Step{T: f.time(t), P: sums[i]})
		masses[t].Sub(rational(sums[i]), before)
		before = rational(sums[i])
	}
	d, err := dq.Steps(f.grid(width, 1), steps)
	if err != nil {
		f.t.Fatal(err)
	}
	return &leaf{node{value: all(exact.New(masses))}, d}
}

func (f *forest) grid(width, bins int) dq.Grid {
	g, err := dq.NewGrid(f.time(width), bins)
	if err != nil {
		f.t.Fatal(err)
	}
	return g
}
