package safetext_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"unicode"
	"unicode/utf8"

	"github.com/beamscope/beamscope/internal/host/safetext"
	"pgregory.net/rapid"
)

func TestLine(t *testing.T) {
	for in, want := range map[string]string{
		"":                        "",
		"worker 1 ΔQ 日本語 ⣀▏":      "worker 1 ΔQ 日本語 ⣀▏",
		"a\x1b]0;owned\a":         `a\u001b]0;owned\u0007`,
		"a\r\nobserving nothing":  `a\r\nobserving nothing`,
		"tab\there":               `tab\there`,
		"\u009b31m":               `\u009b31m`,
		"\u202eevil\u2066":        `\u202eevil\u2066`,
		"bad \xff\xc3 bytes":      `bad \xff\xc3 bytes`,
		"tag \U000e0041":          `tag \U000e0041`,
		"zero\u200bwidth\u00adxy": `zero\u200bwidth\u00adxy`,
	} {
		if got := safetext.Line(in); got != want {
			t.Errorf("Line(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestLineIsOneVisibleLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")) + rapid.String().Draw(t, "text")
		out := safetext.Line(in)
		for _, r := range out {
			if !unicode.IsPrint(r) {
				t.Fatalf("Line(%q) = %q has %U", in, out, r)
			}
		}
		if safetext.Line(out) != out {
			t.Fatalf("Line is not stable on %q", out)
		}
	})
}

func TestFprintfMakesEveryArgumentSafe(t *testing.T) {
	var b bytes.Buffer
	safetext.Fprintf(&b, "%s of %v: %-6s|%5d|%v\n", "a\nb", errors.New("c\x1bd"), "e\tf", 42, []string{"g\rh"})
	if got, want := b.String(), "a\\nb of c\\u001bd: e\\tf   |   42|[g\\rh]\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	b.Reset()
	safetext.Fprintln(&b, "x\n", 1.5)
	if got, want := b.String(), "x\\n 1.5\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The output of a Writer does not depend on how the input is split, and contains only printable
// characters, tabs and line feeds.
func TestWriter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := []byte(rapid.String().Draw(t, "text") + string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")) + rapid.String().Draw(t, "more") + "\n")
		var whole, pieces bytes.Buffer
		if n, err := safetext.NewWriter(&whole).Write(in); n != len(in) || err != nil {
			t.Fatal(n, err)
		}
		if _, err := io.Copy(struct{ io.Writer }{safetext.NewWriter(&pieces)}, iotest.OneByteReader(bytes.NewReader(in))); err != nil {
			t.Fatal(err)
		}
		if whole.String() != pieces.String() {
			t.Fatalf("%q at once, %q byte by byte", whole.String(), pieces.String())
		}
		for _, r := range whole.String() {
			if r != '\n' && r != '\t' && !unicode.IsPrint(r) {
				t.Fatalf("%q has %U", whole.String(), r)
			}
		}
		if strings.Count(whole.String(), "\n") != bytes.Count(in, []byte("\n")) {
			t.Fatal("line feeds were lost or added")
		}
	})
}

// Lines that several goroutines write at the same time stay whole.
func TestWriterOfSeveralGoroutines(t *testing.T) {
	var b bytes.Buffer
	w := safetext.NewWriter(&b)
	const lines = 1000
	line := "\u00e9" + strings.Repeat("x", 200)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range lines {
				if _, err := safetext.Fprintln(w, line); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if got, want := b.String(), strings.Repeat(line+"\n", 4*lines); got != want {
		t.Errorf("got %d bytes, want %d of whole lines", len(got), len(want))
	}
}

func TestWriterKeepsTheMeaningOfJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.String().Draw(t, "text") + "\u009b\u202e\U000e0041"
		var b bytes.Buffer
		if err := json.NewEncoder(safetext.NewWriter(&b)).Encode(in); err != nil {
			t.Fatal(err)
		}
		var out string
		if err := json.Unmarshal(b.Bytes(), &out); err != nil || out != in {
			t.Fatalf("%q came back as %q, %v", in, out, err)
		}
		if !utf8.Valid(b.Bytes()) || strings.ContainsAny(b.String(), "\u009b\u202e\U000e0041") {
			t.Fatalf("%q is not safe", b.String())
		}
	})
}

type failing struct{}

var errFull = errors.New("no space left")

func (failing) Write([]byte) (int, error) { return 0, errFull }

func TestWriterReturnsErrors(t *testing.T) {
	if _, err := safetext.NewWriter(failing{}).Write([]byte("x")); !errors.Is(err, errFull) {
		t.Error(err)
	}
}
