package dtrace

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A language contains the differences between the languages of scripts. Their operators are those
// of C.
type language interface {
	// number returns the expression for an argument that is an integer.
	number(p Probe, arg int) string

	// term returns the expression for an argument that is an Erlang term, or 0 if it is not
	// available.
	term(p Probe, arg int) string

	// text returns the expression for an argument that is text.
	text(p Probe, arg int) string

	// compare returns an expression that is true if a text equals another one, or begins with it.
	compare(text, with string, prefix bool) (string, error)

	// integer is the printf directive for 64-bit integers.
	integer() string

	// time is the expression for the present time.
	time() string
}

// register returns the name of an argument: arg0 for the first argument of a probe. At functions,
// arg0 is the first parameter, and the result has another name.
func (p Probe) register(arg int, result string) string {
	switch {
	case p.Function == nil:
		return fmt.Sprintf("arg%d", arg)
	case p.Function.Params[arg].Number == 0:
		return result
	}
	return fmt.Sprintf("arg%d", p.Function.Params[arg].Number-1)
}

// A scriptor writes the expressions of a script.
type scriptor struct {
	language
	terms Terms
}

// condition returns the expression that an event must satisfy, or "" if every event does: the data
// for the line is available, and the rule's expression is true.
func (s scriptor) condition(l scriptLine) (string, error) {
	var all []string
	p := l.event.Probe
	for _, arg := range l.args() {
		if p.isTerm(arg) {
			all = append(all, s.isPID(p, arg))
		}
	}
	if l.event.Where != nil {
		where, err := s.expression(p, l.event.Where)
		if err != nil {
			return "", err
		}
		all = append(all, where)
	}
	return strings.Join(all, " && "), nil
}

// isTerm reports whether an argument is an Erlang term at its place.
func (p Probe) isTerm(arg int) bool { return p.Function != nil && p.Args[arg].Type.IsText() }

// args returns the arguments that a line needs, each once, in order.
func (l scriptLine) args() []int {
	var args []int
	for _, t := range tests(l.event.Where) {
		args = append(args, t.Arg)
	}
	for _, f := range l.fields {
		if f.kind == fieldArg {
			args = append(args, f.arg)
		}
	}
	if l.token {
		args = append(args, l.event.Probe.index(tokenLabel), l.event.Probe.index(tokenSerial))
	}
	slices.Sort(args)
	return slices.Compact(args)
}

// tests returns the tests in a condition.
func tests(c Condition) []Test {
	var operands []Condition
	switch c := c.(type) {
	case Test:
		return []Test{c}
	case All:
		operands = c
	case Any:
		operands = c
	case Not:
		operands = []Condition{c.Condition}
	}
	var all []Test
	for _, o := range operands {
		all = append(all, tests(o)...)
	}
	return all
}

// mask returns an integer with the given number of low bits set.
func mask(bits int) int { return 1<<bits - 1 }

// isPID returns an expression that is true if a term is a local pid.
func (s scriptor) isPID(p Probe, arg int) string {
	return fmt.Sprintf("(%s & %d) == %d", s.term(p, arg), mask(termTagBits), termTagPID)
}

// termNumber returns the expression for a pid's number. See [Terms.PID].
func (s scriptor) termNumber(p Probe, arg int) string {
	bits, _ := s.terms.numberBits()
	if s.terms.Form != TermsByPlace {
		return fmt.Sprintf("(%s >> %d & %d)", s.term(p, arg), termTagBits, mask(bits))
	}
	place, in := int(s.terms.TableBits), int(s.terms.InBits)
	data := fmt.Sprintf("(%s >> %d)", s.term(p, arg), termTagBits)
	return fmt.Sprintf("((%s & %d) | (%s >> %d & %d) | ((%s & %d) << %d))",
		data, mask(bits)&^mask(place), data, in, mask(place-in), data, mask(in), place-in)
}

// termSerial returns the expression for a pid's serial.
func (s scriptor) termSerial(p Probe, arg int) string {
	number, serial := s.terms.numberBits()
	return fmt.Sprintf("(%s >> %d & %d)", s.term(p, arg), termTagBits+number, mask(serial))
}

// expression returns a condition as an expression that binds at least as tightly as &&.
func (s scriptor) expression(p Probe, c Condition) (string, error) {
	switch c := c.(type) {
	case All:
		return s.joined(p, c, " && ")
	case Any:
		return s.joined(p, c, " || ")
	case Not:
		operand, err := s.expression(p, c.Condition)
		if _, test := c.Condition.(Test); test {
			operand = "(" + operand + ")"
		}
		return "!" + operand, err
	case Test:
		return s.test(p, c)
	}
	panic(fmt.Sprintf("dtrace: a condition of type %T", c))
}

func (s scriptor) joined(p Probe, conditions []Condition, operator string) (string, error) {
	var texts []string
	for _, c := range conditions {
		text, err := s.expression(p, c)
		if err != nil {
			return "", err
		}
		texts = append(texts, text)
	}
	return "(" + strings.Join(texts, operator) + ")", nil
}

func (s scriptor) test(p Probe, t Test) (string, error) {
	if !p.Args[t.Arg].Type.IsText() {
		return s.number(p, t.Arg) + " " + cOperator(t.Op) + " " + cInteger(t.Number), nil
	}
	equal, err := "", error(nil)
	if p.isTerm(t.Arg) {
		equal = s.comparePID(p, t)
	} else {
		equal, err = s.compare(s.text(p, t.Arg), t.Text, t.Prefix)
	}
	if err == nil && t.Op == Unequal {
		return "!(" + equal + ")", nil
	}
	return equal, err
}

// cOperator returns a comparison operator of C.
func cOperator(op Op) string {
	if op == Equal {
		return "=="
	}
	return op.String()
}

// never is an expression that is always false.
const never = "0 != 0"

// cInteger returns an integer in C, where constants have no sign.
func cInteger(n int64) string {
	if n == math.MinInt64 {
		return fmt.Sprintf("(%d - 1)", n+1)
	}
	return strconv.FormatInt(n, 10)
}

// comparePID returns an expression that is true if the text of a term, which is a local pid, equals
// another text or begins with it.
func (s scriptor) comparePID(p Probe, t Test) string {
	const begin = "<0."
	if t.Prefix && strings.HasPrefix(begin, t.Text) {
		return "0 == 0"
	}
	rest, local := strings.CutPrefix(t.Text, begin)
	if !local {
		return never
	}
	rest, whole := strings.CutSuffix(rest, ">")
	number, serial, complete := strings.Cut(rest, ".")
	numberBits, serialBits := s.terms.numberBits()
	test := decimal(s.termNumber(p, t.Arg), number, mask(numberBits), !complete)
	if serial == "" {
		return test
	}
	return "(" + test + " && " + decimal(s.termSerial(p, t.Arg), serial, mask(serialBits), !whole) + ")"
}

// decimal returns an expression that is true if the decimal digits of a number are these or, for a
// prefix, begin with these. The number is at most a maximum.
func decimal(expression, digits string, most int, prefix bool) string {
	n, err := strconv.Atoi(digits)
	if err != nil || n > most || strconv.Itoa(n) != digits {
		return never
	}
	tests := []string{fmt.Sprintf("%s == %d", expression, n)}
	for low, span := n*10, 10; prefix && n > 0 && low <= most; low, span = low*10, span*10 {
		tests = append(tests, fmt.Sprintf("(%s >= %d && %s < %d)", expression, low, expression, low+span))
	}
	if len(tests) == 1 {
		return tests[0]
	}
	return "(" + strings.Join(tests, " || ") + ")"
}

// A printer collects the directives and arguments of a printf.
type printer struct {
	format strings.Builder
	args   []string
}

func (p *printer) add(directive string, args ...string) {
	p.format.WriteString(directive)
	p.args = append(p.args, args...)
}

// print returns the printf call that writes a line, with or without the seq_trace token.
func (s scriptor) print(l scriptLine, token bool) string {
	var out printer
	out.add(string(l.kind) + " " + l.outcome)
	for _, f := range l.fields {
		out.add(" " + f.prefix)
		s.field(&out, l.event.Probe, f)
	}
	if token {
		label, serial := s.token(l.event.Probe)
		out.add(" #"+s.integer()+"."+s.integer(), label, serial)
	}
	return fmt.Sprintf(`printf("%s\n", %s);`, out.format.String(), strings.Join(out.args, ", "))
}

func (s scriptor) field(out *printer, p Probe, f scriptField) {
	switch {
	case f.kind == fieldProcess:
		out.add("%d", "pid")
	case f.kind == fieldThread:
		out.add("%d", "tid")
	case f.kind == fieldTime:
		out.add(s.integer(), s.time())
	case p.isTerm(f.arg):
		out.add("<0.%d.%d>", s.termNumber(p, f.arg), s.termSerial(p, f.arg))
	case p.Args[f.arg].Type.IsText():
		out.add("%s", s.text(p, f.arg))
	default:
		out.add(s.integer(), s.number(p, f.arg))
	}
}

// token returns the expressions for the two numbers of the seq_trace token. Both are 0 if there is
// none.
func (s scriptor) token(p Probe) (label, serial string) {
	return s.number(p, p.index(tokenLabel)), s.number(p, p.index(tokenSerial))
}
