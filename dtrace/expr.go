package dtrace

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// An Expr selects events: any of these. It is never empty.
type Expr []Event

// An Event is the firing of a probe, with arguments that satisfy a condition.
type Event struct {
	Probe Probe
	Where Condition // nil: no condition
}

// A Condition is a test of an argument, or a combination of conditions: a [Test], [All], [Any] or
// [Not].
type Condition interface{ condition() }

// All is a condition that is satisfied where each of these is. It is not empty.
type All []Condition

// Any is satisfied if at least one of its conditions is. It is not empty.
type Any []Condition

// Not is a condition that is satisfied where another is not.
type Not struct{ Condition Condition }

// A Test compares an argument with a constant. What cannot be read satisfies no test,
// and is counted as unreadable.
type Test struct {
	Arg    int // index among the arguments of the probe
	Op     Op
	Text   string // for arguments that are text, which have only Equal and Unequal
	Prefix bool   // Text is the beginning of the argument
	Number int64  // for integers
}

func (All) condition()  {}
func (Any) condition()  {}
func (Not) condition()  {}
func (Test) condition() {}

// An Op is how a test compares.
type Op uint8

// The comparisons.
const (
	Equal Op = iota
	Unequal
	Less
	LessEqual
	Greater
	GreaterEqual
)

// String returns the comparison as it is written in expressions: = != < <= > >=.
func (o Op) String() string { return name(o, "=", "!=", "<", "<=", ">", ">=") }

// MaxTests is the largest number of tests in the condition of an event, and MaxText the largest
// number of bytes in the text of a test. The programs in the kernel have no room for more.
const (
	MaxTests = 16
	MaxText  = 127
)

// String returns the expression as [ParseExpr] reads it.
func (e Expr) String() string {
	events := make([]string, len(e))
	for i, event := range e {
		events[i] = event.String()
	}
	return strings.Join(events, " or ")
}

// String returns the event as [ParseExpr] reads it.
func (e Event) String() string {
	if e.Where == nil {
		return e.Probe.DTraceName()
	}
	return e.Probe.DTraceName() + "[" + conditionText(e.Probe, e.Where) + "]"
}

// conditionText returns a condition on the arguments of a probe as [ParseExpr] reads it.
func conditionText(p Probe, c Condition) string {
	switch c := c.(type) {
	case All:
		return joined(p, c, " and ")
	case Any:
		return joined(p, c, " or ")
	case Not:
		return "not " + operandText(p, c.Condition)
	case Test:
		return p.Args[c.Arg].Name + c.Op.String() + c.literal(p.Args[c.Arg].Type)
	}
	panic(fmt.Sprintf("dtrace: a condition of type %T", c))
}

func joined(p Probe, conditions []Condition, word string) string {
	texts := make([]string, len(conditions))
	for i, c := range conditions {
		texts[i] = operandText(p, c)
	}
	return strings.Join(texts, word)
}

// operandText is conditionText for a condition within another one.
func operandText(p Probe, c Condition) string {
	switch c.(type) {
	case All, Any:
		return "(" + conditionText(p, c) + ")"
	}
	return conditionText(p, c)
}

func (t Test) literal(of Type) string {
	if !of.IsText() {
		return strconv.FormatInt(t.Number, 10)
	}
	text := strings.NewReplacer(`\`, `\\`, `"`, `\"`, `*`, `\*`).Replace(t.Text)
	if t.Prefix {
		text += "*"
	}
	return `"` + text + `"`
}

// A SyntaxError contains the place of an error in an expression, and what was expected.
type SyntaxError struct {
	Text    string // the expression
	Offset  int    // in bytes, of the character that is wrong
	Message string
}

// Error implements error. Two lines follow the message: the expression, and a mark
// under the character that is wrong.
func (e *SyntaxError) Error() string {
	before := e.Text[:min(e.Offset, len(e.Text))]
	return e.Message + "\n" + oneLine(e.Text) + "\n" + strings.Repeat(" ", utf8.RuneCountInString(before)) + "^"
}

// oneLine replaces each character that would move the cursor by other than one column by a space.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
}
