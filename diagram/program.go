package diagram

import (
	"errors"
	"fmt"

	"github.com/beamscope/beamscope/dq"
)

// ErrUnknown is a name that a file uses and does not define: only in one that was
// not made by [Parse].
var ErrUnknown = errors.New("unknown diagram")

// ErrSize is a file with more than [MaxSteps] steps.
var ErrSize = errors.New("diagram too large")

// MaxSteps is how many outcomes, operators and sequences a program can have. Each
// keeps its ΔQ, which is up to 1 MiB: a chain of definitions that double in
// length would otherwise take whatever memory there is.
const MaxSteps = 4096

// A Program evaluates a file: from the ΔQ of its outcomes it calculates that of
// each operator and each definition. What is used twice is calculated once. It
// can be used again and again, and then allocates nothing. It is not safe for use
// by several goroutines at once.
type Program struct {
	calculator dq.Calculator
	nodes      []node
	byName     map[string]int // definitions, operators, outcomes
	names      []string       // definitions and operators, in order
	unknown    *dq.DeltaQ     // in place of what is missing
}

// A node is one step of a program, after all the steps it needs.
type node struct {
	label   string
	expr    Expr
	args    []int
	inputs  []*dq.DeltaQ
	own     dq.DeltaQ  // the result of an operator or a sequence
	value   *dq.DeltaQ // own, or what an outcome was given
	outcome bool
}

// Compile makes a program of a file. It returns [ErrUnknown] for a name that the
// file does not define or defines through itself, which no file by [Parse] has,
// and [ErrSize].
func Compile(f *File) (*Program, error) {
	c := compiler{p: &Program{byName: map[string]int{}, unknown: dq.Unknown()}, definitions: map[string]*Definition{}, defs: map[string]int{}, open: map[string]bool{}}
	for _, d := range f.Definitions {
		c.definitions[d.Name] = d
	}
	for _, d := range f.Definitions {
		if _, err := c.definition(d.Name); err != nil {
			return nil, err
		}
	}
	if n := len(c.p.nodes); n > MaxSteps {
		return nil, fmt.Errorf("%w: %d outcomes, operators and sequences: at most %d", ErrSize, n, MaxSteps)
	}
	for _, d := range f.Definitions {
		c.p.byName[d.Name] = c.defs[d.Name]
		c.p.names = append(c.p.names, d.Name)
		walk(d.Expr, func(e Expr) {
			if op, ok := e.(*Operator); ok && op.Name != d.Name {
				c.p.names = append(c.p.names, op.Name)
			}
		})
	}
	return c.p, nil
}

type compiler struct {
	p           *Program
	definitions map[string]*Definition
	defs        map[string]int  // the steps of those that are done
	open        map[string]bool // those under way
}

func (c *compiler) definition(name string) (int, error) {
	if i, ok := c.defs[name]; ok {
		return i, nil
	}
	d := c.definitions[name]
	if d == nil || c.open[name] {
		return 0, fmt.Errorf("%w: s:%s", ErrUnknown, name)
	}
	c.open[name] = true
	i, err := c.expr(d.Expr, name)
	if err != nil {
		return 0, err
	}
	c.defs[name] = i
	return i, nil
}

// expr adds the steps for an expression and returns the last.
func (c *compiler) expr(e Expr, label string) (int, error) {
	switch e := e.(type) {
	case *Reuse:
		return c.definition(e.Name)
	case *Outcome:
		return c.outcome(e), nil
	case *Operator:
		label = e.Name
	}
	n := node{label: label, expr: e}
	for _, part := range parts(e) {
		i, err := c.expr(part, label)
		if err != nil {
			return 0, err
		}
		n.args = append(n.args, i)
	}
	n.inputs = make([]*dq.DeltaQ, len(n.args))
	c.p.nodes = append(c.p.nodes, n)
	i := len(c.p.nodes) - 1
	if op, ok := e.(*Operator); ok {
		c.p.byName[op.Name] = i
	}
	return i, nil
}

func (c *compiler) outcome(e *Outcome) int {
	if i, ok := c.p.byName[e.Name]; ok && c.p.nodes[i].outcome {
		return i
	}
	c.p.nodes = append(c.p.nodes, node{label: e.Name, outcome: true})
	c.p.byName[e.Name] = len(c.p.nodes) - 1
	return len(c.p.nodes) - 1
}

// Names are the names of definitions and operators, in the order of the source,
// each definition before its operators.
func (p *Program) Names() []string { return append([]string(nil), p.names...) }

// Evaluate calculates everything. outcome gives the ΔQ of an outcome; where it is
// nil or empty, there is no data for it, nor for what needs it, and the rest is
// calculated all the same. Only a choice does without some of its components: one
// without data may be anything, so the bounds are wider by its probability; a choice of
// which no component has data has none. On an error, which says where it happened, the values
// are those of no one evaluation.
func (p *Program) Evaluate(outcome func(name string) *dq.DeltaQ) error {
	for i := range p.nodes {
		n := &p.nodes[i]
		if n.outcome {
			n.value = outcome(n.label)
			continue
		}
		if err := p.step(n); err != nil {
			return fmt.Errorf("%s: %w", n.label, err)
		}
	}
	return nil
}

func (p *Program) step(n *node) error {
	n.value = &n.own
	op, ok := n.expr.(*Operator)
	missing := 0
	for i, a := range n.args {
		n.inputs[i] = p.nodes[a].value
		if n.inputs[i].Empty() {
			n.inputs[i] = p.unknown
			missing++
		}
	}
	choice := ok && op.Kind == Choice
	if missing == len(n.args) || missing > 0 && !choice {
		n.own.Clear()
		return nil
	}
	if !ok {
		return p.calculator.Sequential(&n.own, n.inputs...)
	}
	switch op.Kind {
	case AllToFinish:
		return p.calculator.AllToFinish(&n.own, n.inputs...)
	case FirstToFinish:
		return p.calculator.FirstToFinish(&n.own, n.inputs...)
	case Timeout:
		return p.calculator.Timeout(&n.own, n.inputs[0], op.After)
	case Retry:
		return p.calculator.Retry(&n.own, n.inputs[0], op.After, op.Attempts)
	case Overlap:
		return p.calculator.RetryOverlap(&n.own, n.inputs[0], op.After, op.Attempts)
	}
	return p.calculator.Choice(&n.own, op.Weights, n.inputs...)
}

// Value is the ΔQ of a definition, an operator or an outcome at the last
// evaluation. It is empty where there was no data, belongs to the program and
// holds until the next evaluation. It is false for an unknown name.
func (p *Program) Value(name string) (*dq.DeltaQ, bool) {
	i, ok := p.byName[name]
	if !ok {
		return nil, false
	}
	n := &p.nodes[i]
	switch {
	case !n.outcome:
		return &n.own, true
	case n.value == nil:
		return new(dq.DeltaQ), true
	}
	return n.value, true
}

// Share is the greatest probability with which an outcome takes part in a definition or
// an operator: the product of the probabilities of the choices on the way to it, and 1
// where there are none. It is 0 where the outcome takes no part.
func (p *Program) Share(name, outcome string) float64 {
	root, ok := p.byName[name]
	leaf, known := p.byName[outcome]
	if !ok || !known {
		return 0
	}
	shares := make([]float64, len(p.nodes))
	shares[root] = 1
	for i := root; i >= 0; i-- { // arguments come before what needs them
		op, _ := p.nodes[i].expr.(*Operator)
		for j, a := range p.nodes[i].args {
			share := shares[i]
			if op != nil && op.Kind == Choice {
				share = float64(share * op.Weights[j])
			}
			shares[a] = max(shares[a], share)
		}
	}
	return shares[leaf]
}

// A Use says how something is calculated from an outcome.
type Use struct {
	Outcome string

	// Weight is by how much the calculated ΔQ moves at most where that of the outcome
	// moves, each by the largest vertical distance of the distribution functions: 1 for
	// each time that it is used, times the probabilities of the choices above.
	Weight float64

	Times float64 // that it is used, regardless of choices
}

// Uses returns how a definition or an operator is calculated from each outcome behind
// it. It is nil for an unknown name.
func (p *Program) Uses(name string) []Use {
	root, ok := p.byName[name]
	if !ok {
		return nil
	}
	weights, times := make([]float64, len(p.nodes)), make([]float64, len(p.nodes))
	weights[root], times[root] = 1, 1
	var uses []Use
	for i := root; i >= 0; i-- { // what a node is calculated from comes before it
		n := &p.nodes[i]
		if n.outcome && times[i] > 0 {
			uses = append(uses, Use{n.label, weights[i], times[i]})
		}
		for k, arg := range n.args {
			share, often := n.use(k)
			weights[arg] += float64(weights[i] * share)
			times[arg] += float64(times[i] * often)
		}
	}
	return uses
}

// use returns by how much the value of a node moves where that of an argument does, and
// how often the argument is used.
func (n *node) use(argument int) (weight, times float64) {
	op, ok := n.expr.(*Operator)
	switch {
	case ok && op.Kind == Choice:
		return op.Weights[argument], 1
	case ok && op.Attempts > 0: // each attempt moves the whole by as much as the first, at most
		return float64(op.Attempts), float64(op.Attempts)
	}
	return 1, 1
}

// Behind are the names of the outcomes that a definition or an operator is
// calculated from, each once. It is nil for an unknown name.
func (p *Program) Behind(name string) []string {
	i, ok := p.byName[name]
	if !ok {
		return nil
	}
	var names []string
	seen := make([]bool, len(p.nodes))
	var visit func(i int)
	visit = func(i int) {
		if seen[i] {
			return
		}
		seen[i] = true
		if p.nodes[i].outcome {
			names = append(names, p.nodes[i].label)
		}
		for _, a := range p.nodes[i].args {
			visit(a)
		}
	}
	visit(i)
	return names
}
