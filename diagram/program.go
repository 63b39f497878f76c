package diagram

import (
	"errors"
	"fmt"

	"github.com/beamscope/beamscope/dq"
)

// ErrUnknown means that a file uses a name that it does not define. Files returned by [Parse]
// never cause this error.
var ErrUnknown = errors.New("unknown diagram")

// ErrSize means that a file has more than [MaxSteps] steps.
var ErrSize = errors.New("diagram too large")

// MaxSteps is the largest number of outcomes, operators and sequences in a program. Each keeps its
// ΔQ, which is up to 1 MiB: without a limit, a chain of definitions that double in length would use
// all memory.
const MaxSteps = 4096

// A Program evaluates a file: from the ΔQs of its outcomes it calculates those of all operators and
// definitions, each once even if it is used twice. After the first evaluation it allocates nothing.
// It is not safe for use by several goroutines at once.
type Program struct {
	calculator dq.Calculator
	nodes      []node
	byName     map[string]int // the nodes of definitions, operators and outcomes
	names      []string       // definitions and operators, in order
	unknown    *dq.DeltaQ     // replaces missing components of a choice
}

// A node is one step of a program. It comes after all the steps that it needs.
type node struct {
	label   string
	expr    Expr
	args    []int
	inputs  []*dq.DeltaQ
	own     dq.DeltaQ  // the result of an operator or a sequence
	value   *dq.DeltaQ // own, or the ΔQ of an outcome
	outcome bool
}

// Compile makes a program from a file. It returns [ErrUnknown] if a name is not defined or is
// defined in terms of itself, which never happens in files returned by [Parse]. It returns
// [ErrSize] if the program would be too large.
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
	defs        map[string]int  // the steps of completed definitions
	open        map[string]bool // definitions in progress
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

// expr adds the steps for an expression and returns the index of the last one.
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

// Names returns the names of definitions and operators, in source order. Each definition comes
// before its operators.
func (p *Program) Names() []string { return append([]string(nil), p.names...) }

// Evaluate calculates everything. outcome returns the ΔQ of an outcome; if that is nil or empty,
// the outcome has no data. Then everything that needs the outcome has no data, and the rest is
// calculated. Only a choice tolerates components without data: such a component may be anything, so
// the bounds are wider by its probability. A choice has no data if none of its components has data.
// An error says where it happened; after it, values may come from different evaluations.
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

// Value returns the ΔQ of a definition, an operator or an outcome at the last evaluation. It is
// empty without data. It belongs to the program and is valid until the next evaluation. Value
// returns false for an unknown name.
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

// Share returns the largest probability with which an outcome takes part in a definition or an
// operator: the product of the probabilities of the choices on the way to it, and 1 without
// choices. It is 0 if the outcome takes no part.
func (p *Program) Share(name, outcome string) float64 {
	root, ok := p.byName[name]
	leaf, known := p.byName[outcome]
	if !ok || !known {
		return 0
	}
	shares := make([]float64, len(p.nodes))
	shares[root] = 1
	for i := root; i >= 0; i-- { // arguments come before the nodes that need them
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

// A Use describes how a calculation uses an outcome.
type Use struct {
	Outcome string

	// Weight is the largest ratio of a movement of the calculated ΔQ to the movement of the
	// outcome's ΔQ that causes it, by the largest vertical distance of the distribution functions:
	// 1 for each use, times the probabilities of the choices above.
	Weight float64

	Times float64 // how often it is used, regardless of choices
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
	for i := root; i >= 0; i-- { // arguments come before the nodes that need them
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

// use returns how far the value of a node moves, relative to the movement of an argument, and how
// often the node uses the argument.
func (n *node) use(argument int) (weight, times float64) {
	op, ok := n.expr.(*Operator)
	switch {
	case ok && op.Kind == Choice:
		return op.Weights[argument], 1
	case ok && op.Attempts > 0: // each attempt moves the result by at most as much as the first one
		return float64(op.Attempts), float64(op.Attempts)
	}
	return 1, 1
}

// Behind returns the names of the outcomes that a definition or an operator is calculated from,
// each once. It returns nil for an unknown name.
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
