package eval

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/beamscope/beamscope/diagram"
	"github.com/beamscope/beamscope/dq"
	"github.com/beamscope/beamscope/internal/engine/figures"
)

// A Pair names two of the definitions, operators or outcomes of a diagram. The zero Pair
// names none.
type Pair struct{ First, Second string }

// ParsePair parses two names separated by a comma.
func ParsePair(text string) (Pair, error) {
	first, second, ok := strings.Cut(text, ",")
	p := Pair{strings.TrimSpace(first), strings.TrimSpace(second)}
	if !ok || p.First == "" || p.Second == "" || strings.Contains(p.Second, ",") {
		return Pair{}, fmt.Errorf("%w: %q: want two names, such as front,back", ErrQuestion, text)
	}
	return p, nil
}

// A Comparison is the relation of two ΔQs in their partial order, see [dq.Compare].
type Comparison struct {
	First  string `json:"first"`
	Second string `json:"second"`
	Order  string `json:"order"` // less, greater, equal, incomparable or cannot tell; less is better

	order dq.Order
}

// A Residual is what remains of a whole without a part of its sequence, see [dq.Deconvolve].
type Residual struct {
	Whole string `json:"whole"`
	Part  string `json:"part"`

	// Impossible is the reason why there is no residual. Then the other fields are absent.
	Impossible string `json:"impossible,omitempty"`

	Bounds   *Probe   `json:"bounds,omitempty"`   // contain every residual
	Estimate *Probe   `json:"estimate,omitempty"` // the residual that reproduces the whole best
	Error    *float64 `json:"error,omitempty"`    // the largest distance between the whole and the estimate combined with the part
}

// A Budget is what the requirement leaves for the other parts of a sequence, see [dq.BudgetFor].
type Budget struct {
	Part string `json:"part"`

	// Impossible is the reason why nothing is left, and Undecided the reason why the bounds do
	// not show whether anything is left. If one of them is set, Left is nil.
	Impossible string `json:"impossible,omitempty"`
	Undecided  string `json:"undecided,omitempty"`

	*Left

	part *dq.DeltaQ
}

// Left is the content of a [Budget] that leaves something.
type Left struct {
	Delay   *float64 `json:"delay_s"` // null if any delay is allowed
	Failure float64  `json:"failure"` // the largest probability
	Floor   []Within `json:"floor"`

	budget dq.Budget
}

// further answers the further questions: the comparison, the residual and the budget.
func (q Question) further(r *Report, p *diagram.Program) error {
	var zero Pair
	if q.Compare != zero {
		x, y, err := values(p, q.Compare)
		if err != nil {
			return err
		}
		order := dq.Compare(x, y)
		r.Comparison = &Comparison{q.Compare.First, q.Compare.Second, order.String(), order}
	}
	if q.Residual != zero {
		if err := q.residual(r, p); err != nil {
			return err
		}
	}
	if q.Budget == "" {
		return nil
	}
	if q.QTA == nil {
		return fmt.Errorf("%w: a budget needs a requirement", ErrQuestion)
	}
	part, err := value(p, q.Budget)
	if err != nil {
		return err
	}
	r.Budget, err = budget(*q.QTA, q.Budget, part)
	return err
}

func values(p *diagram.Program, pair Pair) (x, y *dq.DeltaQ, err error) {
	if x, err = value(p, pair.First); err != nil {
		return nil, nil, err
	}
	y, err = value(p, pair.Second)
	return x, y, err
}

func value(p *diagram.Program, name string) (*dq.DeltaQ, error) {
	d, ok := p.Value(name)
	if !ok {
		return nil, fmt.Errorf("%w: the diagram has no %s", ErrQuestion, name)
	}
	return d, nil
}

func (q Question) residual(r *Report, p *diagram.Program) error {
	whole, part, err := values(p, q.Residual)
	if err != nil {
		return err
	}
	r.Residual = &Residual{Whole: q.Residual.First, Part: q.Residual.Second}
	rest, err := dq.Deconvolve(whole, part)
	var none *dq.NoResidualError
	if errors.As(err, &none) {
		r.Residual.Impossible = none.Error()
		return nil
	}
	if err != nil {
		return err
	}
	r.Residual.Bounds, r.Residual.Estimate, r.Residual.Error = q.probe(rest.Bounds), q.probe(rest.Estimate), &rest.Error
	return nil
}

func budget(q dq.QTA, name string, part *dq.DeltaQ) (*Budget, error) {
	out := &Budget{Part: name, part: part}
	b, err := dq.BudgetFor(q, part)
	var none *dq.NoResidualError
	var open *dq.UndecidedError
	switch {
	case errors.As(err, &none):
		out.Impossible = missed(q, name, none)
		return out, nil
	case errors.As(err, &open):
		out.Undecided = undecided(name, open)
		return out, nil
	case err != nil:
		return nil, err
	}
	out.Left = &Left{Failure: b.Failure, Floor: []Within{}, budget: b}
	if b.Delay != dq.Unreached {
		out.Delay = figures.Seconds(b.Delay)
	}
	for _, s := range b.Floor {
		out.Floor = append(out.Floor, Within{T: s.T.Seconds(), Lo: s.P, Hi: 1, t: s.T})
	}
	return out, nil
}

// missed describes the part of a requirement that a part of a sequence already misses. A largest
// failure requires success at any delay, so it has no time.
func missed(q dq.QTA, name string, e *dq.NoResidualError) string {
	final := e.At == 0 && e.Needs <= q.MinSuccess()
	return fmt.Sprintf("%s, and %s alone succeeds in %s at most", needed(e.At, e.Needs, final), name, share(e.Possible, figures.RoundUp))
}

// undecided describes the point of a requirement that a part of a sequence may miss.
func undecided(name string, e *dq.UndecidedError) string {
	return fmt.Sprintf("%s, and %s alone succeeds in at least %s and at most %s", needed(e.Required.T, e.Required.P, e.Final), name,
		share(e.Reached.Lo, figures.RoundDown), share(e.Reached.Hi, figures.RoundUp))
}

// needed describes what a requirement needs at a point.
func needed(at time.Duration, p float64, final bool) string {
	if final {
		return fmt.Sprintf("it needs success in %s", share(p, figures.RoundDown))
	}
	return fmt.Sprintf("it needs success in %s within %s", share(p, figures.RoundDown), exactDelay(at))
}

// furtherText returns the text of these answers for a table.
func furtherText(r *Report) string {
	var b strings.Builder
	if c := r.Comparison; c != nil {
		fmt.Fprintf(&b, "\n%s\n", c.text())
	}
	if x := r.Residual; x != nil {
		b.WriteString("\n" + x.text(r))
	}
	if x := r.Budget; x != nil {
		b.WriteString("\n" + x.text(r))
	}
	return b.String()
}

func (c *Comparison) text() string {
	switch c.order {
	case dq.Equal:
		return fmt.Sprintf("%s and %s are equally good.", c.First, c.Second)
	case dq.Less:
		return fmt.Sprintf("%s is at least as good as %s, at any delay.", c.First, c.Second)
	case dq.Greater:
		return fmt.Sprintf("%s is at least as good as %s, at any delay.", c.Second, c.First)
	case dq.Incomparable:
		return fmt.Sprintf("%s is better than %s at some delays and worse at others.", c.First, c.Second)
	}
	return fmt.Sprintf("Which of %s and %s is better these bounds cannot tell.", c.First, c.Second)
}

func (x *Residual) text(r *Report) string {
	if x.Impossible != "" {
		return fmt.Sprintf("%s is no sequence of %s and something independent: %s.\n", x.Whole, x.Part, x.Impossible)
	}
	rows := [][]string{header(r), row("bounds", x.Bounds), row("estimate", x.Estimate)}
	return fmt.Sprintf("What remains of %s without %s:\n", x.Whole, x.Part) + align(rows) +
		fmt.Sprintf("With %s, the estimate is at most %s from %s.\n", x.Part, share(*x.Error, figures.RoundUp), x.Whole)
}

func (x *Budget) text(r *Report) string {
	if x.Undecided != "" {
		return fmt.Sprintf("The bounds cannot tell whether the requirement leaves anything for what follows %s: %s: %s.\n", x.Part, x.Undecided, narrower(r, x.part))
	}
	if x.Impossible != "" {
		return fmt.Sprintf("The requirement leaves nothing for what follows %s: %s.\n", x.Part, x.Impossible)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "The requirement leaves for what follows %s:\n", x.Part)
	if x.Delay == nil {
		fmt.Fprintf(&b, "  any delay, if it never fails\n")
	} else {
		fmt.Fprintf(&b, "  a delay of up to %s, if it never fails\n", exactDelay(x.budget.Delay))
	}
	fmt.Fprintf(&b, "  a failure of up to %s, if it takes no time\n", share(x.Failure, figures.RoundDown))
	for _, s := range x.budget.Floor {
		fmt.Fprintf(&b, "  in any case at least %s within %s\n", share(s.P, figures.RoundDown), exactDelay(s.T))
	}
	return b.String()
}
