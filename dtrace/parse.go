package dtrace

import (
	"fmt"
	"slices"
	"strings"
)

// ParseExpr parses an expression: events joined by "or", each a probe with an
// optional condition in brackets. There are at most 16.
//
//	gc_minor-start or gc_major-start
//	message-send[receiver="<0.*" and not (size<100 or sender=<0.42.0>)]
//
// Probes are named as executables or as dtrace(1) do. The error is a [*SyntaxError].
func ParseExpr(text string) (Expr, error) {
	p := &parser{text: text}
	var expr Expr
	for {
		if p.skip(); len(expr) == maxEvents {
			return nil, p.fail(p.pos, "an expression has at most %d events", maxEvents)
		}
		event, err := p.event()
		if err != nil {
			return nil, err
		}
		expr = append(expr, event)
		if p.skip(); p.pos == len(p.text) {
			return expr, nil
		}
		if !p.keyword("or") {
			return nil, p.fail(p.pos, `here may be "or" and another probe, or a condition in brackets`)
		}
	}
}

// maxEvents is the maximum number of events in an expression.
const maxEvents = 16

// maxDepth is the maximum nesting depth of conditions. It limits the parser's stack.
const maxDepth = 32

// A parser reads an expression by recursive descent.
type parser struct {
	text  string
	pos   int   // current position
	probe Probe // probe of the current condition
	tests int   // number of tests in that condition
	depth int   // current nesting depth in it
}

// fail returns an error at an offset.
func (p *parser) fail(offset int, format string, args ...any) error {
	return &SyntaxError{Text: p.text, Offset: offset, Message: fmt.Sprintf(format, args...)}
}

// skip skips white space.
func (p *parser) skip() {
	for p.pos < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.pos]) >= 0 {
		p.pos++
	}
}

// accept skips spaces, and then a token if it comes next.
func (p *parser) accept(token string) bool {
	p.skip()
	if !strings.HasPrefix(p.text[p.pos:], token) {
		return false
	}
	p.pos += len(token)
	return true
}

// word skips spaces, and returns the following letters, digits and underscores, and hyphens if they
// are allowed. It does not skip these.
func (p *parser) word(hyphens bool) string {
	p.skip()
	end := p.pos
	for end < len(p.text) && (isWord(p.text[end]) || hyphens && p.text[end] == '-') {
		end++
	}
	return p.text[p.pos:end]
}

func isWord(c byte) bool { return isAlphanumeric(c) || c == '_' }

func isAlphanumeric(c byte) bool { return isDigit(c) || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// keyword skips a word if it comes next.
func (p *parser) keyword(word string) bool {
	return p.word(true) == word && p.accept(word)
}

func (p *parser) event() (Event, error) {
	name := p.word(true)
	if name == "" {
		return Event{}, p.fail(p.pos, "here must be the name of a probe, such as message-receive")
	}
	probe, ok := Lookup(name)
	if !ok {
		return Event{}, p.fail(p.pos, "%s", unknownProbe(name))
	}
	if reason := refusal(probe); reason != "" {
		return Event{}, p.fail(p.pos, "%s", reason)
	}
	p.pos += len(name)
	if !p.accept("[") {
		return Event{Probe: probe}, nil
	}
	p.probe, p.tests, p.depth = probe, 0, 0
	where, err := p.any()
	if err != nil {
		return Event{}, err
	}
	if !p.accept("]") {
		return Event{}, p.fail(p.pos, `here must be "and", "or" or the closing bracket`)
	}
	return Event{Probe: probe, Where: where}, nil
}

// any parses conditions joined by "or".
func (p *parser) any() (Condition, error) {
	conditions, err := p.list("or", p.all)
	if len(conditions) == 1 {
		return conditions[0], err
	}
	return Any(conditions), err
}

// all parses conditions joined by "and", which binds more tightly than "or".
func (p *parser) all() (Condition, error) {
	conditions, err := p.list("and", p.unary)
	if len(conditions) == 1 {
		return conditions[0], err
	}
	return All(conditions), err
}

func (p *parser) list(word string, read func() (Condition, error)) ([]Condition, error) {
	var conditions []Condition
	for {
		c, err := read()
		if err != nil {
			return nil, err
		}
		conditions = append(conditions, c)
		if !p.keyword(word) {
			return conditions, nil
		}
	}
}

// unary parses a test or a condition in parentheses, either preceded by "not" or not.
func (p *parser) unary() (Condition, error) {
	p.skip()
	start := p.pos
	if p.depth++; p.depth > maxDepth {
		return nil, p.fail(start, "conditions are nested up to %d deep", maxDepth)
	}
	defer func() { p.depth-- }()
	switch {
	case p.keyword("not"):
		c, err := p.unary()
		return Not{c}, err
	case p.accept("("):
		c, err := p.any()
		if err == nil && !p.accept(")") {
			err = p.fail(p.pos, "here must be the parenthesis that closes the one at character %d", start+1)
		}
		return c, err
	}
	return p.test()
}

func (p *parser) test() (Condition, error) {
	name := p.word(false)
	start := p.pos
	index := p.probe.index(name)
	switch {
	case name == "", name == "and", name == "or":
		return nil, p.fail(start, "here must be an argument of %s: %s", p.probe.DTraceName(), argumentList(p.probe))
	case index < 0:
		return nil, p.fail(start, "%s has no argument %s: it has %s", p.probe.DTraceName(), name, argumentList(p.probe))
	case p.tests == MaxTests:
		return nil, p.fail(start, "a condition has at most %d tests", MaxTests)
	}
	p.tests++
	p.pos += len(name)
	arg := p.probe.Args[index]
	op, err := p.op(arg)
	if err != nil {
		return nil, err
	}
	test, err := p.literal(arg)
	test.Arg, test.Op = index, op
	return test, err
}

// op parses a comparison that is valid for the argument.
func (p *parser) op(arg Arg) (Op, error) {
	op, ok := p.anyOp()
	if !ok {
		return 0, p.fail(p.pos, "here must be a comparison: %s", comparisons(arg.Type))
	}
	if arg.Type.IsText() && op > Unequal {
		return 0, p.fail(p.pos-len(op.String()), "%s is %s, and has only the comparisons %s", arg.Name, arg.Type.describe(), comparisons(arg.Type))
	}
	return op, nil
}

func (p *parser) anyOp() (Op, bool) {
	if p.accept("==") {
		return Equal, true
	}
	for _, op := range []Op{Unequal, LessEqual, GreaterEqual, Equal, Less, Greater} { // longer ones first
		if p.accept(op.String()) {
			return op, true
		}
	}
	return 0, false
}

// comparisons returns the comparisons that are valid for a type.
func comparisons(t Type) string {
	if t.IsText() {
		return "= !="
	}
	return "= != < <= > >="
}

// argumentList returns the arguments of a probe with their types.
func argumentList(p Probe) string {
	var list []string
	for _, a := range p.Args {
		list = append(list, a.Name+" ("+a.Type.String()+")")
	}
	return strings.Join(list, ", ")
}

// unknownProbe returns the message for a probe that does not exist, with similar names.
func unknownProbe(name string) string {
	if strings.HasPrefix(name, userTraceStem) {
		return spansInstead
	}
	message := "there is no probe " + name
	if near := nearestProbes(name); len(near) > 0 {
		return message + ": did you mean " + strings.Join(near, " or ") + "?"
	}
	return message + ": beamscope probes lists them"
}

// userTraceStem is the common prefix of the probes that Erlang code fires.
const userTraceStem = "user_trace"

const spansInstead = "user_trace probes carry spans: an outcome of theirs has span: and the name of the span"

// refusal returns why a probe never fires or must not be used, or "".
func refusal(p Probe) string {
	name := p.DTraceName()
	switch {
	case strings.HasPrefix(p.Name, userTraceStem):
		return spansInstead
	case p.State == Absent:
		return name + " is declared, but VMs do not have it"
	case p.State == Dead:
		return name + " never fires in a VM that compiles just in time"
	case len(p.Harmless) == 0:
		return name + " harms the VM: " + p.Hazard
	}
	return ""
}

// nearestProbes returns up to three usable probes with names similar to an unknown one, the most
// similar first.
func nearestProbes(name string) []string {
	const most = 3
	type candidate struct {
		name     string
		distance int
	}
	var near []candidate
	for _, p := range Catalogue() {
		d := distance(plain(name), plain(p.Name))
		if refusal(p) == "" && (d <= max(2, len(name)/4) || hasWords(p.Name, name)) {
			near = append(near, candidate{p.DTraceName(), d})
		}
	}
	slices.SortStableFunc(near, func(a, b candidate) int { return a.distance - b.distance })
	var names []string
	for _, c := range near[:min(most, len(near))] {
		if c.distance > near[0].distance+1 { // worse than the best by more than one
			break
		}
		names = append(names, c.name)
	}
	return names
}

// hasWords reports whether a probe's name contains all the words of another one.
func hasWords(probe, name string) bool {
	separator := func(r rune) bool { return r == '-' || r == '_' }
	words := strings.FieldsFunc(probe, separator)
	wanted := strings.FieldsFunc(name, separator)
	return len(wanted) > 0 && !slices.ContainsFunc(wanted, func(w string) bool { return !slices.Contains(words, w) })
}

// plain returns a name in lower case without separators.
func plain(name string) string {
	return strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(name))
}

// distance returns the number of bytes to insert, delete or replace to turn one text into the other
// (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1) // distances of a's beginning from the beginnings of b
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
