package diagram

import (
	"strconv"
	"strings"
	"time"

	"github.com/beamscope/beamscope/dq"
)

// A Pos is a place in the source: its line, and its column in characters, both counted from 1. The
// zero Pos is no place.
type Pos struct{ Line, Column int }

func (p Pos) before(q Pos) bool {
	return p.Line < q.Line || p.Line == q.Line && p.Column < q.Column
}

// A Comment is a comment of the source with its delimiters.
type Comment struct {
	Pos  Pos
	Text string
}

func (c Comment) lastLine() int { return c.Pos.Line + strings.Count(c.Text, "\n") }

// A File is a parsed source.
type File struct {
	Definitions []*Definition
	Comments    []Comment // the comments after the last definition

	source string
}

// Lookup returns the definition of a name, or nil.
func (f *File) Lookup(name string) *Definition {
	for _, d := range f.Definitions {
		if d.Name == name {
			return d
		}
	}
	return nil
}

// A Definition gives a name to an expression.
type Definition struct {
	Name     string
	Pos      Pos
	End      Pos // end of the last token, the semicolon if there is one
	Expr     Expr
	Comments []Comment // before it, and inside it
	Trailing []Comment // the comments after it, on its last line
}

// An Expr is an [*Outcome], a [*Reuse], a [*Sequence] or an [*Operator].
type Expr interface{ expr() }

// An Outcome is a leaf: something that is observed, or given a model.
type Outcome struct {
	Name string
	Pos  Pos
}

// A Reuse stands for the diagram defined under a name.
type Reuse struct {
	Name string
	Pos  Pos // the position of the name
}

// A Sequence has two or more components. Each component causes the next one.
type Sequence struct{ Parts []Expr }

// An Operator combines two or more components that start together, or applies a timeout or
// retries to a single component.
type Operator struct {
	Kind     Kind
	Name     string
	Pos      Pos           // the position of the letter before the name
	Weights  []float64     // one for each part of a Choice
	Attempts int           // for a Retry or an Overlap
	After    time.Duration // for a Timeout, a Retry or an Overlap: see the operators of package dq
	Parts    []Expr
}

// single reports whether the operator has exactly one component.
func (k Kind) single() bool { return k == Timeout || k == Retry || k == Overlap }

// Label returns the kind, name and parameters of an operator, such as t:name[20ms]. It omits the
// components, and the probabilities of a choice.
func (o *Operator) Label() string {
	label := string(o.Kind) + ":" + o.Name
	switch o.Kind {
	case Timeout:
		label += "[" + dq.FormatDelay(o.After) + "]"
	case Retry, Overlap:
		label += "[" + strconv.Itoa(o.Attempts) + ", " + dq.FormatDelay(o.After) + "]"
	}
	return label
}

// A Kind is a kind of operator: the letter before its name.
type Kind byte

// The kinds of operators.
const (
	AllToFinish   Kind = 'a'
	FirstToFinish Kind = 'f'
	Choice        Kind = 'p'
	Timeout       Kind = 't'
	Retry         Kind = 'r'
	Overlap       Kind = 'o'
)

// String returns the kind in words.
func (k Kind) String() string {
	switch k {
	case AllToFinish:
		return "all to finish"
	case FirstToFinish:
		return "first to finish"
	case Choice:
		return "probabilistic choice"
	case Timeout:
		return "timeout"
	case Retry:
		return "retry"
	case Overlap:
		return "overlapping retry"
	}
	return "unknown operator"
}

func (*Outcome) expr()  {}
func (*Reuse) expr()    {}
func (*Sequence) expr() {}
func (*Operator) expr() {}

// parts returns the components of an expression.
func parts(e Expr) []Expr {
	switch e := e.(type) {
	case *Sequence:
		return e.Parts
	case *Operator:
		return e.Parts
	}
	return nil
}

// walk calls f for e and for every expression inside it, outer expressions first.
func walk(e Expr, f func(Expr)) {
	f(e)
	for _, p := range parts(e) {
		walk(p, f)
	}
}

// Outcomes returns the names of the outcomes in a file, each once, in order of first appearance.
func (f *File) Outcomes() []string {
	var names []string
	seen := map[string]bool{}
	for _, d := range f.Definitions {
		walk(d.Expr, func(e Expr) {
			if o, ok := e.(*Outcome); ok && !seen[o.Name] {
				seen[o.Name] = true
				names = append(names, o.Name)
			}
		})
	}
	return names
}
