package diagram

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/antlr4-go/antlr/v4"

	"github.com/beamscope/beamscope/diagram/internal/grammar"
	"github.com/beamscope/beamscope/dq"
)

// The limits of a source.
const (
	MaxSource  = 1 << 20 // bytes
	MaxNesting = 200     // operators within operators
	MaxNames   = 1 << 15 // outcomes, diagrams and operators, counted each time they occur
)

// Parse reads a source and checks it. If the source has errors, Parse returns a nil File and
// [Errors] with up to 20 of them. It checks the syntax of each definition, and the components and
// probabilities of definitions whose syntax is right. It checks names and cycles only if the
// whole syntax is right.
func Parse(source string) (*File, error) {
	source = strings.TrimPrefix(source, "\ufeff") // a byte-order mark
	r := newReporter(source)
	f := parse(source, r)
	if f != nil {
		check(f, r)
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	return f, nil
}

// parse reads the syntax, and checks components and probabilities. It returns nil if the syntax
// is wrong.
func parse(source string, r *reporter) *File {
	if len(source) > MaxSource {
		r.report(Pos{1, 1}, "", "the source is %d bytes: want at most %d", len(source), MaxSource)
		return nil
	}
	if !utf8.ValidString(source) {
		pos := invalidAt(source)
		r.report(pos, "", "not valid UTF-8")
		return nil
	}
	listener := &listener{reporter: r}
	lexer := grammar.NewDQLexer(antlr.NewInputStream(source))
	lexer.RemoveErrorListeners()
	lexer.AddErrorListener(listener)
	tokens := antlr.NewCommonTokenStream(lexer, antlr.TokenDefaultChannel)
	tokens.Fill()
	if !checkNesting(tokens.GetAllTokens(), r) || !checkNames(tokens.GetAllTokens(), r) {
		return nil
	}
	trees := definitionTrees(tokens, listener)
	syntax := len(r.errors) > 0
	b := builder{reporter: r, tokens: tokens.GetAllTokens(), source: source}
	f := b.file(trees)
	if syntax {
		return nil // without all definitions, the defined names are not known
	}
	return f
}

// definitionTrees parses each definition separately, so that an error in one does not hide errors
// in the next. It returns the definitions without errors.
func definitionTrees(tokens *antlr.CommonTokenStream, l *listener) []grammar.IDefinitionContext {
	p := grammar.NewDQParser(tokens)
	p.RemoveErrorListeners()
	p.AddErrorListener(l)
	strategy := &skipToSemicolon{antlr.NewDefaultErrorStrategy()}
	p.SetErrorHandler(strategy)
	var trees []grammar.IDefinitionContext
	for tokens.LA(1) != antlr.TokenEOF {
		before := l.count
		tree := p.Definition()
		if t := tokens.LT(1); !ends(t) { // after an error, Recover has already skipped to the end
			l.unexpected(t, "';', '->' or the end")
		}
		if l.count == before {
			trees = append(trees, tree)
		}
		for !ends(tokens.LT(1)) {
			tokens.Consume()
		}
		if tokens.LA(1) != antlr.TokenEOF {
			tokens.Consume()
		}
		strategy.ReportMatch(p) // ready for the next error
	}
	return trees
}

func ends(t antlr.Token) bool { return t.GetTokenType() == antlr.TokenEOF || t.GetText() == ";" }

// A skipToSemicolon skips the rest of a definition after its first error, because ANTLR's own
// error recovery rarely guesses what the user meant.
type skipToSemicolon struct{ *antlr.DefaultErrorStrategy }

// Sync does nothing. ANTLR's default would delete single tokens.
func (s *skipToSemicolon) Sync(antlr.Parser) {}

// RecoverInline reports an error. ANTLR's default would delete or insert a token.
func (s *skipToSemicolon) RecoverInline(p antlr.Parser) antlr.Token {
	p.SetError(antlr.NewInputMisMatchException(p))
	return p.GetCurrentToken()
}

// Recover skips the rest of the definition.
func (s *skipToSemicolon) Recover(p antlr.Parser, _ antlr.RecognitionException) {
	for !ends(p.GetCurrentToken()) {
		p.Consume()
	}
}

func invalidAt(source string) Pos {
	pos := Pos{1, 1}
	for i, c := range source {
		if c == utf8.RuneError && !strings.HasPrefix(source[i:], "\uFFFD") {
			return pos
		}
		if pos.Column++; c == '\n' {
			pos = Pos{pos.Line + 1, 1}
		}
	}
	return pos
}

// checkNesting limits the recursion depth of the parser.
func checkNesting(tokens []antlr.Token, r *reporter) bool {
	depth := 0
	for _, t := range tokens {
		switch t.GetText() {
		case "(":
			if depth++; depth > MaxNesting {
				r.report(position(t), "(", "more than %d operators within each other", MaxNesting)
				return false
			}
		case ")":
			depth--
		}
	}
	return true
}

// checkNames limits the number of names, and so the size of everything that is derived from a
// source. Compile rejects programs with more than [MaxSteps] steps anyway, but some users of a
// diagram do not compile it.
func checkNames(tokens []antlr.Token, r *reporter) bool {
	names := 0
	for _, t := range tokens {
		if t.GetTokenType() != grammar.DQLexerIDENTIFIER {
			continue
		}
		if names++; names > MaxNames {
			r.report(position(t), "", "more than %d names: divide the diagram into several files", MaxNames)
			return false
		}
	}
	return true
}

// position returns the position of a token. ANTLR counts columns from 0.
func position(t antlr.Token) Pos { return Pos{t.GetLine(), t.GetColumn() + 1} }

// A listener converts the errors of the lexer and the parser to messages.
type listener struct {
	*antlr.DefaultErrorListener
	*reporter
	count int // the number of errors, including unreported ones
}

// SyntaxError implements antlr.ErrorListener.
func (l *listener) SyntaxError(rec antlr.Recognizer, symbol any, line, column int, msg string, e antlr.RecognitionException) {
	l.count++
	pos := Pos{line, column + 1}
	token, ok := symbol.(antlr.Token)
	if !ok {
		l.report(pos, "", "%s", lexical(l.lines, pos))
		l.errors[len(l.errors)-1].lexical = true
		return
	}
	if p, ok := rec.(antlr.Parser); ok {
		l.unexpected(token, describe(p.GetExpectedTokens()))
	}
}

// unexpected reports an unexpected token. It reports nothing on a line with an invalid character,
// because that character has already been reported and probably caused the error.
func (l *listener) unexpected(t antlr.Token, expected string) {
	l.count++
	pos, found, word := position(t), strconv.Quote(t.GetText()), t.GetText()
	for _, e := range l.errors {
		if e.Pos.Line == pos.Line && e.lexical {
			return
		}
	}
	if t.GetTokenType() == antlr.TokenEOF {
		found, word = "end of the source", ""
	}
	l.report(pos, word, "unexpected %s: want %s", found, expected)
}

// lexical describes the invalid character at pos.
func lexical(lines []string, pos Pos) string {
	if pos.Line > len(lines) {
		return "unexpected end of the source"
	}
	rest := []rune(lines[pos.Line-1])
	if pos.Column > len(rest) {
		return "unexpected end of the line"
	}
	if strings.HasPrefix(string(rest[pos.Column-1:]), "/*") {
		return "a comment that does not end: want */"
	}
	return fmt.Sprintf("unexpected character %q", rest[pos.Column-1])
}

// tokenNames describes tokens in words.
var tokenNames = map[int]string{
	grammar.DQLexerIDENTIFIER: "a name",
	grammar.DQLexerNUMBER:     "a number",
	grammar.DQLexerDURATION:   "a time",
	antlr.TokenEOF:            "the end",
}

// describe describes a set of tokens in words. When the parser looks for the end of a sequence or
// a list, it has already left the sequence or list. So describe adds the tokens that would have
// continued it.
func describe(set *antlr.IntervalSet) string {
	var words []string
	for _, interval := range set.GetIntervals() {
		for t := interval.Start; t < interval.Stop; t++ {
			word, ok := tokenNames[t]
			if !ok && t > 0 && t < len(literals()) {
				word = literals()[t]
			}
			words = append(words, word)
			switch word {
			case "')'":
				words = append(words, "','", "'->'")
			case "']'":
				words = append(words, "','")
			}
		}
	}
	slices.Sort(words)
	return orList(slices.Compact(words))
}

func literals() []string { return grammar.DQParserStaticData.LiteralNames }

func orList(words []string) string {
	switch n := len(words); n {
	case 0:
		return "something else"
	case 1:
		return words[0]
	default:
		return strings.Join(words[:n-1], ", ") + " or " + words[n-1]
	}
}

// A builder converts ANTLR's syntax tree to ours, and reports errors that the grammar does not
// detect.
type builder struct {
	*reporter
	tokens []antlr.Token
	source string
}

func (b *builder) file(trees []grammar.IDefinitionContext) *File {
	f := &File{source: b.source}
	from := 0
	for _, d := range trees {
		def := &Definition{Name: d.IDENTIFIER().GetText(), Pos: position(d.IDENTIFIER().GetSymbol()), Expr: b.chain(d.Chain())}
		stop := d.GetStop().GetTokenIndex()
		def.End = b.end(stop)
		def.Comments, def.Trailing, from = b.comments(from, stop)
		f.Definitions = append(f.Definitions, def)
	}
	f.Comments, _, _ = b.comments(from, len(b.tokens)-1)
	return f
}

// end returns the position of the semicolon after a definition. Without a semicolon, it returns
// the position of the definition's last token, whose index is stop.
func (b *builder) end(stop int) Pos {
	for _, t := range b.tokens[stop+1:] {
		if t.GetText() == ";" {
			return position(t)
		}
		if !isComment(t) {
			break
		}
	}
	return position(b.tokens[stop])
}

// comments returns the comments from token from to token stop, which is the last one of a
// definition, and the comments that follow on the same line. next is the index of the token to
// continue with.
func (b *builder) comments(from, stop int) (inside, trailing []Comment, next int) {
	for ; from <= stop; from++ {
		if t := b.tokens[from]; isComment(t) {
			inside = append(inside, Comment{position(t), t.GetText()})
		}
	}
	line := b.tokens[stop].GetLine()
	for next = from; next < len(b.tokens); next++ {
		t := b.tokens[next]
		if t.GetText() == ";" {
			line = t.GetLine()
			continue
		}
		if !isComment(t) || t.GetLine() != line {
			break
		}
		trailing = append(trailing, Comment{position(t), t.GetText()})
		if !strings.HasPrefix(t.GetText(), "/*") || strings.Contains(t.GetText(), "\n") {
			return inside, trailing, next + 1 // no further comment can follow on this line
		}
	}
	return inside, trailing, next
}

func isComment(t antlr.Token) bool { return t.GetTokenType() == grammar.DQLexerCOMMENT }

func (b *builder) chain(tree grammar.IChainContext) Expr {
	var seq Sequence
	for _, c := range tree.AllComponent() {
		seq.Parts = append(seq.Parts, b.component(c))
	}
	if len(seq.Parts) == 1 {
		return seq.Parts[0]
	}
	return &seq
}

func (b *builder) component(tree grammar.IComponentContext) Expr {
	switch c := tree.(type) {
	case *grammar.OutcomeContext:
		t := c.IDENTIFIER().GetSymbol()
		return &Outcome{Name: t.GetText(), Pos: position(t)}
	case *grammar.PrefixedContext:
		return b.prefixed(c)
	}
	return &Outcome{} // only after a syntax error
}

func (b *builder) prefixed(c *grammar.PrefixedContext) Expr {
	kind, name := c.IDENTIFIER(0).GetSymbol(), c.IDENTIFIER(1).GetSymbol()
	parameters, arguments := c.Parameters(), c.Arguments()
	switch kind.GetText() {
	case "s":
		if parameters != nil || arguments != nil {
			b.report(position(kind), "s", "s:%s stands for a diagram: it takes no components", name.GetText())
		}
		return &Reuse{Name: name.GetText(), Pos: position(name)}
	case "a", "f", "p", "t", "r", "o":
	default:
		b.report(position(kind), kind.GetText(), "unknown kind %q: want a (all to finish), f (first to finish), p (choice), t (timeout), r (retry), o (overlapping retry) or s (a diagram)", kind.GetText())
		return &Outcome{}
	}
	op := &Operator{Kind: Kind(kind.GetText()[0]), Name: name.GetText(), Pos: position(kind)}
	if arguments == nil {
		want := "two or more"
		if op.Kind.single() {
			want = "one"
		}
		b.report(position(name), name.GetText(), "%c:%s without components: want %s in parentheses", op.Kind, op.Name, want)
		return op
	}
	for _, a := range arguments.AllChain() {
		op.Parts = append(op.Parts, b.chain(a))
	}
	b.components(op, position(kind))
	b.parameters(op, parameters)
	return op
}

// components reports an operator with a wrong number of components.
func (b *builder) components(op *Operator, at Pos) {
	word := string(op.Kind) + ":" + op.Name
	switch n := len(op.Parts); {
	case op.Kind.single() && n > 1:
		b.report(at, word, "%s has %d components: want one, which may be a sequence", word, n)
	case !op.Kind.single() && n < 2:
		b.report(at, word, "%s has one component: want two or more", word)
	}
}

// parameters reads the parameters in brackets.
func (b *builder) parameters(op *Operator, tree grammar.IParametersContext) {
	switch op.Kind {
	case Choice:
		b.weights(op, tree)
	case Timeout:
		b.timing(op, tree, "a time", "20ms")
	case Retry, Overlap:
		b.timing(op, tree, "attempts and a time", "3, 20ms")
	default:
		if tree != nil {
			b.report(position(tree.GetStart()), "[", "%c:%s takes no probabilities: only a choice, p:, does", op.Kind, op.Name)
		}
	}
}

// timing reads the time of a timeout, or the number of attempts and the time of a retry.
func (b *builder) timing(op *Operator, tree grammar.IParametersContext, want, example string) {
	word := string(op.Kind) + ":" + op.Name
	if tree == nil {
		b.report(op.Pos, word, "%s without %s: want %s[%s](…)", word, want, word, example)
		return
	}
	all := tree.AllParameter()
	count := 1
	if op.Kind != Timeout {
		count = 2
	}
	if len(all) != count {
		b.report(position(tree.GetStart()), "[", "%s: want %s, such as [%s]", word, want, example)
		return
	}
	op.After = b.time(all[count-1].GetStart())
	if op.Kind != Timeout {
		op.Attempts = b.attempts(all[0].GetStart())
	}
}

// time returns the time in a token. If it is out of range, time reports an error and returns 0.
func (b *builder) time(t antlr.Token) time.Duration {
	d, err := dq.ParseDelay(t.GetText())
	if err != nil || t.GetTokenType() != grammar.DQLexerDURATION || d <= 0 || d > dq.MaxModelDelay {
		b.report(position(t), t.GetText(), "time %s: want whole nanoseconds above 0 and up to %s, such as 20ms", t.GetText(), dq.FormatDelay(dq.MaxModelDelay/time.Hour*time.Hour))
		return 0 // Parse returns no file after an error
	}
	return d
}

// attempts returns the number of attempts in a token. If it is out of range, attempts reports an
// error and returns 0.
func (b *builder) attempts(t antlr.Token) int {
	n, err := strconv.Atoi(t.GetText())
	if err != nil || n < 1 || n > dq.MaxAttempts {
		b.report(position(t), t.GetText(), "%s attempts: want a whole number from 1 to %d", t.GetText(), dq.MaxAttempts)
		return 0 // Parse returns no file after an error
	}
	return n
}

// weightSlack is the largest accepted difference between a sum of probabilities and 1.
const weightSlack = 1e-9

// weights reads the probabilities of a choice.
func (b *builder) weights(op *Operator, tree grammar.IParametersContext) {
	if tree == nil {
		b.report(op.Pos, "p:"+op.Name, "p:%s without probabilities: want one for each component in brackets", op.Name)
		return
	}
	for _, n := range tree.AllParameter() {
		op.Weights = append(op.Weights, b.probability(n.GetStart()))
	}
	at := position(tree.GetStart())
	if slices.Contains(op.Weights, 0) {
		return // components has already reported the error
	}
	if len(op.Weights) != len(op.Parts) {
		b.report(at, "[", "p:%s: want %d probabilities, one for each component, not %d", op.Name, len(op.Parts), len(op.Weights))
		return
	}
	if s := sum(op.Weights); math.Abs(s-1) > weightSlack {
		b.report(at, "[", "the probabilities of p:%s sum to %v: want 1", op.Name, s)
	}
}

// probability returns the probability in a token. If it is out of range, probability reports an
// error and returns 0.
func (b *builder) probability(t antlr.Token) float64 {
	p, err := strconv.ParseFloat(t.GetText(), 64)
	if err != nil || p <= 0 || p >= 1 {
		b.report(position(t), t.GetText(), "probability %s: want above 0, below 1", t.GetText())
		return 0
	}
	return p
}

// sum adds numbers with the rounding error of a single addition (Kahan and Neumaier), so ten
// times 0.1 is 1.
func sum(xs []float64) float64 {
	var s, rest float64
	for _, x := range xs {
		t := s + x
		if math.Abs(s) >= math.Abs(x) {
			rest += (s - t) + x
		} else {
			rest += (x - t) + s
		}
		s = t
	}
	return s + rest
}
