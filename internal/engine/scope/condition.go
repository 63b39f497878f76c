package scope

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/vm"

	"github.com/beamscope/beamscope/dq"
)

// A condition trigger fires if an expression over the figures of a window is true.
type condition struct {
	source  string
	program *vm.Program
	uses    []string // names of figures, in order
}

// figures are the values that a condition can use. Delays are in seconds. A delay in the
// intangible mass is infinite. An unknown value is NaN, for which every comparison except != is
// false.
type figures struct {
	N       float64 `expr:"n"`       // instances
	OK      float64 `expr:"ok"`      // successes
	Failed  float64 `expr:"failed"`  // failures
	Timeout float64 `expr:"timeout"` // timeouts
	Rate    float64 `expr:"rate"`    // instances a second
	Silent  float64 `expr:"silent"`  // seconds since an instance last ended
	Failure float64 `expr:"failure"` // share of instances that did not succeed
	Lost    float64 `expr:"lost"`
	Orphan  float64 `expr:"orphan"`
	Late    float64 `expr:"late"`

	P25 float64 `expr:"p25"`
	P50 float64 `expr:"p50"`
	P75 float64 `expr:"p75"`
	P99 float64 `expr:"p99"`

	CalculatedP50     float64 `expr:"calculated_p50"`
	CalculatedP99     float64 `expr:"calculated_p99"`
	CalculatedFailure float64 `expr:"calculated_failure"`

	Divergence float64 `expr:"divergence"` // the part of the distance that bins cannot hide
	Slack      float64 `expr:"slack"`      // in probability; negative for a hazard

	S  float64 `expr:"s"` // units, for example in 20*ms
	MS float64 `expr:"ms"`
	US float64 `expr:"us"`
}

// maxCondition bounds the length of a condition in bytes.
const maxCondition = 4096

func parseCondition(setting string) (Trigger, error) {
	if len(setting) > maxCondition {
		return nil, fmt.Errorf("%d bytes: at most %d", len(setting), maxCondition)
	}
	program, err := expr.Compile(setting, expr.Env(figures{}), expr.AsBool(), expr.DisableAllBuiltins(), expr.Optimize(false))
	if err != nil {
		return nil, fmt.Errorf("%s: write a condition such as p99 > 20*ms && n > 100", firstLine(err.Error()))
	}
	var w walk
	node := program.Node()
	ast.Walk(&node, &w)
	if w.refused != "" {
		return nil, fmt.Errorf("%s is not allowed here: write a condition such as p99 > 20*ms && n > 100", w.refused)
	}
	var d divisions
	if ast.Walk(&node, &d); d.byZero != "" {
		return nil, fmt.Errorf("division by 0 (in %s): divide by something that is not always 0", d.byZero)
	}
	return condition{setting, program, w.uses}, nil
}

// A walk checks that an expression contains only arithmetic, comparisons and logic, which always
// terminate. The expression language of the library has loops, and conditions come from files
// that may not be trusted.
type walk struct {
	uses    []string
	refused string
}

// Visit implements [ast.Visitor].
func (w *walk) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.IdentifierNode:
		w.uses = append(w.uses, n.Value)
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.UnaryNode, *ast.ConditionalNode, *ast.ConstantNode:
	case *ast.BinaryNode:
		if !slices.Contains(operators(), n.Operator) {
			w.refused = n.Operator
		}
	default:
		w.refused = (*node).String()
	}
}

// divisions finds a division by 0 in an expression that a [walk] has accepted.
type divisions struct{ byZero string }

// Visit implements [ast.Visitor].
func (d *divisions) Visit(node *ast.Node) {
	n, ok := (*node).(*ast.BinaryNode)
	if !ok || n.Operator != "/" && n.Operator != "%" || d.byZero != "" {
		return
	}
	if x, ok := constant(n.Right); ok && x == 0 {
		d.byZero = n.String()
	}
}

// constant returns the value of a part of an expression if it does not depend on figures, and
// false otherwise.
func constant(part ast.Node) (float64, bool) {
	var w walk
	ast.Walk(&part, &w)
	for _, name := range w.uses {
		if !isUnit(name) {
			return 0, false
		}
	}
	program, err := expr.Compile(part.String(), expr.Env(figures{}), expr.AsFloat64(), expr.DisableAllBuiltins(), expr.Optimize(false))
	if err != nil {
		return 0, false
	}
	x, err := expr.Run(program, units())
	if err != nil {
		return 0, false // it contains a division by 0
	}
	return x.(float64), true
}

// units returns figures with only the units set.
func units() figures { return figures{S: 1, MS: 1e-3, US: 1e-6} }

func isUnit(name string) bool { return name == "s" || name == "ms" || name == "us" }

func operators() []string {
	return []string{"<", "<=", "==", "!=", ">", ">=", "&&", "||", "and", "or", "+", "-", "*", "/", "%", "^", "**"}
}

// Possible rejects a condition that needs a missing QTA or diagram, and one that uses no figure.
func (t condition) Possible(p *OutcomeSystem, calculated bool) error {
	units := 0
	for _, name := range t.uses {
		switch {
		case name == "slack":
			if err := requiring(p); err != nil {
				return err
			}
		case name == "divergence" || strings.HasPrefix(name, "calculated_"):
			if err := calculable(p, calculated); err != nil {
				return err
			}
		case isUnit(name):
			units++
		}
	}
	if len(t.uses) == units {
		return errors.New("it uses no figure of the window, such as n or p99")
	}
	return nil
}

func (t condition) Kind() string    { return "condition" }
func (t condition) Setting() string { return t.source }
func (t condition) Patience() int   { return 1 }

func (t condition) Check(p *Outcome) State {
	if p.Counts.Unobserved {
		return Insufficient
	}
	holds, err := expr.Run(t.program, figuresOf(p))
	if err != nil {
		return Insufficient
	}
	return alarmIf(holds == true)
}

func (t condition) Cause(p *Outcome) string {
	return fmt.Sprintf("%s: n %d, failure %.3g, p50 %s, p99 %s", t.source, p.Counts.Instances(), failureRate(p),
		formatSeconds(observedQuantile(p, 0.5)), formatSeconds(observedQuantile(p, 0.99)))
}

func figuresOf(p *Outcome) figures {
	f := figures{
		N:                 float64(p.Counts.Instances()),
		OK:                float64(p.Counts.Successes),
		Failed:            float64(p.Counts.Failures),
		Timeout:           float64(p.Counts.Timeouts),
		Rate:              p.Rate(),
		Silent:            p.Silent.Seconds(),
		Failure:           failureRate(p),
		Lost:              float64(p.Counts.Loss.Total()),
		Orphan:            float64(p.Counts.Orphans),
		Late:              float64(p.Counts.Lates),
		P25:               observedQuantile(p, 0.25),
		P50:               observedQuantile(p, 0.5),
		P75:               observedQuantile(p, 0.75),
		P99:               observedQuantile(p, 0.99),
		CalculatedP50:     quantile(p.Calculated, 0.5),
		CalculatedP99:     quantile(p.Calculated, 0.99),
		CalculatedFailure: math.NaN(),
		Divergence:        math.NaN(),
		Slack:             math.NaN(),
		S:                 1,
		MS:                1e-3,
		US:                1e-6,
	}
	if f.N == 0 {
		f.Failure = math.NaN()
	}
	if mass, ok := p.Calculated.IntangibleMass(); ok {
		f.CalculatedFailure = decimal(mass.Hi)
	}
	if p.Divergence != nil {
		f.Divergence = decimal(p.Divergence.Distance.Lo)
	}
	if j := p.Judgement; j != nil && j.Slack != nil {
		f.Slack = decimal(j.Slack.Probability)
	} else if j != nil {
		f.Slack = -decimal(j.Hazard.Probability)
	}
	return f
}

// decimal returns the multiple of [dq.Tolerance] nearest to a probability. Conditions compare
// with decimals: a slack of 1 − 0.9 should equal 0.1, not a little less.
func decimal(p float64) float64 { return math.Round(p*1e12) / 1e12 }

// observedQuantile returns the upper bound of a quantile in seconds.
func observedQuantile(p *Outcome, q float64) float64 {
	if p.Observed.Empty() {
		return math.NaN()
	}
	d, ok := p.Observed.QuantileFigure(q)
	if !ok {
		return math.Inf(1)
	}
	return d.Seconds()
}

func quantile(d *dq.DeltaQ, q float64) float64 {
	if d.Empty() {
		return math.NaN()
	}
	if v, ok := d.Quantile(q); ok && v.Finite() {
		return v.Hi.Seconds()
	}
	return math.Inf(1)
}

func formatSeconds(s float64) string {
	switch {
	case math.IsNaN(s):
		return "unknown"
	case math.IsInf(s, 1):
		return "∞"
	}
	return time.Duration(s * float64(time.Second)).String()
}

// firstLine returns the first line of a message.
func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
