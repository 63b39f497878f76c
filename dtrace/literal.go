package dtrace

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/beamscope/beamscope/internal/beam/modname"
)

// literal reads the constant of a comparison.
func (p *parser) literal(arg Arg) (Test, error) {
	p.skip()
	if arg.Type.IsText() {
		return p.textLiteral(arg)
	}
	start := p.pos
	number, err := parseInteger(p.bare())
	if err != nil {
		return Test{}, p.fail(start, "%s is an integer, and here must be one: %v", arg.Name, err)
	}
	if number < 0 && arg.Type.Unit() != "" {
		return Test{}, p.fail(start, "sizes are never negative: one that the VM does not know shows as %d", uint32(math.MaxUint32))
	}
	return Test{Number: number}, nil
}

// bare reads the text up to a space, a parenthesis or a bracket.
func (p *parser) bare() string {
	rest := p.text[p.pos:]
	if end := strings.IndexAny(rest, " \t\r\n()[]"); end >= 0 {
		rest = rest[:end]
	}
	p.pos += len(rest)
	return rest
}

// parseInteger parses decimal and hexadecimal integers, in which underscores may
// separate digits.
func parseInteger(text string) (int64, error) {
	const forms = "write it as 42, -1, 4_000 or 0xff"
	digits, negative := strings.CutPrefix(text, "-")
	base := 10
	if hex, ok := strings.CutPrefix(digits, "0x"); ok {
		digits, base = hex, 16
	}
	if digits == "" || strings.Trim(digits, "_") != digits || strings.Contains(digits, "__") || strings.HasPrefix(digits, "+") || strings.HasPrefix(digits, "-") {
		return 0, fmt.Errorf("%s", forms)
	}
	digits = strings.ReplaceAll(digits, "_", "")
	if negative {
		digits = "-" + digits
	}
	number, err := strconv.ParseInt(digits, base, 64)
	switch {
	case err == nil:
		return number, nil
	case errors.Is(err, strconv.ErrRange):
		return 0, fmt.Errorf("%s does not fit into 64 bits with a sign", text)
	}
	return 0, fmt.Errorf("%s", forms)
}

// textLiteral reads the text of a comparison: in double quotes, or without them if it is a process,
// a port or a function.
func (p *parser) textLiteral(arg Arg) (Test, error) {
	start := p.pos
	var test Test
	var err error
	switch {
	case strings.HasPrefix(p.text[p.pos:], `"`):
		test, err = p.quoted()
	case hasForm(arg.Type):
		test.Text = p.bare()
	default:
		return Test{}, p.fail(start, `%s is text, and here must be such in double quotes: "a" or, for what begins so, "a*"`, arg.Name)
	}
	if arg.Type == MFA {
		test.Text = modname.Exact(test.Text, test.Prefix)
	}
	switch {
	case err != nil:
		return Test{}, err
	case !utf8.ValidString(test.Text) || strings.ContainsFunc(test.Text, unicode.IsControl):
		return Test{}, p.fail(start, "a text has no control characters, and is UTF-8")
	case len(test.Text) > MaxText:
		return Test{}, p.fail(start, "the text has %d bytes, and there is room for %d: compare with its beginning", len(test.Text), MaxText)
	case test.Prefix && test.Text == "":
		return Test{}, p.fail(start, "every text begins with nothing: leave out the test")
	case !arg.Type.admits(test.Text, test.Prefix):
		return Test{}, p.fail(start, "%s is %s: write %s", arg.Name, arg.Type.describe(), forms(arg.Type))
	}
	return test, nil
}

// quoted reads a text in double quotes. A star at its end makes it a prefix.
func (p *parser) quoted() (Test, error) {
	var text strings.Builder
	start := p.pos
	for p.pos++; p.pos < len(p.text); {
		r, size := utf8.DecodeRuneInString(p.text[p.pos:])
		rest := p.text[p.pos+size:]
		switch {
		case r == '"':
			p.pos += size
			return Test{Text: text.String()}, nil
		case r == '*' && strings.HasPrefix(rest, `"`):
			p.pos += size + 1
			return Test{Text: text.String(), Prefix: true}, nil
		case r == '*':
			return Test{}, p.fail(p.pos, `a star stands only at the end of a text, where it means "begins with"; the character itself is written \*`)
		case r == '\\' && (rest == "" || !strings.Contains(`"\*`, rest[:1])):
			return Test{}, p.fail(p.pos, `a backslash stands only before a double quote, a star or a backslash`)
		case r == '\\':
			text.WriteString(rest[:1])
			p.pos += size + 1
		case r == utf8.RuneError && size == 1, unicode.IsControl(r):
			return Test{}, p.fail(p.pos, "a text has no control characters, and is UTF-8")
		default:
			text.WriteRune(r)
			p.pos += size
		}
	}
	return Test{}, p.fail(start, "the text has no closing double quote")
}

// hasForm reports whether texts of a type have a form that is recognized without quotes.
func hasForm(t Type) bool { return t == PID || t == Port || t == MFA }

// forms returns examples of the forms of a type that has forms.
func forms(t Type) string {
	switch t {
	case PID:
		return `<0.123.0>, or the beginning of one, as in "<0.*"; a name of another node is "{name,node}"`
	case Port:
		return `#Port<0.7>, or the beginning of one, as in "#Port<0.*"`
	}
	return `lists:seq/2, or the beginning of one, as in "lists:*"`
}

// admits reports whether an argument of the type can equal a text, or begin with it.
func (t Type) admits(text string, prefix bool) bool {
	switch t {
	case PID: // some events have ports in place of processes, and names in place of remote processes
		return strings.HasPrefix(text, "{") || hasShape(text, "<d.d.d>", prefix) || Port.admits(text, prefix)
	case Port:
		return hasShape(text, "#Port<d.d>", prefix)
	case MFA: // "<exiting>" and "<unknown/0x1234>" appear in place of unavailable functions
		return strings.HasPrefix(text, "<") || isMFA(text, prefix)
	}
	return true
}

// hasShape reports whether a text matches a shape, or can be the beginning of a match. In shapes, d
// matches digits, and each other character matches itself.
func hasShape(text, shape string, prefix bool) bool {
	for i := range len(shape) {
		if text == "" {
			return prefix
		}
		rest := strings.TrimPrefix(text, shape[i:i+1])
		if shape[i] == 'd' {
			rest = strings.TrimLeft(text, "0123456789")
		}
		if len(rest) == len(text) {
			return false
		}
		text = rest
	}
	return text == ""
}

// isMFA reports whether a text is a function in Erlang's notation, or can be the beginning of one.
func isMFA(text string, prefix bool) bool {
	for _, end := range []string{":", "/"} {
		rest, ok := afterAtom(text)
		if rest == "" {
			return ok && prefix
		}
		if !ok || !strings.HasPrefix(rest, end) {
			return false
		}
		text = rest[1:]
	}
	return text == "" && prefix || text != "" && strings.Trim(text, "0123456789") == ""
}

// afterAtom returns the rest of a text after the atom at its beginning. An atom may be incomplete
// at the end of the text.
func afterAtom(text string) (rest string, ok bool) {
	if text == "" {
		return "", true
	}
	if text[0] == '\'' {
		return afterQuoted(text[1:]), true
	}
	for i, r := range text {
		letter := r == '_' || r == '@' || unicode.IsLetter(r) || unicode.IsDigit(r)
		if i == 0 && !unicode.IsLower(r) {
			return text, false
		}
		if !letter {
			return text[i:], true
		}
	}
	return "", true
}

// afterQuoted returns the rest of a text after a quoted atom. The text begins after the opening
// quote.
func afterQuoted(text string) string {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '\'':
			return text[i+1:]
		}
	}
	return ""
}
