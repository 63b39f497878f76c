package diagram

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func mustParse(t testing.TB, source string) *File {
	t.Helper()
	f, err := Parse(source)
	if err != nil {
		t.Fatalf("%s\n%v", source, err)
	}
	return f
}

// sameTree compares the contents of files and ignores positions.
var sameTree = cmp.Options{
	cmpopts.IgnoreTypes(Pos{}),
	cmpopts.IgnoreUnexported(File{}),
}

// Parse accepts the examples of the thesis (4.3), and everything that its grammar allows.
func TestParseThesis(t *testing.T) {
	for _, source := range []string{
		"",
		"p_1 = o_1 -> o_2;",
		"probe = worker_1 -> worker_2;",
		"p_1 = o_1 -> o_2;\np_2 = o_3 -> o_4;\np_3 = s:p_1 -> s:p_2;",
		"p_3 = s:p_1 -> s:p_2; p_1 = a; p_2 = b;",
		"ftf = f:workers(worker_1, worker_2);",
		"probe = f:probe(worker_1, worker_2);",
		"all = a:both(worker_1 -> x, worker_2);",
		"choice = p:pick[0.25, 0.25, 0.5](x, y -> z, s:all2);\nall2 = a:w(u, v);",
		"x = y;\nsystem = s:x -> z;",
		"x = p:c[0.1,0.2,0.7](a1,b1,c1);",
	} {
		mustParse(t, source)
	}
}

func TestParseTree(t *testing.T) {
	f := mustParse(t, `
		// the front
		front = s -> f:a2(p, /* inner */ s:back); # one
		back = p:f2[.5, 5e-1](u, f -> q)`)
	want := &File{Definitions: []*Definition{
		{
			Name: "front",
			Expr: &Sequence{Parts: []Expr{
				&Outcome{Name: "s"},
				&Operator{Kind: FirstToFinish, Name: "a2", Parts: []Expr{&Outcome{Name: "p"}, &Reuse{Name: "back"}}},
			}},
			Comments: []Comment{{Text: "// the front"}, {Text: "/* inner */"}},
			Trailing: []Comment{{Text: "# one"}},
		},
		{
			Name: "back",
			Expr: &Operator{Kind: Choice, Name: "f2", Weights: []float64{.5, .5}, Parts: []Expr{
				&Outcome{Name: "u"}, &Sequence{Parts: []Expr{&Outcome{Name: "f"}, &Outcome{Name: "q"}}},
			}},
		},
	}}
	if diff := cmp.Diff(want, f, sameTree); diff != "" {
		t.Error(diff)
	}
}

func TestParseTimes(t *testing.T) {
	f := mustParse(t, "x = t:slow[1.5ms](a -> b) -> r:again[3, 1h0m20s](s:y) -> o:more[1000,.5us](c); y = t:y[20µs](d)")
	want := []Expr{
		&Sequence{Parts: []Expr{
			&Operator{Kind: Timeout, Name: "slow", After: 1500 * time.Microsecond, Parts: []Expr{&Sequence{Parts: []Expr{&Outcome{Name: "a"}, &Outcome{Name: "b"}}}}},
			&Operator{Kind: Retry, Name: "again", Attempts: 3, After: time.Hour + 20*time.Second, Parts: []Expr{&Reuse{Name: "y"}}},
			&Operator{Kind: Overlap, Name: "more", Attempts: 1000, After: 500, Parts: []Expr{&Outcome{Name: "c"}}},
		}},
		&Operator{Kind: Timeout, Name: "y", After: 20 * time.Microsecond, Parts: []Expr{&Outcome{Name: "d"}}},
	}
	for i, d := range f.Definitions {
		if diff := cmp.Diff(want[i], d.Expr, sameTree); diff != "" {
			t.Error(diff)
		}
	}
	const formatted = "x = t:slow[1.5ms](a -> b) -> r:again[3, 3620s](s:y) -> o:more[1000, 500ns](c);\ny = t:y[20us](d);\n"
	if got := Format(f); got != formatted {
		t.Errorf("formatted %s", got)
	}
}

// Parse skips a byte-order mark at the beginning. Positions do not count it.
func TestParseByteOrderMark(t *testing.T) {
	f := mustParse(t, "\ufeffa = b;")
	if f.Definitions[0].Pos != (Pos{1, 1}) {
		t.Errorf("the first definition is at %v", f.Definitions[0].Pos)
	}
}

// Outcomes may have the names s, f, a, p, t, r and o.
func TestParseLetters(t *testing.T) {
	f := mustParse(t, "probe = s -> a -> f -> p -> t -> r -> o;")
	if diff := cmp.Diff([]string{"s", "a", "f", "p", "t", "r", "o"}, f.Outcomes()); diff != "" {
		t.Error(diff)
	}
}

func TestParseErrors(t *testing.T) {
	tests := []struct {
		name, source string
		want         []string // the first line of each error
	}{
		{"no semicolon", "a = b\nc = d;", []string{`2:1: unexpected "c": want ';', '->' or the end`}},
		{"no expression", "a = ;", []string{`1:5: unexpected ";": want a name`}},
		{"half an arrow", "a = b - c;", []string{`1:7: unexpected character '-'`}},
		{"two errors", "a = b -> ;\nc = -> d;", []string{`1:10: unexpected ";": want a name`, `2:5: unexpected "->": want a name`}},
		{"in a list", "a = f:g(b, c d);", []string{`1:14: unexpected "d": want ')', ',' or '->'`}},
		{"in weights", "a = p:g[.5 .5](b, c);", []string{`1:12: unexpected ".5": want ',' or ']'`}},
		{"not closed", "a = f:g(b, c;\nd = ;", []string{`1:13: unexpected ";": want ')', ',' or '->'`, `2:5: unexpected ";": want a name`}},
		{"no name", "a = b;; c = d;", []string{`1:7: unexpected ";": want a name`}},
		{"only a name", "a", []string{`1:2: unexpected end of the source: want '='`}},
		{"the end", "a = b ->", []string{`1:9: unexpected end of the source: want a name`}},
		{"endless comment", "a = b; /* c", []string{`1:8: a comment that does not end: want */`}},
		{"an invalid character", "a = €;", []string{`1:5: unexpected character '€'`}},
		{"invalid UTF-8", "a = b;\nc\xff", []string{`2:2: not valid UTF-8`}},
		{"twice", "a = b;\na = c;", []string{`2:1: a is defined twice: first in line 1`}},
		{"undefined", "Ab = b -> s:ab;", []string{`1:13: s:ab is not defined: is it s:Ab?`}},
		{"a cycle of one", "a = b -> s:a;", []string{`1:12: a circle: a → a`}},
		{"circle", "p_1 = s:p_2;\np_2 = x -> s:p_3;\np_3 = f:o(y, s:p_1);", []string{`3:16: a circle: p_1 → p_2 → p_3 → p_1`}},
		{"a diagram as outcome", "a = b;\nc = a;", []string{`2:5: a is a diagram, defined in line 1: to use it write s:a`}},
		{"one component", "a = f:g(b);", []string{`1:5: f:g has one component: want two or more`}},
		{"no components", "a = f:g;", []string{`1:7: f:g without components: want two or more in parentheses`}},
		{"unknown kind", "a = x:g(b, c);", []string{`1:5: unknown kind "x": want a (all to finish), f (first to finish), p (choice), t (timeout), r (retry), o (overlapping retry) or s (a diagram)`}},
		{"timeout without a time", "a = t:g(b);", []string{"1:5: t:g without a time: want t:g[20ms](…)"}},
		{"timeout with a number", "a = t:g[20](b);", []string{"1:9: time 20: want whole nanoseconds above 0 and up to 2501h, such as 20ms"}},
		{"a timeout too fine", "a = t:g[0.5ns](b);", []string{"1:9: time 0.5ns: want whole nanoseconds above 0 and up to 2501h, such as 20ms"}},
		{"a timeout of 0", "a = t:g[0s](b);", []string{"1:9: time 0s: want whole nanoseconds above 0 and up to 2501h, such as 20ms"}},
		{"timeout of two", "a = t:g[1s](b, c);", []string{"1:5: t:g has 2 components: want one, which may be a sequence"}},
		{"timeout with attempts", "a = t:g[3, 1s](b);", []string{"1:8: t:g: want a time, such as [20ms]"}},
		{"timeout without components", "a = t:g[1s];", []string{"1:7: t:g without components: want one in parentheses"}},
		{"retry without attempts", "a = r:g[20ms](b);", []string{"1:8: r:g: want attempts and a time, such as [3, 20ms]"}},
		{"retry without anything", "a = r:g(b);", []string{"1:5: r:g without attempts and a time: want r:g[3, 20ms](…)"}},
		{"no attempt", "a = o:g[0, 1s](b);", []string{"1:9: 0 attempts: want a whole number from 1 to 1000"}},
		{"half an attempt", "a = o:g[1.5, 1s](b);", []string{"1:9: 1.5 attempts: want a whole number from 1 to 1000"}},
		{"the wrong way round", "a = r:g[1s, 3](b);", []string{"1:9: 1s attempts: want a whole number from 1 to 1000", "1:13: time 3: want whole nanoseconds above 0 and up to 2501h, such as 20ms"}},
		{"a time as a probability", "a = p:g[1s, 0.5](b, c);", []string{"1:9: probability 1s: want above 0, below 1"}},
		{"a byte-order mark inside", "a = b;\ufeff", []string{"1:7: unexpected character '�'"}},
		{"components of a diagram", "b = c; a = s:b(x, y);", []string{`1:12: s:b stands for a diagram: it takes no components`}},
		{"probabilities of a:", "a = a:g[0.5, 0.5](b, c);", []string{`1:8: a:g takes no probabilities: only a choice, p:, does`}},
		{"no probabilities", "a = p:g(b, c);", []string{`1:5: p:g without probabilities: want one for each component in brackets`}},
		{"fewer probabilities", "a = p:g[0.5, 0.5](b, c, d);", []string{`1:8: p:g: want 3 probabilities, one for each component, not 2`}},
		{"more probabilities", "a = p:g[0.2, 0.3, 0.5](b, c);", []string{`1:8: p:g: want 2 probabilities, one for each component, not 3`}},
		{"sum", "a = p:g[0.5, 0.4](b, c);", []string{`1:8: the probabilities of p:g sum to 0.9: want 1`}},
		{"above 1", "a = p:g[1.5, 0.4](b, c);", []string{`1:9: probability 1.5: want above 0, below 1`}},
		{"not a float64", "a = p:g[1e999, 0.4](b, c);", []string{`1:9: probability 1e999: want above 0, below 1`}},
		{"operator twice", "a = f:g(b, c);\nd = f:g(b, c);", []string{`2:5: the name g is taken by an operator in line 1`}},
		{"operator and definition", "a = x -> f:d(b, c);\nd = b;", []string{`1:10: the name d is taken by the definition in line 2`}},
		{"operator and outcome", "a = x -> f:b(b, c);", []string{`1:10: the name b is taken by an outcome`}},
		{"system first", "system = a;\nb = c;", []string{`1:1: system is the whole: want it to be the last definition`}},
		{"errors of syntax and of meaning", "a = b c;\nd = f:o(g);\ne = s:nix;", []string{`1:7: unexpected "c": want ';', '->' or the end`, `2:5: f:o has one component: want two or more`}},
		{"several undefined names", "a = s:x -> s:y;", []string{"1:7: s:x is not defined", "1:14: s:y is not defined"}},
	}
	for _, tt := range tests {
		_, err := Parse(tt.source)
		var errs Errors
		if !errors.As(err, &errs) {
			t.Errorf("%s: %v, want Errors", tt.name, err)
			continue
		}
		var got []string
		for _, e := range errs {
			first, _, _ := strings.Cut(e.Error(), "\n")
			got = append(got, first)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
}

func TestErrorShowsTheLine(t *testing.T) {
	_, err := Parse("x = y;\n\ta = p:g[0.5, 0.4](b, c); // é\n")
	want := "2:9: the probabilities of p:g sum to 0.9: want 1\n\ta = p:g[0.5, 0.4](b, c); // é\n\t       ^"
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

// Parse accepts ten probabilities of 0.1. Added up in float64 they are not exactly 1, so a
// comparison with the machine epsilon would reject them.
func TestParseTenths(t *testing.T) {
	mustParse(t, "a = p:g["+strings.Repeat("0.1, ", 9)+"0.1](a1, b, c, d, e, f, g1, h, i, j);")
	mustParse(t, "a = p:g[0.333333333, 0.333333333, 0.333333333](x, y, z);")
}

func TestParseBounded(t *testing.T) {
	for name, source := range map[string]string{
		"deep":  "a = " + strings.Repeat("f:x(", 100000),
		"large": strings.Repeat(" ", MaxSource+1),
		"wrong": strings.Repeat("@", 1000),
	} {
		_, err := Parse(source)
		var errs Errors
		if !errors.As(err, &errs) || len(errs) > maxErrors {
			t.Errorf("%s: %d errors", name, len(errs))
		} else if name == "large" && errs[0].Pos != (Pos{1, 1}) {
			t.Errorf("%s: at %v", name, errs[0].Pos)
		}
	}
}

func TestFormat(t *testing.T) {
	f := mustParse(t, "// top\n\na=b->f:g ( c,\n d /* in */ ) ; // after\n/* x\ny */ e=p:h[.50,5e-1](i,j) // last\n# end")
	want := `// top
/* in */

a = b -> f:g(c, d); // after
/* x
y */
e = p:h[0.5, 0.5](i, j); // last
# end
`
	if diff := cmp.Diff(want, Format(f)); diff != "" {
		t.Error(diff)
	}
}

// Format keeps blank lines between definitions and comments, but only one at a time.
func TestFormatBlankLines(t *testing.T) {
	f := mustParse(t, "\n\n# file\n\n\n# a\na = b /* in\n\n*/ -> x\n\n; // after\nc = d;\n\n\n/* e\n\n*/ e = f\n\n\n# end\n")
	want := `# file

# a
/* in

*/
a = b -> x; // after
c = d;

/* e

*/
e = f;

# end
`
	if diff := cmp.Diff(want, Format(f)); diff != "" {
		t.Error(diff)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("")
	f.Add("p_3 = s:p_1 -> s:p_2; p_1 = a -> f:x(b, c); p_2 = p:k[.1, 9e-1](q /* c */, r); // x")
	f.Add("// top\n\na=b->f:g ( c,\n d /* in */ ) // z\n ; // after\n/* x\ny */ e=p:h[.50,5e-1](i,j) // last\n# end")
	f.Add("a = t:x[20ms](b) -> r:y[3, 1h.5s](c) -> o:z[2,1µs](d)")
	f.Add("a = b /* x\n*/ ; // z\nsystem = s:a\r\n")
	f.Fuzz(func(t *testing.T, source string) {
		file, err := Parse(source)
		if err != nil {
			_ = err.Error()
			return
		}
		formatted := Format(file)
		again, err := Parse(formatted)
		if err != nil {
			t.Fatalf("%q formatted to %q: %v", source, formatted, err)
		}
		if diff := cmp.Diff(file, again, sameTree); diff != "" {
			t.Fatalf("%q formatted to %q: %s", source, formatted, diff)
		}
		if second := Format(again); second != formatted {
			t.Fatalf("%q formatted to %q and then to %q", source, formatted, second)
		}
	})
}

// A message about a long line shows the part around the place, with the caret below it.
func TestErrorInALongLine(t *testing.T) {
	for _, n := range []int{0, 5, 59, 60, 61, 1000} {
		source := "p = " + strings.Repeat("a -> ", n) + "?" + strings.Repeat(" -> b", n) + ";"
		_, err := Parse(source)
		if err == nil {
			t.Fatalf("%d: no error", n)
		}
		lines := strings.Split(err.Error(), "\n")
		if len(lines) != 3 || utf8.RuneCountInString(lines[1]) > 2*around+3 {
			t.Fatalf("%d: %q", n, lines)
		}
		at := strings.IndexRune(lines[2], '^')
		if r := []rune(lines[1]); at < 0 || r[at] != '?' {
			t.Errorf("%d: the caret is not below the place:\n%s\n%s", n, lines[1], lines[2])
		}
	}
}

// Drawing the largest accepted sources takes a reasonable time.
func TestLargeDiagrams(t *testing.T) {
	if testing.Short() {
		t.Skip("a hundred thousand elements")
	}
	names := func(n int, prefix, separator string) string {
		all := make([]string, n)
		for i := range all {
			all[i] = prefix + strconv.Itoa(i)
		}
		return strings.Join(all, separator)
	}
	for name, source := range map[string]string{
		"a sequence":                 "p = " + names(MaxNames-1, "a", " -> ") + ";",
		"branches":                   "p = a:x(" + names(MaxNames-3, "a", ", ") + ");",
		"branches before a sequence": "p = a:x(" + names(MaxNames/2-3, "a", ", ") + ") -> " + names(MaxNames/2, "b", " -> ") + ";",
	} {
		f, err := Parse(source)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if d := Draw(f); len(d.Names) < MaxNames-3 {
			t.Errorf("%s: %d names are drawn", name, len(d.Names))
		}
	}
	_, err := Parse("p = " + names(MaxNames+1, "a", " -> ") + ";")
	if want := "more than 32768 names: divide the diagram into several files"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %.200v, want %q", err, want)
	}
}
