package diagram

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files")

// A value at a limit is accepted, and the next value beyond it is refused.
func TestLimits(t *testing.T) {
	for name, tt := range map[string]struct{ taken, refused string }{
		"least attempts":           {"x = r:a[1, 1ms](b)", "x = r:a[0, 1ms](b)"},
		"most attempts":            {"x = o:a[1000, 1ms](b)", "x = o:a[1001, 1ms](b)"},
		"least time":               {"x = t:a[1ns](b)", "x = t:a[0ns](b)"},
		"most time":                {"x = t:a[9007199254740992ns](b)", "x = t:a[9007199254740993ns](b)"},
		"nesting":                  {"x = " + within(200), "x = " + within(201)},
		"sum of weights":           {"x = p:a[0.5, 0.5000000009](b, c)", "x = p:a[0.5, 0.5000000011](b, c)"},
		"less than 1":              {"x = p:a[0.5, 0.4999999991](b, c)", "x = p:a[0.5, 0.4999999989](b, c)"},
		"least weight":             {"x = p:a[1e-300, 0.9999999999](b, c)", "x = p:a[0, 1](b, c)"},
		"most weight":              {"x = p:a[0.9999999999999999, 1e-17](b, c)", "x = p:a[1, 1e-300](b, c)"},
		"two in a choice":          {"x = p:a[0.5, 0.5](b, c)", "x = p:a[0.9999999999](b)"},
		"two in a first to finish": {"x = f:a(b, c)", "x = f:a(b)"},
		"one in a timeout":         {"x = t:a[1ms](b -> c)", "x = t:a[1ms](b, c)"},
		"names":                    {"x = " + sequence(1<<15-1), "x = " + sequence(1<<15)},
		"bytes":                    {"x = a" + strings.Repeat(" ", 1<<20-5), "x = a" + strings.Repeat(" ", 1<<20-4)},
	} {
		if _, err := Parse(tt.taken); err != nil {
			t.Errorf("%s: %.200v", name, err)
		}
		if _, err := Parse(tt.refused); err == nil {
			t.Errorf("%s: %.100s is accepted", name, tt.refused)
		}
	}
	// The nesting limit does not count operators that are next to each other.
	if _, err := Parse("x = " + timeouts(MaxNesting+1)); err != nil {
		t.Errorf("operators beside each other: %.200v", err)
	}
}

// Only names count towards the limit of names.
func TestOnlyNamesCount(t *testing.T) {
	if _, err := Parse("x = " + timeouts(5000)); err != nil { // 15002 names, 35000 other tokens
		t.Errorf("%.200v", err)
	}
}

// Parse reports the place of bytes that are not UTF-8. It accepts a replacement character.
func TestPlaceOfInvalidUTF8(t *testing.T) {
	for source, want := range map[string]Pos{
		"\xff": {1, 1}, "a\xff": {1, 2}, "größe = \xff": {1, 9}, "a = b;\n\xff": {2, 1}, "// \uFFFD\nab\xff": {2, 3},
	} {
		_, err := Parse(source)
		var errs Errors
		if !errors.As(err, &errs) || errs[0].Pos != want {
			t.Errorf("%q: %v, want an error at %v", source, err, want)
		}
	}
}

// within returns n nested operators.
func within(n int) string {
	var s strings.Builder
	for i := range n {
		fmt.Fprintf(&s, "t:o%d[1ms](", i)
	}
	return s.String() + "a" + strings.Repeat(")", n)
}

func timeouts(n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("t:o%d[1ms](a)", i))
	}
	return strings.Join(all, " -> ")
}

func sequence(n int) string { return "a" + strings.Repeat(" -> a", n-1) }

// The sum of weights has the rounding error of a single addition, in any order.
func TestSumOfWeights(t *testing.T) {
	tenths := make([]float64, 10)
	for i := range tenths {
		tenths[i] = 0.1
	}
	for _, tt := range []struct {
		xs   []float64
		want float64
	}{
		{tenths, 1},
		{[]float64{1, 0x1p-53, 0x1p-53}, 1 + 0x1p-52},
		{[]float64{0x1p-53, 1, 0x1p-53}, 1 + 0x1p-52},
		{[]float64{0x1p-53, 0x1p-54, 0x1p-54, 1}, 1 + 0x1p-52},
		{nil, 0},
	} {
		if got := sum(tt.xs); math.Abs(got-tt.want) > 0 {
			t.Errorf("sum of %v is %v, want %v", tt.xs, got, tt.want)
		}
	}
}

// An excerpt of a long line shows sixty characters on each side of the error position, and an
// ellipsis where text is cut. The caret is below the error position.
func TestExcerpt(t *testing.T) {
	line := strings.Repeat("0123456789", 30)
	for _, tt := range []struct {
		length, column int
		want           string
		caret          int
	}{
		{61, 1, line[:61], 1},
		{62, 1, line[:61] + "…", 1},
		{122, 61, line[:121] + "…", 61},
		{121, 61, line[:121], 61},
		{122, 62, "…" + line[1:122], 62},
		{300, 200, "…" + line[139:260] + "…", 62},
		{300, 301, "…" + line[240:300], 62},
		{300, 380, "…", 62},
	} {
		e := &Error{Pos: Pos{1, tt.column}, Length: 1, Line: line[:tt.length]}
		got, caret := e.excerpt()
		if string(got) != tt.want || caret != tt.caret {
			t.Errorf("column %d of %d: %q with a caret at %d, want %q at %d", tt.column, tt.length, string(got), caret, tt.want, tt.caret)
		}
		shown := strings.Split(e.Error(), "\n")
		if below := strings.IndexByte(shown[2], '^') + 1; below != min(caret, utf8.RuneCountInString(tt.want)+1) {
			t.Errorf("column %d of %d: the caret is at %d of %q", tt.column, tt.length, below, shown[1])
		}
	}
}

// Compile accepts a program with the maximum number of steps, and rejects one with one step more.
func TestMostSteps(t *testing.T) {
	for n, want := range map[int]error{4096: nil, 4097: ErrSize} {
		var b strings.Builder
		b.WriteString("d = o")
		for i := range n - 2 { // the sequence and o are the other two
			fmt.Fprintf(&b, " -> o%d", i)
		}
		if _, err := Compile(mustParse(t, b.String())); !errors.Is(err, want) {
			t.Errorf("%d steps: %v, want %v", n, err, want)
		}
	}
}

// A definition ends with its semicolon, even after blanks, comments or line ends. Without a
// semicolon it ends with its last token.
func TestEnds(t *testing.T) {
	for source, want := range map[string]Pos{
		"a = b;":               {1, 6},
		"a = b ;":              {1, 7},
		"a = b":                {1, 5},
		"a = b /* c */ ; // d": {1, 15},
		"a = b // c\n;":        {2, 1},
		"a = b // c\n":         {1, 5},
		"a = f:x(b, c) ;":      {1, 15},
	} {
		if got := mustParse(t, source).Definitions[0].End; got != want {
			t.Errorf("%q ends at %v, want %v", source, got, want)
		}
	}
}

// Positions are ordered by line, and within a line by column.
func TestBefore(t *testing.T) {
	ordered := []Pos{{1, 1}, {1, 2}, {1, 9}, {2, 1}, {2, 3}, {3, 2}}
	for i, p := range ordered {
		for j, q := range ordered {
			if got := p.before(q); got != (i < j) {
				t.Errorf("%v before %v: %v", p, q, got)
			}
		}
	}
}

// Errors are in source order, and each has the right position.
func TestPlacesOfErrors(t *testing.T) {
	_, err := Parse("a = s:x;\na = b;\nsystem = c; a = a;\nd = s:D2;\nD2 = f:d(a1, a2) -> f:q(a3, a4) -> f:q(a5, a6);\nd2 = a:c(e, g);\n")
	want := `1:7: s:x is not defined
2:1: a is defined twice: first in line 1
3:1: system is the whole: want it to be the last definition
3:13: a is defined twice: first in line 1
3:17: a is a diagram, defined in line 1: to use it write s:a
5:6: the name d is taken by the definition in line 4
5:36: the name q is taken by an operator in line 5
6:6: the name c is taken by an outcome`
	var got []string
	for _, line := range strings.Split(fmt.Sprint(err), "\n") {
		if len(line) > 0 && line[0] >= '1' && line[0] <= '9' {
			got = append(got, line)
		}
	}
	if diff := cmp.Diff(want, strings.Join(got, "\n")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// If several definitions in a row begin with an error, the parser reports each of them, and then
// reads the next definition normally.
func TestErrorsInARow(t *testing.T) {
	_, err := Parse("a = ;\n= b;\n-> c;\nd = e;\nd = e")
	want := []string{`1:5: unexpected ";": want a name`, `2:1: unexpected "=": want a name`, `3:1: unexpected "->": want a name`}
	got := strings.Split(fmt.Sprint(err), "\n")
	if len(got) != 3*len(want) {
		t.Fatal(err)
	}
	for i, want := range want {
		if got[3*i] != want {
			t.Errorf("%s, want %s", got[3*i], want)
		}
	}
}

// After an invalid character the parser reports no other error on the same line, because the
// character may have caused it. It reports errors on other lines, and later errors on a line
// without an invalid character.
func TestErrorsBesideACharacter(t *testing.T) {
	for source, want := range map[string][]string{
		"a = ?;\nb = ;":     {`1:5: unexpected character '?'`, `2:5: unexpected ";": want a name`},
		"a = ;\nb = ?;":     {`1:5: unexpected ";": want a name`, `2:5: unexpected character '?'`},
		"a = ? b = ; c = ;": {`1:5: unexpected character '?'`},
		"a = ; b = ;":       {`1:5: unexpected ";": want a name`, `1:11: unexpected ";": want a name`},
	} {
		_, err := Parse(source)
		var errs Errors
		if !errors.As(err, &errs) {
			t.Fatalf("%q: %v", source, err)
		}
		var got []string
		for _, e := range errs {
			got = append(got, fmt.Sprintf("%d:%d: %s", e.Pos.Line, e.Pos.Column, e.Message))
		}
		if len(got) != len(want) {
			t.Errorf("%q: %q, want %q", source, got, want)
			continue
		}
		for i := range want {
			if !strings.HasPrefix(got[i], want[i]) {
				t.Errorf("%q: %q, want %q", source, got[i], want[i])
			}
		}
	}
}

// The SVG drawing of a diagram matches the golden file exactly. After a change, look at the file.
func TestSVGPicture(t *testing.T) {
	got := SVG(mustParse(t, drawn+"slow = t:wait[1.5ms](a1 -> o:again[3, 20ms](größe -> s:check)) -> a:all(b1, b2, f:two(c1, c2));\nsmall = 日本;\n"))
	const golden = "testdata/drawn.svg"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// If there are more errors, Parse reports the first 20.
func TestMostErrors(t *testing.T) {
	_, err := Parse(strings.Repeat("a = = b;\n", 30))
	var errs Errors
	if !errors.As(err, &errs) || len(errs) != 20 {
		t.Fatalf("%d errors, want 20", len(errs))
	}
	if last := errs[19].Pos.Line; last != 20 {
		t.Errorf("the last error is in line %d, want 20", last)
	}
}

// Format adds no blank line after a definition that spans several lines.
func TestFormatAfterSeveralLines(t *testing.T) {
	f, err := Parse("a = b ->\n  c ->\n  d;\ne = g;\n")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := Format(f), "a = b -> c -> d;\ne = g;\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
