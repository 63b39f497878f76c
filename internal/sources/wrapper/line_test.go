package wrapper

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/beamscope/beamscope/internal/engine/outcome"
)

// format formats a line as the published wrapper does, without its newline.
func format(l line) []byte {
	status := map[outcome.Status]string{outcome.Success: "ok", outcome.Failure: "fa", outcome.Timeout: "to"}[l.status]
	return fmt.Appendf(nil, "n:%s;b:%d;e:%d;s:%s", l.name, l.begin, l.end, status)
}

func sameLine(a, b line) bool {
	return bytes.Equal(a.name, b.name) && a.begin == b.begin && a.end == b.end && a.status == b.status
}

// Valid lines are parsed correctly.
func TestParse(t *testing.T) {
	long := strings.Repeat("x", maxName)
	for text, want := range map[string]line{
		"n:a;b:1;e:2;s:ok":                                       {[]byte("a"), 1, 2, outcome.Success},
		"n:a;b:1;e:2;s:fa\r":                                     {[]byte("a"), 1, 2, outcome.Failure},
		"n:a;b:5;e:5;s:to":                                       {[]byte("a"), 5, 5, outcome.Timeout},
		"n:a;b;b:1;e:2;s:ok":                                     {[]byte("a;b"), 1, 2, outcome.Success},
		"n:a;b:1;e:2;s:ok;b:3;e:4;s:fa":                          {[]byte("a;b:1;e:2;s:ok"), 3, 4, outcome.Failure},
		"n:naïve;b:0;e:9223372036854775807;s:ok":                 {[]byte("naïve"), 0, math.MaxInt64, outcome.Success},
		"n:" + long + ";b:0007;e:8;s:ok":                         {[]byte(long), 7, 8, outcome.Success},
		"n:n:a;b:1700000000000000000;e:1700000000000000001;s:ok": {[]byte("n:a"), 1700000000000000000, 1700000000000000001, outcome.Success},
	} {
		got, err := parse([]byte(text))
		if err != nil || !sameLine(got, want) {
			t.Errorf("%q: %+v, %v; want %+v", text, got, err, want)
		}
	}
}

// Invalid lines are rejected with the reason, and with the name if that is certain.
func TestParseRejects(t *testing.T) {
	for _, test := range []struct {
		text string
		want error
		name string
	}{
		{"", errNoStatus, ""},
		{"\r", errNoStatus, ""},
		{"start_stub", errNoStatus, ""},
		{"n:a,b:1,e:2,s:ok", errNoStatus, ""},
		{"n:a;b:1;e:2", errNoStatus, ""},
		{"n:a;b:1;e:2;s", errNoStatus, ""},
		{"n:a;b:1;s:ok", errNoEnd, ""},
		{"n:a;e:2;s:ok", errNoBegin, ""},
		{"n:a;e:2;b:1;s:ok", errNoEnd, ""},
		{";b:1;e:2;s:ok", errNoName, ""},
		{"N:a;b:1;e:2;s:ok", errNoName, ""},
		{"b:1;e:2;s:ok", errNoBegin, ""},
		{"n:;b:1;e:2;s:ok", errEmptyName, ""},
		{"n:" + strings.Repeat("x", maxName+1) + ";b:1;e:2;s:ok", errLongName, ""},
		{"n:a\x00;b:1;e:2;s:ok", errControl, ""},
		{"n:\x1b[2J;b:1;e:2;s:ok", errControl, ""},
		{"n:a\x7f;b:1;e:2;s:ok", errControl, ""},
		{"n:a;b:1;e:2;s:OK", errStatus, "a"},
		{"n:a;b:1;e:2;s:", errStatus, "a"},
		{"n:a;b:1;e:2;s:ok ", errStatus, "a"},
		{"n:a;b:;e:2;s:ok", errNumber, "a"},
		{"n:a;b:-1;e:2;s:ok", errNumber, "a"},
		{"n:a;b:+1;e:2;s:ok", errNumber, "a"},
		{"n:a;b:1;e:2,5;s:ok", errNumber, "a"},
		{"n:a;b:1;e:2.5;s:ok", errNumber, "a"},
		{"n:a;b:1;e:0x2;s:ok", errNumber, "a"},
		{"n:a;b:1;e:9223372036854775808;s:ok", errOverflow, "a"},
		{"n:a;b:99999999999999999999999;e:2;s:ok", errOverflow, "a"},
		{"n:a;b:9999999999999999999,5;e:2;s:ok", errNumber, "a"},
		{"n:a;b:2;e:1;s:ok", errBackwards, "a"},
		{"n:a;b:1700000000000000000;e:0;s:fa", errBackwards, "a"},
		{"n:" + strings.Repeat("x", maxLine) + ";b:1;e:2;s:ok", errLong, ""},
	} {
		got, err := parse([]byte(test.text))
		if !errors.Is(err, test.want) || string(got.name) != test.name {
			t.Errorf("%q: name %q, error %v; want %q, %v", test.text, got.name, err, test.name, test.want)
		}
	}
}

// names generates all valid names of spans.
func names() *rapid.Generator[string] {
	char := rapid.OneOf(
		rapid.SampledFrom([]rune(";:nbes0 ")),
		rapid.Rune().Filter(func(r rune) bool { return r >= ' ' && r != 0x7f }),
	)
	return rapid.StringOfN(char, 1, -1, maxName)
}

// Every formatted instance is parsed to the same instance.
func TestParseFormat(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		begin := rapid.Int64Min(0).Draw(t, "begin")
		want := line{
			name:   []byte(names().Draw(t, "name")),
			begin:  begin,
			end:    rapid.Int64Min(begin).Draw(t, "end"),
			status: outcome.Status(rapid.IntRange(0, 2).Draw(t, "status")),
		}
		text := format(want)
		if rapid.Bool().Draw(t, "return") {
			text = append(text, '\r')
		}
		got, err := parse(text)
		if err != nil || !sameLine(got, want) {
			t.Fatalf("%q: %+v, %v", text, got, err)
		}
	})
}

// For any input, an accepted line is formatted as it came, except for leading zeros, and its
// values are within the limits.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"n:a;b:1;e:2;s:ok", "n:a;b;b:1;e:2;s:ok", "n:a;b:2;e:1;s:fa\r", "n:;b:1;e:2;s:to",
		"n:a;b:1,5;e:2;s:ok", "n:a;b:9223372036854775808;e:2;s:ok", "n:a\x00;b:1;e:2;s:ok", ";;;;", "",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		l, err := parse(text)
		if err != nil {
			return
		}
		if len(l.name) == 0 || len(l.name) > maxName || l.begin < 0 || l.end < l.begin {
			t.Errorf("%q: %+v", text, l)
		}
		again, err := parse(format(l))
		if err != nil || !sameLine(l, again) {
			t.Errorf("%q is parsed as %+v, and that as %+v, %v", text, l, again, err)
		}
	})
}
