package dtrace

// An Expr says which events are meant: any of these. It is never empty.
type Expr []Event

// An Event is the firing of a probe, with arguments that satisfy a condition.
type Event struct {
	Probe Probe
	Where Condition // nil: whatever its arguments are
}

// A Condition is a test of arguments, or made of other conditions: a [Test], [All],
// [Any] or [Not].
type Condition interface{ condition() }

// All is a condition that is satisfied where each of these is. It is not empty.
type All []Condition

// Any is a condition that is satisfied where one of these is. It is not empty.
type Any []Condition

// Not is a condition that is satisfied where another is not.
type Not struct{ Condition Condition }

// A Test compares an argument with a constant. What cannot be read satisfies no test,
// and is counted as unreadable.
type Test struct {
	Arg    int // index among the arguments of the probe
	Op     Op
	Text   string // for arguments that are text, which have only Equal and Unequal
	Prefix bool   // Text is what the argument begins with
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

// MaxTests is how many tests the condition of an event has at most, and MaxText how
// many bytes the text of one: the programs in the kernel have room for so much.
const (
	MaxTests = 16
	MaxText  = 127
)

// ParseExpr parses an expression. The error is a [*SyntaxError].
func ParseExpr(text string) (Expr, error) {
	return nil, &SyntaxError{Text: text, Message: "expressions cannot be read yet"}
}

// A SyntaxError says where an expression is wrong, and what would be right.
type SyntaxError struct {
	Text    string // the expression
	Offset  int    // in bytes, of the character that is wrong
	Message string
}

// Error implements error. Two lines follow the message: the expression, and a mark
// under the character that is wrong.
func (e *SyntaxError) Error() string { return e.Message }
